"""Chromium shows the report of a run: it fits on screens and on paper, without and with scripts."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.html import page
from tests.support.begun_runs import manifest
from tests.support.explored import KEEP
from tests.support.page_faults import FAULTS, HIDDEN, find_faults
from tests.support.reported import run_data

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser

_A4 = (210 / 25.4, 297 / 25.4)  # inches
_MARGIN = 0.4


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("run") / "report.html"
    path.write_bytes(page(run_data(), manifest(), "sweep-1"))
    return path.as_uri()


@pytest.fixture
def report(chromium: Browser, address: str) -> Browser:
    chromium.ask("Emulation.setEmulatedMedia", media="")
    chromium.show_as(1400, "light")
    chromium.open(address)
    assert not chromium.problems
    return chromium


def test_it_fits_and_is_accessible(report: Browser) -> None:
    report.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert not find_faults(report)
    assert not report.problems


def test_a_telephone_has_room_for_texts_in_tables(report: Browser) -> None:
    report.show_as(420, "light")
    for place, least in (("tbody .claim", 140), ("tbody td.why", 260)):
        widths = report.run(f"[...document.querySelectorAll('{place}')].map(one => one.clientWidth)")
        assert widths
        assert min(widths) >= least, place


def test_paper_has_all_that_the_screen_has(report: Browser) -> None:
    width, height = _A4
    room = round((width - 2 * _MARGIN) * 96)
    report.ask("Emulation.setDeviceMetricsOverride", width=room, height=900, deviceScaleFactor=1, mobile=False)
    report.ask("Emulation.setEmulatedMedia", media="print")
    assert not report.run(FAULTS)
    assert not report.run(HIDDEN)
    paper = report.ask("Page.printToPDF", paperWidth=width, paperHeight=height, marginLeft=_MARGIN, marginRight=_MARGIN)
    sizes = {
        tuple(map(float, one))
        for one in re.findall(rb"/MediaBox \[0 0 (\S+) ([\d.]+)", base64.b64decode(paper["data"]))
    }
    assert sizes
    assert all(size == pytest.approx((width * 72, height * 72), abs=1) for size in sizes)


def column(report: Browser, table: str, number: int) -> list[str]:
    rows = f"[...document.querySelectorAll('{table} tbody tr')].filter(row => row.getClientRects().length)"
    texts: list[str] = report.run(f"{rows}.map(row => row.cells[{number}].textContent.trim())")
    return texts


def test_a_column_sorts_the_rows_and_again_in_their_own_order(report: Browser) -> None:
    click = "document.querySelectorAll('#s1 > .wide thead th')[{}].querySelector('button').click()"
    declared = column(report, "#s1 > .wide", 0)
    assert len(declared) == 27
    report.run(click.format(1))
    rates = [float(text.split()[0].replace(",", "")) for text in column(report, "#s1 > .wide", 1)]
    assert rates == sorted(rates, reverse=True)
    assert report.run("document.querySelectorAll('#s1 th[aria-sort]').length") == 1
    report.run(click.format(0))
    first, *_ = labels = column(report, "#s1 > .wide", 0)
    assert first == "raid0, chunk=64KiB, iodepth=1"
    assert labels.index("raid0, chunk=512KiB, iodepth=1") < labels.index("raid0, chunk=1MiB, iodepth=1")
    report.run(click.format(0))
    assert column(report, "#s1 > .wide", 0) == labels[::-1]
    report.run(click.format(0))
    assert column(report, "#s1 > .wide", 0) == declared


def test_times_of_several_units_sort_by_their_length(report: Browser) -> None:
    report.run("document.querySelectorAll('#s1 > .wide thead th')[2].querySelector('button').click()")
    figures = [" ".join(text.split()[:2]) for text in column(report, "#s1 > .wide", 2)]
    assert [figures[0], *figures[-4:]] == ["8.10 ms", "1.20 ms", "900 µs", "600 µs", "300 µs"]


def test_words_filter_the_rows(report: Browser) -> None:
    typed = "(() => {{ const one = document.querySelector('#s1 input'); one.value = '{}'; one.dispatchEvent(new Event('input')); }})()"
    report.run(typed.format("RAID5  64kib"))
    left = column(report, "#s1 > .wide", 0)
    assert left == [f"raid5, chunk=64KiB, iodepth={depth}" for depth in (1, 8, 64)]
    assert report.run("document.querySelector('#s1 output').textContent") == "3 of 27 rows"
    report.run(typed.format(""))
    assert len(column(report, "#s1 > .wide", 0)) == 27


def test_without_scripts_the_tables_are_complete_and_have_no_controls(report: Browser, address: str) -> None:
    report.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        report.open(address)
        report.ask("Emulation.setScriptExecutionDisabled", value=False)  # of the page; `run` is not of it
        assert len(column(report, "#s1 > .wide", 0)) == 27
        assert report.run("document.querySelectorAll('button, input').length") == 0
    finally:
        report.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_a_chart_is_saved_as_it_looks(report: Browser, tmp_path: Path) -> None:
    report.run(KEEP)
    report.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    count = report.run("document.querySelectorAll('figure > svg').length")
    assert report.run("document.querySelectorAll('.save').length") == count > 2
    for number in range(count):
        text = report.run(f"(document.querySelectorAll('.save')[{number}].click(), window.saved.at(-1).text())")
        name = report.run("window.savedName")
        assert name.endswith(".svg")
        (tmp_path / f"{number}.svg").write_text(text)
    captions = report.run(
        "[...document.querySelectorAll('figure:has(> svg) figcaption')].map(one => one.textContent.trim())"
    )
    strokes = "[...document.querySelectorAll('polyline, line, path')].filter(one => getComputedStyle(one).stroke !== 'none').length"
    for number, caption in enumerate(captions):
        report.open((tmp_path / f"{number}.svg").as_uri())
        assert not report.problems
        assert report.run("document.querySelector('text').textContent") == caption
        assert report.run(strokes), "lines have colours without the styles of the page"
        outside = "[...document.querySelectorAll('text')].filter(one => one.getBoundingClientRect().right > document.documentElement.getAttribute('width')).length"
        assert report.run(outside) == 0
