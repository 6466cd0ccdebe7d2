"""The loop with several rigs at a time, on a dry host that bears so many at work and no more."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.carry.events import BatchDone, BatchStarted, Event, RigUp, RigWasLost, TrialDone, TrialHostLimited
from matrix_runner.decide.concurrency import Level
from matrix_runner.machines.base import RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.records.record import Outcome
from tests.support.bearing import Bearing
from tests.support.engine import FAULTY, Bench, Dying, Killed, killed_at
from tests.support.matrices import SMALL, space

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.dry import DryRig

FOUR = SMALL.replace("[16KiB, 64KiB]", "[16KiB, 32KiB, 64KiB, 128KiB]")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, FOUR)
    yield made
    made.journal.close()


def recorded(bench: Bench) -> list[tuple[str, int]]:
    return sorted((trial.cell, trial.round) for trial in bench.trials)


def test_four_rigs_measure_the_same_trials_as_one(bench: Bench) -> None:
    bench.run(machine=(host := Bearing(9)), level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert bench.outcomes() == {Outcome.MEASURED: 16}
    assert host.most == 4
    assert {trial.notes.get("beside") for trial in bench.trials} >= {"3"}
    assert not any("host_limited" in trial.notes or "repeated" in trial.notes for trial in bench.trials)
    assert {trial.notes["host_limited_share"] for trial in bench.trials} == {"0.0000"}


def test_one_rig_at_a_time_has_no_note_on_others(bench: Bench) -> None:
    bench.run(machine=(host := Bearing(9)))
    assert host.most == 1
    assert all(not {"beside", "repeated"} & set(trial.notes) for trial in bench.trials)


def test_blocks_stay_one_after_the_other_and_cells_in_their_order(bench: Bench) -> None:
    bench.run(machine=Bearing(9), level=Level.of(3))
    rounds = [event.round for event in bench.events if isinstance(event, BatchStarted | BatchDone)]
    assert rounds == sorted(rounds)
    begun = [event.stack for event in bench.events if isinstance(event, BatchStarted)]
    assert begun == [
        batch.stack.label for round_number in bench.plan.rounds for batch in bench.plan.batches(round_number)
    ]
    done = [(event.stack, event.name) for event in bench.events if isinstance(event, TrialDone)]
    for round_number in bench.plan.rounds:
        for batch in bench.plan.batches(round_number):
            names = [
                name for array, name in done[8 * round_number - 8 : 8 * round_number] if array == batch.stack.label
            ]
            assert names == [cell.name for cell in batch.cells]


def test_a_host_limited_trial_beside_others_is_repeated_alone(bench: Bench) -> None:
    bench.run(machine=(host := Bearing(2)), level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert not any("host_limited" in trial.notes for trial in bench.trials)
    told = [event for event in bench.events if isinstance(event, TrialHostLimited)]
    repeated = [trial for trial in bench.trials if "repeated" in trial.notes]
    assert len(repeated) == len(told) > 0
    assert all("beside" not in trial.notes for trial in repeated)
    assert {trial.notes["repeated"].partition(" host-limited")[0] for trial in repeated} == {"alone;"}
    company: dict[str, list[int]] = {}
    for job, most in host.measured:
        company.setdefault(job, []).append(most)
    assert all(most[-1] <= host.borne for most in company.values())
    assert all(most[1:] in ([], [1]) for most in company.values())


def test_a_trial_that_is_host_limited_alone_is_recorded_so(bench: Bench) -> None:
    bench.run(machine=Bearing(0), level=Level.of(2))
    assert recorded(bench) == sorted(bench.planned())
    assert all("host_limited" in trial.notes for trial in bench.trials)
    assert any("repeated" in trial.notes for trial in bench.trials)
    assert not any("beside" in trial.notes for trial in bench.trials)


def test_disks_that_failed_in_company_fail_again_on_fresh_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAULTY)
    bench.run(machine=(host := Bearing(1)), level=Level.of(3))
    assert recorded(bench) == sorted(bench.planned())
    assert any("repeated" in trial.notes for trial in bench.trials if "faults" in trial.notes)
    rigs = [[step.name for step in rig.steps] for rig in host.rigs]
    assert {steps.count("measure") for steps in rigs if "aftermath" in steps} == {1}


def test_auto_finds_how_many_the_host_bears(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FOUR.replace("repeat: 2", "repeat: 20"))
    bench.run(machine=(host := Bearing(3)), level=Level.up_to(8))
    assert recorded(bench) == sorted(bench.planned())
    assert host.most == 4
    assert sum("repeated" in trial.notes for trial in bench.trials) < 0.2 * len(bench.trials)
    assert sum(company == 3 for _, company in host.measured) > 0.5 * len(bench.trials)
    bench.journal.close()


def test_a_lost_rig_is_tried_again_alone(bench: Bench) -> None:
    bench.run(machine=(host := Bearing(9, Dying(1, lambda job: "rw=read\n" in job))), level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert Counter(trial.attempts for trial in bench.trials) == {1: 8, 2: 8}
    assert all(most == 1 for job, most in host.measured if "rw=read\n" in job)
    assert host.up == 0


def test_a_lost_rig_is_not_stopped_beside_a_trial_alone(bench: Bench) -> None:
    class SlowToGoDown(Bearing):
        @asynccontextmanager
        async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
            async with super().rig(spec, scratch) as rig:
                try:
                    yield rig
                finally:
                    going = list[Step]()
                    self.at_work.append(going)
                    for _ in range(50):
                        await asyncio.sleep(0)
                    self.at_work = [one for one in self.at_work if one is not going]

    bench.run(machine=(host := SlowToGoDown(9, Dying(1, lambda job: "rw=read\n" in job))), level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert all(most == 1 for job, most in host.measured if "rw=read\n" in job)


def test_a_cell_that_keeps_killing_its_machine_leaves_the_others_alone(bench: Bench) -> None:
    bench.run(machine=Bearing(9, Dying(99, lambda job: "rw=read\n" in job)), level=Level.of(4))
    assert bench.outcomes() == {Outcome.MEASURED: 8, Outcome.BROKEN: 4, Outcome.SKIPPED: 4}
    lost = [event for event in bench.events if isinstance(event, RigWasLost)]
    assert Counter(event.stack for event in lost) == {batch.stack.label: 2 for batch in bench.plan.batches(1)}


def test_a_set_up_that_fails_breaks_its_own_array_only(bench: Bench) -> None:
    def answer(step: Step) -> StepResult:
        wrong = step.name == "set-up" and "--chunk=32" in step.text
        return StepResult(step.name, 1, "matrix: no", 0.0) if wrong else plausible(step)

    bench.run(machine=Bearing(9, answer), level=Level.of(4))
    assert bench.outcomes() == {Outcome.MEASURED: 12, Outcome.BROKEN: 4}


def test_a_machine_that_never_comes_up_breaks_all_and_ends(bench: Bench) -> None:
    class Never(Bearing):
        @asynccontextmanager
        async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
            if spec.disks:
                raise RigLost("the guest did not come up within 120 s")
            async with super().rig(spec, scratch) as rig:
                yield rig

    bench.run(machine=Never(9), level=Level.of(4))
    assert bench.outcomes() == {Outcome.BROKEN: 16}


@given(kills=st.lists(st.integers(0, 40), max_size=12), jobs=st.integers(2, 4), borne=st.integers(0, 4))
def test_killed_at_any_steps_and_run_again_it_ends_with_exactly_the_planned_trials(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], jobs: int, borne: int
) -> None:
    bench = Bench(tmp_path_factory.mktemp("killed"), FOUR)
    for step in kills:
        host = Bearing(borne, killed_at(plausible, step))
        try:
            bench.run(machine=host, level=Level.of(jobs))
        except Killed:
            assert host.up == 0
            assert host.at_work == []
            continue
    bench.run(machine=Bearing(borne), level=Level.of(jobs))
    assert recorded(bench) == sorted(bench.planned())
    assert bench.outcomes() == {Outcome.MEASURED: 16}
    bench.journal.close()


@pytest.mark.parametrize("kind", [RigUp, TrialDone, TrialHostLimited])
@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_stop_at_any_moment_stops_all_rigs_without_lost_attempts(bench: Bench, kind: type, number: int) -> None:
    async def stopped() -> None:
        task = asyncio.current_task()
        assert task is not None

        def listen(event: Event) -> None:
            bench.events.append(event)
            if sum(isinstance(one, kind) for one in bench.events) == number:
                task.cancel()

        await bench.execution(listen, level=Level.of(4)).run()

    bench.machine = host = Bearing(2)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert (host.up, host.at_work) == (0, [])
    assert not bench.journal.unended_attempts()
    assert sum(isinstance(event, TrialDone) for event in bench.events) == len(bench.trials) < 16
    bench.run(machine=Bearing(2), boot_id="two", level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert bench.outcomes() == {Outcome.MEASURED: 16}
    assert {trial.attempts for trial in bench.trials} == {1}


def test_on_machines_that_stay_every_array_is_taken_apart(bench: Bench) -> None:
    class Staying(Bearing):
        disposable = False

    bench.run(machine=Staying(2), level=Level.of(4))
    assert all(rig.steps[-1].name == "tear-down" for rig in bench.machine.rigs)


def test_broken_trials_do_not_change_the_level(bench: Bench) -> None:
    def answer(step: Step) -> StepResult:
        return StepResult(step.name, step.name == "tune", "matrix: no", 0.0) if step.name == "tune" else plausible(step)

    bench.run(machine=(host := Bearing(9, answer)), level=Level.up_to(4))
    assert bench.outcomes() == {Outcome.BROKEN: 16}
    assert host.most == 2


def test_a_lost_rig_while_it_is_repeated_is_a_try_like_any_other(bench: Bench) -> None:
    seen: Counter[str] = Counter()

    def answer(step: Step) -> StepResult:
        job = step.files.get("job.fio", "")
        seen[job] += step.name == "measure"
        if step.name == "measure" and seen[job] == 2:
            raise RigLost("the guest kernel panicked")
        return plausible(step)

    bench.run(machine=Bearing(2, answer), level=Level.of(4))
    assert recorded(bench) == sorted(bench.planned())
    assert bench.outcomes() == {Outcome.MEASURED: 16}
    repeated = [trial for trial in bench.trials if "repeated" in trial.notes]
    assert {trial.attempts for trial in repeated} == {2}
    assert len(bench.journal.attempts()) == len(repeated) > 0


@pytest.mark.parametrize(("bound", "beyond"), [("60%", False), ("40%", True)])
def test_the_limit_of_host_limited_trials_does_not_change_cell_ids(tmp_path: Path, bound: str, *, beyond: bool) -> None:
    """Half of the time of each trial is lost."""
    bench = Bench(tmp_path, f"{FOUR}machine: {{strain: {bound}}}\n")
    bench.run(machine=Bearing(0))
    assert {trial.notes["host_limited_share"] for trial in bench.trials} == {"0.5000"}
    assert {"host_limited" in trial.notes for trial in bench.trials} == {beyond}
    assert {trial.cell for trial in bench.trials} == {cell.id for cell in space(FOUR).cells()}
    bench.journal.close()
