"""fio's JSON of other versions, of clients, and reports that are not JSON: documents of others, and reduced ones of ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.answers.fio_import import Group, parse_groups
from matrix_runner.base.errors import BadInput
from matrix_runner.work.metrics import SIDES

if TYPE_CHECKING:
    from matrix_runner.work.fio.output import Direction

#: 1,000 requests of 4 KiB in 2 s, with a mean latency of 2 ms, of which 0.5 ms are submission.
_PERCENTILES = {"50.000000": 1400, "99.000000": 3000, "99.900000": 9000, "0.00": 0}


def old_side(**more: Any) -> dict[str, Any]:
    """Return a side of fio 2.x: KiB, KiB/s and microseconds."""
    clat = {"min": 100, "max": 9500, "mean": 1500.0, "stddev": 2.0, "percentile": _PERCENTILES}
    lat = {"min": 150, "max": 10000, "mean": 2000.0, "stddev": 2.0}
    return {"io_bytes": 4000, "bw": 2000, "iops": 499.5, "runtime": 2000, "clat": clat, "lat": lat, **more}


def in_ns(side: dict[str, Any]) -> dict[str, Any]:
    def thousand(found: dict[str, Any]) -> dict[str, Any]:
        return {name: thousand(one) if isinstance(one, dict) else one * 1000 for name, one in found.items()}

    return {
        f"{name}_ns" if "lat" in name else name: thousand(one) if "lat" in name else one for name, one in side.items()
    }


def new_side(**more: Any) -> dict[str, Any]:
    """Return a side of fio 3.2 to 3.18: in nanoseconds, without the number of latencies."""
    return (
        in_ns(old_side()) | {"io_bytes": 4_096_000, "io_kbytes": 4000, "bw_bytes": 2_048_000, "total_ios": 1000} | more
    )


def job(side: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"jobname": "j", "groupid": 0, "error": 0, "read": side, "usr_cpu": 1.0, "sys_cpu": 2.0, **more}


def groups(version: str, *jobs: dict[str, Any], key: str = "jobs") -> list[Group]:
    whole = {"fio version": version, "timestamp": 1_400_000_000, key: jobs}
    return parse_groups(json.dumps(whole, indent=1).encode(), "old.json")


def read_of(group: Group) -> Direction:
    assert group.figures is not None, group.failure
    assert group.figures.read is not None
    return group.figures.read


@pytest.mark.parametrize(
    ("version", "side"),
    [
        ("fio-2.0.15", old_side()),
        ("fio-2.2.10", old_side(total_ios=1000)),
        ("fio-2.99", old_side(total_ios=1000, io_bytes=4_096_000)),
        ("fio-3.1", in_ns(old_side(total_ios=1000)) | {"io_bytes": 4_096_000, "io_kbytes": 4000}),
        ("fio-3.18", new_side()),
    ],
)
def test_every_version_gives_the_same_figures(version: str, side: dict[str, Any]) -> None:
    (group,) = groups(version, job(side))
    read = read_of(group)
    assert (read.bw, read.iops, read.bytes) == (2_048_000, 499.5, 4_096_000), "iops is the number that fio writes"
    assert read.ios == pytest.approx(1000, abs=1)
    assert (read.lat_mean, read.lat_p50, read.lat_p99, read.lat_max) == (2e6, 1.4e6, 3e6, 1e7)
    assert read.lat_p999 is None, "of 1,000 requests"
    assert group.lacks == (
        "the time of submission in percentiles, which are those of `clat` (lat_percentiles=1 includes it)",
    )


def test_percentiles_of_the_whole_latency_come_first() -> None:
    side = new_side()
    side["lat_ns"]["percentile"] = {"99.000000": 4_000_000}
    (group,) = groups("fio-3.36", job(side))
    assert read_of(group).lat_p99 == 4e6
    assert group.lacks == ()


def test_requests_under_way_at_the_end_of_a_ramp_do_not_change_the_rate() -> None:
    side = new_side()
    side["lat_ns"]["N"] = 1010
    (group,) = groups("fio-3.36", job(side))
    assert (read_of(group).iops, read_of(group).ios) == (499.5, 1000)


def test_several_servers_are_one_group_with_the_percentiles_of_the_client() -> None:
    whole = new_side(bw_bytes=4_096_000, iops=999.0, total_ios=2000)
    clients = [job(new_side(), hostname=f"h{n}") for n in (1, 2)]
    (group,) = groups("fio-3.36", *clients, job(whole, jobname="All clients"), key="client_stats")
    assert group.name == "j"
    assert (read_of(group).bw, read_of(group).iops, read_of(group).lat_p99) == (4_096_000, 999.0, 3e6)


def test_servers_with_different_jobs_count_once() -> None:
    clients = [job(new_side(), jobname=name) for name in ("a", "b")]
    (group,) = groups("fio-3.36", *clients, job(new_side(), jobname="All clients"), key="client_stats")
    assert group.name == "a+b"
    assert read_of(group).bw == 2 * 2_048_000


def test_figures_of_both_directions_and_their_sum_are_read() -> None:
    """With `unified_rw_reporting=both`."""
    (group,) = groups("fio-3.36", job(new_side(), mixed=new_side()))
    assert read_of(group).bw == 2_048_000
    whole = job(new_side())
    whole["mixed"] = whole.pop("read")
    (group,) = groups("fio-3.36", whole)
    assert "as one figure" in group.failure


def test_a_document_of_fio_3_41_gives_the_figures_that_it_has() -> None:
    """With `unified_rw_reporting=both` and fdatasync; fio counts no syncs in `total_ios`."""
    text = (Path(__file__).parents[1] / "data" / "fio-3.41-both.json").read_bytes()
    (written,) = json.loads(text)["jobs"]
    (group,) = parse_groups(text, "fio-3.41-both.json")
    assert group.figures is not None
    for name, side in group.figures.sides.items():
        own = written[name]
        assert (side.bw, side.iops, side.ios) == (own["bw_bytes"], own["iops"], own["total_ios"])
        assert (side.lat_mean, side.lat_max) == (own["lat_ns"]["mean"], own["lat_ns"]["max"])
        percentiles = own["lat_ns"]["percentile"]
        assert (side.lat_p50, side.lat_p99) == pytest.approx(
            (percentiles["50.000000"], percentiles["99.000000"]), rel=0.01
        )
    sync = group.figures.sync
    assert sync is not None
    assert (sync.ios, sync.lat_mean, sync.lat_p99) == (34, 1177018.970588, 3850240)
    assert group.lacks == ()


_FOREIGN = json.loads((Path(__file__).parents[1] / "data" / "fio-foreign.json").read_text())


def latencies_of(side: dict[str, Any], name: str) -> dict[str, Any]:
    """Return latencies of a source in ns; fio 2.x writes microseconds."""
    unit = 1 if f"{name}_ns" in side else 1000
    found = side.get(f"{name}_ns", side.get(name, {}))
    percentile = {float(one): value * unit for one, value in found.get("percentile", {}).items()}
    return {"percentile": percentile} | {one: found[one] * unit for one in ("mean", "max") if one in found}


def assert_figures_of(jobs: list[dict[str, Any]], side: str, found: Direction) -> None:
    """Compare with the sum (rates), the mean by requests, the maximum, and the percentiles of one job."""
    parts = [job[side] for job in jobs if job.get(side, {}).get("io_bytes")]
    whole = [latencies_of(part, "lat") for part in parts]
    counts = [part.get("total_ios", part["iops"] * part["runtime"]) for part in parts]
    assert found.bw == sum(part.get("bw_bytes", part["bw"] * 1024) for part in parts)
    assert found.iops == pytest.approx(sum(part["iops"] for part in parts))
    if not all(one.get("mean") for one in whole):  # as with gtod_reduce=1
        assert (found.lat_mean, found.lat_max, found.lat_p50, found.lat_p99) == (None,) * 4
        return
    mean = sum(one["mean"] * count for one, count in zip(whole, counts, strict=True)) / sum(counts)
    assert found.lat_mean == pytest.approx(mean)
    assert found.lat_max == max(one["max"] for one in whole)
    percentiles = whole[0]["percentile"] or latencies_of(parts[0], "clat")["percentile"]
    if len(parts) == 1 and percentiles:
        p99 = min(percentiles[99], found.lat_max)  # fio writes the end of a bin, which may lie above
        assert (found.lat_p50, found.lat_p99) == (percentiles[50], p99)


@pytest.mark.parametrize("source", _FOREIGN, ids=lambda one: one["document"]["fio version"])
def test_documents_of_many_versions_give_the_rates_and_latencies_of_their_source(source: dict[str, Any]) -> None:
    document = source["document"]
    found = parse_groups(json.dumps(document, indent=1).encode(), "foreign.json")
    jobs = document.get("jobs", document.get("client_stats"))
    sums = [job for job in jobs if job["jobname"] == "All clients"]
    groups = [sums] if sums else [list(one) for _, one in groupby(jobs, key=itemgetter("groupid"))]
    assert len(found) == len(groups)
    for group, several in zip(found, groups, strict=True):
        if any(job["error"] for job in several):
            assert (group.figures, "failed with ENOMSG" in group.failure) == (None, True)
            continue
        assert group.figures is not None, group.failure
        assert {side for job in several for side in SIDES if side in job} == set(group.figures.sides)
        for side, figures in group.figures.sides.items():
            assert_figures_of(several, side, figures)


def test_percentiles_of_the_whole_latency_below_those_of_completions_lack_nothing() -> None:
    """As fio 3.1 to 3.12 write them with lat_percentiles=1."""
    (group,) = groups("fio-3.10", job(new_side(), **{"job options": {"lat_percentiles": "1"}}))
    assert (read_of(group).lat_p99, group.lacks) == (3e6, ())


def test_a_version_without_the_time_gets_that_of_the_file() -> None:
    whole = json.dumps({"fio version": "fio-2.1", "jobs": [job(old_side())]}, indent=1).encode()
    (group,) = parse_groups(whole, "old.json", datetime(2014, 5, 6, 7, 8, 9, tzinfo=UTC))
    assert group.started.isoformat() == "2014-05-06T07:08:07+00:00", "2 s before the file was written"
    assert group.lacks[-1] == "the time of the measurement (that of the file is used)"


def test_syncs_of_older_versions_are_read() -> None:
    sync = {"total_ios": 100, "lat_ns": {"min": 1, "max": 9000, "mean": 5000.0, "percentile": {"99.000000": 8000}}}
    (group,) = groups("fio-3.10", job(new_side(), sync=sync))
    assert group.figures is not None
    assert group.figures.sync is not None
    assert (group.figures.sync.iops, group.figures.sync.lat_p99) == (50.0, 8000)


def test_the_lack_of_latencies_has_no_invented_reason() -> None:
    (group,) = groups("fio-3.36", job({name: one for name, one in new_side().items() if "lat" not in name}))
    assert group.lacks == ("latencies: the file has none of the whole time (`lat_ns`)",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("3;fio-3.33;j;0;0;4096;2048;500;2000;1;2;3.0;4.0", "fio's terse output"),
        ("5, 2048, 0, 4096, 0\n10, 2048, 0, 4096, 0\n", "a log of fio"),
        ("500, 2048, 0, 4096, 0, 0\n", "a log of fio"),
        ("j: (g=0): rw=read, bs=4K-4K/4K-4K, ioengine=sync, iodepth=1\nfio-2.16\n", "fio's output for people"),
    ],
)
def test_other_reports_of_fio_are_named(text: str, what: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_groups(text.encode(), "old.log")
    assert f"old.log is {what}" in refused.value.brief
    assert "json" in refused.value.resolution


@pytest.mark.parametrize("whole", [{}, {"jobs": []}, {"jobs": 7}, {"client_stats": [1]}])
def test_json_without_jobs_names_the_keys_that_were_read(whole: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="has no job, neither in `jobs` nor in `client_stats`"):
        parse_groups(json.dumps(whole, indent=1).encode(), "old.json")
