"""Pictures of the documentation: well-formed, described, complete in themselves, and drawn by the present program."""

from __future__ import annotations

import re
from itertools import combinations
from struct import unpack
from typing import TYPE_CHECKING

import pytest
from lxml import etree

from docs.pictures import record, screenshots, terminal
from docs.pictures.draw import DRAWINGS, FOLDER
from tests.support.pages import DOCS, ROOT, blocks, pages

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
DIAGRAMS = [name for name in DRAWINGS if name != "terminal.svg"]
SIZES = {"small": 13, "title": 16, "mono": 14}


def parse(name: str) -> etree._Element:
    return etree.fromstring((FOLDER / name).read_bytes())


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_what_its_program_draws(name: str) -> None:
    assert (FOLDER / name).read_text() == str(DRAWINGS[name]()), "`./bootstrap docs --pictures` draws it again"


def test_each_picture_is_drawn() -> None:
    assert {path.name for path in FOLDER.glob("*.svg")} == set(DRAWINGS)
    assert {path.name for path in FOLDER.glob("*.png")} == set(screenshots.MODES)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_has_a_title_and_a_description(name: str) -> None:
    root = parse(name)
    assert root.get("role") == "img"
    first, second = root[0], root[1]
    assert [first.tag, second.tag] == [f"{SVG}title", f"{SVG}desc"]
    assert root.get("aria-labelledby") == f"{first.get('id')} {second.get('id')}"
    assert min(len(first.text or ""), len(second.text or "")) > 10


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_needs_no_other_file(name: str) -> None:
    root = parse(name)
    assert {etree.QName(one).localname for one in root.iter(etree.Element)}.isdisjoint(
        {"script", "image", "foreignObject"}
    )
    values = [str(value) for one in root.iter(etree.Element) for value in one.attrib.values()]
    styles = [one.text or "" for one in root.iter(f"{SVG}style")]
    assert not [text for text in [*values, *styles] if re.search(r"https?:|url\(|@import|data:", text)]
    assert all(one.get("href", "#").startswith("#") for one in root.iter(f"{SVG}use"))


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_light_and_dark(name: str) -> None:
    style = parse(name).findtext(f"{SVG}style") or ""
    used = set(re.findall(r"var\(--([\w-]+)\)", (FOLDER / name).read_text()))
    light, dark = style.split("prefers-color-scheme: dark", 1)
    for part in (light, dark):
        assert used <= set(re.findall(r"--([\w-]+):", part))


@pytest.mark.parametrize("name", DIAGRAMS)
def test_texts_of_a_diagram_stay_apart_and_inside(name: str) -> None:
    root = parse(name)
    width, height = (float(root.get(side, "")) for side in ("width", "height"))
    areas = {}
    for one in root.iter(f"{SVG}text"):
        left, right, top, bottom = area(one)
        assert left >= 0, one.text
        assert right <= width, one.text
        assert 0 <= top < bottom <= height, one.text
        areas[one] = left, right, top, bottom
    for a, b in combinations(areas, 2):
        (l1, r1, t1, b1), (l2, r2, t2, b2) = areas[a], areas[b]
        assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1, f"{a.text!r} overlaps {b.text!r}"


def area(one: etree._Element) -> tuple[float, float, float, float]:
    """Return about the area of a text, in a usual font."""
    classes = (one.get("class") or "").split()
    size = next((SIZES[name] for name in classes if name in SIZES), 15)
    width = len(one.text or "") * size * (0.6 if "mono" in classes else 0.56)
    x, y = float(one.get("x", "")), float(one.get("y", ""))
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[one.get("text-anchor", "")]
    return left, left + width, y - size * 0.75, y + size * 0.2


def test_the_film_is_small_and_shows_the_answer_before_it_plays() -> None:
    text = (FOLDER / "terminal.svg").read_text()
    assert len(text.encode()) < 200_000
    window = next(one for one in parse("terminal.svg").iter(f"{SVG}svg") if one.get("y"))
    uses = window.iter(f"{SVG}use")
    first = [one.get("href", "")[1:] for one in uses if float(one.get("y", "")) < float(window.get("height", ""))]
    assert [name for name in first if re.search(f'<g id="{name}">[^\n]*Fastest stack by workload', text)]
    assert "prefers-reduced-motion" in text


def test_the_recording_is_of_a_real_run() -> None:
    assert "synthetic" not in record.CAST.read_text().lower()
    assert "synthetic" not in record.REPORT.read_text().replace("strong.synthetic", "").lower()


def test_the_recording_is_of_the_matrix_in_the_readme() -> None:
    (shown,) = (block.text for block in blocks((ROOT / "README.md").read_text()) if block.file_name == "which.yaml")
    assert shown.partition("\n")[2] == (FOLDER / "which.yaml").read_text()


def test_the_readme_shows_the_answer_of_the_recording() -> None:
    recorded = record.CAST.read_text()
    (shown,) = (block.text for block in blocks((ROOT / "README.md").read_text()) if "Fastest stack" in block.text)
    answer = [line for line in shown.splitlines() if not line.startswith(("$", "…"))]
    assert not [line for line in answer if line not in recorded]


def test_a_progress_line_that_is_soon_replaced_is_left_out() -> None:
    redraw = "\r\x1b[2K"
    events = [
        (0.0, f"{redraw}1"),
        (0.1, f"{redraw}2"),
        (0.2, f"{redraw}done\r\n{redraw}3"),
        (0.3, f"{redraw}4"),
        (2.0, f"{redraw}5"),
    ]
    assert record.thin_out(events) == [(0.0, f"{redraw}done\r\n{redraw}3"), (0.3, f"{redraw}4"), (2.0, f"{redraw}5")]


def test_a_run_is_recorded_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "CAST", tmp_path / "run.cast")
    monkeypatch.setattr(record, "REPORT", tmp_path / "report.html")
    monkeypatch.setattr(terminal, "CAST", tmp_path / "run.cast")
    record.record("--on", "dry")
    assert "small-writes" in (tmp_path / "report.html").read_text()
    drawn = terminal.film()
    etree.fromstring(drawn.encode())
    assert "These figures are synthetic" in drawn


@pytest.mark.parametrize("name", screenshots.MODES)
def test_a_screenshot_is_wide_and_small(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    assert len(content) < 300_000
    assert unpack(">I", content[16:20]) == (1400,)


def test_a_missing_chromium_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    screenshots.main()
    assert "no Chromium" in capsys.readouterr().out


def test_each_picture_stands_on_a_page() -> None:
    text = "".join(page.read_text() for page in pages())
    names = {path.name for path in (*FOLDER.glob("*.svg"), *FOLDER.glob("*.png"))}
    assert not {name for name in names if f"pictures/{name}" not in text}
    assert DOCS / "pictures" == FOLDER
