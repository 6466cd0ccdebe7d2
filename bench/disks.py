"""Modelled disks as a virtual machine finds them, against what their physics says: within 5 %, or host-limited.

    python -m bench.disks [MODEL ...]

One disk alone, asked by fio in the machine: sequential work in the outermost and the innermost part, random work at
depths 1 to 31. Expected is what the same physics makes of the same requests on simulated time, of
which nobody else takes any; at depth 1 the guest's own part of each round is missing there, and is what the host costs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from bench.sides import require_difference
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.simdisks.check import DEPTHS, Probe
from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.loop import Pattern
from matrix_runner.space.load import disk_model, parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from matrix_runner.simdisks.clib import Library
    from matrix_runner.simdisks.disk import Physics

MODELS = (
    *("st3320620as", "st3500641as", "nas-7200", "archive-smr", "sata-ssd", "nvme-ssd", "cloud-80iops", "cloud-burst"),
)
CLOSE = 0.05
SIZE = 2 << 30
KIB = 1 << 10
MATRIX = """\
name: disks
disks: {{count: 1, model: {model}, size: 2GiB}}
layouts: {{whole: [disk]}}
workloads:
{works}
repeat: 1
"""
#: Chance makes a hundred random requests a second of a platter differ by a per cent for so many seconds …
SECONDS, PATIENCE = 4.0, 5
#: … and what is expected of it, over so many other chances.
CHANCES = 8


def workload(probe: Probe, seconds: float) -> str:
    """Return a probe as a workload of a matrix."""
    job = probe.pattern
    kind = f"{'rand' * job.random}{probe.direction}"
    part = f"offset: {job.first:.0%}, size: {job.last - job.first:.0%}"
    shape = f"rw: {kind}, bs: {job.block // KIB}KiB, iodepth: {job.depth}, runtime: {seconds:g}s, {part}"
    return f"  {probe.name}: {{{shape}{', fio: {norandommap: true}' if job.random else ''}}}"


PROBES = (
    Probe("read-outside", Pattern(4, 1.0, 256 * KIB, random=False, last=0.06)),
    Probe("read-inside", Pattern(4, 1.0, 256 * KIB, random=False, first=0.94)),
    Probe("write-outside", Pattern(4, 0.0, 256 * KIB, random=False, last=0.06)),
    *(
        Probe(f"{what}-depth-{depth}", Pattern(depth, reads))
        for what, reads in (("read", 1.0), ("write", 0.0))
        for depth in DEPTHS
    ),
)


def lasts(probe: Probe, physics: Physics) -> float:
    """How long it is looked at."""
    return SECONDS * PATIENCE if probe.pattern.random and physics.kind == "hdd" else SECONDS


def expected(code: Library, physics: Physics, probe: Probe) -> float:
    """Requests a second."""
    seconds = lasts(probe, physics)
    chances = range(CHANCES if probe.pattern.random and physics.kind == "hdd" else 1)
    return fmean(probe.predict(code, Disk(SIZE, physics=physics), seconds, seed) for seed in chances)


async def measured(model: str, scratch: Path) -> AsyncIterator[tuple[Probe, float, str]]:
    """Requests a second of each probe on a fresh machine, and how far it was host-limited."""
    physics, machine = disk_model(model).physics(1), Qemu()
    works = "\n".join(workload(probe, lasts(probe, physics)) for probe in PROBES)
    space = parse("bench", MATRIX.format(model=model, works=works)).space
    cells = {cell.axes["workload"]: cell for cell in space.cells()}
    for probe in PROBES:
        async with machine.rig(rig_spec(space.matrix, space.stacks[0], None), scratch) as rig:
            array = await StackOnRig.build(space.matrix, space.stacks[0], rig, machine, None)
            trial = (await array.measure(cells[probe.name], 1)).trial
            figures = trial.figures
            if figures is None:
                raise SystemExit(trial.reason)
            iops = sum(side.iops for side in (figures.read, figures.write) if side)
            yield probe, iops, trial.notes.get("host_limited", "")


async def tell(models: tuple[str, ...], scratch: Path) -> bool:
    """A line for each; whether all are close, or told."""
    code, good = load_library(await build_library()), True
    for model in models:
        physics = disk_model(model).physics(1)
        async for probe, iops, host_limited in measured(model, scratch):
            wanted = expected(code, physics, probe)
            require_difference("rate to the last digit", wanted, iops)  # one is computed, the other one is of fio
            off = iops / wanted - 1
            good = good and (abs(off) <= CLOSE or bool(host_limited))
            told = (
                f"host-limited {host_limited}"
                if host_limited
                else ""
                if abs(off) <= CLOSE
                else "off, and nothing tells it"
            )
            print(f"{model:13} {probe.name:15} {wanted:9.1f} {iops:9.1f} IOPS {off:+7.1%}  {told}", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        good = asyncio.run(tell(tuple(asked.models), Path(scratch)))
    print(f"all within {CLOSE:.0%} or host-limited: {'yes' if good else 'no'}")


if __name__ == "__main__":
    main()
