"""How long `matrix --help` takes, against the interpreter that does nothing.

python -m bench.help [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    pairs = [
        (seconds(sys.executable, "-m", "matrix_runner.cli", "--help"), seconds(sys.executable, "-c", "pass"))
        for _ in range(asked.rounds)
    ]
    ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"matrix --help                                 {ours * 1000:.0f} ms")
    print(f"python -c pass                                {bare * 1000:.0f} ms  ratio {ours / bare:.1f}")


if __name__ == "__main__":
    main()
