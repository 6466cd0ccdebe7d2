from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.fio_import import find_last_json
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.statistics.percentile import Distribution, Histogram, needs
from matrix_runner.work.fio.output import FioFailed, figures_of, merge_histograms, missed_steady_states, parse
from matrix_runner.work.metrics import PERCENTILES
from matrix_runner.work.pts.output import documents
from tests.support.fio import DATA, NEWER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUPED = (DATA / "fio-psync-grouped.json").read_text()
SEVERAL = (DATA / "fio-libaio-jobs.json").read_text()

histograms = st.dictionaries(st.integers(1, 10**9), st.integers(1, 1000), min_size=1, max_size=30)


def read_off(printed: Iterable[Mapping[str, int]]) -> Distribution:
    return Histogram.of(merge_histograms(printed)).unpack()


def document(text: str = GROUPED) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(text)
    return loaded


def dumped(changed: dict[str, Any]) -> str:
    return orjson.dumps(changed, option=orjson.OPT_INDENT_2).decode()


def test_a_group_of_jobs_is_read_as_fio_reports_it() -> None:
    figures, job = parse(GROUPED), document()["jobs"][0]
    assert figures.read is not None
    assert figures.write is not None
    assert figures.read.bw == job["read"]["bw_bytes"]
    assert figures.read.iops == job["read"]["iops"]
    assert figures.read.bytes == job["read"]["io_bytes"]
    assert figures.read.ios == job["read"]["total_ios"]
    assert figures.read.lat_mean == pytest.approx(job["read"]["lat_ns"]["mean"])
    assert figures.write.lat_max == job["write"]["lat_ns"]["max"]
    assert figures.runtime == max(job["read"]["runtime"], job["write"]["runtime"]) / 1000
    assert figures.cpu_usr == pytest.approx(job["usr_cpu"])
    assert figures.errors == 0


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85"])
def test_a_text_with_a_line_separator_is_read(inside: str) -> None:
    """fio prints it unescaped."""
    changed = document()
    changed["jobs"][0]["job options"]["description"] = f"a{inside}}}{inside}{{b"
    text = f"note\n{dumped(changed)}\n"
    assert inside in text
    assert parse(text) == parse(GROUPED)
    assert find_last_json((text + text).encode(), "", "f") == changed
    assert list(documents(text)) == [changed]


def test_requests_under_way_at_the_end_of_a_ramp_count_with_their_bytes_and_times() -> None:
    """fio counted them before, and forgot that when the ramp was over."""
    changed = document(NEWER)
    write = changed["jobs"][0]["write"]
    all_of_them, rate = write["total_ios"], write["iops"]
    assert write["lat_ns"]["N"] == all_of_them
    write["total_ios"], write["iops"] = all_of_them // 2, rate * (all_of_them // 2) / all_of_them
    half = parse(dumped(changed)).write
    assert half is not None
    assert half.ios == all_of_them
    assert half.iops == pytest.approx(rate)
    write["total_ios"], write["iops"] = 0, 0.0
    none = parse(dumped(changed)).write
    assert none is not None
    assert none.ios == all_of_them
    assert none.iops == pytest.approx(rate, rel=1e-3)
    write["runtime"] = 0
    none = parse(dumped(changed)).write
    assert none is not None
    assert none.iops == 0, "fio tells none either"


@pytest.mark.parametrize("text", [GROUPED, SEVERAL, NEWER], ids=["3.33 psync", "3.33 libaio", "3.39 libaio"])
def test_percentiles_are_those_that_fio_prints(text: str) -> None:
    compared = 0
    for job in document(text)["jobs"]:
        for side in ("read", "write"):
            latency = job[side]["lat_ns"]
            whole = read_off([latency.get("bins", {})])
            for percent, value in latency.get("percentile", {}).items():
                assert whole.at(float(percent) / 100) == value, (side, percent)
                compared += 1
    assert compared >= 17


def test_a_newer_fio_is_read_too() -> None:
    figures, write = parse(NEWER), document(NEWER)["jobs"][0]["write"]
    assert figures.read is None
    assert figures.write is not None
    assert (figures.write.bw, figures.write.ios) == (write["bw_bytes"], write["total_ios"])
    latency = write["lat_ns"]
    assert figures.write.lat_p50 == latency["percentile"]["50.000000"]
    assert figures.write.lat_max == latency["max"]


def test_several_jobs_are_summed_and_their_histograms_merged() -> None:
    figures, jobs = parse(SEVERAL), document(SEVERAL)["jobs"]
    reads = [job["read"] for job in jobs if job["read"]["total_ios"]]
    assert len(reads) == 2
    assert figures.read is not None
    assert figures.read.bw == sum(read["bw_bytes"] for read in reads)
    assert figures.read.iops == pytest.approx(sum(read["iops"] for read in reads))
    assert figures.read.ios == sum(read["total_ios"] for read in reads)
    assert figures.read.lat_max == max(read["lat_ns"]["max"] for read in reads)
    total = sum(read["lat_ns"]["mean"] * read["total_ios"] for read in reads)
    assert figures.read.lat_mean == pytest.approx(total / figures.read.ios)
    whole = read_off(read["lat_ns"]["bins"] for read in reads)
    assert figures.read.lat_p50 == whole.at(0.5)
    assert figures.read.lat_p99 == min(whole.at(0.99), figures.read.lat_max or 0.0)
    assert figures.read.latencies is not None
    assert figures.read.latencies.unpack() == whole
    assert whole.total == figures.read.ios


