"""`matrix site`: pages of many runs, without names of hosts, opened from disk."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.pages.terminal_text import ratio_texts
from matrix_runner.records.environment import Host
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.ratios import unpaired_ratio, verdicts
from tests.records import past
from tests.support.page_faults import find_faults

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser
    from tests.support.command import Call

HOST, SERIAL = "ravenclaw7", "ata-WDC_WD40EFRX-68N_WD-WCC4E1234567"
CELLS = [
    CellRow(f"c{at}", f"raid5/chunk={chunk}KiB/seq", {"layout": "raid5", "md.chunk": f"{chunk}KiB", "workload": "seq"})
    for at, chunk in enumerate((16, 64, 256))
]
NIGHTS, ROUNDS = 9, 4
VERDICTS = "guideline,verdict,claim\nchunks,{},64 KiB is best on ravenclaw7\n"


def rate(night: int, cell: int, round_number: int) -> float:
    slow = 0.8 if cell == 0 and night > NIGHTS - 4 else 1.0
    return slow * (
        100e6 + 20e6 * cell + 1e6 * ((7 * night + 5 * round_number + 3 * cell) % 6) * (3 if cell == 2 else 1)
    )


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    host = Host(kernel="6.1.0", cpu="some cpu", cores=2, memory=4 << 30, hostname=HOST)
    for night in range(1, NIGHTS + 1):
        trials = [
            past.measured(cell.id, number, rate(night, at, number))
            for at, cell in enumerate(CELLS)
            for number in range(1, ROUNDS + 1)
        ]
        note = f"after the update of {HOST}" if night == 2 else ""
        command = ("matrix", "run", f"/dev/disk/by-id/{SERIAL}")
        changes: dict[str, Any] = {"until": 0.05, "most": 9} if night == 1 else {}
        run = past.recorded(
            tmp_path / "results", trials, night, CELLS, exit=0, host=host, note=note, command=command, **changes
        )
        (run.path / "verdicts.csv").write_text(VERDICTS.format("holds" if night < 7 else "fails"))
    return tmp_path / "results"


@pytest.fixture
def site(nights: Path, call: Call, tmp_path: Path) -> Path:
    assert call("report", f"run-{NIGHTS}").status == 0
    (nights / f"run-{NIGHTS}" / "verdicts.csv").write_text(VERDICTS.format("fails"))
    said = call("site")
    assert (said.status, said.err) == (0, "")
    assert "public/index.html: 9 runs, " in said.out
    assert "1 host" in said.out
    return tmp_path / "public"


def test_names_are_replaced_everywhere(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    assert not [path.name for path in files if HOST in path.read_text() or "WCC4E" in path.read_text()]
    report = (site / f"run-{NIGHTS}" / "report.html").read_text()
    assert "host-1" in report
    assert 'href="../index.html"' in report
    assert 'href="summary.csv"' not in report, "the site has no such file"
    assert 'href="explore.html"' in report
    assert "after the update of host-1" in (site / "index.html").read_text()


def test_names_stay_if_wished(nights: Path, call: Call, tmp_path: Path) -> None:
    assert "names of hosts stay" in call("site", "run-1,run-2", "--with-hosts", "--to", "own/site").out
    assert HOST in (tmp_path / "own/site/matrix-sweep.html").read_text()
    assert not (tmp_path / "own/site/run-3").exists()


def test_the_page_of_a_matrix_follows_figures_and_verdicts(site: Path) -> None:
    page = (site / "matrix-sweep.html").read_text()
    assert "seq: read_iops on host-1 (qemu)" in page
    assert page.count("<polyline") == len(CELLS)
    assert page.count('<th scope="row">raid5/chunk=') == len(CELLS)
    assert "2026-03-07 (run-7)" in page, "since when the guideline fails"
    assert "✓✓✓✓✓✓✗✗✗" in page
    assert "3 fails, 6 holds" in page


def test_an_excluded_run_is_no_part_of_the_site(nights: Path, call: Call, tmp_path: Path) -> None:
    assert call("runs", "exclude", "run-3", "--reason", "a rebuild").status == 0
    said = call("site")
    assert "1 excluded run left out; name them with RUNS" in said.err
    assert not (tmp_path / "public" / "run-3").exists()
    assert call("site", "run-*").status == 0
    assert "excluded: a rebuild" in (tmp_path / "public/index.html").read_text()


def test_a_second_site_replaces_the_first_and_nothing_else(nights: Path, call: Call, tmp_path: Path) -> None:
    assert call("site").status == 0
    (tmp_path / "public" / "CNAME").write_text("mine")
    assert call("site", "run-2").status == 0
    assert {path.name for path in (tmp_path / "public").glob("*/")} == {"run-2"}
    assert (tmp_path / "public" / "CNAME").read_text() == "mine"
    said = call("site", "--to", "results")
    assert said.status == 2
    assert "results has other files than a site of matrix" in said.err


@pytest.mark.parametrize("name", ["../precious", "run-1/../../precious", "run-1/x/precious", "{tmp}/precious", ".."])
def test_a_list_of_files_from_elsewhere_removes_nothing_outside(
    nights: Path, call: Call, tmp_path: Path, name: str
) -> None:
    """A site may come from a branch that others write."""
    assert call("site", "run-1").status == 0
    (tmp_path / "public/run-1/x").mkdir()
    kept = [tmp_path / "precious", tmp_path / "public/run-1/x/precious"]
    for path in kept:
        path.write_text("mine")
    (tmp_path / "public/matrix-site.json").write_text(json.dumps(["index.html", name.format(tmp=tmp_path)]))
    said = call("site", "run-2")
    assert (said.status, "is not in public\n→ name a new or empty folder with --to" in said.err) == (2, True), said
    assert [path.read_text() for path in kept] == ["mine", "mine"]


@pytest.mark.parametrize("text", ["", "<<<<<<< HEAD", "7", "[7]", '{"index.html": 1, "a/b/c": 2}'])
def test_a_list_that_is_none_is_other_files(nights: Path, call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public/matrix-site.json").write_text(text)
    said = call("site", "run-2")
    assert (said.status, "a mistake in matrix itself" in said.err) == (2, False), said
    assert [path.name for path in (tmp_path / "public").iterdir()] == ["matrix-site.json"]


def test_a_linked_folder_of_a_site_is_not_written(nights: Path, call: Call, tmp_path: Path) -> None:
    assert call("site", "run-1").status == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/report.html").write_text("mine")
    (tmp_path / "public/run-2").symlink_to(tmp_path / "elsewhere")
    said = call("site", "run-2")
    assert (said.status, "public/run-2/" in said.err) == (2, True), said
    assert {path.name: path.read_text() for path in (tmp_path / "elsewhere").iterdir()} == {"report.html": "mine"}


@pytest.mark.parametrize("name", ["report.html", "answer.txt"])
@pytest.mark.parametrize("make", ["link", "second name", "pipe", "bytes"])
def test_a_site_has_only_files_of_its_runs(nights: Path, call: Call, tmp_path: Path, name: str, make: str) -> None:
    """The folder of a run may come from others: a link could lead to any file of this host."""
    (tmp_path / "key").write_text("the key of my door")
    file = nights / f"run-{NIGHTS}" / name
    if make == "link":
        file.symlink_to(tmp_path / "key")
    elif make == "second name":
        file.hardlink_to(tmp_path / "key")
    elif make == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff\xfe")
    said = call("site")
    assert not [path for path in (tmp_path / "public").rglob("*.html") if "key of my door" in path.read_text()]
    if make == "bytes":
        assert (said.status, said.err) == (0, "")
    else:
        assert (said.status, f"damaged: run-{NIGHTS}/{name} is left out: it is a " in said.err) == (3, True), said


def rows_of(chromium: Browser) -> list[list[str]]:
    text = "(one => [...one.rows].map(row => [...row.cells].map(cell => cell.textContent)))"
    rows: list[list[str]] = chromium.run(f"{text}(document.getElementById('figures').tBodies[0])")
    return rows


@pytest.mark.parametrize(("a", "b"), [(2, 9), (2, 3), (1, 9), (9, 2)])
def test_two_runs_are_compared_as_by_the_command(site: Path, chromium: Browser, a: int, b: int) -> None:
    chromium.open(f"{(site / 'compare.html').as_uri()}#a=run-{a}&b=run-{b}")
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert not chromium.problems
    values = {
        night: [[rate(night, at, number) for number in range(1, ROUNDS + 1)] for at in range(len(CELLS))]
        for night in (a, b)
    }
    ratios = [unpaired_ratio(one, other, early=1 in {a, b}) for one, other in zip(values[a], values[b], strict=True)]
    expected = {}
    for cell, ratio, verdict in zip(CELLS, ratios, verdicts(ratios, 0.05), strict=True):
        speed = {"more": "faster", "less": "slower"}.get(verdict.value, verdict.value)
        expected[cell.name] = [*ratio_texts(ratio), speed]
    assert {row[0]: row[4:] for row in rows_of(chromium)} == expected
    assert chromium.run("location.hash") == f"#a=run-{a}&b=run-{b}"


def test_another_run_is_chosen_on_the_page(site: Path, chromium: Browser) -> None:
    chromium.open((site / "compare.html").as_uri())
    chosen = "['a', 'b'].map(id => document.getElementById(id).value)"
    assert chromium.run(chosen) == ["run-8", "run-9"]
    chromium.run(
        "(one => { one.value = 'run-1'; one.dispatchEvent(new Event('change')); })(document.getElementById('a'))"
    )
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert "run-1" in chromium.run("location.hash")
    assert len(rows_of(chromium)) == len(CELLS)
    (site / "run-4" / "figures.js").unlink()
    chromium.run(
        "(one => { one.value = 'run-4'; one.dispatchEvent(new Event('change')); })(document.getElementById('a'))"
    )
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert chromium.run("document.getElementById('state').textContent") == "run-4/figures.js is missing."


@pytest.mark.parametrize("page", ["index.html", "matrix-sweep.html", "compare.html", f"run-{NIGHTS}/explore.html"])
def test_pages_fit_and_are_accessible(site: Path, chromium: Browser, page: str) -> None:
    chromium.show_as(1400, "light")
    chromium.open((site / page).as_uri())
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert not chromium.problems
    if "explore" not in page:
        assert not find_faults(chromium, widths=(1400, 400))
    links = chromium.run("[...document.querySelectorAll('a[href]')].map(one => one.getAttribute('href'))")
    folder = (site / page).parent
    assert not [link for link in links if not (folder / link.partition("#")[0]).is_file()]


@pytest.mark.parametrize(
    ("start", "labels"),
    [("2026-03-04T{:02}:06:07+00:00", {"01:06", "07:06"}), ("2026-03-{:02}T05:06:07+00:00", {"2026-03-01"})],
    ids=["one day", "nights"],
)
def test_many_synthetic_runs_fit_a_telephone(
    tmp_path: Path, call: Call, chromium: Browser, start: str, labels: set[str]
) -> None:
    name = "a-sweep-of-a-long-name"
    for number in range(1, 24):
        run: dict[str, Any] = {"started": start.format(number), "matrix": name, "machine": "dry", "synthetic": True}
        made = past.recorded(tmp_path / "results", [past.measured("c0", 1, 1e8)], number, CELLS[:1], exit=0, **run)
        made.path.rename(made.path.with_name(f"{name}-dry-20260304-0506{number:02}"))
    assert call("site").status == 0
    chromium.show_as(400, "light")
    for page in ("index.html", "compare.html", f"matrix-{name}.html"):
        chromium.open((tmp_path / "public" / page).as_uri())
        assert not find_faults(chromium, widths=(400,))
    found = chromium.run("[...document.querySelectorAll('.axes .tick')].map(one => one.textContent)")
    assert labels <= {*found}
    assert sum(one in labels for one in found) == len(labels), "each once"
    assert "its verdicts" not in (tmp_path / "public/index.html").read_text(), "there is none"


def test_a_page_of_a_run_has_its_date(site: Path) -> None:
    started = f"2026-03-{NIGHTS:02} 05:06 UTC"
    header, _, _ = (site / f"run-{NIGHTS}/report.html").read_text().partition("</header>")
    assert f"<dt>started</dt><dd>{started}</dd>" in header
    explore = (site / f"run-{NIGHTS}/explore.html").read_text()
    assert f"<h1>Explore sweep on qemu, {started}</h1>" in explore
    assert 'href="trials.csv"' not in explore, "the site has no such file"


def test_hostile_names_stay_text(tmp_path: Path, call: Call, chromium: Browser) -> None:
    hostile = "</script><script>window.broken = 1</script><!--&'\"{{x}}"
    cells = [CellRow("c1", f"{hostile}/seq", {"layout": hostile, "workload": "seq"})]
    trials = [past.measured("c1", 1, 1e8)]
    for night in (1, 2):
        past.recorded(tmp_path / "results", trials, night, cells, exit=0, matrix=hostile, note=hostile)
    assert call("site", "--with-hosts").status == 0
    for page in sorted((tmp_path / "public").rglob("*.html")):
        chromium.open(page.as_uri())
        assert chromium.run("window.broken ?? null") is None, page
        assert not chromium.problems
    data = (tmp_path / "public/run-1/figures.js").read_text()
    assert json.loads(data.partition(", ")[2].rstrip(");\n"))["cells"][0][1] == f"{hostile}/seq"


@pytest.mark.parametrize("doctype", ["<!DOCTYPE html>\n", ""])
def test_a_report_of_somebody_else_brings_no_script(
    nights: Path, call: Call, tmp_path: Path, chromium: Browser, doctype: str
) -> None:
    """A run folder may be from another host."""
    assert call("report", "run-1").status == 0
    own = (nights / "run-1" / "report.html").read_text()
    script = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
    (nights / "run-2" / "report.html").write_text(f"{doctype}{script}<h1>a run</h1>{script}")
    (nights / "run-3" / "report.html").write_text(own.replace("<head>", f"<head>{script}"))
    assert call("site").status == 0
    for name in ("run-2", "run-3"):
        chromium.open((tmp_path / "public" / name / "report.html").as_uri())
        assert chromium.run("window.broken ?? null") is None
    chromium.problems.clear()
    chromium.open((tmp_path / "public/run-1/report.html").as_uri())
    assert not chromium.problems
    assert chromium.run("document.compatMode") == "CSS1Compat"


@pytest.mark.parametrize(
    "way",
    [
        "<meta {refresh}>",
        "<META\n{refresh}",
        "<meta/{refresh}/>",
        "<me<meta>ta {refresh}>",
        '<<a href="x">meta {refresh}>',
        "<scripts><meta {refresh}></scripts></script>",
        "<i title='><meta {refresh}>'><meta {refresh}>",
        "<svg><meta {refresh}>",
        "<!-- > --><meta {refresh}>",
    ],
)
def test_a_report_of_somebody_else_leads_nowhere_by_itself(
    nights: Path, call: Call, tmp_path: Path, chromium: Browser, way: str
) -> None:
    refresh = 'http-equiv="refresh" content="0; url=../index.html"'
    (nights / "run-2" / "report.html").write_text(f"<!DOCTYPE html>\n{way.format(refresh=refresh)}\n<h1>a run</h1>")
    assert call("site").status == 0
    report = (tmp_path / "public/run-2/report.html").as_uri()
    chromium.open(report)
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert chromium.run("location.href") == report


@pytest.mark.parametrize(
    "way",
    [
        '<form id="x" action="../index.html"></form><script>x</script>',
        "<a id='x' href='../index.html'>here</a>",
        '<A id="x" HREF="../index.html">here</A>',
        '<a  href="../index.html" id="x">here</a>',
        '<base href="../index.html#"><a href="explore.html" id="x">here</a>',
        '<map><area id="x" href="../index.html"></map>',
    ],
)
def test_no_place_of_a_foreign_report_leads_elsewhere(
    nights: Path, call: Call, tmp_path: Path, chromium: Browser, way: str
) -> None:
    (nights / "run-2" / "report.html").write_text(f"<!DOCTYPE html>\n{way}\n<h1>a run</h1>")
    assert call("site").status == 0
    chromium.open((tmp_path / "public/run-2/report.html").as_uri())
    chromium.run("(one => one && (one.submit ? one.submit() : one.click()))(document.getElementById('x'))")
    chromium.run("new Promise(done => setTimeout(done, 200))")
    assert "index.html" not in chromium.run("location.pathname")


@pytest.mark.parametrize("tag", ["<script", "<style", "<", "<meta", '<a href="x">', '<a href="'])
def test_a_report_of_somebody_else_takes_no_hours(nights: Path, call: Call, tmp_path: Path, tag: str) -> None:
    (nights / "run-2" / "report.html").write_text(tag * 100_000)
    assert call("site").status == 0
    assert (tmp_path / "public/run-2/report.html").exists()
