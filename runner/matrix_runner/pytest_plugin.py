"""Plugin for `pytest matrix/chunk-sweep.yaml`: cells and guidelines are items.

When the first item of a matrix is due, all selected cells are measured in rounds of random order, as by `matrix run`:
one item after the other would make drift look like an effect. So `-x` stops the reports, not the measurement.
"""

from __future__ import annotations

import fcntl
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import add_sbin
from matrix_runner.base.errors import BadInput, MatrixError
from matrix_runner.base.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from matrix_runner.answers.cell_figures import CellFigures
    from matrix_runner.answers.verdicts import Judgement
    from matrix_runner.language.guidelines import Guideline
    from matrix_runner.records.run_folder import RunFolder
    from matrix_runner.space.load import Declared
    from matrix_runner.space.space import Cell


_SESSION = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    from matrix_runner.machines import MACHINES

    group = parser.getgroup("matrix", "matrices as tests")
    group.addoption("--matrix-on", choices=list(MACHINES), default="qemu", help="machine to measure on (qemu)")
    group.addoption("--matrix-results", type=Path, default=Path("results"), help="folder of the runs (results)")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect only files named on the command line, because other YAML files may not be matrices."""
    named = {Path(str(word).partition("::")[0]).resolve() for word in parent.config.args}
    if file_path.suffix not in {".yaml", ".yml"} or file_path.resolve() not in named:
        return None
    return MatrixFile.from_parent(parent, path=file_path)


class MatrixFile(pytest.File):
    @cached_property
    def declared(self) -> Declared:
        from matrix_runner.space.load import load

        return load(self.path)

    def collect(self) -> Iterator[pytest.Item]:
        from matrix_runner.space.select import refuse_many, select

        try:
            space = self.declared.space
            refuse_many(select(space), "collect")
        except MatrixError as error:
            raise self.CollectError(f"{error.brief}\n{error.details}") from None
        for cell in select(space).cells():
            yield CellItem.from_parent(self, name=cell.name, cell=cell)
        for guideline in space.matrix.guidelines:
            yield GuidelineItem.from_parent(self, name=guideline.id, guideline=guideline)

    @property
    def outcome(self) -> Outcome:
        if isinstance(self._result, _Failure):
            raise self._result.error.with_traceback(self._result.traceback)
        return self._result

    @cached_property
    def _result(self) -> Outcome | _Failure:
        """Keep an error too, so that it is not tried again for each item."""
        try:
            return self._measure()
        except Exception as error:  # noqa: BLE001 - each item reports the error
            return _Failure(error, error.__traceback__)

    def _measure(self) -> Outcome:
        """Return the results of this pytest session. The first worker measures, the others wait."""
        from matrix_runner.base.errors import file_errors
        from matrix_runner.base.files import open_lock_file
        from matrix_runner.pages.write import every_summary
        from matrix_runner.records.journal import Journal
        from matrix_runner.session.finish import report

        add_sbin()
        config = self.config
        results: Path = config.getoption("--matrix-results")
        with file_errors(results):
            results.mkdir(parents=True, exist_ok=True)
        worker = getattr(config, "workerinput", {})
        session = worker.get("testrunuid", config.stash.setdefault(_SESSION, token_hex(8)))[:12]
        name = f"{self.declared.space.matrix.name}-pytest-{session}"
        # One lock for all matrices, because two runs at a time would disturb each other.
        with open_lock_file(results / ".pytest.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder = _run(self, self._selected_cells(), results, name)
            with folder.locked(), Journal.existing(folder.journal) as journal:
                guidelines = self.declared.space.matrix.guidelines
                content = report(folder, journal, guidelines, interrupted=False).content
                summaries = {one.cell.id: one for one in every_summary(journal, content)}
        return Outcome(folder, summaries, {one.guideline.id: one for one in content.judgements})

    def _selected_cells(self) -> frozenset[str]:
        from matrix_runner.answers.claims import ClaimScope, NotTested, cases_of
        from matrix_runner.records.record import CellRow
        from matrix_runner.space.select import select

        rows = [CellRow(cell.id, cell.name, cell.axes) for cell in select(self.declared.space).cells()]
        cells = set[str]()
        for item in self.session.items:
            if item.parent is self and isinstance(item, CellItem):
                cells.add(item.cell.id)
            elif item.parent is self and isinstance(item, GuidelineItem):
                with suppress(NotTested):
                    cases = cases_of(item.guideline.claimed, ClaimScope.of(rows)).cases
                    cells.update(cell for one in cases for cell in one.cells)
        return frozenset(cells)


class _Item(pytest.Item):
    @property
    def matrix(self) -> MatrixFile:
        assert isinstance(self.parent, MatrixFile)  # noqa: S101 - only MatrixFile makes such items
        return self.parent

    @property
    def outcome(self) -> Outcome:
        try:
            return self.matrix.outcome
        except MatrixError as error:
            pytest.fail(_message(error), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002
        """Leave out the traceback, because failures are about storage or the harness, not about Python."""
        error = excinfo.value
        return _message(error) if isinstance(error, MatrixError) else str(super().repr_failure(excinfo))


def _message(error: MatrixError) -> str:
    return printable("\n".join(filter(None, (error.brief, error.details, error.resolution))))


class CellItem(_Item):
    def __init__(self, *, cell: Cell, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.cell = cell

    def setup(self) -> None:
        """Measure, unless that is done. A broken cell fails here, so that pytest reports an error, not a failure."""
        summary = self.outcome.summaries[self.cell.id]
        reasons = "; ".join(summary.reasons)
        if summary.outcome and summary.outcome.is_error:
            pytest.fail(f"{self.cell.name}: {reasons}\n{self.outcome.folder.path}", pytrace=False)
        if summary.outcome is None or summary.outcome.is_skipped:
            pytest.skip(reasons or "not measured")
        if summary.unsettled and summary.unsettled == summary.measured:
            pytest.skip(f"all {summary.unsettled} trials missed the wanted steady state")

    def runtest(self) -> None:
        summary = self.outcome.summaries[self.cell.id]
        if summary.outcome and summary.outcome.is_failure:
            pytest.fail(f"{self.cell.name}: {'; '.join(summary.reasons)}\n{self.outcome.folder.path}", pytrace=False)
        for name, estimate in self.outcome.summaries[self.cell.id].figures.items():
            self.user_properties.append((name, estimate.mean))


class GuidelineItem(_Item):
    def __init__(self, *, guideline: Guideline, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.guideline = guideline

    def setup(self) -> None:
        """Measure, unless that is done."""
        _ = self.outcome

    def runtest(self) -> None:
        from matrix_runner.answers.cell_figures import Verdict
        from matrix_runner.pages.verdicts import explain_verdict, verdict_text

        judgement = self.outcome.judgements[self.guideline.id]
        self.user_properties.append(("verdict", verdict_text(judgement)))
        if judgement.failed:
            raise ClaimFailed(f"{self.guideline.claim or self.guideline.id}: {explain_verdict(judgement)}")
        if judgement.synthetic or judgement.verdict is not Verdict.HOLDS:
            pytest.skip(f"{verdict_text(judgement)}: {explain_verdict(judgement)}")


class ClaimFailed(MatrixError):
    """Measurements refute a guideline."""


@dataclass(frozen=True)
class Outcome:
    folder: RunFolder
    summaries: dict[str, CellFigures]
    judgements: dict[str, Judgement]


@dataclass(frozen=True)
class _Failure:
    """The error that ended the run, with its own traceback. Each raise would make the traceback longer."""

    error: Exception
    traceback: TracebackType | None


def _run(file: MatrixFile, cells: frozenset[str], results: Path, name: str) -> RunFolder:
    import asyncio

    from matrix_runner.carry.executor import LocalRun
    from matrix_runner.carry.past_timings import factors_of
    from matrix_runner.carry.recorder import RunContext
    from matrix_runner.decide.plan import Plan
    from matrix_runner.decide.scheduler import Scheduler
    from matrix_runner.machines import machine
    from matrix_runner.machines.base import MachineOptions
    from matrix_runner.records.cell_files import open_files
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import create, load
    from matrix_runner.session.host_facts import boot_id
    from matrix_runner.session.run_request import RunRequest
    from matrix_runner.session.selected_matrix import SelectedMatrix, check_machine
    from matrix_runner.space.select import Selection

    if (results / name / "manifest.json").is_file():
        return load(results / name)
    space, place = file.declared.space, file.config.getoption("--matrix-on")
    selection = Selection(space, ids=cells)
    plan = Plan(selection, space.matrix.repeat, space.matrix.seed)
    order = RunRequest(file.path, SelectedMatrix(file.declared, selection, plan), place, None, None, cold=False)
    here = machine(place, MachineOptions(images=order.images))
    check_machine(here, order.specs())
    if not here.brings_disks:
        raise BadInput(f"tests need a machine that makes its own disks, and {place} does not")
    folder = create(results, order.manifest(), name)
    with (
        folder.locked(),
        Journal.open(folder.journal, synthetic=folder.manifest.synthetic, run=folder.manifest.id) as journal,
        open_files(folder, writing=True) as files,
    ):
        factors = factors_of(space.matrix, here)
        context = RunContext(here, journal, files, folder.path, lambda _: None, boot_id(), factors=factors)
        asyncio.run(LocalRun(Scheduler(plan), context).run())
    return folder.update_manifest(finished=True)
