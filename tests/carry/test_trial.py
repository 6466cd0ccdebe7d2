"""Disks on which nothing is built are ours alone while they are measured, and before and after that they are not."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.executor import opened_exclusively
from matrix_runner.carry.trial import SetUpFailed
from matrix_runner.hosts.agent.client import AgentLost
from matrix_runner.hosts.exclusive import LeasedDisk, acquire_disks
from matrix_runner.hosts.operations import Descriptor, LocalOperations
from matrix_runner.layers import LAYERS
from matrix_runner.machines.base import RigLost
from matrix_runner.scripts.cell import stack_scripts
from matrix_runner.scripts.stack import StackView, view_stack
from tests.hosts.loops import Bay, bay, why_not
from tests.support.matrices import space
from tests.support.parted import PARTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.hosts.inventory import Node

REASON = why_not()
on_loops = pytest.mark.skipif(bool(REASON), reason=REASON)
NAMES = ("/dev/a", "/dev/b", "/dev/c", "/dev/d")
MATRIX = """\
name: bare
disks: {{count: 4, size: 1GiB}}
layouts: {{it: [{layers}]}}
workloads: {{work: {{rw: read, bs: 64KiB, size: 1MiB}}}}
repeat: 1
"""


def stack(layers: str, disks: tuple[str, ...] = NAMES) -> StackView:
    (array,) = space(MATRIX.format(layers=layers)).stacks
    return view_stack(array.layers.value, disks, array.disks, zeroed=False)


@pytest.mark.parametrize(
    ("layers", "bare"),
    [
        ("disk", "a"),
        ("disks: {count: 3}", "abc"),
        ("pick: {number: 2}", "b"),
        ("partition: {}", "abcd"),
        ("precondition: {discard: true}", "abcd"),
        ("disks: {}, precondition: {how: fill}, partition: {count: 2}, pick: {number: 6}", "abcd"),
        ("md: {level: 5}", ""),
        ("md: {level: 5}, partition: {}", ""),
        ("partition: {count: 2}, md: {level: 5}", ""),
        ("precondition: {discard: true}, pick: {number: 1}, fs: {type: ext4}", "bcd"),
        ("partition: {}, pick: {number: 3}, crypt: {}", "abd"),
        ("lvm: {}", ""),
        ("integrity: {}", ""),
    ],
)
def test_bare_disks_of_a_stack(layers: str, bare: str) -> None:
    assert stack(layers).bare == tuple(f"/dev/{letter}" for letter in bare)


def test_each_layer_declares_whether_its_kernel_parts_are_held() -> None:
    """Whether the kernel holds what it is built of, as those below are known to."""
    told = {view.kind: view.holds for text in EVERY for view in stack(text).layers}
    disks = [f"/dev/{letter}" for letter in "abcde"]
    for cache in ("writecache", "bcache"):
        (cached,) = space(PARTED % f"c: {{on: hdd, layers: [md: {{level: 5}}, {cache}: {{cache: ssd}}]}}").stacks
        told |= {view.kind: view.holds for view in stack_scripts(cached, disks, zeroed=False).stack.layers}
    held = {"md", "lvm", "crypt", "integrity", "fs", "zfs", "writecache", "bcache"}
    assert {kind for kind, holds in told.items() if holds} == held
    assert {*told, "disks"} == set(LAYERS)


EVERY = (
    "disk",
    "pick: {number: 1}",
    "precondition: {discard: true}",
    "memory: {count: 1, size: 1MiB}",
    "nvme-tcp: {}",
    "partition: {}",
    "md: {level: 0}",
    "lvm: {}",
    "disk, crypt: {}",
    "disk, integrity: {}",
    "disk, fs: {type: ext4}",
    "zfs: {vdev: mirror}",
)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


@pytest.fixture
def lent(disks: Bay) -> Iterator[dict[str, LeasedDisk]]:
    with acquire_disks([disks.declared, disks.beside], disks.ask, operations=disks.operations) as both:
        for one in both:
            one.release()
        yield dict(zip(NAMES, both, strict=False))


def taken(disk: str) -> bool:
    """Whether somebody has it alone."""
    try:
        os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


@on_loops
@pytest.mark.parametrize(("layers", "both"), [("disks: {count: 2}", True), ("disk", False)])
def test_a_bare_disk_is_exclusive_during_a_trial(
    disks: Bay, lent: dict[str, LeasedDisk], layers: str, both: bool
) -> None:
    async def measured() -> None:
        async with opened_exclusively(lent, stack(layers)):
            assert (taken(disks.disk), taken(disks.other)) == (True, both)
            disks.bash('if mkfs.ext4 -q -F "$DISK"; then exit 1; fi')
            # Work does not ask to be alone, nor do discards that are a part of it.
            disks.bash('dd if=/dev/zero of="$DISK" bs=1M count=1 oflag=direct status=none; blkdiscard --force "$DISK"')

    asyncio.run(measured())
    assert (taken(disks.disk), taken(disks.other)) == (False, False)


@on_loops
def test_nor_a_partition_of_it(disks: Bay, lent: dict[str, LeasedDisk]) -> None:
    disks.bash('addpart "$DISK" 1 2048 65536')

    async def measured() -> None:
        async with opened_exclusively(lent, stack("disk, partition: {}")):
            disks.bash('if mkfs.ext4 -q -F "$DISK"p1; then exit 1; fi')
            disks.bash('dd if=/dev/zero of="$DISK"p1 bs=1M count=1 oflag=direct status=none')

    asyncio.run(measured())
    disks.bash('mkfs.ext4 -q -F "$DISK"p1; delpart "$DISK" 1')


@on_loops
def test_disks_below_layers_are_not_opened(disks: Bay, lent: dict[str, LeasedDisk]) -> None:
    async def measured() -> None:
        async with (
            opened_exclusively(lent, stack("disk, fs: {type: ext4}")),
            opened_exclusively({}, stack("disk")),
        ):
            assert (taken(disks.disk), taken(disks.other)) == (False, False)

    asyncio.run(measured())


#: The name of a process that runs it.
PYTHON = Path(sys.executable).name
HOLDER = "import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL); print('held', flush=True); sys.stdin.read()"


@on_loops
def test_a_disk_in_use_breaks_the_trial_and_its_user_is_named(disks: Bay, lent: dict[str, LeasedDisk]) -> None:
    async def measured() -> None:
        async with opened_exclusively(lent, stack("disks: {count: 2}")):
            raise AssertionError

    command = [sys.executable, "-c", HOLDER, disks.other]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SetUpFailed) as caught:
            asyncio.run(measured())
        assert not taken(disks.disk), "the other one is let go again"
        holder.communicate()
    assert str(caught.value) == (
        "other programs use disks of this stack: "
        f"disk-b is busy: {disks.other} is opened exclusively by process {holder.pid} ({PYTHON})"
    )


@dataclass(frozen=True)
class Slow(LocalOperations):
    """Hands that take a disk when they are told to."""

    asked: Event = field(default_factory=Event)
    on: Event = field(default_factory=Event)

    def open(self, node: Node) -> Descriptor:
        self.asked.set()
        assert self.on.wait(60)
        return super().open(node)


@on_loops
def test_a_stop_during_the_opening_releases_the_disk(disks: Bay, lent: dict[str, LeasedDisk]) -> None:
    operations = Slow(disks.locks)
    slow = replace(lent[NAMES[0]], operations=operations)

    async def measured() -> None:
        async with opened_exclusively({NAMES[0]: slow}, stack("disk")):
            raise AssertionError

    async def stopped() -> None:
        task = asyncio.create_task(measured())
        await asyncio.to_thread(operations.asked.wait)
        task.cancel()
        operations.on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not taken(disks.disk)

    asyncio.run(stopped())


@dataclass(frozen=True)
class Away(LocalOperations):
    """Of a host that cannot be asked any more."""

    def open(self, node: Node) -> Descriptor:  # noqa: ARG002
        raise AgentLost("shelf could not be reached again", details="no route to host")


@on_loops
def test_a_host_that_is_gone_is_a_rig_that_is_lost(disks: Bay, lent: dict[str, LeasedDisk]) -> None:
    far = replace(lent[NAMES[0]], operations=Away(disks.locks))

    async def measured() -> None:
        async with opened_exclusively({NAMES[0]: far}, stack("disk")):
            raise AssertionError

    with pytest.raises(RigLost, match="shelf could not be reached again") as caught:
        asyncio.run(measured())
    assert caught.value.tail == "no route to host"
