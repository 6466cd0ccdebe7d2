"""Checkouts with the scripts of the workflows: with the real program, or with a recorder of its arguments."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrix_runner.base.cache import cache_dir
from tests.support.matrices import SMALL
from tests.support.top import TOP

if TYPE_CHECKING:
    from pathlib import Path

#: Tests must neither clean the disks of this machine nor start all tests.
_PROGRAM = """\
#!/bin/sh
case $1 in clean) exit 0 ;; test) echo "tested: $*"; exit 0 ;; esac
MATRIX_CACHE={cache} PYTHONPATH={top}/runner exec {python} -m matrix_runner.cli "$@"
"""

#: Starts in milliseconds. It makes what `run` and `summary` make, with the exit codes of the variables.
RECORDER_PROGRAM = """\
#!/bin/bash
printf '%s\\0' "$#" "$@" >>"$HOME/calls"
[[ -z ${SAYS-} ]] || printf '%s\\n' "$SAYS" >&2
for word in "$@"; do
  case $word in --results=*) results=${word#*=} ;; --folder-to=*) to=${word#*=} ;; --issue=*) issue=${word#*=} ;; esac
done
case $* in
  clean) exit "${CLEAN_STATUS:-0}" ;;
  clean*) exit "${CLEAN_FAR_STATUS:-0}" ;;
  test*) exit "${TEST_STATUS:-0}" ;;
  run*) [[ ${RUN_STATUS:-0} == 2 ]] || { mkdir -p -- "$results/a-run" && echo "$results/a-run" >"$to"; }
    exit "${RUN_STATUS:-0}" ;;
  summary*) echo "all figures" && echo "slower" >"$issue" && exit "${SUMMARY_STATUS:-0}" ;;
esac
"""


@dataclass(frozen=True)
class Recorder:
    checkout: Path
    temp: Path

    def calls(self, command: str = "") -> list[list[str]]:
        """Return the arguments of all calls, or of those of one command."""
        words = iter((self.temp / "calls").read_text().split("\0")) if (self.temp / "calls").exists() else iter(())
        calls = [[next(words) for _ in range(int(number))] for number in words if number]
        return [call for call in calls if not command or call[0] == command]


def real_program() -> str:
    places = {"cache": cache_dir(), "top": TOP, "python": sys.executable}
    return _PROGRAM.format(**{name: shlex.quote(str(place)) for name, place in places.items()})


def make_checkout(tmp_path: Path, program: str) -> Path:
    made = tmp_path / "work place"
    made.mkdir()
    shutil.copytree(TOP / ".github", made / ".github")
    shutil.copy(TOP / "action.yml", made)
    (made / "small.yaml").write_text(SMALL)
    (made / "bootstrap").write_text(program)
    (made / "bootstrap").chmod(0o755)
    return made


def make_recipe(checkout: Path) -> None:
    """Write the files that the keys of the caches depend on."""
    (checkout / "runner/matrix_runner/machines/qemu").mkdir(parents=True)
    for name in ("runner/matrix_runner/machines/qemu/recipe.py", "requirements.lock", "pyproject.toml"):
        (checkout / name).write_text("one")
