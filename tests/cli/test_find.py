"""A run with a search, as users see it: the plan, the last lines, the files, the report and the store."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import Exit
from tests.support.choices import BEST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


#: The dry machine takes sqrt(depth) / 120 seconds for each request.
MATRIX = """\
name: searched
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0, chunk: [64KiB, 128KiB]}]}
workloads:
  oltp: {rw: randread, bs: 4KiB, runtime: 1s, find: {max: iops, while: "read.p99 < 50ms"}}
repeat: 3
guidelines:
  - {id: alike, ratio: {metric: found.iops, of: {chunk: 64KiB}, to: {chunk: 128KiB}, within: 20%}}
"""


def test_recommend_gives_the_answer_of_a_search_for_the_best_value(call: Call, tmp_path: Path) -> None:
    values = "default, 256, 512, 1024, 2048, 4096, 8192"
    (tmp_path / "m.yaml").write_text(BEST.replace("VALUES", values))
    said = call("run", "--on", "dry", "m.yaml")
    assert said.status == Exit.ALL_MEASURED
    assert "is the smallest within 5 % of the best" in said.out or "is the best" in said.out
    assert "of memory; the default is as good: keep it" in said.out
    (folder,) = (tmp_path / "results").glob("best-dry-*")
    assert "Most work of each search" in (folder / "report.html").read_text()
    (found,) = csv.DictReader((folder / "found.csv").read_text().splitlines())
    assert (found["found"], found["keeps_default"]) == ("best", "true")
    assert int(found["memory"]) == int(found["within"]) * 4 * 4096
    rows = list(csv.DictReader(io.StringIO(call("recommend", "latest", "--format", "csv").out)))
    assert [row["setting"] for row in rows if row["recommended"] == "true"] == ["raid5/stripe_cache_size=default"]
    named = {"raid5/stripe_cache_size=default", f"raid5/stripe_cache_size={found['within']}"}
    assert named <= {row["setting"] for row in rows}
    assert len(rows) <= 3, "only what was measured again"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BEST.replace("VALUES", "default, 256, 512"), "tune.stripe_cache_size has 2 values to search; write 3 or more"),
        (
            BEST.replace("VALUES", "256, 512, 768").replace("over: tune.stripe_cache_size", "over: md.levels"),
            "has 0 values",
        ),
    ],
)
def test_a_search_without_values_is_refused(call: Call, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    said = call("plan", "m.yaml")
    assert said.status == Exit.BAD_INPUT
    assert why in said.err


def test_a_shard_cannot_search_the_best_value(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(BEST.replace("VALUES", "256, 512, 768"))
    said = call("run", "--on", "dry", "--shard", "1/1", "m.yaml")
    assert "compares values of all stacks, and --shard has only some of them" in said.err


def test_a_run_shows_what_its_searches_found(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX)
    planned = json.loads(call("plan", "--format", "json", "m.yaml").out)
    assert (planned["cells"], planned["trials_least"], planned["trials_most"]) == (32, 20, 20)
    said = call("run", "--on", "dry", "m.yaml")
    assert said.status == Exit.ALL_MEASURED
    assert "Most work within a latency (synthetic):" in said.out
    assert (
        "raid0/chunk=64KiB/oltp: 725 IOPS (712 to 738 IOPS) while read.p99 < 50ms; between iodepth 32 and 48"
        in said.out
    )
    assert "wider intervals than wanted" not in said.out
    (folder,) = (tmp_path / "results").glob("searched-dry-*")
    written = {name: (folder / name).read_bytes() for name in ("found.csv", "report.html", "verdicts.csv", "junit.xml")}
    assert b"Most work of each search" in written["report.html"]
    assert b"holds" in written["verdicts.csv"]
    assert call("report", str(folder)).status == 0
    assert {name: (folder / name).read_bytes() for name in written} == written, "a report needs the journal only"
    assert "iodepth=48" in call("results", "latest").out


def test_programs_get_the_result_at_the_end(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX.replace("50ms", "10s"))
    last = json.loads(call("run", "--json", "--on", "dry", "m.yaml").out.splitlines()[-1])
    assert [(one["found"], one["within"], one["beyond"]) for one in last["found"]] == [("above", "256", "")] * 2
    assert last["guidelines"][0]["verdict"] == "not tested"


def test_a_search_has_the_differences_that_count_as_equal(call: Call, tmp_path: Path) -> None:
    found = []
    for practical in ("1%", "60%"):
        text = BEST.replace("VALUES", "256, 512, 1024, 2048, 4096, 8192")
        (tmp_path / "m.yaml").write_text(f"{text}practical: {practical}\n")
        last = json.loads(call("run", "--json", "--fresh", "--on", "dry", "m.yaml").out.splitlines()[-1])
        found += [(int(one["within"]), one["trials"]) for one in last["found"]]
    strict, loose = found
    assert loose[0] < strict[0], "a smaller value is as good"
    assert loose[1] < strict[1], "it is decided earlier"
    page = max((tmp_path / "results").glob("best-dry-*/report.html")).read_text()
    assert "smallest within 60 % of the best" in page


def test_commands_over_many_runs_know_what_searches_found(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX)
    for _ in range(2):
        assert call("run", "--fresh", "--on", "dry", "m.yaml").status == Exit.ALL_MEASURED
    (folder, _) = sorted((tmp_path / "results").glob("searched-dry-*"))
    written = (folder / "verdicts.csv").read_text()
    assert ",holds," in written
    assert call("guidelines", "check", folder.name, "--format", "csv").out == written
    assert "| alike | synthetic: holds |" in call("summary", "latest").out
    followed = call("history", "raid0/chunk=64KiB/oltp", "--metric", "found.iops", "--format", "csv").out.splitlines()
    assert len(followed) == 3
    assert ",found_iops," in followed[1]
    done = json.loads(call("compare", "latest~1", "latest", "--metric", "found.iops", "--format", "json").out)["rows"]
    assert [(one["name"], one["metric"], round(one["ratio"], 3)) for one in done] == [
        (f"raid0/chunk={chunk}/oltp", "found_iops", 1) for chunk in ("64KiB", "128KiB")
    ]
    shown = call("results", "latest", "--metric", "found.iops", "--only", "chunk=64KiB").out
    assert "raid0/chunk=64KiB/oltp" in shown
    assert "725 IOPS" in shown
    assert "iodepth" not in shown
    mixed = call("history", "--only", "chunk=64KiB", "--metric", "found.iops", "--metric", "read_bw")
    assert (mixed.status, "a search has no read_bw" in mixed.err) == (Exit.BAD_INPUT, True)


def test_a_limit_beyond_the_axis_is_no_figure_in_the_store(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX.replace("50ms", "10s"))
    call("run", "--on", "dry", "m.yaml")
    said = call("guidelines", "check", "latest", "--format", "json")
    assert [one["verdict"] for one in json.loads(said.out)["rows"]] == ["not tested"]


def test_runs_without_a_search_have_no_such_figure(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        MATRIX.partition("guidelines:")[0].replace(', find: {max: iops, while: "read.p99 < 50ms"}', "")
    )
    assert call("run", "--on", "dry", "m.yaml").status == Exit.ALL_MEASURED
    said = call("results", "latest", "--metric", "found.iops")
    assert (said.status, "no result of a search: searched-dry-" in said.err) == (Exit.BAD_INPUT, True)
    said = call("history", "--only", "layout=raid0", "--metric", "found.iops")
    assert (said.status, "the selected cells have no such figures" in said.err) == (Exit.BAD_INPUT, True)
