"""`slow: auto`: each trial gets the factor at which a host keeps up with its simulated disks."""

from __future__ import annotations

import errno
import os
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ClassVar

import pytest

from matrix_runner.carry.events import TrialTooFast
from matrix_runner.carry.past_timings import factors_of
from matrix_runner.decide.costs import Factors
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.machines import Where
from matrix_runner.machines.dry import plausible
from matrix_runner.records.record import Outcome, TrialFacts
from matrix_runner.session.prepare import PreparedRun, prepare
from matrix_runner.session.run import Observer, run
from matrix_runner.session.run_request import RunOptions
from matrix_runner.simdisks.clib import Report
from matrix_runner.space.load import parse
from tests.support.dry import Dry, DryRig
from tests.support.stops import ToTheEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from matrix_runner.carry.events import Event
    from matrix_runner.machines.base import MachineOptions, Processor, RigSpec, Step, StepResult
    from matrix_runner.space.space import Cell, Stack

MATRIX = """\
name: slow
disks: {count: 3, size: 64MiB, model: nas-7200}
layouts: {stripe: [md: {level: 0}], files: [md: {level: 0}, fs: {type: ext4}]}
workloads:
  seeks: {rw: randread, bs: 4KiB, runtime: 1s}
  stream: {rw: write, bs: 1MiB, iodepth: 8, runtime: 1s}
repeat: 2
"""
NOTHING = Report(**{one.name: 0 for one in fields(Report)})


class Rig(DryRig):
    """Half of the requests of streams are late if its disks are too fast for the host."""

    def __init__(self, spec: RigSpec, needed: int) -> None:
        super().__init__(spec, lambda step: plausible(step, self.slow))
        self.needed, self.slow, self.report = needed, 1, NOTHING

    def slow_down(self, slow: int) -> None:
        self.slow = slow

    def disk_reports(self) -> tuple[Report, ...]:
        return (self.report,)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        results = await super().run(steps, expected=expected, deadline=deadline)
        done, streams = self.report, "rw=write" in "".join(steps[-1].files.values())
        late = streams and self.slow < self.needed
        self.report = replace(done, owed=done.owed + 2, late=done.late + late, occupied=done.occupied + 1)
        return results


class Host(Dry):
    synthetic: ClassVar[bool] = False
    needed: ClassVar[int] = 8
    rigs_used: ClassVar[list[Rig]]

    def __init__(self) -> None:
        super().__init__()

    def processor(self) -> Processor:
        return "virtual"  # which the formula believes to keep up

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        self.rigs_used.append(Rig(spec, self.needed))
        yield self.rigs_used[-1]


class Watching(Observer):
    def __init__(self) -> None:
        super().__init__(0, 0)
        self.events: list[Event] = []

    def event(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture(autouse=True)
def rigs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Rig]:
    def machine(_name: str, _options: MachineOptions) -> Host:
        return Host()

    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("matrix_runner.session.run.machine", machine)
    found: list[Rig] = []
    monkeypatch.setattr(Host, "rigs_used", found, raising=False)
    return found


def prepared(folder: Path, text: str = MATRIX, *, fresh: bool = False) -> PreparedRun:
    (folder / "slow.yaml").write_text(text)
    return prepare(RunOptions(folder / "slow.yaml", Where("dry"), folder / "results", fresh=fresh), print)


def test_a_host_limited_trial_is_measured_again_and_only_its_like_get_slow_motion(tmp_path: Path) -> None:
    watching = Watching()
    end = run(prepared(tmp_path), lambda _order, _done: watching, ToTheEnd())
    found = {(one.facts.slow, one.facts.is_host_limited) for one in end.content.trials}
    assert len(end.content.trials) == 8
    # Half of the time is much, so the factors of round 1 are 1, 4 and 16. It lost nothing at 16, so round 2 tries 8.
    assert found == {(1, False), (8, False), (16, False)}
    streams = {one.id for one in end.content.cells if one.axes["workload"] == "stream"}
    assert {one.cell for one in end.content.trials if one.facts.slow > 1} == streams
    again = [(one.was, one.slow) for one in watching.events if isinstance(one, TrialTooFast)]
    assert again == 2 * [(1, 4), (4, 16)]  # in the first round, once for each kind of layers
    repeated = [one.notes["repeated"] for one in end.content.trials if "repeated" in one.notes]
    assert len(repeated) == 2
    assert all(one.startswith("16 times slower; host-limited 33.3% (") for one in repeated)


def test_a_later_run_begins_with_the_factors_that_this_host_needed(tmp_path: Path) -> None:
    run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    watching = Watching()
    run(prepared(tmp_path, fresh=True), lambda _order, _done: watching, ToTheEnd())
    # Round 1 keeps up at 8. Once for each kind of layers, it tries whether 4 is enough by now.
    assert [(one.was, one.slow) for one in watching.events if isinstance(one, TrialTooFast)] == 2 * [(4, 8)]


