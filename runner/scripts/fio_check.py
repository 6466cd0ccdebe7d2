"""Let fio check jobs before a run starts."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from runner.base.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping

_DROPPED = re.compile(r"^fio: job (\S+) dropped$", re.MULTILINE)
_VALID = re.compile(r"(?:valid values)?: +(\S+)")
#: fio reads no more than this from one file.
_AT_ONCE = 1000


def missing() -> str:
    """Return why fio cannot check jobs here; empty if it can."""
    return "" if shutil.which("fio") else "fio is not installed here, so jobs are checked only when they run"


def refused(jobs: Mapping[str, str]) -> dict[str, str]:
    """The jobs that fio will not take, with what it says of each, one thing a line.

    All are asked about at once: fio is slow to start.
    """
    found: dict[str, str] = {}
    keys = list(jobs)
    for at in range(0, len(keys), _AT_ONCE):
        found |= _refused_of({key: jobs[key] for key in keys[at : at + _AT_ONCE]})
    return found


def _refused_of(jobs: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    while jobs:
        culprit, said = _first_refused(jobs)
        if culprit is None:
            break
        found[culprit] = said
        del jobs[culprit]
    return found


def _first_refused(jobs: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the first job of a file that fio rejects (it stops there)."""
    # Not by a file, which would stay if this process is killed.
    result = run(["fio", "--parse-only", "-"], stdin="".join(_named(job, key) for key, job in jobs.items()))
    if result.returncode == 0:
        return None, ""
    said = result.stdout + result.stderr
    dropped = _DROPPED.search(said)
    culprit = dropped[1] if dropped and dropped[1] in jobs else next(iter(jobs))
    return culprit, _complaint(said) or f"exit status {result.returncode}"


def _complaint(said: str) -> str:
    """Return fio's complaint. The valid values that fio prints before it are left out, and its guesses, which rarely
    help.
    """
    lines = [line.strip().removeprefix("fio: ") for line in said.splitlines() if not _DROPPED.match(line)]
    valid = [found[1] for line in lines if (found := _VALID.match(line))]
    told = [line for line in lines if line and not _VALID.match(line) and not line.startswith("Did you mean ")]
    if valid and len(told) == 1:
        told[0] += f"; valid values: {', '.join(valid)}"
    return "\n".join(told)


def _named(job: str, key: str) -> str:
    return job.replace("[trial]", f"[{key}]")
