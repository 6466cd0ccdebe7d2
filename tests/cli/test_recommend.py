"""`matrix recommend` as a user meets it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records import tables
from tests.support.fio import NEWER
from tests.support.matrices import SMALL
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command import Said

    Call = Callable[..., Said]


BOTH = """\
name: both
disks: {count: 4, size: 256MiB}
layouts:
  raw: [md: {level: 5}]
  on-files: [md: {level: 5}, fs: {type: ext4}]
workloads:
  work: {rw: randread, bs: 4KiB, size: 16MiB, files: 4, file_size: 4MiB, runtime: 1s}
repeat: 3
"""


@pytest.fixture
def ran(call: Call, tmp_path: Path) -> Said:
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 4"))
    return call("run", "--on", "dry", "small.yaml")


def test_the_best_setting_is_shown_with_ties_and_commands(ran: Said, call: Call) -> None:
    said = call("recommend", "latest", "--for", "workload=work,rw=read", "--metric", "read.bw")
    assert said.status == 0
    assert "raid5/chunk=" in said.out
    assert "best is raid5/chunk=" in said.out or "recommended is raid5/chunk=" in said.out
    assert "only this figure decides, not how many lost disks a setting survives" in said.out
    assert "synthetic, from the dry machine: this recommends nothing" in said.out
    assert "mdadm --create /dev/md/matrix-0" in said.out
    assert "disk01=/dev/disk/by-id/NAME-1" in said.out


def test_a_single_setting_is_not_called_better(ran: Said, call: Call) -> None:
    said = call("recommend", "latest", "--for", "workload=work,md.chunk=16KiB", "--metric", "read.bw")
    assert "raid5/chunk=16KiB is the only selected setting with figures" in said.out
    assert "best is" not in said.out
    assert "data on raid5/chunk=16KiB survives 1 lost disk" in said.out
    assert "only this figure decides" not in said.out
    assert "cannot be told apart" not in said.out


def test_json_has_plain_numbers_and_the_script_is_a_file(ran: Said, call: Call, tmp_path: Path) -> None:
    said = call("recommend", "latest", "--format", "json", "--script", "best.sh")
    rows = json.loads(said.out)["rows"]
    assert [row["best"] for row in rows] == [True, False]
    assert rows[1]["ratio_low"] <= rows[1]["ratio"] <= rows[1]["ratio_high"]
    first, second, third, *_ = (tmp_path / "best.sh").read_text().splitlines()
    assert first == "#!/usr/bin/env bash"
    assert second.startswith("# SYNTHETIC, no recommendation: ")
    assert third.startswith("# Recommended: raid5/chunk=")


def test_a_single_trial_has_no_interval(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 1"))
    call("run", "--on", "dry", "small.yaml")
    _, second = json.loads(call("recommend", "latest", "--format", "json").out)["rows"]
    assert (second["ratio_low"], second["ratio_high"]) == (None, None)
    _, _, row, *_ = call("recommend", "latest", "--format", "csv").out.splitlines()
    assert "inf" not in row


def test_only_synthetic_recommendations_are_marked(ran: Said, call: Call, tmp_path: Path) -> None:
    assert "# SYNTHETIC, no recommendation" in call("recommend", "latest").out
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection:
        connection.execute("update runs set synthetic = 0")  # as if it had been measured
        reseal(connection, tables.runs)
        connection.commit()
    call("recommend", "latest", "--script", "best.sh")
    text = (tmp_path / "best.sh").read_text()
    assert text.startswith("#!/usr/bin/env bash\n# Recommended: raid5/chunk=")
    assert "SYNTHETIC" not in text


def test_a_steered_run_is_recommended_as_strictly_as_judged(ran: Said, call: Call, tmp_path: Path) -> None:
    _, plain = json.loads(call("recommend", "latest", "--format", "json").out)["rows"]
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection:
        connection.execute("update runs set environment = json_set(environment, '$.until-decided', 'yes')")
        reseal(connection, tables.runs)
        connection.commit()
    _, steered = json.loads(call("recommend", "latest", "--format", "json").out)["rows"]
    assert steered["ratio"] == plain["ratio"]
    assert steered["ratio_low"] < plain["ratio_low"] < plain["ratio_high"] < steered["ratio_high"]


def test_a_metric_may_have_its_name_in_tables(ran: Said, call: Call) -> None:
    dotted, plain = (call("recommend", "latest", "--metric", one).out for one in ("read.lat_p99", "read_lat_p99"))
    assert dotted == plain != ""


def test_a_run_without_its_folder_has_no_commands(ran: Said, call: Call, tmp_path: Path) -> None:
    call("results", "latest")
    (tmp_path / "results" / "store.db").rename(tmp_path / "other.db")
    said = call("recommend", "latest", "--store", "other.db", "--results", "elsewhere")
    assert said.status == 0
    assert "recommended" in said.out
    assert "the matrix of this run is not below --results" in said.err


def test_raw_arrays_compete_with_file_systems(call: Call, tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(BOTH)
    assert call("run", "--on", "dry", "both.yaml").status == 0
    said = call("recommend", "latest", "--metric", "read.bw", "--format", "json")
    assert said.status == 0, said.err
    assert {row["setting"] for row in json.loads(said.out)["rows"]} == {"raw", "on-files"}


CIRCUMSTANCES = """\
name: circumstances
disks: {count: 4, size: 64MiB}
layouts:
  striped: [md: {level: 0}]
  parity: [md: {level: 5, state: [clean, {degraded: 1}]}]
