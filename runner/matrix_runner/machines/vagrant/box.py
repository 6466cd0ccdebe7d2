"""The box of a machine, built here on first use or named by the user, and the plan that `Vagrantfile` reads."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matrix_runner.base import children, process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import shipped
from matrix_runner.language.matrix import RELEASES
from matrix_runner.machines.base import Progress, Refusal
from matrix_runner.machines.qemu.argv import DiskProperties
from matrix_runner.machines.qemu.recipe import DEFAULT_KERNEL
from matrix_runner.simdisks.disk import Disk

HOME = shipped("vagrant").resolve()
BUILD = HOME / "box/build"
#: Environment variable with the name of the user's own box, which Vagrant knows or can fetch.
BOX_VARIABLE = "MATRIX_BOX"
EVIDENCE_LINES = 20
_PROGRESS = re.compile(r"^box: (?P<brief>.*) \((?P<percent>\d+) %\)$")


def suite(kernel: str | None) -> str:
    return RELEASES[kernel or DEFAULT_KERNEL]


def user_box() -> str:
    return os.environ.get(BOX_VARIABLE, "")


def refusals(kernel: str | None) -> list[Refusal]:
    if user_box():
        return []
    done = process.run([str(BUILD), "--suite", suite(kernel), "--check"])
    if done.returncode == 0:
        return []
    first, *rest = done.stderr.strip().splitlines() or ["the box cannot be built"]
    return [Refusal(first.removeprefix("box: "), "; ".join(line.strip() for line in rest))]


async def provide(kernel: str | None, progress: Progress) -> "Box":
    if name := user_box():
        return Box(name=name)
    folder = await _build(suite(kernel), progress)
    catalogue = folder / "box.json"
    return Box(name=json.loads(catalogue.read_text())["name"], catalogue=str(catalogue))


async def _build(release: str, progress: Progress) -> Path:
    output: list[str] = []

    def note(line: str) -> None:
        output.append(line)
        if match := _PROGRESS.match(line):
            progress(f"box: {match['brief']}", int(match["percent"]) / 100)

    if await run_with_lines([str(BUILD), "--suite", release], note):
        raise HarnessBroken(
            "the box cannot be built",
            details="\n".join(output[-EVIDENCE_LINES:]),
            resolution=f"name your own box in {BOX_VARIABLE}, or run {BUILD} by hand",
        )
    return Path(output[-1])


async def run_with_lines(argv: Sequence[str], on_line: Callable[[str], None]) -> int:
    child = await children.spawn(["sh", "-c", 'exec "$@" 2>&1', "sh", *argv], output=asyncio.subprocess.PIPE)
    try:
        async for line in read_lines(child.stdout):
            on_line(line)
        return await child.wait()
    finally:
        await children.kill(child)


async def read_lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    """Yield lines without Vagrant's progress, which it prints thousands of times without a line break."""
    left = ""
    while stream and (chunk := await stream.read(2**16)):
        *whole, left = (left + chunk.decode(errors="replace")).replace("\r", "\n").split("\n")
        for line in whole:
            if line.strip() and "Progress:" not in line:
                yield line
    if left.strip():
        yield left


NODE = "node"
PLAN = "machines.json"
#: Memory for systemd, udev and sshd of the box. A rig's memory is for trials alone.
OWN_MEMORY = 256 * 2**20


@dataclass(frozen=True, slots=True)
class ServedDisk:
    bus: Literal["virtio", "scsi", "sata"]
    serial: str
    socket: str
    cache: Literal["writeback", "unsafe"]
    rotation: int | None = None  # revolutions a minute for the kernel; 1: not rotating; None: not set
    discard: Literal["unmap", "ignore"] = "unmap"
    errors: Literal["enospace"] = "enospace"


@dataclass(frozen=True, slots=True)
class Box:
    """A box, with a catalogue if it is built here. Vagrant knows the user's own box by its name."""

    name: str
    catalogue: str | None = None


def temporary_disk(disk: Disk, number: int, socket: Path) -> ServedDisk:
    """Return a disk that ends with the machine. Without a model it ignores flushes."""
    return ServedDisk(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        cache="writeback" if disk.physics else "unsafe",
        rotation=(disk.physics.rotation or None) if disk.physics and disk.bus != "virtio" else None,
    )


def physical_disk(disk: Disk, number: int, socket: Path, looks: DiskProperties) -> ServedDisk:
    return ServedDisk(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        discard="unmap" if looks.discard else "ignore",
        cache="writeback",
        rotation=None if disk.bus == "virtio" else looks.rotation,
    )


def bus_of(disk: Disk) -> Literal["virtio", "scsi", "sata"]:
    if disk.bus == "nvme":
        raise ValueError("vagrant-libvirt has no NVMe bus")
    return disk.bus


def serial(number: int) -> str:
    return f"matrix-{number}"


#: Prints the name in /dev/disk/by-id for each serial number. It is a link to udev's name, so that disks have the same
#: names as in machines of QEMU.
FIND = Path(__file__).with_name("find.sh").read_text(encoding="utf-8")


def parse_names(output: str, count: int) -> tuple[str, ...]:
    names = dict(line.split(" ", 1) for line in output.splitlines() if line.startswith("matrix-"))
    return tuple(names.get(serial(number), "").strip() for number in range(count))
