"""Chromium shows the page to explore: it fits, a selection in one view changes all, and it saves what it shows."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from lxml import etree

from matrix_runner.base.text import without_formula
from matrix_runner.pages.explore import explored, page, shared_library
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow
from tests.support.explored import COUNT, KEEP, Explorer, run_data
from tests.support.page_faults import find_faults

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser

WIDTHS = (1400, 800, 400)
#: Faults that a reader would see.
FAULTS = """[
    ...(document.documentElement.scrollWidth > innerWidth ? [`wider than ${innerWidth}`] : []),
    ...[...document.querySelectorAll('main *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.rows'))
        .map(one => `cut at ${innerWidth}: ${one.tagName} ${one.textContent.slice(0, 40)}`),
    ...[...document.querySelectorAll('.chart')].filter(one => !one.querySelector('canvas')).map(one => `no chart: ${one.id}`),
]"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("run") / "explore.html"
    path.write_bytes(page([explored(run_data(), "sweep-1")], "sweep on qemu"))
    return path.as_uri()


@pytest.fixture
def explorer(chromium: Browser, address: str) -> Explorer:
    chromium.show_as(1400, "light")
    chromium.open(address)
    assert not chromium.problems
    return Explorer(chromium)


def test_it_fits_and_is_accessible(explorer: Explorer) -> None:
    chromium = explorer.chromium
    explorer.choose("facet", "workload.rw")
    explorer.choose("dimension", "md.chunk")
    chromium.run("document.querySelector('details').open = true")
    assert not find_faults(chromium, FAULTS, WIDTHS)
    assert not chromium.problems


def test_the_last_tick_of_an_axis_is_as_far_as_the_others(explorer: Explorer) -> None:
    script = "echarts.getInstanceByDom(document.getElementById('scatter')).getOption().xAxis[0]"
    end, apart = (explorer.chromium.run(f"{script}.{name}") for name in ("max", "interval"))
    assert (end, apart) == (250, 50)
    assert explorer.chromium.run("document.getElementById('about-heat').textContent").endswith(
        "Totals count reads and writes together. (!): some trials are host-limited."
    )
    explorer.choose("metric", "write_bw")
    assert "host-limited" not in explorer.seen()["about"]["heat"]
    assert "together" not in explorer.seen()["about"]["heat"]


@pytest.mark.parametrize(
    ("facet", "down", "own"), [("workload.rw", "layout", True), ("layout", "workload.rw", True), ("layout", "", False)]
)
def test_each_kind_of_work_has_its_own_colours(explorer: Explorer, facet: str, down: str, own: bool) -> None:
    for element, value in {"across": "md.chunk", "facet": facet, "down": down}.items():
        explorer.choose(element, value)
    parts: dict[int, list[tuple[float, str]]] = {}
    for series, row, mean, colour in explorer.chromium.run(
        "echarts.getInstanceByDom(document.getElementById('heat')).getOption().series.flatMap((one, at) =>"
        " one.data.map(({ value, itemStyle }) => [at, value[1], value[2], itemStyle.color]))"
    ):
        parts.setdefault(row if down == "workload.rw" else series, []).append((mean, colour))
    ends = {(min(part)[1], max(part)[1]) for part in parts.values()}
    assert (len(parts), len(ends)) == (2, 1 if own else 2)
    assert ("in each kind of work" in explorer.seen()["about"]["heat"]) == own


@pytest.mark.parametrize(
    ("view", "start", "end", "chip"),
    [
        ("scatter", (0.5, 0.2), (0.98, 0.85), "total_bw"),
        ("heat", (0.15, 0.06), (0.3, 0.9), "md.chunk: 64KiB"),
        ("distribution", (0.4, 0.5), (0.6, 0.6), "total_bw"),
        ("parallel", (0.04, 0.6), (0.04, 0.9), "layout: raid0"),
    ],
)
def test_a_drag_in_one_view_selects_for_all(
    explorer: Explorer, view: str, start: tuple[float, float], end: tuple[float, float], chip: str
) -> None:
    before = explorer.seen()
    assert before["count"] == f"{COUNT} of {COUNT} trials selected"
    explorer.drag(view, start, end)
    after = explorer.seen()
    assert 0 < explorer.count() < COUNT
    assert any(one.startswith(chip) for one in after["chips"]), after["chips"]
    unchanged = [one for one in before["about"] if before["about"][one] == after["about"][one]]
    assert not unchanged
    assert all(one != other for one, other in zip(before["labels"], after["labels"], strict=True))
    assert len(after["rows"]) == explorer.count()
    explorer.drag(view, start, start)
    if view != "heat":  # there a click selects one cell
        assert explorer.count() == COUNT


