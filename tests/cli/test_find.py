"""A run with a search, as users see it: the plan, the last lines, the files, the report and the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runner.base.errors import Exit

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
  - {id: alike, compare: {metric: found.iops, of: {chunk: 64KiB}, to: {chunk: 128KiB}, within: 20%}}
"""


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
    assert b"Most work within a latency" in written["report.html"]
    assert b"holds" in written["verdicts.csv"]
    assert call("report", str(folder)).status == 0
    assert {name: (folder / name).read_bytes() for name in written} == written, "a report needs the journal only"
    assert "iodepth=48" in call("results", "latest").out


def test_programs_get_the_result_at_the_end(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX.replace("50ms", "10s"))
    last = json.loads(call("run", "--json", "--on", "dry", "m.yaml").out.splitlines()[-1])
    assert [(one["found"], one["within"], one["beyond"]) for one in last["found"]] == [("above", "256", "")] * 2
    assert last["guidelines"][0]["verdict"] == "not tested"
