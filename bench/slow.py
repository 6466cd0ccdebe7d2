"""The same work at four factors of slow motion, in a virtual machine: its rate, and how far it was host-limited.

    python -m bench.slow [--repeats 3] [--only layout=four]

Rates of factors at which the host keeps up agree. The same request is next at each factor, as the seeds are equal.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from bench.sides import require_difference
from matrix_runner.carry.rigs import rig_spec
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import HOST_LIMITED
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from matrix_runner.work.slow import FACTORS

if TYPE_CHECKING:
    from matrix_runner.carry.trial import Measured
    from matrix_runner.space.space import Cell, Space

MATRIX = """\
name: slow
disks: {count: 4, size: 1GiB, model: st3500641as, bus: sata, slow: auto}
layouts:
  one: [pick: {number: 1}]
  two: [disks: {count: 2}, md: {level: 0, chunk: 64KiB}]
  four: [md: {level: 0, chunk: 64KiB}]
workloads:
  random: {rw: randread, bs: 4KiB, iodepth: 16, ramp: 500ms, runtime: 5s}
  streams: {rw: read, bs: 256KiB, numjobs: 3, size: 30%, ramp: 500ms, runtime: 5s, fio: {offset_increment: 33%}}
  stripe: {rw: read, bs: 256KiB, iodepth: 16, ramp: 500ms, runtime: 5s}
only: [{layout: one, workload: [random, streams]}, {layout: [two, four], workload: stripe}]
"""


async def measure(space: Space, cell: Cell, number: int, scratch: Path) -> Measured:
    machine = Qemu()
    async with machine.rig(rig_spec(space.matrix, cell.stack, None), scratch) as rig:
        built = await StackOnRig.build(space.matrix, cell.stack, rig, machine, None)
        return await built.measure(cell, number)


async def measure_all(
    space: Space, only: list[str], repeats: int, scratch: Path
) -> dict[tuple[str, int], list[Measured]]:
    found = defaultdict[tuple[str, int], list["Measured"]](list)
    slowed_spaces = map(space.in_slow_motion, FACTORS)
    require_difference("disks", *(rig_spec(one.matrix, one.stacks[0], None).disks for one in slowed_spaces))
    for number in range(1, repeats + 1):
        for slow in FACTORS:
            slowed = space.in_slow_motion(slow)
            for cell in select(slowed, only).cells():
                found[cell.name, slow].append(await measure(slowed, cell, number, scratch))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="AXIS=VALUE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = asyncio.run(measure_all(parse("bench", MATRIX).space, asked.only, asked.repeats, Path(scratch)))
    rates = {
        key: fmean(one.finding.result.figures.total_bw for one in trials if one.finding.result.figures)
        for key, trials in found.items()
    }
    print("work             factor      MB/s  of that at 8  host-limited trials  share of time lost to the host")
    for (name, slow), trials in sorted(found.items()):
        rate, limited = rates[name, slow], sum(HOST_LIMITED in one.notes for one in trials)
        lost = fmean(float(one.notes["host_limited_share"]) for one in trials)
        share = rate / rates[name, FACTORS[-1]]
        print(f"{name:16} {slow:6} {rate / 1e6:9.2f} {share:13.3f} {limited:15} of {len(trials)} {lost:31.1%}")


if __name__ == "__main__":
    main()