@pytest.mark.parametrize("text", [GROUPED, SEVERAL, NEWER], ids=["3.33 psync", "3.33 libaio", "3.39 libaio"])
def test_no_latency_is_above_the_longest(text: str) -> None:
    """The middle of fio's last bin may be; a mean with the submission in it is, where the longest is without."""
    for side in (parse(text).read, parse(text).write):
        if side is not None:
            told = [
                getattr(side, name)
                for name in ("lat_mean", *PERCENTILES)
                if needs(PERCENTILES.get(name, 0)) <= side.ios
            ]
            assert all(one is not None and side.lat_max is not None and one <= side.lat_max for one in told)


def test_time_spent_in_submission_counts() -> None:
    """md rounds there: of a request that took 34 ms, fio's completion latency says 3.7."""
    changed = document()
    read = changed["jobs"][0]["read"]
    read["clat_ns"] |= {"max": 5, "percentile": {"50.000000": 4}, "bins": {"4": read["total_ios"]}}
    assert parse(dumped(changed)).read == parse(GROUPED).read


def test_a_completion_histogram_is_not_taken_for_total_latency() -> None:
    changed = document()
    read = changed["jobs"][0]["read"]
    for key in ("percentile", "bins"):
        read["clat_ns"][key] = read["lat_ns"].pop(key)
    direction = parse(dumped(changed)).read
    assert direction is not None
    assert (direction.lat_p50, direction.lat_p9999) == (None, None)
    assert direction.lat_max == read["lat_ns"]["max"]


def test_a_percentile_of_merged_jobs_is_not_their_mean() -> None:
    """A fast job with many requests and a slow one with few: the median is the fast one's."""
    whole = read_off([{"100": 99}, {"10000": 1}])
    assert [whole.at(share) for share in (0.5, 0.99, 0.999)] == [100, 100, 10000]


def test_a_tail_with_few_requests_is_not_shown() -> None:
    figures = parse(GROUPED)
    assert figures.read is not None
    assert figures.read.ios < needs(99.9)
    assert figures.read.lat_p99 is not None
    assert (figures.read.lat_p999, figures.read.lat_p9999) == (None, None)


@given(histograms, histograms)
def test_merging_loses_no_request(one: dict[int, int], two: dict[int, int]) -> None:
    printed = [{str(value): count for value, count in bins.items()} for bins in (one, two)]
    assert sum(merge_histograms(printed).values()) == sum(one.values()) + sum(two.values())


@pytest.mark.parametrize(
    ("attained", "said"),
    [
        ([], ""),
        ([1], ""),
        ([0], "iops_slope:5% over 10 s not reached: 9.0%"),
        ([1, 0, 0], "iops_slope:5% over 10 s not reached: 9.0%"),
    ],
)
def test_a_missed_steady_state_is_reported(attained: list[int], said: str) -> None:
    told = {"ss": "iops_slope:5%", "duration": 10, "criterion": "9.0%"}
    jobs: list[dict[str, Any]] = [{"steadystate": {**told, "attained": one}} for one in attained]
    assert missed_steady_states([{}, *jobs]) == said


def test_a_direction_without_requests_is_missing_and_not_zero() -> None:
    changed = document()
    changed["jobs"][0]["write"] = changed["jobs"][0]["trim"]
    figures = parse(dumped(changed))
    assert figures.write is None
    assert figures.read is not None


def test_unmeasured_latencies_are_missing() -> None:
    """With gtod_reduce fio prints zeros and no histogram."""
    changed = document()
    for latency in ("clat_ns", "lat_ns"):
        changed["jobs"][0]["read"][latency] = changed["jobs"][0]["trim"][latency]
    read = parse(dumped(changed)).read
    assert read is not None
    assert read.bw > 0
    assert (read.lat_mean, read.lat_p50, read.lat_p9999, read.lat_max) == (None, None, None, None)


@pytest.mark.parametrize("before", ["fio: this platform does not support x\n", "note: {curly}\nwarning\n\n"])
@pytest.mark.parametrize("after", ["", "\n", "\nfio: terminated\n"])
def test_lines_around_the_json_are_passed_over(before: str, after: str) -> None:
    assert parse(before + GROUPED + after) == parse(GROUPED)