def test_filters_by_keyboard(explorer: Explorer) -> None:
    explorer.choose("dimension", "md.chunk")
    explorer.chromium.run("document.getElementById('dimension').focus()")
    explorer.press("Tab")
    explorer.press("Space")
    seen = explorer.seen()
    assert seen["chips"] == ["md.chunk: 64KiB"]
    assert seen["count"] == f"{COUNT // 3} of {COUNT} trials selected"
    explorer.press("Tab")  # the focus stayed in the list
    explorer.press("Space")
    assert explorer.seen()["chips"] == ["md.chunk: 64KiB, 512KiB"]


def test_the_address_has_the_state(explorer: Explorer, address: str) -> None:
    explorer.drag("heat", (0.2, 0.1), (0.6, 0.6))
    explorer.drag("distribution", (0.3, 0.5), (0.9, 0.6))
    explorer.choose("metric", "total_iops")
    explorer.choose("facet", "layout")
    seen = explorer.seen()
    assert seen["chips"][0] == "md.chunk: 64KiB, 512KiB"
    assert 0 < explorer.count() < COUNT * 2 // 3
    explorer.chromium.open(address + seen["hash"])
    again = explorer.seen()
    assert again == seen
    assert explorer.chromium.run("document.getElementById('facet').value") == "layout"
    nonsense = "#metric=layout&x=&in%3Anothing=1&in%3Alayout=raid9&range%3Atotal_bw=x..y&axis=a&axis=b&sort=-none"
    explorer.chromium.open(address + nonsense)
    assert explorer.count() == COUNT
    assert not explorer.chromium.problems
    explorer.chromium.run("location.hash = 'in%3Alayout=raid5'")
    explorer.chromium.run("new Promise(done => setTimeout(done))")
    assert explorer.count() == COUNT // 2


def test_it_saves_what_it_shows(explorer: Explorer) -> None:
    explorer.chromium.run(KEEP)
    explorer.chromium.run("location.hash = 'in%3Alayout=raid5&in%3Astate=measured'")
    explorer.chromium.run("new Promise(done => setTimeout(done))")
    for view, words in (
        ("parallel", ["layout", "md.chunk"]),
        ("scatter", ["total_bw (MB/s)"]),
        ("heat", ["512KiB"]),
        ("distribution", ["trials"]),
    ):
        picture = etree.fromstring(explorer.save(f"[data-export={view}]").encode())
        texts = " ".join(str(text) for text in picture.itertext())
        assert all(word in texts for word in [*words, "layout: raid5", "sweep on qemu"]), texts
        assert explorer.chromium.run("window.savedName") == f"sweep-on-qemu-{view}.svg"
    rows = list(csv.DictReader(io.StringIO(explorer.save("#csv"))))
    assert len(rows) == COUNT // 2
    assert {row["layout"] for row in rows} == {"raid5"}
    assert rows[0]["read_bw"] == "160000000"
    assert rows[0]["write_bw"] == ""
    assert rows[0]["synthetic"] == "false"


#: Where the first point of the scatter is, as parts of its width and height; and the texts that are drawn now.
POINT = """(() => {
    const box = document.getElementById('scatter'), chart = echarts.getInstanceByDom(box);
    const {data} = chart.getOption().series.find(one => one.data.length);
    const [x, y] = chart.convertToPixel({gridIndex: 0}, data[0].slice(0, 2));
    return [x / box.clientWidth, y / box.clientHeight];
})()"""
DRAWN = """echarts.getInstanceByDom(document.getElementById('scatter')).getZr().storage.getDisplayList()
    .map(one => one.style.text).filter(Boolean).join(' ')"""


def test_a_point_names_its_trial(explorer: Explorer) -> None:
    explorer.hover("scatter", tuple(explorer.chromium.run(POINT)))
    explorer.chromium.run("new Promise(done => setTimeout(done, 100))")
    assert "raid0/chunk=64KiB/work/rw=" in explorer.chromium.run(DRAWN)


def test_the_table_is_sorted_by_a_column(explorer: Explorer) -> None:
    column = explorer.seen()["head"].index("total_bw (MB/s)")
    for order in ("212", "101"):
        explorer.chromium.run(f"document.querySelectorAll('thead th')[{column}].querySelector('button').click()")
        assert explorer.seen()["rows"][0][column] == order
    assert explorer.seen()["rows"][-1][column] == "", "a broken trial has no figure"
    assert explorer.seen()["head"][column].endswith("▲")


