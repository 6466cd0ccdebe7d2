"""Time and memory of commands on files that are made to cost much: below 10 s and 500 MB, or a named refusal.

Kinds with very many pairs of a stack and a workload may take longer (`LONGER`).

    python -m bench.bounds [--only KIND] [--command plan]

The time is that of the processors: another program on this host does not change it.
One side: each command against stated limits.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.costly import MATRICES, MATRIX_COMMANDS, OTHERS, write_matrix

SECONDS, MEGABYTES = 10.0, 500
#: Seconds for files that take longer: up to 10^6 pairs of a stack and a workload are checked, or 2·10^5 cells written.
LONGER = {"10^7 cells, many stacks": 30.0, "5,000 layouts": 20.0, "2·10^5 cells": 20.0}
LARGE = 2 << 20  # larger files, imports and journals, may take twice the memory
_MOST_SECONDS = 60  # of processors
_PATIENCE = 900.0  # seconds until a command counts as hanging


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: int
    size: int
    exit: int
    errors: str
    output: int

    def flaw(self, seconds: float = SECONDS) -> str:
        if self.exit not in {0, 1, 2, 3} or "a mistake in matrix itself" in self.errors:
            return "FAILED "
        most = MEGABYTES * (2 if self.size > LARGE else 1)
        return "TOO MUCH " if self.seconds > seconds or self.megabytes > most else ""


def cost(command: tuple[str, ...], folder: Path) -> Cost:
    """Run a command to its end; `run` up to its first trial."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    environment = os.environ | {"MATRIX_RESULTS": str(folder / "results"), "COLUMNS": "200"}
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "matrix_runner.cli", *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    timer = threading.Timer(_PATIENCE, process.kill)
    timer.start()
    assert process.stdout
    output, reached = 0, False
    for line in process.stdout:
        output += len(line)
        if command[0] == "run" and b'"trial"' in line[:60]:
            reached = True
            process.kill()
    _, status, used = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = 0 if reached else os.waitstatus_to_exitcode(status)
    said = (folder / "errors").read_text(errors="replace")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, size, process.returncode, said, output)


def costs(only: str, commands: list[str]) -> Iterator[tuple[str, str, Cost]]:
    for kind in MATRICES:
        for name in commands if only in kind else ():
            with tempfile.TemporaryDirectory(prefix="matrix-bounds-") as folder:
                write_matrix(Path(folder), kind)
                yield kind, name, cost(MATRIX_COMMANDS[name], Path(folder))
    for kind, (write, command) in OTHERS.items():
        if only in kind and commands == [*MATRIX_COMMANDS]:
            with tempfile.TemporaryDirectory(prefix="matrix-bounds-") as folder:
                write(Path(folder))
                yield kind, command[0], cost(command, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the name of a kind of file")
    parser.add_argument("--command", choices=MATRIX_COMMANDS, action="append")
    asked = parser.parse_args()
    failed = 0
    head = f"{'file':>28} {'size':>10} {'command':>10} {'s':>6} {'MB':>5} {'exit':>4} {'output':>11}"
    print(f"{head}  first line of errors")
    for kind, name, found in costs(asked.only, asked.command or [*MATRIX_COMMANDS]):
        flaw = found.flaw(LONGER.get(kind, SECONDS))
        failed += bool(flaw)
        row = f"{kind:>28} {found.size:>10,} {name:>10} {found.seconds:6.1f} {found.megabytes:5}"
        first = next(filter(None, found.errors.splitlines()), "")[:100]
        print(f"{row} {found.exit:4} {found.output:>11,}  {flaw}{first}", flush=True)
    print(f"{failed} too expensive or failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