FAULTS
workloads: {work: {rw: read, bs: 64KiB, runtime: 1s}}
repeat: 2
"""


def test_degraded_arrays_are_not_recommended(call: Call, tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text(CIRCUMSTANCES.replace("FAULTS", ""))
    assert call("run", "--on", "dry", "some.yaml").status == 0
    said = call("recommend", "latest")
    assert "left out: 1 cells of degraded arrays" in said.out
    assert "degraded" not in said.out.partition("left out: ")[0]
    assert "degraded" in call("recommend", "latest", "--for", "state=degraded").out


def test_faults_must_be_selected_for_a_recommendation(call: Call, tmp_path: Path) -> None:
    faults = "faults: {none: [], dies: [{disk: 1, at: 0s, kind: dies}]}"
    text = (
        CIRCUMSTANCES.replace("FAULTS", faults)
        .replace("64MiB}", "64MiB, model: nas-7200}")
        .replace("striped: [md: {level: 0}]", "mirror: [md: {level: 1}]")
    )
    (tmp_path / "some.yaml").write_text(text)
    assert call("run", "--on", "dry", "some.yaml").status == 0
    said = call("recommend", "latest")
    assert said.status == 2
    assert "--for 'faults=dies'" in said.err
    assert call("recommend", "latest", "--for", "faults=none").status == 0


def test_an_import_has_figures_but_no_commands(call: Call, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(NEWER)
    assert call("import", "old.json", "--name", "old").status == 0
    said = call("recommend", "old")
    assert said.status == 0, said.err
    assert "the matrix of this run is not below --results" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("latest", "--for", "workload=wrk"), "--for 'workload=wrk': no cell has workload=wrk; did you mean work?"),
        (("latest", "--metric", "raed.bw"), "--metric raed.bw is not a figure"),
        (("latest", "--for", "rw=read", "--metric", "write.bw"), "no selected cell has write.bw"),
        (("small-*",), "small-* matches 2 runs"),
    ],
)
def test_impossible_requests_are_bad_input(ran: Said, call: Call, words: tuple[str, ...], told: str) -> None:
    if words == ("small-*",):
        call("run", "--on", "dry", "--fresh", "small.yaml")
    said = call("recommend", *words)
    assert said.status == 2
    assert told in said.err


def test_the_weights_of_the_matrix_count(call: Call, tmp_path: Path) -> None:
    works = "workloads:\n  read: {rw: read, bs: 64KiB, runtime: 1s}\n  write: {rw: write, bs: 64KiB, runtime: 1s}\n"
    head = BOTH.partition("workloads")[0].replace("raw: [md: {level: 5}]", "raw: [md: {level: 0}]")
    (tmp_path / "both.yaml").write_text(f"{head}{works}repeat: 3\nfor: {{read: 3, write: 1}}\n")
    call("run", "--on", "dry", "both.yaml")
    assert "2 workloads count by the weights in `for:` (read 3, write 1)" in call("recommend", "latest").out
    assert "2 workloads count equally" in call("recommend", "latest", "--for", "workload.bs=64KiB").out


def test_every_answer_has_the_differences_that_count_as_equal(call: Call, tmp_path: Path) -> None:
    text = SMALL.replace("repeat: 2", "repeat: 8").replace("[16KiB, 64KiB]", "[32KiB, 64KiB]")
    (tmp_path / "small.yaml").write_text(f"{text}practical: 90%\n")
    assert "equal within 90" in call("run", "--on", "dry", "small.yaml").out.replace("\u00a0", " ")
    assert "equal within 90" in call("summary", "latest").out.replace("\u00a0", " ")
    recommended = call("recommend", "latest", "--for", "rw=read").out
    assert "recommended is" in recommended
    assert "within 90 %" in recommended
