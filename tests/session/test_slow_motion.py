"""`slow: auto`, on a host that keeps up with simulated disks from a certain factor on."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ClassVar

import pytest

from matrix_runner.decide.costs import COSTS
from matrix_runner.machines import Where
from matrix_runner.machines.base import MachineOptions, RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.dry import Dry, DryRig
from matrix_runner.records.record import HOST_LIMITED, SLOW
from matrix_runner.records.run_folder import load
from matrix_runner.session.prepare import PreparedRun, RunOptions, prepare
from matrix_runner.session.run import Observer, run
from matrix_runner.session.selected_matrix import load_selected
from matrix_runner.session.slow_motion import most_demanding
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import slow_of
from tests.support.stops import AtOnce, ToTheEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

MATRIX = """\
name: slow
disks: {count: 3, size: 64MiB, model: nas-7200, slow: auto}
layouts: {stripe: [md: {level: 0}], parity: [md: {level: 5}], one: [disk]}
workloads:
  seeks: {rw: randread, bs: 4KiB, runtime: 1s}
  stream: {rw: write, bs: 1MiB, iodepth: 8, runtime: 1s}
repeat: 2
"""
NOTHING = Report(**{one.name: 0 for one in fields(Report)})


class Rig(DryRig):
    """Half of its requests are late if its disks are too fast for the host."""

    def __init__(self, spec: RigSpec, keeps_up: bool) -> None:
        super().__init__(spec)
        self.keeps_up, self.report = keeps_up, NOTHING

    def disk_reports(self) -> tuple[Report, ...]:
        return (self.report,)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        results = await super().run(steps, expected=expected, deadline=deadline)
        done = self.report
        self.report = replace(
            done, owed=done.owed + 2, late=done.late + (not self.keeps_up), occupied=done.occupied + 1
        )
        return results


class Host(Dry):
    needed: ClassVar[int] = 4
    factors: ClassVar[list[int]]

    def __init__(self) -> None:
        super().__init__()

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        self.factors.append(slow_of(spec.disks))
        if not self.needed:
            raise RigLost("no machine today")
        yield Rig(spec, slow_of(spec.disks) >= self.needed)


@pytest.fixture(autouse=True)
def factors(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    def machine(_name: str, _options: MachineOptions) -> Host:
        return Host()

    monkeypatch.setattr("matrix_runner.session.run.machine", machine)
    found: list[int] = []
    monkeypatch.setattr(Host, "factors", found, raising=False)
    return found


def prepared(folder: Path, text: str = MATRIX) -> PreparedRun:
    (folder / "slow.yaml").write_text(text)
    return prepare(RunOptions(folder / "slow.yaml", Where("dry"), folder / "results"), print)


def watching(_order: object, _done: int) -> Observer:
    return Observer(0, 0)


@pytest.mark.parametrize(("needed", "factor", "tried"), [(1, 1, [1, 1]), (4, 4, [1, 2, 4, 4]), (16, 8, [1, 2, 4])])
def test_a_run_takes_the_first_factor_at_which_its_host_keeps_up(
    needed: int, factor: int, tried: list[int], factors: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "needed", needed)
    end = run(prepared(tmp_path), watching, ToTheEnd())
    # One trial of each workload, until one is host-limited; then three stacks in two rounds.
    assert factors == tried + 6 * [factor]
    assert end.content.slow == ("" if factor == 1 else str(factor))
    assert len(end.content.trials) == 12
    assert all((HOST_LIMITED in one.notes) == (needed == 16) for one in end.content.trials)
    assert all(one.notes.get(SLOW, "1") == str(factor) for one in end.content.trials)


def test_a_resumed_run_keeps_its_factor(factors: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = run(prepared(tmp_path), watching, AtOnce())
    assert not factors
    first = run(prepared(tmp_path), watching, ToTheEnd())
    factors.clear()
    monkeypatch.setattr(Host, "needed", 1)
    more = run(prepared(tmp_path, MATRIX.replace("repeat: 2", "repeat: 3")), watching, ToTheEnd())
    assert stopped.path == first.path == more.path
    assert factors == 3 * [4]
    assert {one.notes[SLOW] for one in more.content.trials} == {"4"}
    assert load(more.path).manifest.environment["slow"] == "4"


def test_the_factor_does_not_change_ids_of_cells(tmp_path: Path) -> None:
    end = run(prepared(tmp_path), watching, ToTheEnd())
    usual = prepared(tmp_path, MATRIX.replace("auto", "1")).order.selected
    assert {one.cell for one in end.content.trials} == {one.id for one in usual.selection.cells()}


def test_a_machine_that_does_not_start_is_left_to_the_run(
    factors: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "needed", 0)
    end = run(prepared(tmp_path), watching, ToTheEnd())
    assert set(factors) == {1}
    assert {one.outcome.value for one in end.content.trials} == {"broken"}


def test_each_workload_is_tried_where_its_disks_ask_most_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(MATRIX)
    found = most_demanding(load_selected(tmp_path / "slow.yaml"), COSTS["emulated"])
    # Three disks give 500 MB/s, two and parity less, but an emulated processor computes only 120 MB/s of parity.
    assert [one.name for one in found] == ["parity/stream", "stripe/seeks"]


def test_disks_without_a_limit_are_tried_too(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(MATRIX.replace("nas-7200", "{kind: ideal}"))
    assert len(most_demanding(load_selected(tmp_path / "slow.yaml"), COSTS["emulated"])) == 2
