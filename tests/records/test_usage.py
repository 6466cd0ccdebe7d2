"""Samples of a trial as courses over time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.records.record import Reading
from matrix_runner.records.usage import OF_FIO, SAMPLES, SIMULATED, Usage, usage

if TYPE_CHECKING:
    from collections.abc import Sequence

READINGS = (
    Reading("disk0.node", None, "vdb"),
    Reading("disk1.node", None, "vdc"),
    Reading("md.node", None, "md0"),
    Reading("disk0.rotational", None, "1"),
)


def disk(name: str, read: float, written: float, busy: float) -> dict[str, Any]:
    return {"disk-device": name, "rkB": read, "wkB": written, "util-percent": busy}


def sample(seconds: float, *disks: dict[str, Any], waiting: float = 0.0) -> dict[str, Any]:
    shares = {"usr": 1.0, "nice": 1.0, "sys": 2.0, "irq": 1.0, "soft": 1.0, "iowait": waiting, "idle": 94.0 - waiting}
    one = {"cpu": "0", **dict.fromkeys(shares, 100.0)}
    return {"timestamp": {"interval": seconds}, "cpu-load": [one, {"cpu": "all", **shares}], "disk": list(disks)}


def sysstat(*samples: dict[str, Any]) -> str:
    return json.dumps({"sysstat": {"hosts": [{"statistics": samples}]}})


TWO = sysstat(
    sample(1, disk("vda", 9, 9, 9), disk("vdb", 1000, 0, 50), disk("vdc", 0, 500, 101), disk("md0", 1, 1, 1), waiting=40),
    sample(1, disk("vdb", 2000, 1000, 100), disk("md0", 1, 1, 1), waiting=20),
)  # fmt: skip


def test_samples_of_sysstat_are_courses_of_the_disks_of_the_stack() -> None:
    found = usage({SAMPLES: TWO}, READINGS)
    assert found.rates == {"disk0": ((1.0, 1_024_000.0), (2.0, 3_072_000.0)), "disk1": ((1.0, 512_000.0),)}
    assert found.busy == {"disk0": ((1.0, 0.5), (2.0, 1.0)), "disk1": ((1.0, 1.0),)}
    assert found.processors == {
        "iowait": ((1.0, 0.4), (2.0, 0.2)),
        "kernel": ((1.0, 0.04), (2.0, 0.04)),
        "programs": ((1.0, 0.02), (2.0, 0.02)),
    }


def asked(name: str, requests: float, milliseconds: float) -> dict[str, Any]:
    return {**disk(name, 100, 0, 50), "tps": requests, "await": milliseconds}


def test_latencies_are_of_each_disk_and_of_the_device_on_top_while_there_are_requests() -> None:
    text = sysstat(
        sample(1, asked("vda", 9, 900), asked("vdb", 10, 2), asked("vdc", 0, 0), asked("md0", 12, 5)),
        sample(1, asked("vdb", 10, 4), asked("vdc", 10, 1), asked("md0", 0, 0)),
    )
    assert usage({SAMPLES: text}, READINGS).latencies == {
        "stack": ((1.0, 5e6),),
        "disk0": ((1.0, 2e6), (2.0, 4e6)),
        "disk1": ((2.0, 1e6),),
    }
    slow = usage({SAMPLES: text.replace('"interval": 1', '"interval": 4')}, READINGS, slow=4)
    assert slow.latencies["disk0"] == ((1.0, 0.5e6), (2.0, 1e6))
    assert not usage({SAMPLES: TWO}, READINGS).latencies  # of a version without them


def test_several_devices_on_top_count_by_their_requests() -> None:
    readings = [
        Reading(f"{name}.node", None, node)
        for name, node in (("md", "md0"), ("lvm[0]", "dm-0"), ("lvm[1]", "dm-1"), ("disk0", "vdb"))
    ]
    text = sysstat(sample(1, asked("vdb", 1, 1), asked("md0", 1, 99), asked("dm-0", 30, 10), asked("dm-1", 10, 2)))
    assert usage({SAMPLES: text}, readings).latencies["stack"] == ((1.0, 8e6),)
    (bare,) = usage({SAMPLES: text}, readings[-1:]).latencies
    assert bare == "disk0"


def test_time_before_the_first_request_is_left_out() -> None:
    text = sysstat(sample(3, disk("vdb", 0, 0, 0), waiting=9), sample(1, disk("vdb", 100, 0, 50), waiting=40))
    found = usage({SAMPLES: text}, READINGS)
    assert found.rates == {"disk0": ((1.0, 102_400.0),)}
    assert found.processors["iowait"] == ((1.0, 0.4),)


def test_slow_motion_does_not_change_the_figures() -> None:
    slow = TWO.replace('"interval": 1', '"interval": 4').replace("1000", "250").replace("2000", "500")
    found, plain = usage({SAMPLES: slow.replace("500, 101", "125")}, READINGS, slow=4), usage({SAMPLES: TWO}, READINGS)
    assert found.processors == plain.processors
    assert found.rates["disk0"] == plain.rates["disk0"]


ROWS = """seconds,disk,read_bytes,written_bytes,busy
0.5,0,0,0,0
0.5,1,0,0,0
0.5,2,0,0,0
1.0,0,1000,500,0.25
1.0,1,0,0,0
1.0,2,0,0,0
1.5,0,0,0,0
1.5,1,2000,0,0.6
1.5,2,0,0,0
"""


def test_simulated_disks_that_were_used_have_samples_of_their_own_from_the_first_request() -> None:
    found = usage({SAMPLES: TWO, SIMULATED: ROWS}, READINGS)
    assert found.rates == {"disk0": ((0.5, 3000.0), (1.0, 0.0)), "disk1": ((0.5, 0.0), (1.0, 4000.0))}
    assert found.busy == {"disk0": ((0.5, 0.5), (1.0, 0.0)), "disk1": ((0.5, 0.0), (1.0, 1.0))}
    assert "iowait" in found.processors


def simulated(*moved: int) -> str:
    rows = [f"{at}.0,0,{count},0,0.5" for at, count in enumerate(moved, start=1)]
    return "\n".join(["seconds,disk,read_bytes,written_bytes,busy", *rows, ""])


@pytest.mark.parametrize(
    ("moved", "runtime", "rates"),
    [
        ((0, 4, 2, 0, 0, 500, 900, 900), 3, (500, 900, 900)),
        ((4, 0, 0, 500, 900, 900), 5, (0, 0, 500, 900, 900)),  # work that reads from a cache has idle disks
        ((4, 500, 900, 900), 4, (4, 500, 900, 900)),
        ((0, 0, 500, 900, 900), 5, (500, 900, 900)),  # without requests, the work has not begun
        ((100, 0, 500, 900, 900), 3, (100, 0, 500, 900, 900)),  # too many requests for a set-up
    ],
)
def test_a_course_begins_with_the_work_and_not_with_requests_of_the_set_up(
    moved: Sequence[int], runtime: float, rates: Sequence[float]
) -> None:
    found = usage({SIMULATED: simulated(*moved)}, READINGS, runtime=runtime).rates["disk0"]
    assert found == tuple((float(at), float(rate)) for at, rate in enumerate(rates, start=1))


def test_a_last_sample_that_was_cut_short_is_left_out() -> None:
    """It looks like a busy disk that does nothing, because its array marks itself as clean."""
    end = "1.6,0,0,512,0.12\n1.6,1,0,512,0.12\n1.6,2,0,0,0\n"
    assert usage({SIMULATED: ROWS + end}, READINGS) == usage({SIMULATED: ROWS}, READINGS)
    whole = usage({SIMULATED: ROWS + end.replace("1.6", "1.99")}, READINGS)
    assert [len(course) for course in (*whole.rates.values(), *whole.busy.values())] == [3] * 4
    text = sysstat(*(sample(length, disk("vdb", 100, 0, 50)) for length in (1, 1, 0.2)))
    assert [at for at, _ in usage({SAMPLES: text}, READINGS).busy["disk0"]] == [1.0, 2.0]
    late = sysstat(*(sample(length, disk("vdb", 100, 0, 50)) for length in (1, 1, 1, 2, 1)))  # of a busy host
    assert [at for at, _ in usage({SAMPLES: late}, READINGS).busy["disk0"]] == [1.0, 2.0, 3.0, 5.0, 6.0]


def test_the_file_with_the_rates_is_known() -> None:
    assert usage({SIMULATED: ROWS, SAMPLES: TWO}, READINGS).source == SIMULATED
    assert usage({SAMPLES: TWO}, READINGS).source == SAMPLES


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (SAMPLES, ""),
        (SAMPLES, TWO[:-3]),
        (SAMPLES, "[]"),
        (SAMPLES, sysstat()),
        (SAMPLES, TWO.replace("2000", "NaN")),
        (SAMPLES, TWO.replace('"all"', '"-"')),
        (SIMULATED, "seconds,disk\n1,0\n"),
        (SIMULATED, ROWS.replace("0.25", "-1")),
        (SIMULATED, ROWS.replace("1000", "many")),
    ],
)
def test_spoilt_samples_are_left_out(name: str, text: str) -> None:
    assert usage({name: text}, READINGS) == Usage()


@given(
    st.text(),
    st.recursive(st.none() | st.floats() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)),
)
def test_no_text_is_an_error(rows: str, value: object) -> None:
    usage({SAMPLES: json.dumps(value), SIMULATED: rows}, READINGS)
    usage({SAMPLES: json.dumps({"sysstat": {"hosts": [{"statistics": [value]}]}})}, READINGS)
    for job in (value, {"job options": value, "job_start": 1}, {"job options": {}, "job_start": value}):
        for whole in (value, {"jobs": [job], "timestamp_ms": 2, "global options": value}):
            usage({SIMULATED: ROWS, OF_FIO: json.dumps(whole, indent=1)}, READINGS)


def test_the_files_that_fio_writes_first_are_left_out() -> None:
    moved = simulated(9, 9, 9, 9, 0, 1, 2, 3)
    whole = usage({SIMULATED: moved}, READINGS, runtime=2.0)
    assert [rate for _, rate in whole.rates["disk0"]] == [9, 9, 9, 9, 0, 1, 2, 3]
    assert not whole.has_files

    def after_files(ended: int, *began: int | None, slow: int = 1, direct: str = "1") -> Usage:
        jobs = [{"job options": {"direct": direct}} | ({"job_start": at} if at is not None else {}) for at in began]
        text = json.dumps({"timestamp_ms": ended, "global options": {}, "jobs": jobs}, indent=1)
        return usage({SIMULATED: moved, OF_FIO: f"fio: note\n{text}"}, READINGS, slow, runtime=2.0)

    found = after_files(12_000, 9_700, 9_600)
    assert found.rates["disk0"] == ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))
    assert [at for at, _ in found.busy["disk0"]] == [1.0, 2.0, 3.0]
    assert not found.has_files
    assert after_files(24_000, 14_400, slow=4) == found, "the clock of slow disks is slow, that of fio is not"
    assert after_files(90_000, 0).rates == whole.rates
    old, buffered = after_files(12_000, None), after_files(12_000, 9_700, direct="0")
    clock_set_back = after_files(9_000, 9_700)
    assert old == buffered == clock_set_back == replace(whole, has_files=True)
