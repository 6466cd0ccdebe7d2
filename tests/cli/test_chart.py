"""`matrix chart`: one figure of a run as a picture for a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lxml import etree

from matrix_runner.cli import site
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser
    from tests.support.command import Call

LONG = "Bandwidth of everything that we have measured in this winter on our arrays & their <disks>"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    trials = [past.measured("c1", number, 1e8 + number * 1e6) for number in (1, 2, 3)]
    past.recorded(tmp_path / "results", [*trials, past.measured("c2", 1, 5e7, 4e7)], exit=0)
    return tmp_path


def test_a_slide_has_title_figures_and_source(results: Path, call: Call) -> None:
    said = call("chart", "--metric", "read_bw", "--to", "x.svg")
    assert (said.status, said.err) == (0, "written to x.svg\n")
    picture = etree.fromstring((results / "x.svg").read_bytes())
    assert (picture.get("width"), picture.get("height")) == ("1600", "900")
    text = " ".join(str(one) for one in picture.itertext())
    assert "sweep: read_bw" in text
    assert "read 102 MB/s (99.5 to 104 MB/s)" in text
    assert "raid5/chunk=16KiB/oltp" in text
    assert "run-1, 2026-03-01: qemu on lab1" in text
    assert "Up to 3 trials of each cell, with intervals of 95 % confidence" in text
    assert "Synthetic" not in text


def test_cells_and_title_are_chosen(results: Path, call: Call, chromium: Browser) -> None:
    words = ("--only", "workload=oltp", "--title", LONG, "--to", "x.svg")
    assert call("chart", "run-1", "--metric", "write.bw", *words).status == 0
    content = (results / "x.svg").read_text()
    assert "oltp" in content
    assert "seq" not in content
    chromium.show_as(1600, "dark")
    chromium.open((results / "x.svg").as_uri())
    outside = "[...document.querySelectorAll('text')].filter(one => one.getBoundingClientRect().right > 1600).length"
    assert chromium.run(outside) == 0
    assert not chromium.problems


def test_a_picture_of_dots(results: Path, call: Call, chromium: Browser) -> None:
    assert call("chart", "--metric", "read_bw", "--to", "x.png").status == 0
    content = (results / "x.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert [int.from_bytes(content[at : at + 4], "big") for at in (16, 20)] == [1600, 900]


@pytest.mark.parametrize(
    ("words", "problem", "remedy"),
    [
        (("--metric", "read_bw", "--to", "x.gif"), "no picture has this suffix", "use .svg or .png"),
        (
            ("--metric", "trim_bw", "--to", "x.svg"),
            "no cell of run-1 has trim_bw",
            "`matrix results` shows its figures",
        ),
        (("--metric", "read_wb", "--to", "x.svg"), "there is no figure 'read_wb'", "did you mean read_bw"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    results: Path, call: Call, words: tuple[str, ...], problem: str, remedy: str
) -> None:
    said = call("chart", *words)
    assert said.status == 2
    assert problem in said.err
    assert remedy in said.err
    assert not list(results.glob("x.*"))


def test_without_chromium_there_is_a_remedy(results: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_BROWSERS", ("no-such-browser",))
    said = call("chart", "--metric", "read_bw", "--to", "x.png")
    assert said.status == 2
    assert "install chromium, or use --to x.svg" in said.err
