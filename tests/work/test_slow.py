"""Slow motion: fio runs longer and at lower rates, and the figures are as without it."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.trial_result import split_outputs
from matrix_runner.decide.costs import COSTS
from matrix_runner.decide.estimate import Pace, seconds_of
from matrix_runner.machines.base import StepResult
from matrix_runner.pages.csv_files import trials_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.counters import observe_use
from matrix_runner.records.record import SLOW, CellRow
from matrix_runner.scripts.cell import job, stack_scripts
from matrix_runner.space.load import parse
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.jobs.workload import JobWorkload
from tests.support.counters import AFTER, BEFORE, READINGS
from tests.support.engine import Bench
from tests.support.matrices import space

if TYPE_CHECKING:
    from matrix_runner.space.space import Space

TEXT = """\
name: slow
disks: {count: 2, size: 1GiB, model: nas-7200, slow: FACTOR}
layouts:
  one: [md: {level: 0, chunk: 64KiB}]
workloads:
  work: {rw: randwrite, bs: 4KiB, iodepth: 4, ramp: 1s, runtime: 5s, profile: time, FIO}
repeat: 2
"""
FIO = "fio: {rate: '1m,', rate_iops: 400, thinktime: 10ms, startdelay: 1-2, rate_process: poisson}"


def text(factor: int, fio: str = "fio: {}") -> str:
    return TEXT.replace("FACTOR", str(factor)).replace("FIO", fio)


def options(factor: int, fio: str = "fio: {}") -> list[str]:
    (cell,) = space(text(factor, fio)).cells()
    return job(cell, stack_scripts(cell.stack, ("/dev/a", "/dev/b"), zeroed=True).stack, 1).splitlines()


def test_times_of_fio_take_longer_and_its_rates_fall() -> None:
    usual, slow = options(1, FIO), options(4, FIO)
    assert [line for line in slow if line not in usual] == [
        "# In slow motion: times are 4 times as long as declared, and rates 4 times as low.",
        *("runtime=20000ms", "ramp_time=4000ms", "log_avg_msec=400"),
        *("rate=262144,", "rate_iops=100", "startdelay=4-8", "thinktime=40ms"),
    ]
    assert len(slow) == len(usual) + 1


def test_a_steady_state_takes_longer_and_its_slope_is_smaller() -> None:
    steady = "steady: {within: 2%, over: 3s}"
    found = [options(factor, steady) for factor in (1, 4)]
    changed = [[line for line in one if line.startswith("steadystate")] for one in found]
    assert changed == [
        ["steadystate=iops_slope:2%", "steadystate_duration=3000ms"],
        ["steadystate=iops_slope:0.5%", "steadystate_duration=12000ms"],
    ]


@pytest.mark.parametrize(
    ("fio", "why"),
    [
        ("{rate_iops: 10}", "`rate_iops`: 10 is not a multiple of 4"),
        ("{rate: true}", "`rate`: 1 is not a multiple of 4"),
        ("{rate: fast}", "`rate`: 'fast' is not a whole number with a unit"),
        ("{thinktime: 1.5ms}", "'1.5ms' is not a whole number with a unit"),
        ("{steadystate: 'iops:10'}", "write the limit of the steady state in percent"),
    ],
)
def test_fio_options_without_slow_motion_are_refused(fio: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        space(text(4, f"fio: {fio}"))
    space(text(2, "fio: {rate_iops: 10}"))


def test_figures_are_as_without_slow_motion_and_marked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, text(4))
    bench.run()
    trial = bench.trials[0]
    assert trial.figures
    assert trial.figures.write
    assert trial.figures.runtime == 5.0
    assert trial.notes[SLOW] == "4"
    # The dry machine's usual figure: 120 times the root of the depth.
    assert trial.figures.write.iops == pytest.approx(240, rel=0.1)
    assert trial.figures.write.lat_p50 == pytest.approx(trial.figures.write.lat_mean, rel=0.01)
    assert trial.figures.write.lat_mean == pytest.approx(4 / trial.figures.write.iops * 1e9, rel=0.01)
    cell = next(bench.plan.selection.cells())
    recorded = RunData("slow", "dry", True, (CellRow(cell.id, cell.name, cell.axes),), bench.trials)
    assert recorded.marks == "synthetic, from the dry machine; disks 4 times slower, figures as without it"
    assert [row["slow"] for row in csv.DictReader(trials_csv(recorded))] == ["4", "4"]
    assert '<property name="slow" value="4"' in junit(recorded).decode()
    (profile, _) = (files["profile.csv"] for files in bench.shelf.kept.values())
    assert {row["write_bw"] for row in csv.DictReader(StringIO(profile))} == {str(150_000 * 1024)}
    # Past times of trials, without the 20 s that fio takes of the host.
    assert bench.journal.mean_times().overhead == pytest.approx(trial.seconds - 4 * 5, abs=1)
    bench.journal.close()


def test_counters_and_profiles_are_in_the_time_of_the_disks() -> None:
    work = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "profile": "time", "runtime": "10s"})
    steps = [StepResult("measure", 0, f"{BEFORE}{{}}\n{AFTER}", 3.5), StepResult("profile", 0, "1\t0\t2\n", 0.0)]
    found = split_outputs(steps, work, slow=4)
    assert found.files["profile.csv"].splitlines()[1] == "1,8192,0"
    use = observe_use(found.before, found.after, READINGS, None, work, 4)
    assert use
    assert (use.seconds, use.processors.seconds) == (3.5 / 4, 3.5 / 4)
    assert (use.disks[0].busy, use.disks[0].queued, use.disks[0].waited) == (1 / 4, 2 / 4, 0.102 / 4)


def test_units_of_rates_are_those_of_their_section() -> None:
    sections = (("global", ("kb_base=1000", "rate=8k")), ("a", ("rate=8k",)), ("b", ("kb_base=1024", "rate=8k")))
    work = JobWorkload.model_construct(rw="read", sections=sections).slowed(4)
    assert isinstance(work, JobWorkload)
    assert [lines[-1] for _, lines in work.sections] == ["rate=2000", "rate=2000", "rate=2048"]


def test_an_estimate_takes_as_much_longer() -> None:
    (cell,) = space(text(4)).cells()
    overhead = seconds_of(cell, Pace(COSTS["emulated"], None)) - 6
    assert seconds_of(cell, Pace(COSTS["emulated"], None, slow=4)) == pytest.approx(overhead + 24, abs=0.1)


def test_slower_latencies_that_share_a_bin_are_counted_together() -> None:
    assert Histogram.of({1000: 1, 1001: 2, 4000: 3}).divided(4) == Histogram.of({250: 3, 1000: 3})


JOBS = """\
name: slow
disks: {count: 1, size: 1GiB, model: nas-7200, slow: FACTOR}
layouts: {one: [pick: {number: 1}]}
workloads:
  both:
    jobs:
      one: {rw: read, bs: 64KiB, runtime: 5s, fio: {rate_iops: 40}}
      two: {rw: randread, bs: 4KiB, runtime: 5s}
