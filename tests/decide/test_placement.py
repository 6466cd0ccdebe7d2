"""Runs on hosts of different speed in virtual time: their forecast, and their verdicts."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.cell_figures import Verdict, measured_cell
from matrix_runner.answers.verdicts import judge_guidelines
from matrix_runner.carry.batch_messages import SchedulerLost
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import Event, TimeLeft
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.estimate import Pace, seconds_of
from matrix_runner.decide.placement import Forecast, OpenRound
from matrix_runner.decide.plan import Plan
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.language.guidelines import Guideline
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, CellRow
from matrix_runner.space.select import select
from tests.support.batches import ORDER
from tests.support.dry import Dry
from tests.support.engine import Shelf
from tests.support.matrices import space
from tests.support.virtual_time import TimedCluster, run_virtually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from matrix_runner.carry.batch_messages import BatchRequest, Worker
    from matrix_runner.records.record import Trial
    from matrix_runner.space.space import Cell

TEXT = """\
name: unequal
disks: {{count: 4, size: 64MiB}}
layouts:
  raid: [md: {{level: [0, 5, 10], chunk: [16KiB, 64KiB, 256KiB]}}]
workloads:
  short: {{rw: read, bs: 4KiB, runtime: 2s}}
  long: {{rw: randwrite, bs: [4KiB, 64KiB], runtime: 60s}}
