"""Four rigs one after another against four side by side, on disks that mostly wait: modelled volumes of 80 IOPS.

    python -m bench.parallel [--runtime 15] [--rounds 1]

The same plan, host and process for both; every machine is a fresh clone of one template, which is made before. What
counts is how much sooner it is done, with no trial host-limited.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sides import require_difference
from matrix_runner.carry.events import Event, TrialHostLimited
from matrix_runner.decide.concurrency import Level
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import Manifest, create
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from tests.support.execution import executor

if TYPE_CHECKING:
    from matrix_runner.records.record import Trial
    from matrix_runner.space.space import Space

RIGS = 4
MATRIX = """\
name: parallel
disks: {{count: 3, size: 256MiB, model: {{kind: volume, iops: 80}}}}
layouts: {{striped: [md: {{level: 0, chunk: [16KiB, 64KiB, 256KiB, 1MiB]}}]}}
workloads: {{mixed: {{rw: [randread, randrw], bs: 4KiB, iodepth: 8, runtime: {runtime}s}}}}
repeat: 1
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """One way of running it."""

    seconds: float
    trials: int
    #: Of those recorded; and how many had to be measured again alone.
    host_limited: int
    repeated: int
    #: So many at the same time.
    together: int


async def once(space: Space, jobs: int, scratch: Path) -> Taken:
    plan, seen = Plan(select(space), space.matrix.repeat, space.matrix.seed), list[Event]()
    run = create(scratch, manifest(), f"jobs-{jobs}-{time.monotonic_ns()}")
    with Journal.open(run.journal) as journal:
        level = Level.of(jobs)
        execution = executor(
            plan, Qemu(), journal, CellFolders(run.path), scratch, seen.append, boot_id="bench", level=level
        )
        began = time.monotonic()
        await execution.run()
        seconds = time.monotonic() - began
        trials = list(journal.trials())
    if broken := [trial.reason for trial in trials if trial.figures is None]:
        raise SystemExit(f"broken: {broken}")
    return Taken(
        seconds,
        len(trials),
        sum("host_limited" in trial.notes for trial in trials),
        sum(isinstance(event, TrialHostLimited) for event in seen),
        most_together(trials),
    )


def most_together(trials: list[Trial]) -> int:
    """Return how many trials were under way at most at the same time, by their records."""
    begins = [(datetime.fromisoformat(one.started).timestamp(), one.seconds) for one in trials]
    return max(sum(other <= begin < other + lasted for other, lasted in begins) for begin, _ in begins)


async def compare(space: Space, rounds: int, scratch: Path) -> list[tuple[Taken, Taken]]:
    async with Qemu().rig(rig_spec(space.matrix, space.stacks[0], None), scratch):
        pass  # which makes the template if there is none
    pairs = [(await once(space, 1, scratch), await once(space, RIGS, scratch)) for _ in range(rounds)]
    for after, beside in pairs:
        require_difference("number of trials at the same time", after.together, beside.together)
    return pairs


def manifest() -> Manifest:
    return Manifest(
        id="bench",
        matrix="parallel", fingerprint="", machine="qemu", synthetic=False, seed=1, command=(), text="",
        host=Host(kernel="", cpu="", cores=1, memory=1), started="2026-01-01T00:00:00+00:00", planned=8,
    )  # fmt: skip


def told(taken: Taken) -> str:
    again = f", {taken.repeated} measured again alone" if taken.repeated else ""
    return f"{taken.seconds:6.1f} s, {taken.host_limited} of {taken.trials} trials host-limited{again}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runtime", type=int, default=15, help="of a trial, in seconds")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    space = parse("bench", MATRIX.format(runtime=asked.runtime)).space
    with tempfile.TemporaryDirectory() as scratch:
        pairs = asyncio.run(compare(space, asked.rounds, Path(scratch)))
    for after, beside in pairs:
        print(f"{RIGS} rigs of 2 trials of {asked.runtime} s, one after another: {told(after)}")
        print(f"{RIGS} rigs of 2 trials of {asked.runtime} s, side by side:      {told(beside)}")
    ratio = statistics.median(after.seconds / beside.seconds for after, beside in pairs)
    print(f"side by side it is done {ratio:.2f} times as soon")


if __name__ == "__main__":
    main()
