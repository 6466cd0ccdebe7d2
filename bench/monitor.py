"""What looking costs: the processors' time that sysstat's sampler takes beside fio, each second.

    python -m bench.monitor [--rounds 3] [--runtime 10]

The very script of a trial, asked for what the kernel counts of its sampler while that still runs. What fio makes of the
same disks twice in a row differs by some per cent; the sampler's own time is known to the nanosecond.
One side: the kernel's counter of one process against a stated limit.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.scripts.cell import cell_scripts, job, trial_seed
from matrix_runner.space.load import parse

if TYPE_CHECKING:
    from matrix_runner.machines.base import Rig

MATRIX = """\
name: monitor
disks: {{count: 4, size: 256MiB}}
layouts: {{raid0: [md: {{level: 0}}]}}
monitor: 1s
workloads: {{work: {{rw: randread, bs: 4KiB, iodepth: 8, runtime: {runtime}s, ramp: 1s}}}}
repeat: 1
"""
#: Behind the work, before the sampler is told to stop.
ASKED = """\
read -r ran _ </proc/"$sampler"/schedstat
printf 'sampler %s %s\\n' "$ran" "$(nproc)"
"""


async def share(rig: Rig, step: Step) -> float:
    """Of all that the machine's processors could have done while fio ran, what the sampler had."""
    (result,) = await rig.run([step], expected=0.0, deadline=120)
    told = re.search(r"^sampler (\d+) (\d+)$", result.output, re.MULTILINE)
    if result.status or not told:
        raise SystemExit(result.output[-2000:])
    began, ended = (float(at) for at in re.findall(r"^counted \w+ ([\d.]+)$", result.output, re.MULTILINE))
    return int(told[1]) / 1e9 / (ended - began) / int(told[2])


async def shares(rounds: int, runtime: int, scratch: Path) -> list[float]:
    """One for every round."""
    space, machine = parse("bench", MATRIX.format(runtime=runtime)).space, Qemu()
    (cell,) = space.cells()
    async with machine.rig(rig_spec(space.matrix, space.stacks[0], None), scratch) as rig:
        built = await StackOnRig.build(space.matrix, space.stacks[0], rig, machine, None)
        script = cell_scripts(cell, built.view, None, space.matrix.monitor).measure
        text = script.replace("counted after\n", f"counted after\n{ASKED}", 1)
        step = Step("measure", text, {"job.fio": job(cell, built.view, trial_seed(1, cell.id, 1))})
        return [await share(rig, step) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtime", type=int, default=10, help="of the work, in seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = asyncio.run(shares(asked.rounds, asked.runtime, Path(scratch)))
    told = ", ".join(f"{one:.2%}" for one in found)
    print(f"a sample each second, of the time of all processors: {fmean(found):.2%} ({told})")


if __name__ == "__main__":
    main()