@pytest.mark.parametrize("text", ["", "no json", '{"a": "b"}', "[]", '{"a": 0.5}'])
def test_damaged_files_of_factors_are_ignored(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "slow-motion"
    folder.mkdir(parents=True)
    (folder / "dry.json").write_text(text)
    end = run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    assert max(one.facts.slow for one in end.content.trials) == 16


def test_without_a_place_for_its_memory_a_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder would be")
    end = run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    assert max(one.facts.slow for one in end.content.trials) == 16


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_on_a_full_disk_its_memory_is_left_out(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("matrix_runner.base.files._make_durable", refuse)
    factors = factors_of(parse("slow", MATRIX).space.matrix, Host())
    assert factors
    cell = next(parse("slow", MATRIX).space.cells())
    assert factors.learn(cell, TrialFacts(lost=0.1, host_limited_share=0.1))
    assert not list((tmp_path / "state").rglob("*.json"))


def test_a_pipe_in_place_of_its_memory_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "state" / "slow-motion").mkdir(parents=True)
    os.mkfifo(tmp_path / "state" / "slow-motion" / "dry.json")
    assert factors_of(parse("slow", MATRIX).space.matrix, Host())


def test_a_declared_factor_stays_although_the_host_does_not_keep_up(tmp_path: Path) -> None:
    text = MATRIX.replace("model: nas-7200", "model: nas-7200, slow: 1")
    end = run(prepared(tmp_path, text), lambda _order, _done: Watching(), ToTheEnd())
    assert {one.facts.slow for one in end.content.trials} == {1}
    assert sum(one.facts.is_host_limited for one in end.content.trials) == 4


def test_a_host_that_never_keeps_up_gets_a_mark_at_the_largest_factor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "needed", 100)
    end = run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    assert {one.facts.slow for one in end.content.trials if one.facts.is_host_limited} == {16}
    assert sum(one.facts.is_host_limited for one in end.content.trials) == 4


def test_settings_that_depend_on_the_pace_are_set_again(rigs: list[Rig], tmp_path: Path) -> None:
    run(prepared(tmp_path, MATRIX.replace("repeat: 2", "repeat: 1")), lambda _order, _done: Watching(), ToTheEnd())
    for rig in rigs:
        tunes = [one.text for one in rig.steps if one.name == "tune"]
        jobs = [one.files["job.fio"] for one in rig.steps if one.name == "measure"]
        changed = next(at for at, job in enumerate(jobs) if "runtime=1000ms" not in job)
        for at, (tune, job) in enumerate(zip(tunes, jobs, strict=True)):
            slow = {"1000ms": 1, "4000ms": 4, "16000ms": 16}[job.partition("runtime=")[2].splitlines()[0]]
            assert ("slow_host /proc/sys/" in tune) == (at >= changed)
            if "mount -o" in tune and slow > 1:
                assert f"commit={5 * slow}" in tune


def test_files_are_laid_out_at_full_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paces, measure = list[tuple[str, bool, int]](), Rig.run

    async def run_and_note(self: Rig, steps: Sequence[Step], **times: float) -> list[StepResult]:
        in_files = any("mount -o" in one.text for one in [*self.steps, *steps] if one.name == "tune")
        paces.extend((one.name, in_files, self.slow) for one in steps)
        return await measure(self, steps, **times)

    monkeypatch.setattr(Rig, "run", run_and_note)
    end = run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    assert {slow for name, in_files, slow in paces if name in {"tune", "verify"} and in_files} == {1}
    assert {slow for name, in_files, slow in paces if name == "measure" and in_files} == {1, 4, 8, 16}
    assert {slow for name, in_files, slow in paces if name == "tune" and not in_files} == {1, 4, 8, 16}
    assert all(one.readings for one in end.content.trials)


def test_a_trial_whose_repeat_the_budget_does_not_cover_keeps_its_figure_and_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, asked = Factors.learn, list[bool]()

    def learn_then_run_out(self: Factors, cell: Cell, facts: TrialFacts) -> bool:
        asked.append(learn(self, cell, facts))
        return asked[-1]

    def affords(_self: Scheduler, _cell: Cell, _stack: Stack | None = None) -> bool:
        return not (asked and asked.pop())  # not the repeat of a trial that has just ended

    monkeypatch.setattr(Factors, "learn", learn_then_run_out)
    monkeypatch.setattr(Scheduler, "affords", affords)
    watching = Watching()
    end = run(prepared(tmp_path), lambda _order, _done: watching, ToTheEnd())
    assert len(end.content.trials) == 8
    assert {one.facts.slow for one in end.content.trials if one.facts.is_host_limited} == {1, 4}
    assert not [one for one in watching.events if isinstance(one, TrialTooFast)]


def test_wrong_data_is_recorded_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Rig.run

    async def run_and_read_wrong_data(self: Rig, steps: Sequence[Step], **times: float) -> list[StepResult]:
        results = await measure(self, steps, **times)
        return [
            replace(one, status=84, output="verify: bad magic\n") if one.name == "measure" else one for one in results
        ]

    monkeypatch.setattr(Rig, "run", run_and_read_wrong_data)
    watching = Watching()
    end = run(prepared(tmp_path), lambda _order, _done: watching, ToTheEnd())
    assert {one.outcome for one in end.content.trials} == {Outcome.CORRUPT}
    assert {one.facts.is_host_limited for one in end.content.trials} == {True, False}
    assert not [one for one in watching.events if isinstance(one, TrialTooFast)]


def test_the_factor_does_not_change_ids_of_cells(tmp_path: Path) -> None:
    end = run(prepared(tmp_path), lambda _order, _done: Watching(), ToTheEnd())
    usual = prepared(tmp_path, MATRIX.replace("nas-7200", "nas-7200, slow: 1")).order.selected
    assert {one.cell for one in end.content.trials} == {one.id for one in usual.selection.cells()}
