"""How long `matrix --help` takes, against the interpreter that does nothing.

python -m bench.help [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from bench.sides import require_difference


def seconds(*command: str) -> tuple[float, bytes]:
    """Return the time, and the output."""
    began = time.perf_counter()
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return time.perf_counter() - began, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    pairs = [
        (seconds(sys.executable, "-m", "matrix_runner.cli", "--help"), seconds(sys.executable, "-c", "pass"))
        for _ in range(asked.rounds)
    ]
    for pair in pairs:
        require_difference("output", *(output for _, output in pair))
    ours, bare = (statistics.median(took for took, _ in side) for side in zip(*pairs, strict=True))
    print(f"matrix --help                                 {ours * 1000:.0f} ms")
    print(f"python -c pass                                {bare * 1000:.0f} ms  ratio {ours / bare:.1f}")


if __name__ == "__main__":
    main()
