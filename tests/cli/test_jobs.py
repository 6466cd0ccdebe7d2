"""How many rigs side by side: what is asked for, what may be, and what is said of it."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.decide.concurrency import Jobs, Level, choose_level
from matrix_runner.machines.base import RigSpec
from matrix_runner.machines.qemu import Qemu
from matrix_runner.simdisks.disk import Disk, Physics

MODELLED = RigSpec((Disk(1 << 28, "virtio", Physics("volume")),))
BARE = RigSpec((Disk(1 << 28),))


class Roomy(Qemu):
    """A host that has room for so many."""

    def __init__(self, rooms: int) -> None:
        super().__init__()
        self.rooms = rooms

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return self.rooms


@pytest.mark.parametrize(
    ("asked", "spec", "rooms", "level", "said"),
    [
        (1, BARE, 1, Level.of(1), ""),
        (4, MODELLED, 4, Level.of(4), ""),
        ("auto", MODELLED, 8, Level(most=8, now=2), ""),
        (
            "auto",
            MODELLED,
            1,
            Level.of(1),
            "one rig at a time: this host has no room for a second such virtual machine",
        ),
        ("auto", BARE, 8, Level.of(1), "one rig at a time: disks without a model"),
    ],
)
def test_levels_of_jobs(asked: Jobs, spec: RigSpec, rooms: int, level: object, said: str) -> None:
    found, told = choose_level(asked, Roomy(rooms), [spec], [])
    assert found == level
    assert told.startswith(said)
    assert bool(told) == bool(said)


@pytest.mark.parametrize(("asked", "spec", "brief"), [(2, BARE, "disks without a model"), (5, MODELLED, "room for 4")])
def test_impossible_levels_of_jobs(asked: Jobs, spec: RigSpec, brief: str) -> None:
    with pytest.raises(BadInput, match=brief) as caught:
        choose_level(asked, Roomy(4), [spec], [])
    assert caught.value.exit_code == Exit.BAD_INPUT
    assert caught.value.resolution
