"""Run a matrix across a slow link that loses packets and is cut for a while. It needs root.

    python -m bench.cluster_link --delay 25 --loss 1 --cut 20

The scheduler and the run are on one side, two workers on the other. Each trial has to be recorded once.
One side: counts of trials against the plan.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.cluster_kills import MATRIX, MATRIX_COMMAND, failures, recorded, verdict
from bench.link import ADDRESSES, Link
from bench.waiting import COMMAND, SECONDS

PORT = 8786


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=25.0, help="milliseconds each way")
    parser.add_argument("--loss", type=float, default=1.0, help="per cent of the packets")
    parser.add_argument("--cut", type=float, default=20.0, help="seconds for which the link is cut, once")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a trial")
    parser.add_argument("--rounds", type=int, default=2)
    wanted = parser.parse_args()
    link = Link(wanted.delay / 1000, wanted.loss / 100)
    with tempfile.TemporaryDirectory(prefix="cluster-link-") as name, link:
        folder = Path(name)
        (folder / "tmp").mkdir()
        (folder / "kills.yaml").write_text(MATRIX.format(rounds=wanted.rounds))
        environment = os.environ | {"TMPDIR": str(folder / "tmp"), SECONDS: str(wanted.seconds)}
        at = ("--cluster", f"tcp://{ADDRESSES[0]}:{PORT}", "--insecure")

        def start(side: int, *words: str) -> subprocess.Popen[bytes]:
            with (folder / "log").open("ab") as log:
                command = link.inside(side, words)
                return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

        members = [start(0, *MATRIX_COMMAND, "cluster", "scheduler", *at)]
        members += [start(1, *COMMAND, "worker", *at, "--host", host) for host in ("b", "c")]
        began = time.monotonic()
        run = start(0, *MATRIX_COMMAND, "run", "--on", "dry", "--quiet", *at, "kills.yaml")
        wait_for_trials(folder, 10, run)
        link.cut()
        time.sleep(wanted.cut)
        before = recorded(folder)
        link.restore()
        status = run.wait()
        seconds = time.monotonic() - began
        for one in members:
            one.terminate()
        for one in members:
            one.wait(60)
        found = verdict(folder, wanted.rounds)
        print(json.dumps(found | {
            "exit": status, "seconds": round(seconds), "trials at the end of the cut": before, "packets": link.passed,
            "log": (folder / "log").read_text()[-2000:],
        }))  # fmt: skip
        sys.exit("\n".join(failures(found) + [f"the run ended with {status}"] * bool(status)) or None)


def wait_for_trials(folder: Path, count: int, run: subprocess.Popen[bytes]) -> None:
    while recorded(folder) < count and run.poll() is None:
        time.sleep(0.2)


if __name__ == "__main__":
    main()
