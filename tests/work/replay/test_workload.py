"""Workloads that replay a trace: their cells, what is refused, and what they move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.decide.costs import COSTS, GRACE, deadline, expected
from matrix_runner.decide.estimate import Pace, bytes_of, most_bytes_of, seconds_of
from matrix_runner.work.replay.workload import MOST_REQUESTS, ReplayWorkload
from tests.support.traces import STEADY, declared, iolog

if TYPE_CHECKING:
    from matrix_runner.space.space import Cell

FILES = "f: [disk, fs: {type: ext4}]"


def cells(work: str = "replay: web.log", trace: str | bytes = STEADY, layouts: str = "raw: [disk]") -> list[Cell]:
    return list(declared(work, trace, layouts).space.cells())


def test_speed_and_other_keys_are_axes() -> None:
    found = cells("replay: web.log, speed: [1, 2.5], iodepth: [4, 8], size: 128MiB, direct: false")
    assert [cell.name for cell in found][:2] == ["raw/web/iodepth=4,speed=1", "raw/web/iodepth=8,speed=1"]
    assert len({cell.id for cell in found}) == 4
    assert found[-1].axes == {
        "layout": "raw",
        "workload": "web",
        "workload.replay": "web.log",
        "workload.speed": "2.5",
        "workload.iodepth": "8",
        "workload.size": "128MiB",
        "workload.direct": "false",
    }
    assert not found[-1].work.direct


def test_the_id_of_a_cell_follows_the_requests_not_the_name() -> None:
    (one,) = cells()
    (same,) = cells(trace=STEADY.replace("/dev/sdz", "/dev/sdy"))
    (other,) = cells(trace=STEADY.replace(" 4096\n", " 8192\n"))
    assert one.id == same.id != other.id
    matrices = [declared(trace=STEADY.replace(*words)).space.matrix for words in (("", ""), (" 4096\n", " 8192\n"))]
    assert len({str(matrix.model_dump(mode="json")) for matrix in matrices}) == 2  # a run is not continued with another


def test_the_record_of_a_run_does_not_hold_the_trace() -> None:
    used = declared(trace=STEADY).source.used["dir/web.log"]
    assert len(used) < 300
    assert declared(trace=used).space.count() == 1


def test_trims_are_noted() -> None:
    space = declared(trace=f"{STEADY}2000000 /dev/sdz trim 0 4096\n").space
    assert space.notes == ("workload web: a replay leaves out the 1 trims of web.log",)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("replay: none.log", "5:17: there is no file dir/none.log; paths are relative"),
        ("replay: 5", "write the path of a trace"),
        ("replay: web.log, rw: read", "5:30: the trace of `replay` says what runs; remove `rw`"),
        ("replay: web.log, fio: {rate: 1m}", "says what runs; remove `fio.rate`"),
        ("replay: web.log, sync_action: check", "says what runs; remove `sync_action`"),
        ("rw: read, speed: 2", "5:26: 'speed' has no effect without `replay`"),
        ("replay: web.log, speed: 0", "speed"),
        ("replay: web.log, size: 1GiB", "1GiB are needed, and there are at most 256MiB"),
        ("replay: web.log, size: 2048B", "2KiB are less than one request of 4KiB"),
        ("replay: web.log, find: {max: iops, while: read.p99 < 5ms}", "write `find` in a workload with `rw`"),
    ],
)
def test_traces_that_cannot_be_replayed_are_refused(work: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        declared(work, layouts="raw: [disk]", trace=STEADY)
    assert why in refused.value.details


def test_errors_of_a_trace_show_its_line() -> None:
    with pytest.raises(BadInput) as refused:
        declared(trace=f"{STEADY}1000000 /dev/sdz erase 0 4096\n")
    assert "dir/web.log:105:1: 'erase' is not an action" in refused.value.details
    assert "    1000000 /dev/sdz erase 0 4096\n    ^" in refused.value.details
    with pytest.raises(BadInput, match="1 error") as refused:
        declared(trace="fio version 3 iolog\n")
    assert "5:17: dir/web.log: the trace has no reads or writes" in refused.value.details


def test_a_replay_needs_one_device() -> None:
    with pytest.raises(BadInput) as refused:
        declared(layouts="two: [lvm: {volumes: 2}]")
    assert "a replay needs one device; `pick` chooses one of several" in refused.value.details


def test_a_part_without_a_request_and_one_with_too_many_are_refused() -> None:
    with pytest.raises(BadInput) as refused:
        declared("replay: web.log, runtime: 1ms", iolog([(0, "sync", 0, 0), (9000, "read", 0, 512)]))
    assert "5:35: no read or write of the trace begins in this time" in refused.value.details
    long = "fio version 3 iolog\n" + "".join(f"{at} f read 0 512\n" for at in range(MOST_REQUESTS + 1))
    with pytest.raises(BadInput) as refused:
        declared(trace=long)
    assert "250,001 requests; at most 250,000 are possible; write `runtime`" in refused.value.details
    (cell,) = cells("replay: web.log, runtime: 10ms", long)
    assert cell.work.load(0).requests == 10_000


def test_the_length_of_the_trace_is_the_time_of_a_trial() -> None:
    (slow, fast), pace = cells("replay: web.log, speed: [0.5, 2]"), Pace(COSTS["native"])
    assert [expected(one.work) for one in (slow, fast)] == [2.0, 0.5]
    assert seconds_of(slow, pace) - seconds_of(fast, pace) == pytest.approx(1.5)
    assert isinstance(slow.work, ReplayWorkload)
    assert deadline(slow.work, slow.span) > GRACE + 2 + slow.work.lead
    (cut,) = cells("replay: web.log, runtime: 300ms, speed: 2")
    assert cut.work.load(0).requests == 60
    assert expected(cut.work) == 0.295
    (whole,) = cells("replay: web.log, runtime: 1h")
    assert expected(whole.work) == 1.0


def test_writes_of_a_replay_are_known() -> None:
    (cell,), pace = cells(), Pace(COSTS["native"])
    assert bytes_of(cell, pace) == most_bytes_of(cell, pace) == 33 * 4096
    assert cell.work.write_share == pytest.approx(33 / 101)
    assert cell.work.sizes == (4096, 4096)


def test_in_a_file_system_there_is_one_file() -> None:
    (cell,) = cells("replay: web.log, size: 64MiB", layouts=FILES)
    assert cell.files
    assert (cell.files.total, cell.files.count, cell.span) == (64 * 2**20, 1, 64 * 2**20)
    with pytest.raises(BadInput) as refused:
        declared("replay: web.log, size: 2GiB", layouts=FILES)
    assert "it would take 2048MiB" in refused.value.details
