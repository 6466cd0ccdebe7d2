"""What the steps of a trial said, told apart."""

from matrix_runner.carry.trial_result import split_outputs
from matrix_runner.machines.base import StepResult
from matrix_runner.work.fio.workload import FioWorkload
from tests.support.counters import AFTER, BEFORE

POSITIONS = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "profile": "position"})
PLACES = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "profile": "position", "each": "64KiB"})
COURSE = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "profile": "time", "runtime": "10s"})


def step(name: str, output: str = "", status: int = 0) -> StepResult:
    return StepResult(name, status, output, 1.0)


def test_counters_are_removed_from_the_output_of_fio() -> None:
    output = split_outputs([step("tune"), step("measure", f"{BEFORE}{AFTER}{{}}\n")], POSITIONS)
    assert [(one.name, one.output) for one in output.steps] == [("tune", ""), ("measure", "{}\n")]
    assert output.before
    assert output.after
    assert (output.files, output.notes) == ({}, {})


def test_a_trial_without_measurement_has_no_counters() -> None:
    output = split_outputs([step("tune", "no", 1)], POSITIONS)
    assert [one.name for one in output.steps] == ["tune"]
    assert (output.before, output.after, output.files) == (None, None, {})


def test_profiles_become_files_as_declared() -> None:
    told = "0\t8192\t10\t20\n"
    everything, some = (
        split_outputs([step("measure", "{}"), step("profile", told)], work).files["profile.csv"]
        for work in (POSITIONS, PLACES)
    )
    assert everything.splitlines()[1] == "0,8192,0.020,409600"
    assert some.splitlines()[1] == "0,4096,0.010,409600"
    over_time = split_outputs([step("measure", "{}"), step("profile", "1\t0\t2\n")], COURSE).files["profile.csv"]
    assert over_time.splitlines() == ["seconds,read_bw,write_bw", "1,2048,0"]


def test_samples_are_kept_and_a_missing_profile_is_noted() -> None:
    results = [step("measure", "{}"), step("samples", '{"sysstat": 1}'), step("profile", "awk: no such file", 2)]
    output = split_outputs(results, POSITIONS)
    assert [one.name for one in output.steps] == ["measure"]
    assert output.files == {"samples.json": '{"sysstat": 1}'}
    assert output.notes == {"profile": "not kept: awk: no such file"}
    assert split_outputs([step("measure", "{}"), step("samples", "\n")], POSITIONS).files == {}


def test_notes_that_a_measurement_prints_are_kept() -> None:
    output = split_outputs([step("measure", f"{BEFORE}{AFTER}{{}}\nnote\tzfs\tlog 12 KiB\n")], POSITIONS)
    assert output.notes == {"zfs": "log 12 KiB"}
