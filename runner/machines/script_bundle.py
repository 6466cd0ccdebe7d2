"""Pack several steps in one bash script, and parse the output of each, its time and its status.

A trial has one script, because starting a program costs tens of milliseconds on an emulated processor or a slow link.
Steps share one empty working directory, so a later step can read the files of an earlier one. Each step has its own
shell, unless it may continue in the shell before it. The first step that fails is the last one.
"""

from __future__ import annotations

import re
from itertools import pairwise
from shlex import quote
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.machines.base import StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.machines.base import Step

#: Working directories made at a time.
ROOMS = 8
#: Steps run in a subshell by `eval`: a new bash would cost another start, and eval contains syntax errors, `exit` and
#: `set -e` just as well. Descriptor 3 of this shell carries orders and is closed for steps. Output is framed by lines
#: that begin with an unguessable word; the end of a subshell is printed outside of it, because a step may call `exit`.
PRELUDE = """\
[[ :$PATH: == *:/usr/sbin:* ]] || PATH+=:/usr/sbin:/sbin
export LC_ALL=C PATH
matrix_begins() {
  printf %s "$matrix_mark begin $1 ${EPOCHREALTIME/./}
"
}
matrix_ends() {
  printf %s "
$matrix_mark end $1 ${EPOCHREALTIME/./}
"
}
matrix_goes_on() {
  set -- "$?"
  if [ "$1" != 0 ]; then exit "$1"; fi
  matrix_ends 0
}
"""
_BEGIN = re.compile(rb" begin (?P<n>\d+) (?P<us>\d+)\n")
_END = re.compile(rb" end (?P<status>\d+) (?P<us>\d+)\n")


def pack(steps: Sequence[Step], mark: str, enter: str, words: Callable[[str], str] = quote) -> str:
    """Return the script that runs the steps where `enter` leads (see `fresh`).

    `words` quotes a step's text as one word for `eval`. No step may be part of a `&&` or `||` list: bash ignores `set
    -e` there.
    """
    shells = list[str]()
    for number, step in enumerate(steps):
        files = "".join(f"{file} || exit\n" for file in _files(step))
        ran = f"{files}matrix_begins {number}\nset --\neval {words(step.text)}\n"
        if shells and step.continues_shell:
            shells[-1] += f"matrix_goes_on\n{ran}"
        else:
            shells.append(ran)
    bodies = "".join(map(_shell, shells))
    return f"matrix_mark={quote(mark)}\neval {words(PRELUDE)}\nmatrix_go=\n{enter} &&\nmatrix_go=1\n{bodies}"


def fresh(folder: str, remove: str = "rm") -> str:
    """Return shell text that enters an empty working directory.

    Directories are made several at a time, because making and emptying one costs two processes. A used one stays as it
    is until all are used.
    """
    where = quote(folder)
    return f"""\
matrix_enter() {{
  local room
  for room in {where}/{{1..{ROOMS}}}; do
    set -- "$room"/*
    if [ $# = 0 ] && [ -d "$room" ]; then cd -- "$room"; return; fi
  done
  {remove} -rf -- {where} && mkdir -p -- {where}/{{1..{ROOMS}}} && cd -- {where}/1
}}
shopt -s nullglob dotglob && matrix_enter && shopt -u nullglob dotglob"""


def _files(step: Step) -> list[str]:
    texts = [step.text, *step.files, *step.files.values()]
    if any("\0" in text for text in texts):
        raise HarnessBroken(f"step {step.name} has a null byte in it, which no shell can take")
    return [put(name, text) for name, text in step.files.items()]


def _shell(inside: str) -> str:
    """Return one subshell. A step whose files cannot be written ends without a begin line."""
    return f"""\
if [ -n "$matrix_go" ]; then
(
{inside}) </dev/null 2>&1 3>&-
matrix_status=$?
matrix_ends "$matrix_status"
[ "$matrix_status" = 0 ] || matrix_go=
fi
"""


def put(name: str, text: str) -> str:
    parent = f"mkdir -p -- {quote(name.rpartition('/')[0])} && " if "/" in name else ""
    # The prefix ./ protects names that begin with a dash.
    return f"{parent}printf %s {quote(text)} >{quote('./' + name)}"


def unpack(steps: Sequence[Step], mark: str, output: bytes, complaint: str = "") -> list[StepResult]:
    """Parse the output of the script. Raise HarnessBroken if a step has no end although no earlier step failed."""
    results = [
        StepResult(
            name=steps[int(opening["n"])].name,
            status=int(ending["status"]),
            output=began[opening.end() :].removesuffix(b"\n").decode(errors="replace"),
            seconds=max(0, int(ending["us"]) - int(opening["us"])) / 1e6,
        )
        for began, ended in pairwise(output.split(mark.encode()))
        if (opening := _BEGIN.match(began)) and (ending := _END.match(ended))
    ]
    if len(results) < len(steps) and not (results and results[-1].status):
        said = (output[-2000:].decode(errors="replace") + complaint[-2000:]).strip()
        raise HarnessBroken(f"step {steps[len(results)].name} was cut short", details=said)
    return results
