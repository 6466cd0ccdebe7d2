"""What a guest's shell learns, and that it then does the same as before."""

import subprocess
from shlex import quote

from runner.machines.shell import MOST_TEXTS, ScriptCache

SCRIPT = """#!/usr/bin/env bash
# Tunes: {title}
set -euo pipefail
fail() {{ echo "no: $*"; exit 3; }}
declare -A names=([a]=b)
cat <<'END'
as it stands: $1 }}
END
[[ $# = 0 ]] || fail "$*"
echo "${{names[a]}} {word}"
"""


def test_what_came_once_is_said_in_full() -> None:
    known = ScriptCache()
    assert known.definitions([SCRIPT.format(title="one", word="x")]) == {}
    assert known.words(SCRIPT.format(title="one", word="x")) == quote(SCRIPT.format(title="one", word="x"))


def test_what_comes_again_is_known_whatever_its_title() -> None:
    known = ScriptCache()
    first, second, other = (SCRIPT.format(title=t, word=w) for t, w in (("one", "x"), ("two", "x"), ("one", "y")))
    known.definitions([first])
    assert list(known.definitions([second, other])) == ["matrix_text_0"]
    assert known.words(first) == quote(first)  # nobody has told that it is known
    known.add("matrix_text_0")
    assert known.words(first) == known.words(second) == "matrix_text_0"
    assert known.words(other) == quote(other)
    assert known.definitions([first, second]) == {}


def test_a_cached_script_behaves_like_its_text() -> None:
    known = ScriptCache()
    text = SCRIPT.format(title="one", word="x")
    known.definitions([text])
    ((name, definition),) = known.definitions([text]).items()
    known.add(name)

    def run(script: str) -> tuple[int, str]:
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    said = run(f"( set --; eval {quote(text)} )")
    assert said == (0, "as it stands: $1 }\nb x\n")
    assert run(f"{definition}( set --; eval {known.words(text)} )") == (0, f"{name}\n{said[1]}")


def test_it_does_not_learn_for_ever() -> None:
    known = ScriptCache()
    texts = [f"echo {number}" for number in range(MOST_TEXTS + 5)]
    known.definitions(texts)
    assert len(known.definitions(texts)) == MOST_TEXTS
    assert known.words(texts[-1]) == quote(texts[-1])