repeat: {rounds}
"""


class Measuring(Dry):
    """A machine whose figures depend on the host."""

    synthetic = False


def plan_of(rounds: int) -> Plan:
    found = space(TEXT.format(rounds=rounds))
    return Plan(select(found), found.matrix.repeat, found.matrix.seed)


def run(
    folder: Path,
    plan: Plan,
    machine: Dry,
    speeds: Mapping[str, float],
    seconds: Callable[[Cell], float],
    rate: Callable[[Cell, int], float] = lambda *_: 1e8,
    cluster_of: type[TimedCluster] = TimedCluster,
) -> tuple[list[tuple[float, float]], float, list[Trial]]:
    """Return the forecasts with their times, the time of the whole run, and its trials."""
    seen: list[tuple[float, float]] = []

    async def measure(journal: Journal) -> float:
        clock = asyncio.get_running_loop().time

        def listen(event: Event) -> None:
            if isinstance(event, TimeLeft):
                seen.append((clock(), event.seconds))

        context = RunContext(machine, journal, Shelf(), folder, listen, "here")
        cluster = cluster_of(plan, speeds, seconds, rate)
        await Coordinator(Scheduler(plan), context, cluster, ORDER, print, clock).run()
        return clock()

    with Journal.open(folder / "journal.sqlite", synthetic=True) as journal:
        return seen, run_virtually(measure(journal)), list(journal.trials())


@pytest.mark.parametrize("machine", [Measuring(), Dry()])
@pytest.mark.parametrize("error", [0.2, 0.3])
@pytest.mark.parametrize(
    ("rounds", "speeds"),
    [
        (4, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}),
        (4, {"a": 2.0, "b": 1.0, "c": 1.0, "d": 0.5}),
        (9, {"a": 4.0, "b": 1.0}),
        (20, {"a": 0.2, "b": 0.1, "c": 0.1, "d": 0.05}),  # the estimate expected hosts that are ten times as fast
    ],
)
def test_the_forecast_is_within_a_fifth_from_a_tenth_of_the_run_on(
    tmp_path: Path, machine: Dry, error: float, rounds: int, speeds: dict[str, float]
) -> None:
    plan, draw = plan_of(rounds), random.Random(1)  # noqa: S311
    wrong = {
        cell.id: draw.uniform(1 - error, 1 + error) for cell in plan.selection.cells()
    }  # by how much the estimate is
    found, total, _ = run(tmp_path, plan, machine, speeds, lambda cell: seconds_of(cell, Pace()) * wrong[cell.id])
    ends = {at: at + left for at, left in found if at >= total / 10}
    assert len(ends) > 10
    assert {at: end for at, end in ends.items() if abs(end / total - 1) > 0.2} == {}


class Interrupted(TimedCluster):
    """Its scheduler is away for 20 s."""

    BEGIN, END = 900.0, 920.0

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        self._gone = asyncio.Event()

        async def interrupt() -> None:
            await asyncio.sleep(self.BEGIN)
            workers, self.workers, self.connected = self.workers, [], False
            self._gone.set()
            changed()
            await asyncio.sleep(self.END - self.BEGIN)
            self._gone.clear()
            self.workers, self.connected = workers, True
            changed()

        task = asyncio.create_task(interrupt())
        yield
        task.cancel()

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        work = asyncio.create_task(super().carry_out(worker, request, receive))
        gone = asyncio.create_task(self._gone.wait())
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():
            work.cancel()
            raise SchedulerLost("the scheduler of the cluster is gone")
        await work


@pytest.mark.parametrize("machine", [Measuring(), Dry()])
def test_the_forecast_goes_on_after_the_scheduler_was_away(tmp_path: Path, machine: Dry) -> None:
    plan, speeds = plan_of(9), {"a": 2.0, "b": 1.0}
    found, total, _ = run(
        tmp_path, plan, machine, speeds, lambda cell: seconds_of(cell, Pace()), cluster_of=Interrupted
    )
    ends = {at: at + left for at, left in found if at > Interrupted.END}
    assert len(ends) > 10
    assert {at: end for at, end in ends.items() if abs(end / total - 1) > 0.2} == {}


def test_the_rounds_of_a_lost_host_are_left_to_those_that_are_present() -> None:
    now = 0.0
    forecast, rounds = Forecast(lambda: now), [OpenRound(number, bound=True) for number in (1, 2)]
    for one, host in zip(rounds, "ab", strict=True):
        for cell in "xy":
            forecast.expect(one.number, cell, lambda: 50.0)
        one.hosts = {frozenset(): host}
        forecast.begin_batch(host)
    now = 50.0
    for one, host in zip(rounds, "ab", strict=True):
        forecast.end_trial(host, one.number, "x")
    assert forecast.next_forecast(rounds, 0, "ab") == pytest.approx(50.0)
    forecast.end_batch("a")
    rounds[0].hosts = {}
    now = 60.0
    assert forecast.next_forecast(rounds, 0, "b") == pytest.approx(90.0)


FASTER = {"0": 1.5, "5": 1.0, "10": 1.0}  # RAID levels
CLAIMS = [
    Guideline.model_validate(
        {"id": at, "effect": {"metric": "write.bw", "of": {"level": one}, "over": {"level": "5"}, "at_least": "1.3x"}}
    )
    for at, one in (("faster", "0"), ("equal", "10"))
]


def rate(cell: Cell, round_number: int) -> float:
    """Return what a host of speed 1 measures; rounds have moods, and trials have noise."""
    mood = random.Random(round_number).gauss(1, 0.2)  # noqa: S311
    noise = random.Random(f"{cell.id}{round_number}").gauss(1, 0.01)  # noqa: S311
    return 1e8 * FASTER[cell.axes["md.level"]] * mood * noise


def verdicts_of(plan: Plan, trials: list[Trial]) -> tuple[list[Verdict], object]:
    cells = [CellRow(cell.id, cell.name, cell.axes) for cell in plan.selection.cells()]
    data = RunData("unequal", "qemu", False, cells, trials, over=True, least=plan.repeat.min, most=plan.repeat.max)
    found = [measured_cell("", one, data.by_cell[one.id], data.rule, ["write_bw"]) for one in cells]
    standings = {(one.cell.name, one.standing) for ranking in data.rankings for one in ranking.stacks}
    return [one.verdict for one in judge_guidelines(CLAIMS, found)], standings


def test_four_kinds_of_hosts_give_the_verdicts_of_each_host_alone(tmp_path: Path) -> None:
    plan, speeds = plan_of(8), {"fast": 4.0, "usual": 1.0, "slow": 0.5, "slowest": 0.1}

    def on(*hosts: str) -> tuple[tuple[list[Verdict], object], set[str]]:
        folder = tmp_path / "-".join(hosts)
        folder.mkdir()
        wanted = {host: speeds[host] for host in hosts}
        _, _, trials = run(folder, plan, Measuring(), wanted, lambda _: 10.0, rate)
        return verdicts_of(plan, trials), {trial.notes[HOST] for trial in trials}

    together, used = on(*speeds)
    assert used == set(speeds)
    assert together[0] == [Verdict.HOLDS, Verdict.FAILS]
    for host in speeds:
        assert on(host) == (together, {host})
