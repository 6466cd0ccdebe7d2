"""A run through the application itself, without the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.machines import Where
from matrix_runner.machines.dry import DryRig
from matrix_runner.session.prepare import PreparedRun, prepare
from matrix_runner.session.run import Observer, run
from matrix_runner.session.run_request import RunOptions
from tests.support.stops import AtOnce, ToTheEnd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matrix_runner.carry.events import Event
    from matrix_runner.machines.base import Step, StepResult
    from matrix_runner.session.finish import Ending
    from matrix_runner.session.run_request import RunRequest
    from tests.support.command import Call

MATRIX = """\
name: small
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0}], disk: [disk]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: 2
"""


class Watching(Observer):
    """Remembers what it is shown."""

    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self.events: list[Event] = []
        self.texts: list[str] = []
        self.end: Ending | None = None

    def start_run(self, folder: Path) -> None:
        self.texts.append(str(folder))

    def end_run(self, end: Ending) -> None:
        self.end = end

    def event(self, event: Event) -> None:
        self.events.append(event)

    def notice(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedRun:
    (tmp_path / "small.yaml").write_text(MATRIX)
    return prepare(RunOptions(tmp_path / "small.yaml", Where("dry"), tmp_path / "results"), print)


def test_a_run_goes_from_options_to_reports(prepared: PreparedRun) -> None:
    end = run(prepared, lambda order, done: Watching(order.planned, done), ToTheEnd())
    assert (end.exit, len(end.content.trials), end.finished) == (Exit.ALL_MEASURED, 8, True)
    assert (end.path / "junit.xml").is_file()


def test_a_run_that_is_stopped_is_resumed_in_the_same_folder(prepared: PreparedRun) -> None:
    stopped = run(prepared, lambda order, done: Watching(order.planned, done), AtOnce())
    assert (stopped.exit, stopped.finished) == (Exit.INTERRUPTED, False)
    seen = Watching(0, 0)

    def watching(_order: object, done: int) -> Watching:
        seen.done = done
        return seen

    end = run(prepared, watching, ToTheEnd())
    assert (end.path, end.exit, seen.end) == (stopped.path, Exit.ALL_MEASURED, end)
    assert any(text.startswith("continuing the run of") for text in seen.texts)


def test_a_larger_repeat_adds_rounds_to_the_finished_run(prepared: PreparedRun, tmp_path: Path) -> None:
    first = run(prepared, lambda order, done: Watching(order.planned, done), ToTheEnd())
    (tmp_path / "small.yaml").write_text(MATRIX.replace("repeat: 2", "repeat: 5"))
    more = prepare(RunOptions(tmp_path / "small.yaml", Where("dry"), tmp_path / "results"), print)
    seen = list[int]()

    def watching(order: RunRequest, done: int) -> Watching:
        seen.append(done)
        return Watching(order.planned, done)

    end = run(more, watching, ToTheEnd())
    assert (end.path, seen, end.planned, end.finished) == (first.path, [8], 20, True)
    before = {(trial.cell, trial.round): trial.started for trial in first.content.trials}
    after = {(trial.cell, trial.round): trial.started for trial in end.content.trials}
    assert before.items() < after.items(), "recorded trials are kept"
    assert len(after) == len(end.content.trials) == 20


def test_a_part_of_the_matrix_is_named_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(MATRIX)
    options = RunOptions(tmp_path / "small.yaml", Where("dry"), tmp_path / "results", only=("raid0",))
    seen = Watching(0, 0)
    run(prepare(options, print), lambda _order, _done: seen, ToTheEnd())
    assert "2 of 4 cells: only raid0" in seen.texts


def test_a_mistake_in_the_matrix_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.session.prepare.sweep", lambda _: pytest.fail("leftovers were removed"))
    (tmp_path / "small.yaml").write_text(MATRIX.replace("level: 0", "level: 7"))
    with pytest.raises(BadInput):
        prepare(RunOptions(tmp_path / "small.yaml", Where("dry"), tmp_path / "results"), print)
    assert not (tmp_path / "results").exists()


def test_a_run_with_fewer_records_than_planned_is_not_finished(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(MATRIX)
    batches = Scheduler.batches
    with monkeypatch.context() as briefly:
        briefly.setattr(Scheduler, "batches", lambda scheduler, number: [*batches(scheduler, number)][1:])
        said = call("run", "--on", "dry", "small.yaml")
    assert said.status == 3
    assert "4 trials of the minimum have no record; the same command continues the run" in said.out
    (manifest,) = tmp_path.glob("results/*/manifest.json")
    assert not orjson.loads(manifest.read_bytes())["finished"]
    assert call("run", "--on", "dry", "small.yaml").status == 0
    assert orjson.loads(manifest.read_bytes())["finished"]


def test_a_run_says_once_that_fio_is_not_confined(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dry = DryRig.run

    async def unconfined(rig: DryRig, steps: Sequence[Step], **limits: Any) -> list[StepResult]:
        note = "note\tunconfined\troot may not mount here\n"
        found = await run_dry(rig, steps, **limits)
        return [replace(one, output=note + one.output) if one.name == "measure" else one for one in found]

    monkeypatch.setattr(DryRig, "run", unconfined)
    watching = Watching(0, 0)
    run(prepared, lambda *_: watching, ToTheEnd())
    assert len(watching.events) > 1
    said = [text for text in watching.texts if "confined" in text]
    assert said == ["fio is not confined to its trial and the stack: root may not mount here"]
