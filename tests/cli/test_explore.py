from __future__ import annotations

import json
import re
import sys
import webbrowser
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.cli import options
from matrix_runner.cli.options import open_page
from matrix_runner.records.run_folder import runs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call, Matrix

RUN = ("run", "--on", "dry", "--fresh", "small.yaml")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser was asked to open."""
    found: list[str] = []

    def opens(address: str) -> bool:
        found.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    return found


def data_of(page: Path) -> dict[str, Any]:
    (text,) = re.findall(r'id="data">(.*?)</script>', page.read_text())
    data: dict[str, Any] = json.loads(text)
    return data


@pytest.mark.usefixtures("matrix")
def test_the_page_of_one_run_and_of_several(call: Call, tmp_path: Path, opened: list[str]) -> None:
    for _ in range(2):
        assert call(*RUN).status == 0
    first, second = (run.path for run in runs(tmp_path / "results"))
    by_run = (second / "explore.html").read_bytes()
    (second / "explore.html").unlink()
    said = call("explore")
    assert (said.status, said.err) == (0, f"written to results/{second.name}/explore.html\n")
    assert (second / "explore.html").read_bytes() == by_run
    (second / "explore.html").unlink()
    assert call("report", second.name).status == 0
    assert (second / "explore.html").read_bytes() == by_run
    assert call("explore", "latest~1,latest").err == "written to results/explore.html\n"
    data = data_of(tmp_path / "results/explore.html")
    assert data["count"] == 2 * data_of(first / "explore.html")["count"]
    assert data["axes"][0]["values"] == [second.name, first.name]
    assert [run["folder"] for run in data["runs"]] == [f"{second.name}/", f"{first.name}/"]
    assert call("explore", first.name, "-o", "own.html").err == "written to own.html\n"
    assert data_of(tmp_path / "own.html")["runs"][0]["folder"] == f"results/{first.name}/"
    assert not opened, "there is no terminal"
    assert b"../echarts-" in by_run
    assert call("explore", "--single").status == 0
    assert b"../echarts-" not in (second / "explore.html").read_bytes()
    assert (tmp_path / "own.html").stat().st_size > 1_000_000, "outside the folder of runs"


@pytest.mark.usefixtures("matrix")
def test_pages_are_opened_on_demand(
    call: Call, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(*RUN).status == 0
    (run,) = runs(tmp_path / "results")
    assert call("explore", "--no-open").status == 0
    assert not opened
    assert call("explore", "--open").status == 0
    assert opened.pop() == (run.path / "explore.html").as_uri()
    assert call("report", "latest", "--open").status == 0
    assert opened.pop() == (run.path / "report.html").as_uri()
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    said = call("explore", "--open")
    assert said.status == 3
    assert "no browser opened results/" in said.err


@pytest.mark.parametrize(
    ("terminal", "environment", "opens"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
        (True, {"DISPLAY": ":0", "CI": "true"}, False),
    ],
)
def test_a_page_is_opened_where_someone_sees_it(
    tmp_path: Path,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    environment: dict[str, str],
    opens: bool,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    open_page(tmp_path / "explore.html", None)
    assert bool(opened) == opens


def test_by_default_a_missing_browser_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    monkeypatch.setattr(options, "_is_seen", lambda: True)
    open_page(tmp_path / "explore.html", None)
    with pytest.raises(HarnessBroken):
        open_page(tmp_path / "explore.html", wanted=True)


def test_without_runs_there_is_no_page(call: Call, matrix: Matrix, tmp_path: Path) -> None:
    assert call("explore").status == 2
    matrix(*RUN)
    said = call("explore", "elsewhere")
    assert said.status == 2
    assert "no run in the store matches 'elsewhere'" in said.err
