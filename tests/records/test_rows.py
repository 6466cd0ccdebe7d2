"""The latency of fsync and fdatasync: from fio's JSON to journal, store, views, reports and guidelines."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.pages.csv_files import jobs_csv, summary_csv, trials_csv
from matrix_runner.pages.explore import FIGURES, explored
from matrix_runner.pages.html import page
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import caption, table
from matrix_runner.records.address import Address
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.rows import decode_trial, encode_trial
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.work.fio.output import FioFailed, parse
from tests.records import past

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matrix_runner.work.fio.output import Direction
    from tests.support.command import Call

CELL = CellRow("c1", "ext4/log", {"layout": "ext4", "workload": "log"}, position=1)


def latencies(bins: Mapping[int, int]) -> dict[str, Any]:
    count = sum(bins.values())
    mean = sum(value * times for value, times in bins.items()) / count
    return {"min": min(bins), "max": max(bins), "mean": mean, "N": count, "bins": {str(k): v for k, v in bins.items()}}


def job(name: str, syncs: Mapping[int, int], **more: Any) -> dict[str, Any]:
    """Return a job as fio 3.33 prints it: `total_ios` of fdatasync is 0 there, and its count is in `N`."""
    writes = {"io_bytes": 460_000, "bw_bytes": 230_000, "iops": 100.0, "runtime": 2000, "total_ios": 200}
    sync = {"total_ios": 0, "lat_ns": latencies(syncs) if syncs else {"min": 0, "max": 0, "mean": 0.0, "N": 0}}
    whole = {"jobname": name, "usr_cpu": 1.0, "sys_cpu": 2.0, "job_runtime": 2000, "elapsed": 3}
    return {**whole, "write": {**writes, "lat_ns": latencies({50_000: 200})}, "sync": sync, **more}


def output(*jobs: dict[str, Any]) -> str:
    return json.dumps({"fio version": "fio-3.33", "jobs": jobs})


#: 99 of 100 syncs take 2 ms, the last one 20 ms.
SLOW_SYNCS = {2_000_000: 198, 20_000_000: 2}


def syncs_of(text: str) -> Direction:
    found = parse(text).sync
    assert found is not None
    return found


def trial(number: int = 1, *jobs: dict[str, Any]) -> Trial:
    figures = parse(output(*(jobs or (job("log", SLOW_SYNCS),))))
    return Trial("c1", number, Outcome.MEASURED, started="2026-03-04T05:06:07+00:00", seconds=2.5, figures=figures)


def test_syncs_are_a_side_of_their_own() -> None:
    found = syncs_of(output(job("log", SLOW_SYNCS)))
    assert (found.ios, found.iops, found.bytes, found.bw) == (200, 100.0, 0, 0.0)
    assert (found.lat_mean, found.lat_p50, found.lat_p99, found.lat_max) == (2_180_000, 2e6, 2e6, 2e7)
    figures = parse(output(job("log", SLOW_SYNCS)))
    assert figures.write is not None
    assert figures.write.lat_p99 == 50_000
    assert (figures.total_iops, [*figures.sides]) == (100.0, ["write"]), "a sync is no request for data"


def test_work_without_syncs_has_no_such_figures() -> None:
    assert parse(output(job("log", {}))).sync is None
    assert parse(output(job("log", {}, sync={"total_ios": 0}))).sync is None


def test_syncs_of_several_jobs_are_counted_together() -> None:
    figures = parse(output(job("a", {1_000_000: 100}), job("b", {3_000_000: 300})))
    assert figures.sync is not None
    assert (figures.sync.ios, figures.sync.iops, figures.sync.lat_mean) == (400, 200.0, 2_500_000)
    assert [one.sync and one.sync.iops for one in figures.jobs.values()] == [50.0, 150.0]


def test_syncs_that_began_before_their_job_do_not_count() -> None:
    """Seen in fio 3.33 with libaio: the first sync of a job took as long as the host was up."""
    wrong = job("log", {2_000_000: 99, 17_112_760_320: 1})
    wrong["sync"]["lat_ns"] |= {"max": 1_673_032_559_235, "mean": 1e10}
    found = syncs_of(output(wrong))
    assert (found.ios, found.lat_mean, found.lat_max) == (99, 2e6, 2e6)


@pytest.mark.parametrize("sync", [{"lat_ns": []}, {"lat_ns": {"N": 1}}, {"lat_ns": {"N": -1}}, []])
def test_syncs_that_fio_does_not_write_are_refused(sync: object) -> None:
    with pytest.raises(FioFailed, match="cannot be used"):
        parse(output(job("log", {}, sync=sync)))


def test_a_journal_and_a_message_return_the_same_trial(tmp_path: Path) -> None:
    recorded = trial(1, job("a", SLOW_SYNCS), job("b", {}))
    assert decode_trial(json.loads(json.dumps(encode_trial(recorded)))) == recorded
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.add_cells([CELL])
        journal.record(recorded)
        assert list(journal.trials()) == [recorded]


def test_the_views_of_journal_and_store_have_them_as_their_last_columns(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path / "results", [trial(1), trial(2)])
    with SharedStore.open(Address(file=tmp_path / "store.db")) as store:
        assert bring_up_to_date(store, tmp_path / "results") == []
    for file in (folder.journal, tmp_path / "store.db"):
        with closing(sqlite3.connect(file)) as connection:
            connection.row_factory = sqlite3.Row
            first = dict(connection.execute("select * from v_trials").fetchone())
            cell = dict(connection.execute("select * from v_cells where cell = 'c1'").fetchone())
        assert [*first][-10:] == ["sync_iops", "sync_ios", *(f"sync_lat_{one}" for one in _LATENCIES)]
        assert (first["sync_iops"], first["sync_ios"], first["sync_lat_p99"], first["sync_bw"]) == (100, 200, 2e6, None)
        assert (cell["sync_iops"], cell["sync_lat_p99"], cell["sync_lat_max"]) == (100, 2e6, 2e7)


_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max")


def test_an_older_journal_gets_the_columns(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.add_cells([CELL])
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection:
        names = [name for _, name, *_ in connection.execute("pragma table_info(trials)")]
    assert {"sync_iops", "sync_latencies"} <= {*names}


def test_reports_show_them() -> None:
    recorded = RunData("etcd", "qemu", False, (CELL,), (trial(1, job("a", SLOW_SYNCS), job("b", {})), trial(2)))
    first, second = csv.DictReader(trials_csv(recorded))
    assert (second["sync_iops"], second["sync_ios"], second["sync_lat_p99"]) == ("100.0", "200", "2000000.0")
    columns = list(first)
    assert columns.index("sync_ios") == columns.index("folder") + 2, "earlier columns do not move"
    (summary,) = csv.DictReader(summary_csv(recorded))
    assert (summary["sync_iops"], summary["sync_lat_p99"], summary["sync_bw"]) == ("100.0", "2000000.0", "")
    jobs = list(csv.DictReader(jobs_csv(recorded).splitlines()))
    assert [row["sync_ios"] for row in jobs] == ["200", ""]
    sheet = table(recorded)
    assert (sheet.columns[-3], sheet.rows[0][-3]) == ("sync p99", "2.00 ms")
    assert "sync p99: of fsync and fdatasync" in caption(recorded)
    (of_first, _) = explored(recorded, "run").rows
    assert of_first[-len(FIGURES) :][[*FIGURES].index("sync_lat_p99")] == 2e6
    assert "sync p99" in str(page(recorded, past.manifest(), "run-1"))


def test_reports_without_syncs_have_no_column_for_them() -> None:
    without = replace(trial(), figures=parse(output(job("log", {}))))
    assert "sync p99" not in table(RunData("m", "qemu", False, (CELL,), (without,))).columns


_ETCD = """
name: etcd
disks: {count: 1, size: 256MiB}
layouts: {raw: [disk]}
workloads:
  log: {rw: write, bs: 4KiB, size: 22MiB, ioengine: sync, fio: {fdatasync: 1}}
  plain: {rw: write, bs: 4KiB, size: 22MiB}
