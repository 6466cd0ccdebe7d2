"""What a cell costs beyond fio itself: 24 one-second cells on one array, against a shell loop of the same fio commands.

    python -m bench.cells [--rounds 2]

Both run in the same virtual machine, on the same array, one after the other in each round; the loop is what somebody
would write by hand: no read-back, no cache flush, no record of anything.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sides import require_difference
from matrix_runner.carry.events import Event
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.base import Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow
from matrix_runner.records.run_folder import Manifest, create
from matrix_runner.scripts.cell import job, stack_scripts, trial_seed
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from tests.support.execution import executor

if TYPE_CHECKING:
    from matrix_runner.machines.base import Rig
    from matrix_runner.space.space import Cell, Space

CELLS = """\
name: cells
disks: {count: 4, size: 256MiB}
layouts: {raid0: [md: {level: 0}]}
tune: {readahead: [default, 1MiB]}
workloads:
  work: {rw: [read, write, randread, randwrite], bs: [4KiB, 64KiB, 1MiB], iodepth: 8, runtime: 1s}
repeat: 1000
"""


async def loop(rig: Rig, cells: list[Cell], disks: tuple[str, ...]) -> float:
    """The hand-written way."""
    stack = stack_scripts(cells[0].stack, disks, zeroed=True).stack
    jobs = {f"{number}.fio": job(cell, stack, trial_seed(1, cell.id, 1)) for number, cell in enumerate(cells)}
    text = "for job in *.fio; do fio --output-format=json+ --output=$job.json $job; done"
    began = time.perf_counter()
    (result,) = await rig.run([Step("loop", text, jobs)], expected=float(len(cells)), deadline=600)
    taken = time.perf_counter() - began
    if result.status:
        raise SystemExit(result.output)
    return taken


async def compare(space: Space, rounds: int, folder: Path) -> list[tuple[float, float]]:
    """(ours, by hand) for every round."""
    plan = Plan(select(space), space.matrix.repeat, 1)
    cells = list(plan.selection.cells())
    machine, pairs = Qemu(), []
    run, seen = create(folder, manifest()), list[Event]()
    with Journal.open(run.journal) as journal:
        journal.add_cells(CellRow(cell.id, cell.name, cell.axes) for cell in cells)
        execution = executor(plan, machine, journal, CellFolders(run.path), folder, seen.append, boot_id="bench")
        async with machine.rig(rig_spec(space.matrix, space.stacks[0], None), folder) as rig:
            built = await StackOnRig.build(space.matrix, space.stacks[0], rig, machine, None)
            await loop(rig, cells[:2], rig.disks)
            for round_number in range(1, rounds + 1):
                before = len(list(journal.trials()))
                by_hand = await loop(rig, cells, rig.disks)
                between = len(list(journal.trials()))
                began = time.perf_counter()
                left = deque(cells)
                while left:
                    await execution.executor.trial(built, left, round_number)
                pairs.append((time.perf_counter() - began, by_hand))
                require_difference("number of records", between - before, len(list(journal.trials())) - between)
                print(f"round {round_number}: {pairs[-1][0]:.1f} s / {by_hand:.1f} s", flush=True)
    return pairs


def manifest() -> Manifest:
    return Manifest(
        id="bench",
        matrix="cells", fingerprint="", machine="qemu", synthetic=False, seed=1, command=(), text=CELLS,
        host=Host(kernel="", cpu="", cores=1, memory=1), started="2026-01-01T00:00:00+00:00", planned=24,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        pairs = asyncio.run(compare(parse("bench", CELLS).space, asked.rounds, Path(scratch)))
    ratio = statistics.median(ours / by_hand for ours, by_hand in pairs)
    print(
        f"24 one-second cells, {asked.rounds} rounds: "
        + ", ".join(f"{ours:.1f} s / {loop:.1f} s" for ours, loop in pairs)
    )
    print(f"ratio to a shell loop in the same machine     {ratio:.3f}")


if __name__ == "__main__":
    main()
