"""The open part of the fio map: what is accepted, what it costs at most, and what is refused with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.base.process import run
from matrix_runner.decide.costs import GRACE, deadline
from matrix_runner.decide.estimate import Pace, bytes_of, most_bytes_of
from matrix_runner.scripts.cell import Place, explain_missing_fio, find_rejected, workload_job
from matrix_runner.space.load import parse

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.space.space import Cell

START = "name: m\ndisks: {count: 2, size: 1GiB}\nlayouts: {raw: [disk], fs: [disk, fs: {type: ext4}]}\nworkloads:\n"
RAW = START.replace(", fs: [disk, fs: {type: ext4}]", "")
MIB = 2**20


def cell(work: str, start: str = RAW) -> Cell:
    return next(iter(parse("m.yaml", f"{start}  w: {{{work}}}\n").space.cells()))


def complaint(work: str, start: str = RAW) -> str:
    with pytest.raises(BadInput) as error:
        parse("m.yaml", f"{start}  w: {{{work}}}\n")
    return error.value.details


WRITES = "rw: randwrite, size: 64MiB"
TIMED = "rw: randread, runtime: 1s"
RING = f"{TIMED}, ioengine: io_uring"
#: Every option that issue 30 names, and the workload that it is for.
OPEN = [
    (TIMED, "bssplit: '4k/60:16k/40'"),
    (TIMED, "bssplit: '4k/10:64k/50:32k/40,8k'"),
    (TIMED, "bsrange: 4k-64k"),
    (TIMED, "blocksize_range: 4k-64k"),
    ("rw: randrw, runtime: 1s", "rwmixwrite: 30"),
    ("rw: rw, rwmixread: 70, runtime: 1s", "rwmixwrite: 30"),
    (TIMED, "rate: 10m"),
    (WRITES, "rate: 10m"),
    (WRITES, "rate_iops: 2000, rate_process: poisson"),
    (TIMED, "rate: 10m, rate_min: 1m, rate_cycle: 500"),
    (WRITES, "thinktime: 100us, thinktime_blocks: 4, thinktime_spin: 10us"),
    (WRITES, "thinktime: 1ms, thinktime_iotime: 1s"),
    ("rw: randread, size: 8MiB", "io_size: 64m"),
    ("rw: randread", "io_size: 10%"),
    ("rw: randread", "io_limit: 64m"),
    ("rw: read, size: 8MiB", "loops: 3"),
    (WRITES, "verify: crc32c"),
    ("rw: write", "verify: md5, verify_interval: 512, verify_fatal: 1"),
    ("rw: randwrite, runtime: 1s", "verify: crc32c, verify_backlog: 1024"),
    (f"{WRITES}, iodepth: 8", "verify: crc32c, norandommap: 1, serialize_overlap: 1"),
    (WRITES, "verify: crc32c, verify_backlog: 64, trim_percentage: 10, trim_verify_zero: 1"),
    (TIMED, "zonemode: strided, zonesize: 1m, zonerange: 4m, zoneskip: 4m"),
    (f"{TIMED}, iodepth: 32", "latency_target: 5ms, latency_window: 500ms, latency_percentile: 99.0"),
    (TIMED, "cmdprio_percentage: 10"),
    (TIMED, "cmdprio_bssplit: '4k/50'"),
    (WRITES, "dedupe_percentage: 30, dedupe_mode: working_set"),
    (WRITES, "buffer_compress_percentage: 50, refill_buffers: 1"),
    (TIMED, "norandommap: 1"),
    (TIMED, "random_distribution: 'zipf:1.2'"),
    (TIMED, "random_distribution: 'zoned:60/10:30/20:10/70'"),
    (TIMED, "percentile_list: '50:90:99.9'"),
    (RING, "sqthread_poll: 1"),
    (RING, "fixedbufs: 1"),
    (RING, "registerfiles: 1"),
    ("rw: trim, size: 64MiB", "norandommap: 0"),
    ("rw: randtrim, runtime: 1s", "norandommap: 1"),
]


@pytest.mark.skipif(bool(explain_missing_fio()), reason=explain_missing_fio())
def test_fio_accepts_every_open_option() -> None:
    works = [cell(f"{work}, fio: {{{options}}}").workload for work, options in OPEN]
    place = Place(("/dev/null",))
    assert find_rejected({str(at): workload_job(work, place, 1) for at, work in enumerate(works)}) == {}


@pytest.mark.parametrize(
    ("work", "moved", "written"),
    [
        ("rw: write, size: 64MiB", 64, 64),
        ("rw: write, size: 64MiB, numjobs: 2, fio: {loops: 3}", 384, 384),
        ("rw: write, size: 8MiB, fio: {io_size: 64m}", 64, 64),
        ("rw: write, fio: {io_size: 10%}", 102.4, 102.4),
        ("rw: write, fio: {loops: 2}", 2048, 2048),
        ("rw: write, size: 64MiB, fio: {verify: crc32c}", 128, 64),
        ("rw: write, size: 64MiB, fio: {verify: 'none'}", 64, 64),
        ("rw: write, size: 64MiB, fio: {number_ios: 16, bssplit: '4k/50:1m/50'}", 16, 16),
        ("rw: rw, size: 64MiB, fio: {rwmixwrite: 25}", 64, 16),
        ("rw: read, size: 64MiB, fio: {loops: 2}", 128, 0),
        ("rw: trim, size: 64MiB", 64, 0),
        ("rw: write, runtime: 1s, fio: {rate: 1m}", 0, 0),
    ],
)
def test_bytes_of_a_trial_hold_with_the_options(work: str, moved: float, written: float) -> None:
    found = cell(work)
    assert found.workload.value.load(found.span).moved == int(moved * MIB)
    assert found.workload.value.load(found.span).written == pytest.approx(written * MIB, abs=1)
    if moved:
        assert (
            most_bytes_of(found, Pace())
            == bytes_of(found, Pace())
            == int(found.workload.value.load(found.span).written)
        )


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ("rate: 1m", 64),
        ("rate: '4m,1m'", 64),
        ("rate_iops: 256", 64),
        ("rate_iops: 256, rate: 512k", 128),
        ("rate: 1m, loops: 2", 128),
        ("rate: 1m, io_size: 16m", 16),
        ("thinktime: 1ms", 16.384),
        ("thinktime: 1000, thinktime_blocks: 4", 4.096),
        ("startdelay: 5s", 5),
        ("bssplit: '4k/50:64k/50', thinktime: 1ms", 16.384),
    ],
)
def test_a_deadline_has_the_time_that_fio_waits(options: str, seconds: float) -> None:
    found = cell(f"rw: write, size: 64MiB, fio: {{{options}}}")
    work = found.workload.value
    assert work.load(found.span).timed == pytest.approx(seconds)
    assert deadline(work, found.span) > seconds + GRACE


def test_the_largest_request_decides_about_time_and_the_smallest_about_their_number() -> None:
    work = cell("rw: read, size: 64MiB, fio: {bsrange: 4k-1m}").workload.value
    assert work.sizes == (4096, MIB)
    assert work.load(64 * MIB).requests == 64 * MIB / 4096


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("rw: read, runtime: 1s, fio: {loops: 2}", "`loops` has no effect with `runtime:`"),
        ("rw: read, runtime: 1s, fio: {io_limit: 1g}", "`io_limit` has no effect with `runtime:`"),
        ("rw: read, size: 1GiB, fio: {rate: 1k}", "with `rate`, 1GiB take 291 hours"),
        ("rw: read, fio: {loops: 1, thinktime: 1s}", "with `thinktime`, 1GiB take 73 hours"),
        ("rw: read, fio: {loops: 10000000}", "one trial would move more than 1PiB; write less, or `runtime:`"),
        ("rw: read, bs: 8KiB, fio: {bssplit: 4k/50}", "`bs:` and `bssplit` both set the size of requests"),
        ("rw: read, fio: {bsrange: 4k-8k, bssplit: 4k/50}", "`bssplit` and `bsrange` both set the size of requests"),
        ("rw: read, fio: {bssplit: 4x/50}", "how much bssplit=4x/50 is, only fio knows; write a plain value"),
        ("rw: write, fio: {rwmixwrite: 50}", "rw=write does not mix reads and writes"),
        ("rw: rw, rwmixread: 70, fio: {rwmixwrite: 50}", "`rwmixread:` is 70, and both do not add up to 100"),
        ("rw: read, profile: position, fio: {loops: 2}", "a profile over positions is one pass"),
        ("rw: trim, profile: time", "a profile has reads and writes only"),
        ("rw: read, fio: {verify: md5}", "rw=read reads what earlier trials left"),
        ("rw: randrw, fio: {verify: md5}", "would be one figure; that makes the figures meaningless"),
        ("rw: trim, fio: {verify: md5}", "trims have no data"),
        ("rw: write, runtime: 1s, fio: {verify: md5}", "with `runtime:`, fio never begins to verify"),
        ("rw: write, fio: {verify: md5, do_verify: 0}", "nothing would be verified"),
        ("rw: write, numjobs: 2, fio: {verify: md5}", "jobs would overwrite each other's data"),
        ("rw: randwrite, iodepth: 2, fio: {verify: md5, norandommap: 1}", "add `serialize_overlap: 1`"),
        ("rw: randwrite, iodepth: 2, fio: {verify: md5, random_distribution: 'zipf:1'}", "`serialize_overlap: 1`"),
    ],
)
def test_impossible_options_are_refused_with_a_remedy(work: str, said: str) -> None:
    assert said in complaint(work)


def test_jobs_on_files_of_their_own_may_verify() -> None:
    work = "rw: write, size: 8MiB, numjobs: 2, fio: {verify: md5}"
    files = RAW.replace("[disk]", "[disk, fs: {type: ext4}]")
    assert not cell(work, files).workload.value.has_whole_runtime
    assert "jobs would overwrite each other's data" in complaint(f"{work}, shared: true", files)


def test_trims_need_a_device() -> None:
    assert "fio cannot trim files; use a layout without a file system" in complaint("rw: trim, size: 8MiB", START)


@pytest.mark.skipif(bool(explain_missing_fio()), reason=explain_missing_fio())
@pytest.mark.parametrize(
    "work",
    [
        "rw: write, size: 4MiB, numjobs: 2, fio: {loops: 3}",
        "rw: randread, size: 1MiB, fio: {io_size: 4m}",
        "rw: randread, size: 4MiB, fio: {io_size: 1m}",
        "rw: read, size: 4MiB, fio: {io_size: 50%}",
        "rw: randwrite, size: 2MiB, fio: {verify: crc32c}",
        "rw: write, size: 1MiB, fio: {verify: crc32c, loops: 2}",
        "rw: randwrite, size: 4MiB, fio: {bssplit: '4k/50:64k/50'}",
        "rw: write, size: 4MiB, fio: {number_ios: 16, bs_unaligned: 0, bsrange: 4k-64k}",
        "rw: randrw, size: 4MiB, fio: {rwmixwrite: 25}",
        "rw: randwrite, size: 1MiB, iodepth: 8, fio: {verify: crc32c, norandommap: 1, serialize_overlap: 1}",
        "rw: write, size: 1MiB, fio: {verify: crc32c, verify_backlog: 16}",
        "rw: write, size: 1MiB, skip: 4KiB",
    ],
)
def test_fio_moves_as_many_bytes_as_estimated_at_most(work: str, tmp_path: Path) -> None:
    found = cell(f"{work}, direct: false")
    (tmp_path / "disk").write_bytes(bytes(4 * MIB))
    text = workload_job(found.workload, Place((str(tmp_path / "disk"),)), 1)
    done = run(["fio", "--output-format=json", f"--aux-path={tmp_path}", "-"], stdin=text)
    assert done.returncode == 0, done.stderr
    jobs = orjson.loads(done.stdout)["jobs"]
    read, written = (sum(job[side]["io_bytes"] for job in jobs) for side in ("read", "write"))
    bound = found.workload.value.load(found.span)
    assert 0.5 * bound.moved < read + written <= bound.moved
    assert written <= bound.written * (1.2 if "rwmix" in work else 1)
