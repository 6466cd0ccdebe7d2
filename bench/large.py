"""Runs of 10⁴ and 10⁵ trials on the dry machine: trials a second, memory, files, bytes; then commands that read them.

    python -m bench.large [--repeat N] [TRIALS…]

The matrix has 20 stacks. By default, each cell has one trial, which is the worst case for files and comparisons; three
(the default of a matrix) are the worst case for reports. Trials a second include the start of the program and all
reports. Processor time is printed too: on a busy host it changes less than the time. `loop` is the processor time of a
fixed loop, to compare hosts.
One side: rates and sizes against stated limits.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MATRIX = """\
name: large
disks: {{count: 8, size: 8GiB}}
layouts:
  raid5: [md: {{level: 5, chunk: [16KiB, 32KiB, 64KiB, 128KiB, 256KiB, 512KiB, 1MiB, 2MiB, 4MiB, 8MiB]}}]
  raid0: [md: {{level: 0, chunk: [16KiB, 32KiB, 64KiB, 128KiB, 256KiB, 512KiB, 1MiB, 2MiB, 4MiB, 8MiB]}}]
workloads:
  work:
    rw: [read, write, randread, randwrite, randrw]
    bs: [4KiB, 8KiB, 16KiB, 32KiB, 64KiB, 128KiB, 256KiB, 512KiB, 1MiB, 2MiB]
    iodepth: [{depths}]
    size: 1GiB
    runtime: 10s
repeat: {repeat}
"""
#: Runs a command, and prints its peak of memory in KB.
_PROGRAM = """\
import resource, sys
from matrix_runner.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
PER_DEPTH = 20 * 50  # cells with one queue depth
READERS = (("results", "latest"), ("compare", "--by", "layout", "raid5", "raid0"), ("report", "latest"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.large")
    parser.add_argument("--repeat", type=int, default=1, help="trials of a cell")
    parser.add_argument("trials", type=int, nargs="*", default=[10_000, 100_000])
    asked = parser.parse_args()
    for trials in asked.trials:
        began = time.process_time()
        sum(range(50_000_000))
        print(f"{trials:,} trials (loop {time.process_time() - began:.2f} s)", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            measure(trials, asked.repeat, Path(folder))


def measure(trials: int, repeat: int, folder: Path) -> None:
    depths = ", ".join(map(str, range(1, trials // (PER_DEPTH * repeat) + 1)))
    (folder / "large.yaml").write_text(MATRIX.format(depths=depths, repeat=repeat))
    seconds, processor, memory = timed(("run", "--on", "dry", "large.yaml"), folder)
    results = list((folder / "results").rglob("*"))
    size = sum(path.stat().st_blocks * 512 for path in results)
    print(f"  {'run':<10}{seconds:8.1f} s {trials / seconds:8.0f} trials/s   {memory:6.0f} MB", end="")
    print(f"   processor {processor:.1f} s: {processor / trials * 1e3:.2f} ms a trial")
    print(f"  {len(results)} files, {len(results) / trials:.4f} a trial; {size / trials / 1000:.1f} KB a trial")
    for command in READERS:
        seconds, processor, memory = timed(command, folder)
        print(f"  {command[0]:<10}{seconds:8.1f} s {memory:32.0f} MB   processor {processor:.1f} s", flush=True)


def timed(command: tuple[str, ...], folder: Path) -> tuple[float, float, float]:
    """Return seconds, seconds of processor and megabytes."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-c", _PROGRAM, *command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in {0, 1}:
        raise SystemExit(done.stderr)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, processor, int(done.stderr.split()[-1]) / 1000


if __name__ == "__main__":
    main()
