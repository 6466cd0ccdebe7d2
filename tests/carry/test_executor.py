"""The loop, on the dry machine with answers that go wrong in every way."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix_runner.carry.events import Event, RigWasLost, TrialDone, TrialStarted
from matrix_runner.decide.scheduler import Records
from matrix_runner.machines.base import RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import UNSETTLED, Outcome
from matrix_runner.statistics.stopping import Rule, is_precise
from tests.pages.samples import direction, measured
from tests.support.dry import Dry, DryRig
from tests.support.engine import FAULTY, Bench, Dying, Killed, killed_at
from tests.support.execution import executor
from tests.support.fio import table
from tests.support.matrices import SMALL


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


def test_every_planned_trial_is_measured_once(bench: Bench) -> None:
    bench.run()
    assert {(trial.cell, trial.round) for trial in bench.trials} == bench.planned()
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    assert all(trial.figures and trial.readings for trial in bench.trials)
    assert all(trial.notes == {"kernel": "synthetic", "resync": "assume-clean"} for trial in bench.trials)


def test_every_trial_names_the_kernel_that_ran(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SMALL + "machine: {kernel: [debian-12, debian-13]}\n")
    bench.run()
    declared = {cell.id: cell.axes["kernel"] for cell in bench.plan.selection.cells()}
    assert {trial.notes["kernel"] for trial in bench.trials} == {"debian-12", "debian-13"}
    assert all(trial.notes["kernel"] == declared[trial.cell] for trial in bench.trials)
    bench.journal.close()


def test_an_array_is_built_once_in_a_round_for_all_its_cells(bench: Bench) -> None:
    bench.run()
    assert [[step.name for step in rig.steps] for rig in bench.machine.rigs] == [
        ["set-up", *["tune", "verify", "measure"] * 2]
    ] * 4


@pytest.mark.parametrize("own", [True, False])
def test_only_built_in_templates_share_a_shell(bench: Bench, tmp_path: Path, own: bool) -> None:
    templates = tmp_path if own else None
    told = (bench.plan, bench.machine, bench.journal, bench.shelf, bench.folder, bench.events.append)
    asyncio.run(executor(*told, boot_id="one", own_templates=templates).run())
    steps = [step for rig in bench.machine.rigs for step in rig.steps]
    assert {step.name for step in steps} == {"set-up", "tune", "verify", "measure"}
    assert {step.name for step in steps if step.continues_shell} == (set() if own else {"verify", "measure"})


def test_the_folder_of_a_trial_has_all_scripts_and_outputs(bench: Bench) -> None:
    bench.run()
    kept = bench.shelf.kept["raid5/chunk=16KiB/work/rw=read", 1]
    assert set(kept) == {
        *("1-set-up.sh", "2-tune.sh", "3-verify.sh", "4-measure.sh", "5-tear-down.sh", "activate.sh"),
        *("job.fio", "set-up.log", "read-back.tsv", "fio.json"),
    }  # fmt: skip
    told = next(
        rig for rig in bench.machine.rigs if any(step.files.get("job.fio") == kept["job.fio"] for step in rig.steps)
    )
    assert kept["1-set-up.sh"] == told.steps[0].text


def test_a_finished_run_measures_no_more_trials(bench: Bench) -> None:
    bench.run()
    before = bench.trials
    bench.run()
    assert bench.trials == before
    assert bench.machine.rigs == []


PROFILES = SMALL.replace(
    "work: {rw: [read, randwrite], bs: 4KiB, runtime: 1s}",
    "places: {rw: read, bs: 64KiB, profile: position, each: 128KiB}\n"
    "  course: {rw: randwrite, profile: time, runtime: 3s}",
)


def test_a_dry_profile_is_there_and_synthetic(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PROFILES)
    bench.run()
    told = [table(kept["profile.csv"]) for _, kept in sorted(bench.shelf.kept.items())]
    assert len(told) == 8
    assert all(row["synthetic"] == "true" for rows in told for row in rows)
    places = next(rows for rows in told if "offset" in rows[0])
    assert float(places[0]["bw"]) > float(places[-1]["bw"])
    assert int(places[-1]["offset"]) < 192 * 2**20, "on the device"
    course = next(rows for rows in told if "offset" not in rows[0])
    assert [row["seconds"] for row in course[:2]] == ["0.1", "0.2"]
    assert (len(course), course[0]["read_bw"]) == (30, "0")
    bench.journal.close()


def never_steady(step: Step) -> StepResult:
    """A machine on which reads in small chunks come to no steady state, whoever asked for one."""
    result = plausible(step)
    if step.name != "measure" or "rw=read\n" not in step.files["job.fio"]:
        return result
    beside, _, figures = result.output.partition("{")
    told = orjson.loads("{" + figures)
    told["jobs"][0]["steadystate"] = {"ss": "bw:1%", "duration": 4, "attained": 0, "criterion": "30%"}
    return replace(result, output=beside + orjson.dumps(told).decode())


def test_an_unsettled_trial_is_recorded_with_a_note(bench: Bench) -> None:
    bench.run(never_steady)
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    unsettled = [trial for trial in bench.trials if trial.counted is None]
    assert [trial.notes[UNSETTLED] for trial in unsettled] == ["bw:1% over 4 s not reached: 30%"] * 4
    assert all(trial.figures for trial in unsettled), "nothing that was measured is lost"


def test_a_cell_that_never_settles_is_known_no_better_by_more_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SMALL.replace("repeat: 2", "repeat: {min: 2, max: 5, until: 50%}"))
    bench.run(never_steady)
    found = Counter(trial.cell for trial in bench.trials)
    reads = {cell.id for cell in bench.plan.selection.cells() if "rw=read" in cell.name}
    assert {found[cell] for cell in reads} == {5}
    assert {found[cell] for cell in found.keys() - reads} == {2}
    bench.journal.close()


def tampered(step: Step) -> StepResult:
    """A kernel that keeps another chunk size than it was told."""
    result = plausible(step)
    if step.name == "verify":
        wrong = result.output.replace("md.chunk\t16384\t16384", "md.chunk\t16384\t65536")
        return replace(result, output=wrong, status=4 if wrong != result.output else 0)
    return result


def test_a_setting_that_did_not_stick_is_broken_and_never_a_number(bench: Bench) -> None:
    bench.run(tampered)
    broken = [trial for trial in bench.trials if trial.outcome is Outcome.BROKEN]
    assert len(broken) == 4
    assert {trial.reason for trial in broken} == {"not as declared: md.chunk wanted 16384, kernel says 65536"}
    assert all(trial.figures is None for trial in broken)
    assert bench.outcomes()[Outcome.MEASURED] == 4


@pytest.mark.parametrize(
    ("step", "output", "reason"),
    [
        (
            "set-up",
            "noise\nmatrix: a member already belongs to another array",
            "set-up failed: a member already belongs to another array",
        ),
        ("tune", "matrix: the kernel refused 7 for x", "tuning failed: the kernel refused 7 for x"),
        ("verify", "", "read-back failed: no message"),
        ("measure", "fio: engine foo not loadable", "fio failed: "),
    ],
)
def test_a_failed_step_breaks_its_trials_with_its_message(bench: Bench, step: str, output: str, reason: str) -> None:
    bench.run(lambda one: StepResult(one.name, 1, output, 0.0) if one.name == step else plausible(one))
    assert bench.outcomes() == {Outcome.BROKEN: 8}
    assert all(trial.reason.startswith(reason) for trial in bench.trials), bench.trials[0].reason


def test_a_rig_lost_once_is_tried_again_on_a_fresh_one(bench: Bench) -> None:
    bench.run(Dying(1, lambda job: "rw=read\n" in job))
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    assert Counter(trial.attempts for trial in bench.trials) == {1: 4, 2: 4}
    assert [attempt.tail for attempt in bench.journal.attempts()] == ["BUG: unable to handle page fault"] * 4
    assert len(bench.machine.rigs) == 8
    assert "BUG: unable" in bench.shelf.kept["raid5/chunk=16KiB/work/rw=read", 1]["lost-1.log"]


def test_a_cell_that_keeps_killing_its_machine_is_left_alone_and_the_others_are_measured(bench: Bench) -> None:
    bench.run(Dying(99, lambda job: "rw=read\n" in job))
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}
    broken = [trial for trial in bench.trials if trial.outcome is Outcome.BROKEN]
    assert {(trial.reason, trial.attempts) for trial in broken} == {("the guest kernel panicked", 2)}
    assert {trial.reason for trial in bench.trials if trial.outcome is Outcome.SKIPPED} == {
        "quarantined: the guest kernel panicked"
    }
    lost = [event for event in bench.events if isinstance(event, RigWasLost)]
    assert len(lost) == 4


def test_a_lost_trial_records_each_reason_its_start_and_its_files(bench: Bench) -> None:
    said = iter(("the guest kernel panicked: out of memory", "no answer for 120 s"))

    def answer(step: Step) -> StepResult:
        if step.name == "measure" and (reason := next(said, "")):
            raise RigLost(reason, tail=f"tail of {reason}")
        return plausible(step)

    bench.run(answer)
    (broken,) = [trial for trial in bench.trials if trial.outcome is Outcome.BROKEN]
    assert broken.reason == "1. the guest kernel panicked: out of memory; 2. no answer for 120 s"
    assert broken.started == bench.journal.attempts()[0].started
    assert broken.seconds > 0
    names = {cell.id: cell.name for cell in bench.journal.cells()}
    assert broken.folder == f"cells/{names[broken.cell]}/trial-{broken.round}"
    kept = bench.shelf.kept[names[broken.cell], broken.round]
    assert "tail of no answer" in kept["lost-2.log"]
    assert {"lost-1.log", "1-set-up.sh", "4-measure.sh"} <= set(kept)


def test_a_retry_of_broken_trials_continues_the_attempt_numbers(bench: Bench) -> None:
    bench.run(Dying(99, lambda job: "rw=read\n" in job))
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}
    assert len(bench.journal.take_back()) == 4
    with pytest.raises(Killed):
        bench.run(killed_at(plausible, 3))
    bench.run(Dying(1, lambda job: "rw=read\n" in job))
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    assert Counter(trial.attempts for trial in bench.trials) == {1: 4, 2: 2, 4: 2}
    assert {(one.cell, one.round, one.number) for one in bench.journal.attempts()} >= {
        (trial.cell, trial.round, 3) for trial in bench.trials if trial.attempts == 4
    }


def test_a_retry_that_breaks_again_is_quarantined_again(bench: Bench) -> None:
    dying = Dying(99, lambda job: "rw=read\n" in job)
    bench.run(dying)
    bench.journal.take_back()
    bench.run(dying)
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}
    assert {trial.attempts for trial in bench.trials if trial.outcome is Outcome.BROKEN} == {4}


def test_quarantine_outlives_the_process(bench: Bench) -> None:
    dying = Dying(99, lambda job: "rw=read\n" in job)
    with pytest.raises(Killed):
        bench.run(killed_at(dying, 5))
    bench.run(dying)
    assert {(trial.cell, trial.round) for trial in bench.trials} == bench.planned()
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}


def test_a_machine_that_never_comes_up_breaks_the_trials_and_ends(bench: Bench) -> None:
    class Never(Dry):
        @asynccontextmanager
        async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
            if spec.disks:
                raise RigLost("the guest did not come up within 120 s")
            yield DryRig(spec, plausible)

    bench.run(machine=Never())
    assert bench.outcomes() == {Outcome.BROKEN: 8}
    assert {trial.reason for trial in bench.trials} == {"no rig came up: the guest did not come up within 120 s"}
    assert all(trial.folder and trial.started for trial in bench.trials)
    assert all("did not come up" in kept["set-up.log"] for kept in bench.shelf.kept.values())


class SetUpKills:
    """So many rigs, at most, with the array that is built first."""

    def __init__(self, times: int) -> None:
        self.times, self.stack, self.tried = times, "", 0

    def __call__(self, step: Step) -> StepResult:
        if step.name == "set-up":
            self.stack = self.stack or step.text
            self.tried += step.text == self.stack
            if step.text == self.stack and self.tried <= self.times:
                raise RigLost("the guest kernel panicked", tail="Oops")
        return plausible(step)


def test_an_array_that_keeps_killing_rigs_while_it_is_built_is_left_alone(bench: Bench) -> None:
    deadly = SetUpKills(99)
    bench.run(deadly)
    assert deadly.tried == 2
    assert bench.outcomes() == {Outcome.MEASURED: 4, Outcome.BROKEN: 2, Outcome.SKIPPED: 2}
    broken = [trial for trial in bench.trials if trial.outcome is Outcome.BROKEN]
    assert {(trial.reason, trial.attempts) for trial in broken} == {("set-up: the guest kernel panicked", 2)}
    assert sum("Oops" in kept.get("lost-2.log", "") for kept in bench.shelf.kept.values()) == 2


def test_a_rig_lost_while_its_array_was_built_costs_an_attempt(bench: Bench) -> None:
    bench.run(SetUpKills(1))
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    assert Counter(trial.attempts for trial in bench.trials) == {1: 6, 2: 2}


def test_rigs_that_died_while_an_array_was_built_count_for_the_next_process_too(bench: Bench) -> None:
    deadly = SetUpKills(99)
    with pytest.raises(Killed):
        bench.run(killed_at(deadly, 1))
    bench.run(deadly)
    assert deadly.tried == 2
    assert {(trial.cell, trial.round) for trial in bench.trials} == bench.planned()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kills=st.lists(st.integers(0, 20), max_size=20))
def test_killed_at_any_steps_and_run_again_it_ends_with_exactly_the_planned_trials(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("killed"))
    for step in kills:
        try:
            bench.run(killed_at(plausible, step))
        except Killed:
            continue
    bench.run()
    found = [(trial.cell, trial.round) for trial in bench.trials]
    assert sorted(found) == sorted(bench.planned())
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    bench.journal.close()


def test_a_killed_runner_is_not_held_against_the_cell_but_a_dead_host_is(bench: Bench) -> None:
    for _ in range(5):
        with pytest.raises(Killed):
            bench.run(killed_at(plausible, 3))
    assert bench.journal.attempts() == []
    for boot_id in ("two", "three"):
        with pytest.raises(Killed):
            bench.run(killed_at(plausible, 3), boot_id=boot_id)
    bench.run(boot_id="four")
    assert bench.outcomes() == {Outcome.MEASURED: 6, Outcome.BROKEN: 1, Outcome.SKIPPED: 1}
    (broken,) = [trial for trial in bench.trials if trial.outcome is Outcome.BROKEN]
    assert broken.reason == "the host went down during the trial"


def test_repeats_stop_when_they_know_enough(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SMALL.replace("repeat: 2", "repeat: {min: 3, max: 30, until: 5%}"))
    bench.run()
    counts = Counter(trial.cell for trial in bench.trials)
    assert set(counts) == {cell.id for cell in bench.plan.selection.cells()}
    assert all(3 <= count < 30 for count in counts.values())
    bench.journal.close()


def test_on_a_machine_that_stays_the_array_is_taken_apart_on_every_way_out(bench: Bench) -> None:
    class Staying(Dry):
        disposable = False

    bench.run(machine=Staying())
    assert all(rig.steps[-1].name == "tear-down" for rig in bench.machine.rigs)
    bench.journal.close()
    bench.journal = Journal.open(bench.folder / "other.sqlite")
    with pytest.raises(Killed):
        bench.run(machine=Staying(_killed_at_measure))
    assert [step.name for step in bench.machine.rigs[-1].steps][-1] == "tear-down"


def _killed_at_measure(step: Step) -> StepResult:
    if step.name == "measure":
        raise Killed
    return plausible(step)


def test_disks_with_content_wait_for_the_resync(bench: Bench) -> None:
    class Used(Dry):
        zeroed = False

    bench.run(machine=Used())
    assert {trial.notes["resync"] for trial in bench.trials} == {"waited for"}
    assert all("--assume-clean" not in rig.steps[0].text for rig in bench.machine.rigs)


def test_assume_clean_is_refused_where_disks_are_not_known_to_be_zero(tmp_path: Path) -> None:
    class Used(Dry):
        zeroed = False

    bench = Bench(tmp_path, SMALL.replace("level: 5", "level: 5, sync: assume-clean"))
    bench.run(machine=Used())
    assert bench.outcomes() == {Outcome.BROKEN: 8}
    assert {rig.steps == [] for rig in bench.machine.rigs} == {True}
    assert "assume-clean needs zeroed disks" in bench.trials[0].reason
    bench.journal.close()


def test_a_trial_given_up_by_the_user_is_not_blamed_when_the_host_restarts_later(bench: Bench) -> None:
    async def given_up(boot_id: str) -> None:
        def stop(event: Event) -> None:
            if isinstance(event, TrialStarted):
                task.cancel()

        execution = executor(bench.plan, _Yielding(), bench.journal, bench.shelf, bench.folder, stop, boot_id=boot_id)
        task = asyncio.create_task(execution.run())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(given_up("one"))
    asyncio.run(given_up("two"))
    assert not bench.journal.unended_attempts()
    bench.run(boot_id="three")
    assert bench.outcomes() == {Outcome.MEASURED: len(bench.planned())}


def test_a_cancellation_between_trials_leaves_complete_records(bench: Bench) -> None:
    async def stopped() -> None:
        task = asyncio.current_task()
        assert task is not None

        def listen(event: Event) -> None:
            if isinstance(event, TrialDone) and len(bench.trials) == 3:
                task.cancel()

        await executor(bench.plan, _Yielding(), bench.journal, bench.shelf, bench.folder, listen, boot_id="one").run()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert len(bench.trials) == 3
    bench.run()
    assert {(trial.cell, trial.round) for trial in bench.trials} == bench.planned()


class _Yielding(Dry):
    """Lets the loop turn, as a real machine does."""

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        yield _Slow(spec, plausible)


class _Slow(DryRig):
    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        await asyncio.sleep(0)
        return await super().run(steps, expected=expected, deadline=deadline)


class _Facts(Dry):
    """A machine whose kernel is not like the others."""

    def __init__(self, facts: dict[str, str]) -> None:
        super().__init__()
        self._facts = facts

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
        async with super().rig(spec, scratch) as rig:
            rig.facts = {**rig.facts, **self._facts}
            yield rig


def test_stacks_without_kernel_support_are_skipped(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SMALL.replace("raid5:", "joined: [md: {level: linear}]\n  raid5:"))
    bench.run(machine=_Facts({"kernel": "6.12.107", "without": "linear xfs"}))
    assert bench.outcomes() == {Outcome.MEASURED: 8, Outcome.SKIPPED: 4}
    skipped = [trial for trial in bench.trials if trial.outcome is Outcome.SKIPPED]
    assert {trial.reason for trial in skipped} == {
        "`md: {level: linear}` needs linear, and this kernel (6.12.107) has no such module: name another at `kernel:`"
    }
    bench.journal.close()


def test_what_is_known_to_be_missing_skips_a_stack_before_its_rig(tmp_path: Path) -> None:
    class Knowing(Dry):
        def known(self, spec: RigSpec) -> dict[str, str]:
            return {"without": "linear"} if "linear" in spec.modules else {}

    bench = Bench(tmp_path, SMALL.replace("raid5:", "joined: [md: {level: linear}]\n  raid5:"))
    bench.run(machine=Knowing())
    assert bench.outcomes() == {Outcome.MEASURED: 8, Outcome.SKIPPED: 4}
    assert not any("--level=linear" in step.text for rig in bench.machine.rigs for step in rig.steps)
    assert len(bench.machine.rigs) == 4
    bench.journal.close()


class _Sticky(Dry):
    """A machine that stays, on which nothing comes off the disks so many times."""

    disposable = False

    def __init__(self, times: int) -> None:
        super().__init__(self.answer_stickily)
        self.left = times

    def answer_stickily(self, step: Step) -> StepResult:
        if step.name == "tear-down" and self.left > 0:
            self.left -= 1
            return StepResult(step.name, 1, "matrix: still there after tearing down: /dev/sda is in use by md127", 0.0)
        return plausible(step)


def test_a_dirty_tear_down_is_tried_again(bench: Bench) -> None:
    bench.run(machine=_Sticky(1))
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    assert not [event for event in bench.events if isinstance(event, RigWasLost)]
    assert [step.name for step in bench.machine.rigs[0].steps][-2:] == ["tear-down", "tear-down"]


def test_a_tear_down_that_stays_dirty_costs_the_rig_and_no_trial(bench: Bench) -> None:
    bench.run(machine=_Sticky(2))
    assert bench.outcomes() == {Outcome.MEASURED: 8}
    (lost,) = [event for event in bench.events if isinstance(event, RigWasLost)]
    assert lost.reason == "tear-down failed: still there after tearing down: /dev/sda is in use by md127"


def test_half_a_set_up_is_taken_apart_on_a_machine_that_stays(bench: Bench) -> None:
    class Staying(Dry):
        disposable = False

    bench.run(machine=Staying(lambda one: StepResult(one.name, one.name != "tear-down", "matrix: no", 0.0)))
    assert [[step.name for step in rig.steps] for rig in bench.machine.rigs] == [["set-up", "tear-down"]] * 4
    assert {trial.reason for trial in bench.trials} == {"set-up failed: no"}


def test_a_stop_request_wins_over_a_failed_tear_down(bench: Bench) -> None:
    class Stubborn(_Sticky):
        def answer_stickily(self, step: Step) -> StepResult:
            if step.name == "measure":
                raise asyncio.CancelledError
            return super().answer_stickily(step)

    with pytest.raises(asyncio.CancelledError):
        bench.run(machine=Stubborn(99))
    assert len(bench.machine.rigs) == 1


def test_a_trial_with_faults_has_its_own_rig_and_an_aftermath(tmp_path: Path) -> None:
    faulty = Bench(tmp_path, FAULTY)

    def answer(step: Step) -> StepResult:
        told = "note\tmd.after\tclean, degraded 1\nmd127 : active\n"
        return StepResult(step.name, 0, told, 0.0) if step.name == "aftermath" else plausible(step)

    faulty.run(answer)
    trials = faulty.trials
    faulty.journal.close()
    cells = {cell.id: cell for cell in faulty.plan.selection.cells()}
    assert len(trials) == 2 * len(cells) == 16
    for trial in trials:
        cell = cells[trial.cell]
        kept = faulty.shelf.kept[cell.name, trial.round]
        if cell.axes["faults"] == "none":
            assert "md.after" not in trial.notes
            assert not {"aftermath.sh", "aftermath.log"} & set(kept)
            assert "exec_prerun" not in kept["job.fio"]
        else:
            assert trial.notes["faults"] == "disk 2 dies at 0.5 s"
            assert trial.notes["md.after"] == "clean, degraded 1"
            assert "md127 : active" in kept["aftermath.log"]
            assert "exec_prerun" in kept["job.fio"]
    rigs = [[step.name for step in rig.steps] for rig in faulty.machine.rigs]
    assert all(steps.count("measure") == 1 for steps in rigs if "aftermath" in steps)
    assert len(rigs) == 2 * (2 + 4)


def test_rigs_that_do_not_come_up_are_counted_in_a_row(tmp_path: Path) -> None:
    class EveryOther(Dry):
        up = True

        @asynccontextmanager
        async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
            self.up = not self.up
            if not self.up:
                raise RigLost("QEMU was killed by signal 9")
            async with super().rig(spec, scratch) as rig:
                yield rig

    faulty = Bench(tmp_path, FAULTY)
    faulty.run(machine=EveryOther())
    outcomes = faulty.outcomes()
    faulty.journal.close()
    assert outcomes == {Outcome.MEASURED: 16}


def test_faults_without_effect_are_marked(tmp_path: Path) -> None:
    text = SMALL.replace("size: 64MiB", "size: 64MiB, model: st3320620as").replace("level: 5", "level: 5, devices: 3")
    text = text.replace("runtime: 1s", "runtime: [1s, 60s]").replace("[16KiB, 64KiB]", "64KiB")
    faulty = Bench(tmp_path, text + "faults: [{disk: 3, kind: dies}, {disk: 1, at: 30s, kind: dies}]\n")

    def answer(step: Step) -> StepResult:
        took = 60.5 if "runtime=60000ms" in step.files.get("job.fio", "") else 1.5
        return replace(plausible(step), seconds=took)

    faulty.run(answer)
    told = {trial.notes["faults"].partition("; ")[2] for trial in faulty.trials}
    unused = {trial.notes["faults"].partition("; ")[0] for trial in faulty.trials}
    faulty.journal.close()
    assert unused == {"disk 3 dies at 0 s (which this layout does not use)"}
    assert told == {"disk 1 dies at 30 s", "disk 1 dies at 30 s (after the end of the work)"}


def test_a_trial_that_never_came_to_its_work_is_broken_for_that_reason(tmp_path: Path) -> None:
    faulty = Bench(tmp_path, FAULTY)

    def answer(step: Step) -> StepResult:
        said = "reading\tmd.level\traid5\traid4\n"
        return StepResult(step.name, 4, said, 0.0) if step.name == "verify" else plausible(step)

    faulty.run(answer)
    reasons = {trial.reason for trial in faulty.trials}
    faulty.journal.close()
    assert reasons == {"not as declared: md.level wanted raid5, kernel says raid4"}
    assert not any(step.name == "aftermath" for rig in faulty.machine.rigs for step in rig.steps)


def test_the_stopping_rule_uses_the_same_trials_as_the_summary() -> None:
    """A broken trial may have figures; one that was tried again belongs where its round is."""
    known = Records()
    for round_number, rate, outcome in (
        (3, 3e8, Outcome.MEASURED),
        (1, 1e8, Outcome.MEASURED),
        (2, 2e8, Outcome.BROKEN),
    ):
        known.add(replace(measured("c1", round_number, direction(rate, 4096)), outcome=outcome))
    assert known.rates("c1") == [1e8, 3e8], "in the order of rounds"


def test_a_cell_goes_on_until_two_rounds_in_a_row_say_it_is_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SMALL.replace("repeat: 2", "repeat: {min: 2, max: 30, until: 5%}"))
    bench.run()
    rule = Rule(2, 30, 0.05)
    for cell in bench.plan.selection.cells():
        trials = sorted((trial for trial in bench.trials if trial.cell == cell.id), key=lambda trial: trial.round)
        rates = [trial.figures.total_bw for trial in trials if trial.figures]
        assert [is_precise(rates[:n], rule) for n in range(len(rates) + 1)] == [False] * len(rates) + [True]
    bench.journal.close()
