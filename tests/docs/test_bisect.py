"""The script for `git bisect` on the page about kernels, with git itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/compare-kernels.md"
MAKE = """#!/bin/bash
mkdir -p arch/x86/boot && cp state arch/x86/boot/bzImage
"""
#: The state of a commit is the exit code of `compare`, or `run=CODE`.
MATRIX = """#!/bin/bash
state=$(<arch/x86/boot/bzImage)
case $1 in
run) echo "run-of-$(git rev-parse HEAD)" >this-run
     [[ $state == run=* ]] && exit "${state#run=}" ;;
compare) [[ "$*" == "compare --strict good-run run-of-"* ]] || exit 99
     exit "$state" ;;
esac
exit 0
"""


def script() -> str:
    blocks: list[str] = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return next(one for one in blocks if one.startswith("#!"))


@pytest.mark.parametrize(
    ("states", "culprits"),
    [
        (["0", "0", "0", "0", "1", "1", "1"], {4}),
        (["0", "0", "0", "4", "1", "1", "1"], {3, 4}),  # cannot tell
        (["0", "0", "3", "0", "run=3", "1", "1"], {4, 5}),
        (["0", "1", "1", "2", "4", "run=2", "1"], {1}),
    ],
)
def test_a_kernel_without_a_decision_is_skipped(states: list[str], culprits: set[int], tmp_path: Path) -> None:
    tree, tools = tmp_path / "linux", tmp_path / "tools"
    tree.mkdir()
    tools.mkdir()
    for name, text in (("make", MAKE), ("matrix", MATRIX)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip

    def git(*words: str) -> str:
        command = ["git", "-c", "commit.gpgsign=false", *words]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    git("init", "-q")
    commits = []
    for number, state in enumerate(states):
        (tree / "state").write_text(state)
        (tree / "number").write_text(str(number))
        git("add", "state", "number")
        git("commit", "-qm", f"commit {number}")
        commits.append(git("rev-parse", "HEAD").strip())
    (tree / "bisect.sh").write_text(script())
    git("bisect", "start", commits[-1], commits[0])
    said = git("bisect", "run", "bash", "bisect.sh", "good-run")
    if len(culprits) == 1:
        assert f"{commits[min(culprits)]} is the first bad commit" in said, said
    else:
        named = said.partition("The first bad commit could be any of:")[2].split()
        assert {commits[at] for at in culprits} == {*named} & {*commits}, said