repeat: 1
"""


def test_several_jobs_are_slowed_down_each(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JOBS.replace("FACTOR", "4"))
    bench.run()
    (cell,) = bench.plan.selection.cells()
    lines = job(cell, stack_scripts(cell.stack, ("/dev/a",), zeroed=True).stack, 1).splitlines()
    assert lines.count("runtime=20000ms") == 2
    assert lines.count("rate_iops=10") == 1
    (trial,) = bench.trials
    assert trial.figures
    assert {one.runtime for one in trial.figures.jobs.values()} == {5.0}
    bench.journal.close()
    with pytest.raises(BadInput, match=r"cannot be applied to \[one\]: 40 is not a multiple of 7"):
        space(JOBS.replace("FACTOR", "7"))


JOB_FILE = """\
name: slow
disks: {count: 1, size: 1GiB, model: nas-7200, slow: 4}
layouts: {one: [disk]}
workloads: {work: {job: j.fio}}
"""


def with_job(job_file: str) -> Space:
    return parse("m.yaml", JOB_FILE, lambda name: job_file if name == "j.fio" else Path(name).read_text()).space


def test_a_job_file_is_slowed_down_by_any_name_of_an_option() -> None:
    (cell,) = with_job("[a]\nrw=read\nsize=1g\ntimeout=60\nss_interval=2s\n").cells()
    lines = job(cell, stack_scripts(cell.stack, ("/dev/a",), zeroed=True).stack, 1).splitlines()
    assert {"timeout=240", "ss_interval=8s"} <= {*lines}
