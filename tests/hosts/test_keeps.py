"""What a machine keeps up between rigs goes with the run, however that ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from matrix_runner.decide.plan import Plan
from matrix_runner.machines.base import KeepsRig
from matrix_runner.records.journal import Journal
from matrix_runner.space.select import select
from tests.support.dry import Dry
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from matrix_runner.machines.base import RigSpec
    from tests.support.dry import DryRig

SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts: {raw: [disk], mirror: [md: {level: 1}]}
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
repeat: 1
"""


class Keeping(Dry):
    """Dry, but for what it keeps."""

    def __init__(self, fails: BaseException | None = None) -> None:
        super().__init__()
        self.fails = fails
        self.put_down_after: list[int] = []

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
        if self.fails:
            raise self.fails
        async with super().rig(spec, scratch) as rig:
            yield rig

    async def shut_down(self) -> None:
        self.put_down_after.append(len(self.rigs))


def run(machine: Dry, folder: Path) -> None:
    found = space(SMALL)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    with Journal.open(folder / "journal.sqlite") as journal:
        asyncio.run(executor(plan, machine, journal, Shelf(), folder, lambda _: None, boot_id="x").run())


def test_it_is_put_down_once_after_the_last_rig(tmp_path: Path) -> None:
    machine = Keeping()
    run(machine, tmp_path)
    assert machine.put_down_after == [2]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("a mistake")])
def test_it_is_put_down_also_when_the_run_is_stopped_or_fails(tmp_path: Path, error: BaseException) -> None:
    machine = Keeping(error)
    with pytest.raises(type(error)):
        run(machine, tmp_path)
    assert machine.put_down_after == [0]


def test_machines_without_kept_stacks_need_no_method() -> None:
    assert isinstance(Keeping(), KeepsRig)
    assert not isinstance(Dry(), KeepsRig)
