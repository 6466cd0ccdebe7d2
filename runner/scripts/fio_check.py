"""The check of jobs by fio before a run starts."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from runner.base.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping

_DROPPED = re.compile(r"^fio: job (\S+) dropped$", re.MULTILINE)
_VALID = re.compile(r"(?:valid values)?: +(\S+)")
#: fio reads at most this many jobs from one file.
_JOBS_PER_FILE = 1000


def explain_missing_fio() -> str:
    """Return why fio cannot check jobs here; empty if it can."""
    return "" if shutil.which("fio") else "fio is not installed here, so jobs are checked only when they run"


def find_rejected(jobs: Mapping[str, str]) -> dict[str, str]:
    """Return the jobs that fio rejects, with its messages. One fio checks many jobs, because it is slow to start."""
    found: dict[str, str] = {}
    keys = list(jobs)
    for at in range(0, len(keys), _JOBS_PER_FILE):
        found |= _find_rejected_in_file({key: jobs[key] for key in keys[at : at + _JOBS_PER_FILE]})
    return found


def _find_rejected_in_file(jobs: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    while jobs:
        culprit, message = _find_first_rejected(jobs)
        if culprit is None:
            break
        found[culprit] = message
        del jobs[culprit]
    return found


def _find_first_rejected(jobs: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the first job of a file that fio rejects (it stops there)."""
    # Standard input, because a file would remain if this process is killed.
    result = run(["fio", "--parse-only", "-"], stdin="".join(_named(job, key) for key, job in jobs.items()))
    if result.returncode == 0:
        return None, ""
    output = result.stdout + result.stderr
    dropped = _DROPPED.search(output)
    culprit = dropped[1] if dropped and dropped[1] in jobs else next(iter(jobs))
    return culprit, _parse_errors(output) or f"exit status {result.returncode}"


def _parse_errors(output: str) -> str:
    """Return fio's errors, with the valid values at the end, and without its guesses, which rarely help."""
    lines = [line.strip().removeprefix("fio: ") for line in output.splitlines() if not _DROPPED.match(line)]
    valid = [found[1] for line in lines if (found := _VALID.match(line))]
    errors = [line for line in lines if line and not _VALID.match(line) and not line.startswith("Did you mean ")]
    if valid and len(errors) == 1:
        errors[0] += f"; valid values: {', '.join(valid)}"
    return "\n".join(errors)


def _named(job: str, key: str) -> str:
    return job.replace("[trial]", f"[{key}]")
