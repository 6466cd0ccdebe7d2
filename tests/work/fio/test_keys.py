"""Workloads of which the course is kept."""

import subprocess
from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.cell import cell_scripts, files_of, job, stack_scripts
from matrix_runner.space.load import parse
from matrix_runner.work.fio.keys import POINTS
from matrix_runner.work.fio.workload import FioWorkload
from tests.support.matrices import space

MATRIX = """\
name: m
disks: {count: 2, size: 1GiB}
layouts: {LAYOUT}
workloads: {work: {WORK}}
"""


def matrix(work: str, layout: str = "one: [disk]") -> str:
    return MATRIX.replace("WORK", work).replace("LAYOUT", layout)


def rendered(work: str) -> tuple[str, dict[str, str]]:
    (cell,) = space(matrix(work)).cells()
    array = stack_scripts(cell.stack, ("/dev/a", "/dev/b"), zeroed=True)
    return job(cell, array.stack, 1), files_of(array, cell_scripts(cell, array.stack))


def test_positions_are_gone_over_once() -> None:
    text, files = rendered("rw: read, bs: 1MiB, profile: position")
    assert "runtime" not in text
    assert "write_lat_log=profile\nlog_offset=1\n" in text
    assert "zonemode" not in text
    assert f"window={11 * 2**20}" in files["profile.sh"]  # a hundredth of the disk in whole requests, rounded up


def test_each_place_is_measured_for_its_share() -> None:
    text, _ = rendered("rw: read, bs: 1MiB, profile: position, each: 4MiB")
    places = 2**30 // (11 * 2**20)
    assert f"zonesize={4 * 2**20}\nzonerange={11 * 2**20}\nio_size={places * 4 * 2**20}\n" in text


@pytest.mark.parametrize(("runtime", "milliseconds"), [("3s", 100), ("10s", 1000), (None, 1000)])
def test_time_is_averaged_over_a_second_or_a_tenth(runtime: str | None, milliseconds: int) -> None:
    text, files = rendered(f"rw: randrw, profile: time, {f'runtime: {runtime}' if runtime else 'size: 1GiB'}")
    assert f"write_bw_log=profile\nlog_avg_msec={milliseconds}\n" in text
    assert f"stretch={milliseconds}" in files["profile.sh"]


def test_without_a_profile_fio_writes_no_log() -> None:
    text, files = rendered("rw: read")
    assert "log" not in text
    assert "profile.sh" not in files


@pytest.mark.parametrize(
    ("work", "layout", "said"),
    [
        ("rw: randread, profile: position", "one: [disk]", "rw=randread is not"),
        ("rw: read, profile: position, numjobs: 2", "one: [disk]", "needs one job"),
        ("rw: read, profile: position, runtime: 5s", "one: [disk]", "ends after one pass over the device"),
        ("rw: read, profile: position, ramp: 5s", "one: [disk]", "ends after one pass over the device"),
        ("rw: read, profile: position, bs: 64KiB, each: 100KiB", "one: [disk]", "must be a multiple of bs (64KiB"),
        ("rw: read, profile: position", "two: [disks]", "needs one device; `pick` chooses one of several"),
        ("rw: read, profile: position, files: 3", "fs: [disk, fs: {type: ext4}]", "needs one file, and there are 3"),
        (
            "rw: read, profile: position, bs: 512B",
            "one: [disk]",
            "2,097,152 requests of 512B exceed the limit of the log",
        ),
        ("rw: read, profile: position, each: 2GiB", "one: [disk]", "more than the whole region of 1GiB"),
        ("rw: read, profile: position, each: 4KiB", "one: [disk]", "must be a multiple of bs (4KiB"),
        ("rw: read, each: 1MiB, runtime: 1s", "one: [disk]", "it applies to a profile over positions only"),
        ("rw: read, profile: speed", "one: [disk]", "not one of position or time"),
        (
            "rw: read, profile: time, fio: {log_avg_msec: 7}",
            "one: [disk]",
            "`log_avg_msec` is not allowed in the fio: map",
        ),
        (
            "rw: read, profile: position, fio: {log_offset: 0}",
            "one: [disk]",
            "matrix collects the results, logs with `profile:`",
        ),
        (
            "rw: read, profile: time, fio: {per_job_logs: 0}",
            "one: [disk]",
            "`per_job_logs` is not allowed in the fio: map",
        ),
        (
            "rw: read, bs: 4KiB, profile: position, each: 1MiB, fio: {zonesize: 64k}",
            "one: [disk]",
            "`zonesize` and `each:` both set places",
        ),
    ],
)
def test_workloads_without_a_course_are_refused(work: str, layout: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse("m.yaml", matrix(work, layout))
    assert said in error.value.details


@pytest.mark.parametrize("span", [4096, 2**20, 2**30, 10**12, 99 * 4096, 101 * 4096])
@pytest.mark.parametrize("each", [None, "8KiB", "64KiB"])
def test_places_are_limited_and_within_the_device(span: int, each: str | None) -> None:
    work = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "profile": "position", "each": each})
    window = work.window(span)
    assert window % 4096 == 0
    assert -(-span // window) <= POINTS
    if each and span >= window:
        assert (work.touched(span) // (work.each or 1)) * window <= span


def test_places_begin_where_work_does(tmp_path: Path) -> None:
    """The very script, on a log such as fio writes: time, value, direction, size, offset."""
    script = rendered("rw: read, bs: 1MiB, profile: position, offset: 100MiB")[1]["profile.sh"]
    window, begin = 10 * 2**20, 100 * 2**20
    assert f"window={window}" in script
    offsets = [begin, begin + 2**20, begin + window, begin + 3 * window + 5]
    lines = [f"{10 * (at + 1)}, 5000, 0, {2**20}, {offset}, 0\n" for at, offset in enumerate(offsets)]
    (tmp_path / "profile_lat.1.log").write_text("".join(lines))
    done = subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(tuple(map(int, line.split("\t"))) for line in done.stdout.splitlines()) == [
        (begin, 2 * 2**20, 10, 20),
        (begin + window, 2**20, 30, 30),
        (begin + 3 * window, 2**20, 40, 40),
    ]


def test_stretches_of_time_are_summed_over_jobs(tmp_path: Path) -> None:
    script = rendered("rw: read, profile: time, runtime: 2s, numjobs: 2")[1]["profile.sh"]
    for number in (1, 2):
        (tmp_path / f"profile_bw.{number}.log").write_text(f"{100 + number}, {number * 10}, 0, 0, 0\n200, 7, 1, 0, 0\n")
    done = subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == ["1\t0\t30", "2\t1\t14"]