repeat: 2
guidelines:
  - id: fast-enough
    bound: {metric: METRIC, at_most: 10ms, where: {workload: log}}
"""


def test_a_guideline_judges_syncs(call: Call, tmp_path: Path) -> None:
    (tmp_path / "etcd.yaml").write_text(_ETCD.replace("METRIC", "sync.lat_p99"))
    assert "note" not in call("validate", "etcd.yaml").out
    said = call("run", "--on", "dry", "etcd.yaml")
    assert "synthetic: holds" in said.out
    shown = call("results", "latest", "--metric", "sync_lat_p99", "--format", "csv")
    assert "sync_lat_p99" in shown.out


def test_a_limit_of_writes_beside_syncs_gets_a_note(call: Call, tmp_path: Path) -> None:
    (tmp_path / "etcd.yaml").write_text(_ETCD.replace("METRIC", "write.lat_p99"))
    said = call("validate", "etcd.yaml")
    assert "log also waits for fsync or fdatasync, and that time is in sync.lat_p99 only" in said.out + said.err
    (tmp_path / "etcd.yaml").write_text(_ETCD.replace("METRIC", "write.lat_p99").replace("log}}", "plain}}"))
    said = call("validate", "etcd.yaml")
    assert "fdatasync" not in said.out + said.err


def test_a_limit_of_syncs_that_no_work_has_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "etcd.yaml").write_text(_ETCD.replace("METRIC", "sync.lat_p99").replace("log}}", "plain}}"))
    assert call("validate", "etcd.yaml").status == 2
