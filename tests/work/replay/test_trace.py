"""Traces of I/O: iologs of fio and files of blktrace, and what is refused."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from matrix_runner.work.replay.trace import BadTraceError, Trace, parse_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

V2, V3 = "fio version 2 iolog\n", "fio version 3 iolog\n"
_QUEUE, _COMPLETE = 1, 8
_READ, _WRITE, _FLUSH, _NOTE, _DISCARD = 1 << 0, 1 << 1, 1 << 2, 1 << 10, 1 << 13


def found(content: str | bytes) -> list[tuple[int, int, int, int]]:
    trace = parsed(content)
    return list(zip(trace.times, trace.actions, trace.offsets, trace.sizes, strict=True))


def parsed(content: str | bytes) -> Trace:
    return parse_trace("web.log", content.encode() if isinstance(content, str) else content)


def record(time: int, kind: int, sector: int, size: int, *, action: int = _QUEUE, more: int = 0) -> bytes:
    whole = (0x65617407, 1, time, sector, size, action | kind << 16, 7, 8 << 20, 0, 0, more)
    return struct.pack("<IIQQIIIIIHH", *whole) + bytes(more)


def test_version_3_has_microseconds_in_each_line() -> None:
    text = f"{V3}0 /dev/a add\n0 /dev/a open\n100 /dev/a read 4096 512\n350 /dev/a write 0 8192\n400 /dev/a sync 0 0\n"
    assert found(f"{text}500 /dev/a close\n") == [(0, 0, 4096, 512), (250, 1, 0, 8192), (300, 2, 0, 0)]


def test_version_2_waits_for_milliseconds_since_the_start_of_fio() -> None:
    text = f"{V2}f add\nf open\nf wait 100 0\nf read 0 512\nf datasync 0 0\nf wait 130 0\nf write 512 512\nf close\n"
    assert found(text) == [(0, 0, 0, 512), (0, 3, 0, 0), (30_000, 1, 512, 512)]


def test_requests_of_several_jobs_are_put_in_order() -> None:
    assert [one[0] for one in found(f"{V3}20 f read 0 512\n10 f read 512 512\n")] == [0, 10]


def test_several_files_follow_each_other() -> None:
    trace = parsed(f"{V3}1 a read 0 512\n2 b read 512 512\n3 a read 1048576 512\n")
    assert list(trace.offsets) == [0, 2 * 2**20 + 512, 2**20]


def test_trims_are_left_out_and_counted() -> None:
    assert parsed(f"{V3}1 f trim 0 512\n2 f read 0 512\n3 f read 0 512\n").left_out == 1


def test_blktrace_counts_requests_at_their_arrival() -> None:
    content = b"".join(
        (
            record(0, _NOTE, 0, 0, action=0, more=16),
            record(9_000_000, _WRITE, 8, 4096, more=4),
            record(2_000_000, _READ, 16, 512),
            record(2_500_000, _READ, 16, 512, action=_COMPLETE),
            record(9_500_000, _WRITE | _FLUSH, 0, 0),
            record(9_600_000, _WRITE | _DISCARD, 0, 65536),
        )
    )
    assert found(content) == [(0, 0, 8192, 512), (7000, 1, 4096, 4096), (7500, 2, 0, 0)]
    assert parsed(content).left_out == 1


def test_two_traces_are_equal_if_their_requests_are() -> None:
    one = parsed(f"{V3}5 a read 0 512\n6 a write 0 512\n")
    assert one == parsed(f"{V3}7 b open\n7 b read 0 512\n8 b write 0 512\n")
    assert one != parsed(f"{V3}5 a read 0 512\n7 a write 0 512\n")


def test_the_record_of_a_run_has_a_short_trace_with_the_digest() -> None:
    whole = parsed(f"{V3}5 a sync 0 0\n6 a read 0 512\n" + "7 a write 0 512\n" * 100)
    assert whole.digest in whole.summary
    assert found(whole.summary) == [(0, 2, 0, 0), (1, 0, 0, 512), (2, 1, 0, 512)]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "neither an iolog of fio"),
        ("fio version 1 iolog\n0,1,2\n", 1, "which begins with `fio version 3 iolog` (or 2)"),
        (V3, 0, "has no reads or writes"),
        (f"{V3}1 f sync 0 0\n2 f sync 0 0\n", 0, "has no reads or writes"),
        (f"{V3}x f read 0 512\n", 2, "'x' is not a time in microseconds"),
        (f"{V3}1 f read -1 512\n", 2, "'-1' is not an offset in bytes"),
        (f"{V3}1 f read 0 512 9\n", 2, "a file, an action, an offset and a length"),
        (f"{V3}1 f erase 0 512\n", 2, "'erase' is not an action; known are read, write, sync, datasync and trim"),
        (f"{V3}1 f wait 10 0\n", 2, "'wait' is not an action"),
        (f"{V3}1 f read 0 512\n2 f write 0 0\n", 3, "a length of 0 bytes; possible are 1 byte to 16MiB"),
        (f"{V3}1 f read 0 16777217\n", 2, "a length of 16777217 bytes"),
        (f"{V3}1 f read 9000000000000000000000 1\n", 2, "is not an offset in bytes"),
        (f"{V3}1 f read 900000000000000000 1\n2 f read 5000000000000000000 1\n", 3, "is not an offset"),
        (f"{V2}f wait 9 0\nf read 0 512\nf wait 8 0\n", 4, "wait 8 after wait 9: fio counts milliseconds"),
        (f"{V2}f read 0 512\nf read 512 512\n", 0, "the trace has no times"),
        (f"{V3}1 f read 0 \u0661\n", 2, "is not a length"),
    ],
)
def test_invalid_traces_are_refused_with_their_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadTraceError) as refused:
        parsed(text)
    assert words in refused.value.message
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([record(0, _READ, 8, 512)[:-1]], "the file ends within the record at byte 0"),
        ([record(0, _READ, 8, 512), b"x" * 48], "no record of blktrace begins at byte 48"),
        ([b"\x06tae" + bytes(44)], "no record of blktrace begins at byte 0; only its version 7"),
        ([record(0, _READ, 8, 17 << 20)], "in the record at byte 0: a length of 17825792 bytes"),
        ([record(0, _READ, 2**62, 512)], "in the record at byte 0: no disk has such an offset"),
        ([record(0, _READ, 8, 512, action=_COMPLETE)], "has no reads or writes"),
    ],
)
def test_values_that_blktrace_never_writes_are_refused(records: Sequence[bytes], words: str) -> None:
    with pytest.raises(BadTraceError, match=words):
        parsed(b"".join(records))
