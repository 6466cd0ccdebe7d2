from __future__ import annotations

import base64
import hashlib
import json
import re
from array import array
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from lxml import html

from matrix_runner.pages.explore import Explored, explored, page, shared_library
from tests.pages import samples
from tests.records.strategies import texts
from tests.support.explored import COUNT, run_data

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.pages.run_data import RunData


def data_of(content: bytes) -> dict[str, Any]:
    found = re.findall(rb'<script type="application/json" id="data">(.*?)</script>', content)
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0])
    return data


def numbers(packed: str, kind: str = "d") -> list[float]:
    return list(array(kind, base64.b64decode(packed)))


def texts_of(column: dict[str, Any]) -> list[str]:
    return [column["values"][int(code)] for code in numbers(column["codes"], "i")]


def figures_of(data: dict[str, Any]) -> dict[str, list[float]]:
    return {one["name"]: numbers(one["numbers"]) for one in data["figures"]}


def test_the_columns_have_every_trial() -> None:
    data = data_of(page([explored(run_data(), "sweep-1")], "sweep on qemu"))
    assert data["count"] == COUNT
    figures = figures_of(data)
    assert figures["read_bw"][6:12] == [120e6, 121e6, 122e6, *figures["read_bw"][9:12]]
    assert all(map(isnan, figures["read_bw"][9:12])), "these write"
    assert figures["total_bw"][9:12] == figures["write_bw"][9:12] == [130e6, 131e6, 132e6]
    assert figures["worst_lat_p99"][9:12] == figures["write_lat_p99"][9:12]
    assert figures["trial"][:6] == [1, 2, 3] * 2
    states, reasons = (texts_of(one) for one in data["texts"])
    assert states[:4] == ["broken", "unsettled", "host-limited", "measured"]
    assert reasons[:2] == ["the guest panicked", ""]
    assert [axis["name"] for axis in data["axes"]] == ["layout", "md.chunk", "workload.rw"]
    assert data["axes"][1]["values"] == ["64KiB", "512KiB", "1MiB"]
    assert texts_of(data["axes"][1])[:3] == ["64KiB", "64KiB", "512KiB"], "by cell"


def test_explore_starts_with_useful_choices() -> None:
    data = data_of(page([explored(run_data(), "sweep-1")], "sweep on qemu"))
    shown = {name: data[name] for name in ("metric", "tail", "across", "down", "colour", "parallel")}
    assert shown == {
        "metric": "total_bw",
        "tail": "worst_lat_p99",
        "across": "md.chunk",
        "down": "layout",
        "colour": "layout",
        "parallel": ["layout", "md.chunk", "workload.rw", "total_bw", "worst_lat_p99"],
    }


def test_one_direction_needs_no_totals() -> None:
    given = run_data()
    reads = [trial for trial in given.trials if trial.figures is None or trial.figures.read]
    figures = figures_of(data_of(page([explored(replace(given, trials=reads), "sweep-1")], "sweep")))
    assert not {name for name in figures if name.startswith(("total", "write", "worst"))}


def test_several_runs_differ_by_an_axis() -> None:
    one, other = (Explored(name, name == "b", run.cells, run.rows, None) for name, run in
                  (("a", explored(run_data(), "")), ("b", explored(run_data(synthetic=True), ""))))  # fmt: skip
    content = page([one, other], "2 runs of sweep")
    data = data_of(content)
    assert data["count"] == 2 * COUNT
    assert data["axes"][0]["name"] == data["parallel"][0] == data["colour"] == "run"
    assert [run["synthetic"] for run in data["runs"]] == [False, True]
    assert b"Figures of b are invented" in content


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["1MiB", "4KiB", "64KiB"], ["4KiB", "64KiB", "1MiB"]),
        (["10", "9", ""], ["9", "10", ""]),
        (["2s", "100ms"], ["100ms", "2s"]),
        (["xfs", "ext4", ""], ["xfs", "ext4", ""]),
    ],
)
def test_values_are_in_order(values: list[str], order: list[str]) -> None:
    given = run_data()
    cells = [replace(cell, axes={"a": value}) for cell, value in zip(given.cells, values * 9, strict=False)]
    trials = [trial for trial in given.trials if trial.cell in {cell.id for cell in cells}]
    (axis,) = data_of(page([explored(replace(given, cells=cells, trials=trials), "")], ""))["axes"]
    assert axis["values"] == order


def test_only_its_own_scripts_run() -> None:
    content = page([explored(run_data(), "")], "").decode()
    (policy,) = re.findall(r"script-src ([^;]*);", content)
    scripts = re.findall(r"<script>(.*?)</script>", content, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert "default-src 'none'" in content
    assert not {"src", "href"} & {str(name) for one in html.fromstring(content).iter() for name in one.attrib}


@given(samples.runs(), texts)
def test_any_run_is_a_page(content: RunData, name: str) -> None:
    made = page([explored(content, name)], name, report=True)
    data = data_of(made)
    assert data["count"] == len(content.trials)
    assert b"<" not in re.findall(rb'id="data">(.*?)</script>', made)[0]
    assert [one.get("id") for one in html.fromstring(made).iter("script")] == ["data", None, None]


def test_pages_of_a_folder_of_runs_share_the_chart_library(tmp_path: Path) -> None:
    run = tmp_path / "results" / "sweep 1"
    run.mkdir(parents=True)
    library = shared_library(run / "explore.html", run.parent)
    (file,) = run.parent.glob("echarts-*.min.js")
    assert library == f"../{file.name}"
    assert shared_library(run.parent / "explore.html", run.parent) == file.name
    content = page([explored(run_data(), "")], "", library=library)
    assert len(content) < 200_000 < file.stat().st_size
    file.write_bytes(b"cut by a full disk")
    assert shared_library(run / "explore.html", run.parent) == library
    assert file.stat().st_size > 200_000


def test_a_page_elsewhere_has_its_own_library(tmp_path: Path) -> None:
    assert not shared_library(tmp_path / "explore.html", tmp_path / "results")
    assert not shared_library(tmp_path / "gone" / "explore.html", tmp_path / "gone"), "a folder that cannot be written"