def test_trims_are_a_direction_of_their_own() -> None:
    changed = document()
    changed["jobs"][0]["trim"] = changed["jobs"][0]["write"]
    found, before = parse(dumped(changed)), parse(GROUPED)
    assert (found.read, found.write, found.trim) == (before.read, before.write, before.write)
    assert found.write
    assert found.total_bw == before.total_bw + found.write.bw
    del changed["jobs"][0]["trim"]
    assert parse(dumped(changed)) == parse(GROUPED)


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("", "no JSON"),
        ("fio: failed to open file\n", "no JSON"),
        (GROUPED[: len(GROUPED) // 2], "cut short"),
        (GROUPED.rstrip()[:-1], "cut short"),
        ('{\n"jobs": []\n}', "no jobs"),
        ('{\n"jobs": [1]\n}', "no jobs"),
        ("{\n}", "no jobs"),
        ('{\n"jobs": [{"read": {"total_ios": 4}}]\n}', "cannot be used"),
        ('{\n"jobs": [{"read": 7}]\n}', "cannot be used"),
        ('{\n"jobs": [{}]\n}', "cannot be used"),
    ],
)
def test_invalid_output_is_named_with_its_evidence(text: str, brief: str) -> None:
    with pytest.raises(FioFailed, match=brief) as caught:
        parse(text)
    assert text[-50:] in caught.value.evidence
    assert isinstance(caught.value, HarnessBroken)


@pytest.mark.parametrize("cut", range(1, len(GROUPED.rstrip()), 997))
def test_a_result_cut_anywhere_is_never_a_figure(cut: int) -> None:
    with pytest.raises(FioFailed):
        parse(GROUPED.rstrip()[:cut])


def test_a_job_that_failed_names_its_error() -> None:
    changed = document()
    changed["jobs"][0]["error"] = 5
    with pytest.raises(FioFailed, match=r"fio job 'a' failed with EIO \(Input/output error\)") as caught:
        parse(dumped(changed))
    assert "randrw" in caught.value.evidence


def test_an_unknown_error_number_is_an_error() -> None:
    changed = document()
    changed["jobs"][0]["error"] = 99999
    with pytest.raises(FioFailed, match="error 99999"):
        parse(dumped(changed))


def test_errors_that_fio_continues_after_are_counted() -> None:
    changed = document()
    changed["jobs"][0] |= {"error": 5, "total_err": 3, "first_error": 5}
    assert parse(dumped(changed)).errors == 3


def test_no_request_at_all_is_a_failure() -> None:
    changed = document()
    changed["jobs"][0]["read"] = changed["jobs"][0]["write"] = changed["jobs"][0]["trim"]
    with pytest.raises(FioFailed, match="without a single read, write or trim") as caught:
        parse(dumped(changed))
    assert caught.value.resolution


def test_mixed_directions_are_refused() -> None:
    changed = document()
    changed["jobs"][0]["mixed"] = changed["jobs"][0].pop("read")
    with pytest.raises(FioFailed, match="one figure") as caught:
        parse(dumped(changed))
    assert "unified_rw_reporting" in caught.value.resolution


def test_long_evidence_keeps_its_end() -> None:
    with pytest.raises(FioFailed) as caught:
        parse("x" * 100_000 + "the end")
    assert caught.value.evidence.endswith("the end")
    assert len(caught.value.evidence) < 3000


def without_bins(text: str) -> dict[str, Any]:
    changed = document(text)
    for job in changed["jobs"]:
        for side in ("read", "write"):
            job[side]["lat_ns"].pop("bins", None)
    return changed


def test_plain_json_has_the_percentiles_that_fio_itself_read_off() -> None:
    with_bins, without = parse(GROUPED), parse(dumped(without_bins(GROUPED)))
    assert with_bins.read is not None
    assert without.read is not None
    assert (without.read.lat_p50, without.read.lat_p9999) == (with_bins.read.lat_p50, with_bins.read.lat_p9999)


def test_percentiles_of_several_jobs_are_not_made_of_each_others() -> None:
    changed = without_bins(GROUPED)
    changed["jobs"] *= 2
    figures = parse(dumped(changed))
    assert figures.read is not None
    assert figures.read.lat_p99 is None
    assert figures.read.lat_mean is not None


def test_an_entry_without_a_name_is_no_job() -> None:
    """fio writes such entries if a job without `group_reporting` stands before a group."""
    changed = document(SEVERAL)
    first = changed["jobs"][0]
    nameless = {**first, "jobname": ""}
    changed["jobs"] = [first, nameless, {**first, "jobname": "other"}]
    assert set(parse(json.dumps(changed)).jobs) == {first["jobname"], "other"}


def test_jobs_one_after_another_have_the_rate_of_all_bytes_over_all_time() -> None:
    changed = document(SEVERAL)
    first = next(job for job in changed["jobs"] if job["read"]["total_ios"])
    slow = {**first, "jobname": "slow"}
    fast = {**first, "jobname": "fast", "read": {**first["read"], "iops": first["read"]["iops"] * 3}}
    fast["read"]["bw_bytes"] = first["read"]["bw_bytes"] * 3
    alone, together, in_turn = (
        figures_of(several, "", phases).read
        for several, phases in (([slow], {}), ([slow, fast], {}), ([slow, fast], {"slow": 0, "fast": 1}))
    )
    assert alone is not None
    assert together is not None
    assert in_turn is not None
    assert [together.bw, together.iops] == pytest.approx([4 * alone.bw, 4 * alone.iops])
    assert [in_turn.bw, in_turn.iops] == pytest.approx([1.5 * alone.bw, 1.5 * alone.iops])
