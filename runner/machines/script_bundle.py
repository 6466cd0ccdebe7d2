"""One bash script of several steps, and the parser of its output.

A trial has one script, because starting a program costs tens of milliseconds on an emulated processor or a slow link.
Steps share one empty working directory, so a later step can read files of an earlier one. Each step has its own shell,
unless it may continue in the shell before it. The script ends after the first step that fails.
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

#: Working directories that are created at a time.
WORK_FOLDERS = 8
#: Steps run by `eval` in a subshell, which starts faster than a new bash and also contains syntax errors, `exit` and
#: `set -e`. Descriptor 3 of this shell carries orders and is closed for steps. Lines with an unguessable word separate
#: the outputs. The line at the end is printed outside of the subshell, because a step may call `exit`.
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
    """Return the script that runs the steps after the command `enter`, such as `enter_empty_folder`.

    `words` quotes the text of a step as one word for `eval`. A step must not be part of a `&&` or `||` list, where bash
    ignores `set -e`.
    """
    shells = list[str]()
    for number, step in enumerate(steps):
        files = "".join(f"{file} || exit\n" for file in _files(step))
        body = f"{files}matrix_begins {number}\nset --\neval {words(step.text)}\n"
        if shells and step.continues_shell:
            shells[-1] += f"matrix_goes_on\n{body}"
        else:
            shells.append(body)
    bodies = "".join(map(_shell, shells))
    return f"matrix_mark={quote(mark)}\neval {words(PRELUDE)}\nmatrix_go=\n{enter} &&\nmatrix_go=1\n{bodies}"


def enter_empty_folder(folder: str, remove: str = "rm") -> str:
    """Return shell text that enters an empty working directory.

    Several are created at a time, because creating and emptying one costs two processes. They are emptied when all are
    used.
    """
    where = quote(folder)
    return f"""\
matrix_enter() {{
  local room
  for room in {where}/{{1..{WORK_FOLDERS}}}; do
    set -- "$room"/*
    if [ $# = 0 ] && [ -d "$room" ]; then cd -- "$room"; return; fi
  done
  {remove} -rf -- {where} && mkdir -p -- {where}/{{1..{WORK_FOLDERS}}} && cd -- {where}/1
}}
shopt -s nullglob dotglob && matrix_enter && shopt -u nullglob dotglob"""


def _files(step: Step) -> list[str]:
    texts = [step.text, *step.files, *step.files.values()]
    if any("\0" in text for text in texts):
        raise HarnessBroken(f"step {step.name} contains a null byte, which a shell cannot read")
    return [write_file_command(name, text) for name, text in step.files.items()]


def _shell(inside: str) -> str:
    """Return one subshell. A step without a begin line could not write its files."""
    return f"""\
if [ -n "$matrix_go" ]; then
(
{inside}) </dev/null 2>&1 3>&-
matrix_status=$?
matrix_ends "$matrix_status"
[ "$matrix_status" = 0 ] || matrix_go=
fi
"""


def write_file_command(name: str, text: str) -> str:
    parent = f"mkdir -p -- {quote(name.rpartition('/')[0])} && " if "/" in name else ""
    # The prefix ./ protects names that begin with a dash.
    return f"{parent}printf %s {quote(text)} >{quote('./' + name)}"


def unpack(steps: Sequence[Step], mark: str, output: bytes, complaint: str = "") -> list[StepResult]:
    """Parse the output of the script. Raise HarnessBroken if a step has no end line although no earlier step failed."""
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
        tail = (output[-2000:].decode(errors="replace") + complaint[-2000:]).strip()
        raise HarnessBroken(f"step {steps[len(results)].name} was cut short", details=tail)
    return results