HOSTILE = "</script><script>window.broken = 1</script><!--\x1b[31m\x00\ud800\u202e,\"'{a|b}"


def test_hostile_names_stay_text(chromium: Browser, tmp_path: Path) -> None:
    given = run_data(synthetic=True)
    cells = [
        CellRow(
            cell.id, f"{HOSTILE}{at}", {**cell.axes, HOSTILE: HOSTILE + str(at % 2), "layout": f"{HOSTILE}{at % 3}"}
        )
        for at, cell in enumerate(given.cells)
    ]
    path = tmp_path / "explore.html"
    path.write_bytes(page([explored(RunData(HOSTILE, HOSTILE, True, cells, given.trials), HOSTILE)], HOSTILE))
    chromium.open(path.as_uri())
    explorer = Explorer(chromium)
    assert explorer.count() == COUNT
    assert chromium.run("window.broken ?? null") is None
    assert not chromium.problems
    assert "\\x1b[31m" in explorer.seen()["rows"][0][0]
    assert chromium.run("document.querySelector('.banner').textContent").startswith("Synthetic.")
    chromium.run(KEEP)
    etree.fromstring(explorer.save("[data-export=scatter]").encode())
    assert "</script>" in explorer.save("#csv")


def test_a_run_without_figures_has_a_page(chromium: Browser, tmp_path: Path) -> None:
    given = run_data()
    path = tmp_path / "explore.html"
    for trials in ((), given.trials[:1]):
        path.write_bytes(page([explored(RunData("m", "qemu", False, given.cells, trials), "run")], "m on qemu"))
        chromium.open(path.as_uri())
        assert chromium.run("document.getElementById('count').textContent") == "No trial has a figure yet."
        assert not chromium.problems


def test_one_trial_and_many_values_have_charts(chromium: Browser, tmp_path: Path) -> None:
    given = run_data()
    cells = [CellRow(str(at), f"x/chunk={at}", {"md.chunk": str(at), "workload.bs": str(at)}) for at in range(3000)]
    trials = [replace(given.trials[-1], cell=cell.id) for cell in cells]
    path = tmp_path / "explore.html"
    for count in (1, len(cells)):
        run = RunData("m", "qemu", False, cells[:count], trials[:count])
        path.write_bytes(page([explored(run, "run")], "m on qemu"))
        chromium.open(f"{path.as_uri()}#down={'md.chunk' if count > 1 else ''}&facet=state")
        assert Explorer(chromium).count() == count
        assert not chromium.run(FAULTS)
        assert not chromium.problems


def test_a_text_that_a_spreadsheet_would_compute_is_quoted(chromium: Browser, tmp_path: Path) -> None:
    given = run_data()
    names = ["=1+1", "+x", "-x", "@x", "\tx", '=HYPERLINK("a","b")', "-1", "+1.5e3", "x=1"]
    cells = [CellRow(str(at), name, {"layout": name}) for at, name in enumerate(names)]
    trials = [replace(given.trials[-1], cell=cell.id) for cell in cells]
    path = tmp_path / "explore.html"
    path.write_bytes(page([explored(RunData("m", "qemu", False, cells, trials), "run")], "m on qemu"))
    chromium.open(path.as_uri())
    chromium.run(KEEP)
    rows = list(csv.DictReader(io.StringIO(Explorer(chromium).save("#csv"))))
    assert {row["name"] for row in rows} == {without_formula(name) for name in names}
    assert {row["layout"] for row in rows} == {without_formula(name) for name in names}


def test_without_the_shared_library_the_page_says_what_to_do(chromium: Browser, tmp_path: Path) -> None:
    run = tmp_path / "sweep-1"
    run.mkdir()
    library = shared_library(run / "explore.html", tmp_path)
    (run / "explore.html").write_bytes(page([explored(run_data(), "sweep-1")], "sweep on qemu", library=library))
    shown = "getComputedStyle(document.getElementById('missing')).display"
    chromium.open((run / "explore.html").as_uri())
    assert Explorer(chromium).count() == COUNT
    assert (chromium.run(shown), chromium.problems) == ("none", [])
    (tmp_path / library.removeprefix("../")).unlink()
    chromium.open((run / "explore.html").as_uri())
    assert chromium.run(shown) == "block"
    assert "matrix explore --single" in chromium.run("document.getElementById('missing').textContent")
    assert len(chromium.problems) == 1, "only the missing file"
