"""The same work at several factors of slow motion, in a virtual machine: its rate, and how far it was host-limited.

    python -m bench.slow [--repeats 3] [--model nas-7200] [--factor 1 --factor 8] [--only workload=random]

Rates of factors at which the host keeps up agree. The same requests are next at each factor, as the seeds are equal.
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
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.space.includes import models
from matrix_runner.space.load import parse
from matrix_runner.space.select import select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.carry.trial import Measured
    from matrix_runner.machines.base import Rig
    from matrix_runner.space.space import Space, Stack

MATRIX = """\
name: slow
disks: {{count: 2, size: 1GiB, model: {model}, bus: sata}}
layouts: {{two: [md: {{level: 0, chunk: 64KiB}}]}}
workloads:
  read: {{rw: read, bs: 1MiB, iodepth: 8, ramp: 300ms, runtime: 2s}}
  write: {{rw: write, bs: 1MiB, iodepth: 8, ramp: 300ms, runtime: 2s}}
  random: {{rw: randread, bs: 4KiB, iodepth: 1, ramp: 300ms, runtime: 2s}}
  deep: {{rw: randread, bs: 4KiB, iodepth: 16, ramp: 300ms, runtime: 2s}}
  mixed: {{rw: randrw, bs: 16KiB, iodepth: 4, ramp: 300ms, runtime: 2s}}
  flushed: {{rw: randwrite, bs: 4KiB, iodepth: 1, ramp: 300ms, runtime: 2s, fio: {{fdatasync: 1}}}}
"""
FACTORS = (1, 2, 4, 8)
SAME = 0.02

Found = dict[tuple[str, str, int], list["Measured"]]


async def measure_all(space: Space, only: list[str], factors: Sequence[int], repeats: int, scratch: Path) -> Found:
    found = defaultdict[tuple[str, str, int], list["Measured"]](list)
    selection, machine = select(space, only), Qemu()
    model = space.matrix.disks[0].model
    for stack in selection.space.stacks:
        for cell in selection.cells_of(stack):
            # Disks of an own rig for each work: the state of an SSD depends on earlier writes.
            for slow in factors:
                async with machine.rig(rig_spec(space.matrix, stack, None), scratch) as rig:
                    built = await build(space, stack, rig, machine, slow)
                    for number in range(1, repeats + 1):
                        found[(model and model.name) or "", cell.name, slow].append(await built.measure(cell, number))
    require_difference("pace", *{key: found[key][0].trial.facts.slow for key in list(found)[: len(factors)]}.values())
    return found


async def build(space: Space, stack: Stack, rig: Rig, machine: Qemu, slow: int) -> StackOnRig:
    built = await StackOnRig.build(space.matrix, stack, rig, machine, None)
    built.slow_down(slow)
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model", action="append", metavar="NAME")
    parser.add_argument("--factor", action="append", type=int, metavar="N")
    parser.add_argument("--only", action="append", default=[], metavar="AXIS=VALUE")
    asked = parser.parse_args()
    factors = tuple(asked.factor or FACTORS)
    print("model            work          factor      MB/s  of that at the largest  host-limited  share of time lost")
    worst = 0.0
    for name in asked.model or models():
        with tempfile.TemporaryDirectory() as scratch:
            space = parse("bench", MATRIX.format(model=name)).space
            found = asyncio.run(measure_all(space, asked.only, factors, asked.repeats, Path(scratch)))
        rates = {key: rate_of(trials) for key, trials in found.items()}
        for (model, work, slow), trials in found.items():
            limited = sum(one.trial.facts.is_host_limited for one in trials)
            lost = fmean(one.trial.facts.host_limited_share or 0.0 for one in trials)
            share = rates[model, work, slow] / rates[model, work, factors[-1]]
            worst = max(worst, 0.0 if limited else abs(share - 1))
            rate = f"{rates[model, work, slow] / 1e6:9.2f} {share:23.3f}"
            print(f"{model:16} {work:13} {slow:6} {rate} {limited:8} of {len(trials)} {lost:18.1%}", flush=True)
    verdict = "holds" if worst <= SAME else "does not hold"
    print(f"\nwithout a mark, rates differ by at most {worst:.1%}; the limit of {SAME:.0%} {verdict}")


def rate_of(trials: list[Measured]) -> float:
    return fmean(one.trial.figures.total_bw for one in trials if one.trial.figures)


if __name__ == "__main__":
    main()
