"""What looking costs: the same trial with sysstat's sampler beside it, each second, and without.

    python -m bench.monitor [--rounds 6] [--runtime 10]

On disks without a model, as fast as the host is: whatever the sampler takes from fio shows. Trials take turns on one
array in one virtual machine, the order within a pair drawn anew for each.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from pathlib import Path
from statistics import fmean, stdev

from runner.execute.rigs import rig_spec
from runner.execute.trials import ArrayOnRig
from runner.expand.load import parse
from runner.machines.qemu import Qemu
from runner.render.scripts import array_scripts

MATRIX = """\
name: monitor
disks: {{count: 4, size: 256MiB}}
layouts: {{raid0: [md: {{level: 0}}]}}
monitor: {monitor}
workloads: {{work: {{rw: randread, bs: 4KiB, iodepth: 8, runtime: {runtime}s, ramp: 1s}}}}
repeat: 1
"""


async def pairs(rounds: int, runtime: int, scratch: Path) -> list[tuple[float, float]]:
    """(IOPS with the sampler, IOPS without) for every round, after one of each to warm up."""
    spaces = {how: parse("bench", MATRIX.format(monitor=how, runtime=runtime)).space for how in ("1s", "off")}
    machine, order, found = Qemu(), random.Random(1), []  # noqa: S311 - an order, not a secret
    first = spaces["1s"]
    async with machine.rig(rig_spec(first.matrix, first.arrays[0], None), scratch) as rig:
        await ArrayOnRig.build(first.matrix, first.arrays[0], rig, machine, None)
        scripts = array_scripts(first.arrays[0], rig.disks, zeroed=machine.zeroed)
        arrays = {how: ArrayOnRig(space.matrix, space.arrays[0], rig, scripts, None) for how, space in spaces.items()}
        (cell,) = first.cells()
        for block in range(rounds + 1):
            iops: dict[str, float] = {}
            for how in order.sample(sorted(arrays), 2):
                measured = await arrays[how].measure(cell, block)
                figures = measured.finding.figures
                if figures is None or figures.read is None:
                    raise SystemExit(measured.finding.reason)
                if ("samples.json" in measured.outputs) != (how == "1s"):
                    raise SystemExit("sampled where it should not be, or not where it should")
                iops[how] = figures.read.iops
            found.append((iops["1s"], iops["off"]))
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--runtime", type=int, default=10, help="of a trial, in seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ratios = [beside / alone for beside, alone in asyncio.run(pairs(asked.rounds, asked.runtime, Path(scratch)))]
    doubt = stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    print(f"IOPS with a sample each second, to those without: {fmean(ratios):.4f} (standard error {doubt:.4f})")


if __name__ == "__main__":
    main()
