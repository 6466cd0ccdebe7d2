"""The page of a run. It is parsed as XML, which forgives nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from matrix_runner.pages.concerns import MOST_CONCERNS
from matrix_runner.pages.explore import script_hash
from matrix_runner.pages.html import MOST_GROUNDS, page
from matrix_runner.pages.run_data import RunData, Section
from matrix_runner.pages.study import section as study_section
from matrix_runner.pages.table import Grid
from matrix_runner.records.environment import DiskFacts, Health, Requested, Smart
from matrix_runner.records.record import UNSETTLED, CellRow, Outcome, Trial
from tests.answers.world import cells, guideline, run, verdict
from tests.pages import samples
from tests.pages.samples import RUN, SEQ, SYNTHETIC, direction, measured
from tests.records.strategies import texts
from tests.support.begun_runs import manifest
from tests.support.facts import noted
from tests.support.report_files import tree
from tests.support.studies import INVENTED, MISSED
from tests.support.verdicts import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syrupy.assertion import SnapshotAssertion

    from matrix_runner.answers.cell_figures import Measured
    from matrix_runner.answers.published import ComparedFigure
    from matrix_runner.answers.verdicts import Judgement


def of_study(held: Sequence[ComparedFigure], source: str) -> Section:
    return study_section(source, held, [], "")


#: All that a page is made of. Only one script of ours runs, nothing loads or is sent anywhere.
TAGS = set(
    re.findall(
        r"\S+",
        "html head meta title style body p strong header h1 h2 h3 dl div dt dd code a ul li main section table caption thead "
        "tbody tr th td nav figure figcaption svg desc line text g circle span sup details summary pre polyline path script",
    )
)
ATTRIBUTES = set(
    re.findall(
        r"\S+",
        "lang charset name content http-equiv class role href scope tabindex aria-label aria-labelledby aria-hidden id width "
        "height x y x1 x2 y1 y2 cx cy r text-anchor title dx dy overflow points preserveAspectRatio viewBox d",
    )
)
SCRIPT = Path(__file__).parents[2] / "runner/matrix_runner/pages/page/report.js"
NASTY = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)></td></style>&amp;{{ 7*7 }}{% raw %}]]>\x1b[31m\x00\ud800"
)
SHOWN = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)></td></style>&amp;{{ 7*7 }}{% raw %}]]>"


def words(element: etree._Element) -> str:
    return " ".join(" ".join(map(str, element.itertext())).split())


def section(root: etree._Element, title: str) -> etree._Element:
    """The smallest one whose heading begins so."""
    found = [one for one in root.iter("section") if words(one[0]).startswith(title)]
    assert found, title
    return found[-1]


def rows(element: etree._Element) -> list[list[str]]:
    return [[words(cell) for cell in row] for row in element.iterfind(".//tbody/tr")]


def valued(root: etree._Element, name: str) -> list[str]:
    return [str(one.get(name)) for one in root.iter() if one.get(name)]


def harmless(root: etree._Element) -> None:
    """Nothing in it does anything, nothing in it leads away."""
    for element in root.iter():
        assert element.tag in TAGS
        assert set(element.keys()) <= ATTRIBUTES
    for target in valued(root, "href"):
        assert re.match(r"#|\./cells/|([a-z]+\.(csv|txt|xml)|explore\.html)$", target), target
    (script,) = root.iter("script")
    assert (script.text, *script.attrib) == (SCRIPT.read_text(),)
    ids = valued(root, "id")
    assert len(ids) == len(set(ids))


def test_a_page_of_a_dry_run(snapshot: SnapshotAssertion) -> None:
    text = page(replace(SYNTHETIC, judgements=ALL[:2]), manifest(machine="dry", synthetic=True), "sweep-1").decode()
    text = re.sub("(?s)<style>.*</style>", "<style></style>", text)
    text = re.sub("'sha256-[^']*'", "'sha256-…'", text)
    assert re.sub("(?s)<script>.*</script>", "<script></script>", text) == snapshot


def test_it_begins_as_a_page_and_forbids_all_that_it_does_not_need() -> None:
    text = page(RUN, manifest(), "sweep-1")
    assert text.startswith(b"<!DOCTYPE html>\n")
    policy = tree(RUN).xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert "default-src 'none'" in str(policy)
    assert f"script-src {script_hash(SCRIPT.read_text())};" in str(policy)
    rest = re.sub(rb"(?s)<script>.*</script>|'sha256-[^']*'", b"", text)
    assert not re.search(rb"url\(|@import|https?:|//", rest)
    assert not re.search(r"fetch|import|http|location|innerHTML|eval|&|<", SCRIPT.read_text())


def test_the_page_begins_with_the_state_and_ends_with_the_facts_of_the_run() -> None:
    root = tree(RUN, manifest(requested=Requested(shard="1/2")))
    head, facts = words(next(root.iter("header"))), words(section(root, "Run"))
    for part in (
        *("some cpu, 2 cores", "kernel under test 6.1.0"),
        *("last trial started 2026-03-04T05:06:02+00:00", "part of the matrix shard 1/2"),
    ):
        assert part in facts
    for part in (
        "sweep on qemu",
        *("3: 1 measured, 1 broken, 1 not yet run", "5 of 72 planned: 3 measured, 1 broken, 1 skipped"),
        "started 2026-03-04 05:06 UTC",
        "state not finished",
    ):
        assert part in head
    assert "state finished" in words(tree(replace(RUN, over=True)))


def test_broken_and_skipped_cells_are_listed_with_reasons() -> None:
    root = tree(RUN)
    assert rows(section(root, "Broken: 1 cell")) == [["single/oltp", "1 of 3", "the guest panicked"]]
    assert rows(section(root, "Skipped: 1 cell")) == [["single/oltp", "1 of 3", "quarantined: the guest panicked"]]
    assert "Host-limited" not in words(root)
    assert "Broken" not in words(tree(replace(RUN, trials=RUN.trials[:2])))


def test_doubts_follow_the_answer_only_if_they_change_the_reading() -> None:
    found = section(tree(RUN), "Doubts")
    assert [words(one) for one in found.iter("li")] == ["Broken: 1 cell. Figures are from other trials."]
    assert [one.get("href") for one in found.iter("a")] == ["#broken", "#skipped"]
    alone = [Trial("c1", 1, Outcome.SKIPPED, "no disk")]
    found = section(tree(RunData("m", "qemu", False, [SEQ], alone)), "Doubts")
    assert [words(one) for one in found.iter("li")] == ["Skipped: 1 cell without figures."]
    wrong = (*RUN.trials[:2], Trial("c1", 3, Outcome.CORRUPT, "verify"))
    found = section(tree(RunData("m", "qemu", False, [SEQ], wrong)), "Doubts")
    assert [words(one) for one in found.iter("li")] == [
        "Corrupt: 1 cell, 1 of them without figures. fio read other data than it had written."
    ]
    assert not [one for one in tree(replace(RUN, trials=RUN.trials[:2])).iter("h2") if words(one) == "Doubts"]


def test_doubtful_figures_are_listed_with_reasons() -> None:
    notes = {1: {"host_limited": "late by 3 ms"}, 2: {UNSETTLED: "still falling"}}
    trials = [replace(one, **noted(notes[one.round])) for one in RUN.trials[:2]]
    root = tree(RunData("m", "qemu", False, [SEQ], trials))
    assert rows(section(root, "Host-limited: 1 cell")) == [[SEQ.name, "1 of 2", "late by 3 ms"]]
    assert rows(section(root, "Unsettled: 1 cell")) == [[SEQ.name, "1 of 2", "still falling"]]
    assert "(!) 1 host-limited (!) 1 unsettled" in words(section(root, "parity"))


def test_doubtful_figures_are_marked_in_charts_and_tables() -> None:
    limited = [replace(RUN.trials[0], **noted({"host_limited": "late by 3 ms"})), RUN.trials[1]]
    good = CellRow("c9", "other/seqread", {"layout": "other", "workload": "seqread"})
    doubtful = replace(SEQ, axes={"layout": "parity", "workload": "seqread"})
    trials = [*limited, *(measured("c9", number, direction(4e7, 1 << 20)) for number in (1, 2))]
    found = section(tree(RunData("m", "qemu", False, [doubtful, good], trials)), "seqread")
    labels = [[words(one) for one in chart.iterfind("svg/text[@class='label']")] for chart in found.iter("figure")]
    assert labels[:2] == [["parity (!) 1 host-limited", "other"]] * 2  # of rates, and of latencies
    marked, unmarked = ([cell for cell in row[1:3] if "(!)" in cell] for row in rows(found)[:2])
    assert [cell.split(" (!) ")[0] for cell in marked] == ["210 MB/s", "9.00 ms"]
    assert not unmarked


def test_the_heading_of_the_answer_has_no_colon_and_one_verdict_is_not_counted() -> None:
    (title,) = (words(one) for one in tree(of_layouts(2)).iter("h2") if words(one).startswith("Fastest stack"))
    assert not title.endswith(":")
    several, single = (section(tree(replace(RUN, judgements=of)), "Guidelines") for of in (ALL, ALL[:1]))
    assert "guidelines: 1 holds" in words(several)
    assert "guidelines: " not in words(single)


def test_many_broken_cells_are_counted_after_the_first() -> None:
    cells = [CellRow(f"c{number}", f"single/w{number}", {}) for number in range(MOST_CONCERNS + 2)]
    trials = [Trial(cell.id, 1, Outcome.BROKEN, "no") for cell in cells]
    found = section(tree(RunData("m", "qemu", False, cells, trials)), f"Broken: {len(cells)} cells")
    assert len(rows(found)) == MOST_CONCERNS
    assert "2 more cells are in summary.csv" in words(found)


def test_every_figure_has_its_interval_in_the_table_and_in_the_chart() -> None:
    found = section(tree(RUN), "parity · seqread")
    ((label, rate, tail, trials, said),) = rows(found)
    assert (label, rate) == (SEQ.name, "210 MB/s 82.9 to 337 MB/s")
    assert (tail, trials, said) == ("9.00 ms 9.00 to 9.00 ms", "2", "measured")
    assert [words(one) for one in found.iter("figcaption")] == [
        "parity · seqread: bandwidth",
        "parity · seqread: 99 % of the requests took at most",
        "parity · seqread: distribution of read latencies",
    ]
    assert f"{SEQ.name}: read 210 MB/s (82.9 to 337 MB/s)" in [words(one) for one in found.iter("title")]


def test_a_mix_has_both_and_small_requests_are_counted() -> None:
    found = section(tree(RUN), "single · oltp")
    assert [words(one) for one in found.iterfind(".//thead/tr/th")] == [
        *("cell", "total", "read", "read p99", "write", "write p99", "trials", "outcome"),
    ]
    assert rows(found)[0][1:5] == ["190 IOPS", "97.7 IOPS", "9.00 ms", "92.8 IOPS"]
    assert {str(one.get("class")) for one in found.iterfind(".//figure/svg/g")} == {"total", "read", "write"}


def of_layouts(count: int) -> RunData:
    cells = [CellRow(f"c{n}", f"l{n}/r", {"layout": f"l{n}", "workload": "r"}) for n in range(count)]
    return RunData("m", "qemu", False, cells, [measured(cell.id, 1, direction(4e7, 100)) for cell in cells])


@pytest.mark.parametrize("count", [24, 25])
def test_all_layouts_of_a_workload_are_in_one_chart(count: int) -> None:
    together = section(tree(of_layouts(count)), "r")
    assert [row[0] for row in rows(together)] == [f"l{n}" for n in range(count)]
    assert [words(one).partition(" (")[0] for one in together.iter("figcaption")][:2] == [
        "r: requests per second",
        "r: 99 % of the requests took at most",
    ]


def test_many_cells_of_a_workload_share_one_scale_with_a_row_for_each_layout() -> None:
    cells = [
        CellRow(f"{layout}{n}", f"{layout}/r/n={n}", {"layout": layout, "workload": "r", "n": str(n)})
        for layout in ("few", "many")
        for n in range(1, 31)
    ]
    trials = [
        measured(cell.id, number, direction(1e6 * int(cell.axes["n"]) * (1 + (cell.axes["layout"] == "many")), 1 << 20))
        for cell in cells
        for number in (1, 2)
    ]
    found = section(tree(RunData("m", "qemu", False, cells, trials)), "r")
    assert len(rows(found.findall("div")[-1])) == 60
    labels = [words(one) for one in found[1].iter("text") if one.get("class") == "label"]
    assert labels == ["few: 30 cells, best n=30", "many: 30 cells, best n=30"]
    few, many = (str(one.get("d")) for one in found[1].iter("path"))
    assert (few.count("M"), many.count("M")) == (30, 30)
    assert few.endswith("M500 8h0")
    assert many.endswith("M1000 8h0")
    assert len(found[1].findall(".//circle")) == 3, "the best of each layout, and the key"


def test_cells_of_a_section_are_labelled_by_differing_axes() -> None:
    cells = [
        CellRow(f"c{size}", f"s/r/bs={size}", {"layout": "s", "workload": "r", "workload.bs": size, "md.level": "0"})
        for size in ("4KiB", "1MiB")
    ]
    trials = [measured(f"c{size}", 1, direction(4e7, much)) for size, much in (("4KiB", 4096), ("1MiB", 1 << 20))]
    found = section(tree(RunData("m", "qemu", False, cells, trials)), "s · r")
    assert [row[0] for row in rows(found)] == ["bs=4KiB", "bs=1MiB"]
    assert "All with level=0." in words(found)
    assert [words(one) for one in found.iter("figcaption")][:3] == [
        "s · r: bandwidth",
        "s · r: requests per second",
        "s · r: 99 % of the requests took at most",
    ], "MB/s and IOPS have no axis in common"


def test_axes_that_the_layout_determines_are_neither_in_labels_nor_called_shared() -> None:
    cells = [
        CellRow(f"c{n}", f"l{n}/r", {"layout": f"l{n}", "md.level": str(n), "workload": "r", "bs": "4KiB"})
        for n in "05"
    ]
    found = section(tree(RunData("m", "qemu", False, cells, [])), "r")
    assert [row[0] for row in rows(found)] == ["l0", "l5"]
    assert "All with bs=4KiB." in words(found)


def test_axes_with_the_same_short_name_keep_their_full_name() -> None:
    cells = [
        CellRow(f"c{size}", f"s/r/{size}", {"layout": "s", "workload": "r", "md.size": "1", "lvm.size": size})
        for size in ("4", "5")
    ]
    found = section(tree(RunData("m", "qemu", False, cells, [])), "s · r")
    assert [row[0] for row in rows(found)] == ["lvm.size=4", "lvm.size=5"]
    assert "All with md.size=1." in words(found)


def test_reads_and_writes_of_separate_cells_share_a_column() -> None:
    cells = [CellRow(f"c{rw}", f"s/r/rw={rw}", {"layout": "s", "workload": "r", "rw": rw}) for rw in ("read", "write")]
    some = direction(4e7, 1 << 20)
    trials = [measured("cread", 1, some), measured("cwrite", 1, None, some)]
    untried = CellRow("c3", "s/r/rw=trim", {"layout": "s", "workload": "r", "rw": "trim"})
    found = section(tree(RunData("m", "qemu", False, [*cells, untried], trials)), "s · r")
    assert [row[1:3] for row in rows(found)] == [
        ["read 40.0 MB/s", "9.00 ms"],
        ["write 40.0 MB/s", "9.00 ms"],
        ["", ""],
    ]
    assert [words(one) for one in found.iterfind(".//thead/tr/th")][1:3] == ["rate", "p99"]


def test_cells_without_a_differing_axis_have_their_names() -> None:
    cells = [CellRow(f"c{number}", f"s/r/{number}", {"layout": "s", "workload": "r", "x": "1"}) for number in (1, 2)]
    assert [row[0] for row in rows(section(tree(RunData("m", "qemu", False, cells, [])), "s · r"))] == [
        "s/r/1",
        "s/r/2",
    ]


def test_known_bottlenecks_are_shown() -> None:
    trials = [replace(one, **noted({"bottleneck": "disk sda: busy 99 %"})) for one in RUN.trials[:2]]
    root = tree(RunData("m", "qemu", False, [SEQ, samples.UNTRIED], trials))
    assert rows(section(root, "parity"))[0][-1] == "disk sda: busy 99 %"
    assert "held back by" not in words(section(root, "single · never"))


def test_notes_on_drift_and_precision_are_doubts() -> None:
    trials = [measured("c1", round_number, direction(2e8 * 0.97**round_number, 1 << 20)) for round_number in range(6)]
    head = words(section(tree(RunData("m", "qemu", False, [SEQ], trials, until=0.001, most=6)), "Doubts"))
    assert "rates fell by 14 %" in head
    assert "1 of 1 cells have wider intervals than wanted (±0.1 %;" in head
    trials = [measured("c1", at % 10, direction(2e8 * (1 + at // 5 / 50), 1 << 20)) for at in range(10)]
    head = words(section(tree(RunData("m", "qemu", False, [SEQ], trials)), "Doubts"))
    assert "Trials are correlated (about 0.9 from one round to the next)" in head


def test_guidelines_have_their_verdicts_figures_and_intervals() -> None:
    found = section(tree(replace(RUN, judgements=ALL)), "Guidelines")
    failing, *_, holding = rows(found)
    assert failing[:2] == ["bad bad in words", "fails"]
    assert holding[:4] == ["good good in words", "holds", "1.99\u00d7", "1.97\u00d7 to 2.01\u00d7"]
    assert "Guidelines" not in words(tree(RUN))


def test_each_guideline_can_show_its_cells_and_answers() -> None:
    found = section(tree(replace(RUN, judgements=ALL)), "Guidelines")
    opened = {words(one[0]): [words(cell) for cell in one.iterfind("ul/li")] for one in found.iterfind("details")}
    both = ["layout=far", "layout=raid0"]
    assert opened == {f"{name} rests on 2 cells": both for name in ("bad", "open", "good")}
    assert next(iter(opened)).startswith("bad")
    rising = _rising(MOST_GROUNDS - 1)
    (one,) = section(tree(replace(RUN, judgements=[rising])), "Guidelines").iterfind("details")
    assert len(rows(one)) == len(rising.results) == len(one.findall("ul/li")) - 1
    label, answer, measured, _, wanted, trials = rows(one)[0]
    assert (label, answer, measured) == ("md.chunk=8KiB against 4KiB", "holds", "1.99\u00d7")
    assert (wanted, trials) == ("at least 1.000\u00d7", "5")
    assert "verdicts.csv" not in words(one)


def test_many_grounds_are_cut_with_the_file_of_all() -> None:
    (one,) = section(tree(replace(RUN, judgements=[_rising(MOST_GROUNDS + 5)])), "Guidelines").iterfind("details")
    assert len(rows(one)) == len(one.findall("ul/li")) == MOST_GROUNDS
    assert f"The first {MOST_GROUNDS} are shown. verdicts.csv has all" in words(one)


def test_untested_guidelines_have_no_evidence_and_synthetic_answers_are_marked() -> None:
    rising = _rising(3)
    unmeasured = verdict(rising.guideline, [replace(one, columns={}) for one in _chunks(3)])
    assert not section(tree(replace(RUN, judgements=[unmeasured])), "Guidelines").findall("details")
    (one,) = section(tree(replace(SYNTHETIC, judgements=[replace(rising, synthetic=True)])), "Guidelines").iterfind(
        "details"
    )
    assert [row[1] for row in rows(one)] == ["synthetic: holds"] * 2


def test_an_answer_without_figures_has_no_interval_either() -> None:
    *measured, last = _chunks(3)
    partly = verdict(_rising(3).guideline, [*measured, replace(last, columns={"read_bw": {}})])
    (one,) = section(tree(replace(RUN, judgements=[partly])), "Guidelines").iterfind("details")
    assert rows(one)[1][1:] == ["not tested", "", "", "at least 1.000\u00d7", ""]


def _rising(steps: int) -> Judgement:
    """A claim on so many cells that it asks as many questions but one."""
    claim = guideline(monotone={"metric": "read.bw", "along": "md.chunk", "direction": "rises"})
    return verdict(claim, _chunks(steps))


def _chunks(steps: int) -> list[Measured]:
    found = cells(md_chunk=[f"{4 * (number + 1)}KiB" for number in range(steps)])
    return list(run(found, lambda axes: float(axes["md.chunk"].removesuffix("KiB"))))


def test_published_figures_of_a_study_are_shown() -> None:
    found = section(tree(replace(RUN, added=(of_study(MISSED, "Somebody <1999>"),))), "Published")
    assert "Source: Somebody <1999>" in words(found)
    assert "2.00\u00d7" in rows(found)[1]


def test_parts_of_texts_in_backticks_are_code() -> None:
    judgement = replace(ALL[1], guideline=ALL[1].guideline.model_copy(update={"claim": "`bs: 4KiB` is <slow>"}))
    table = Grid(("what",), [("a `chunk`",)], ("raise `repeat:`",))
    root = tree(replace(RUN, judgements=[judgement], added=(Section("Published", "a study", table, {}),)))
    assert {"bs: 4KiB", "chunk", "repeat:"} <= {words(one) for one in root.iter("code")}
    assert "bs: 4KiB is <slow>" in words(root)
    assert not [one for one in root.iter("section") if "`" in words(one)]


def test_the_environment_is_there_in_full_at_the_end() -> None:
    about = manifest(
        command=("matrix", "run", "it's.yaml"),
        revision={"commit": "abc", "dirty": True, "branch": "main"},
        health=(Health(disk="wwn-1", before=Smart(passed=True, hours=7), after=Smart(passed=True, hours=9)),),
    )
    root = tree(RUN, about)
    found = section(root, "Environment")
    assert next(root.iter("main"))[-1] is found
    told = dict(rows(found))
    assert told.items() >= about.environment.items()
    assert told["command"] == "matrix run 'it'\"'\"'s.yaml'"
    assert told["git revision of the matrix"] == "abc (main), with files or changes that are not committed"
    assert "7" in told["wwn-1 before"]
    assert "name: chunk-sweep # ä" in words(found)


def test_a_report_names_the_source_of_its_disk_models() -> None:
    sheet = DiskFacts(size=1 << 30, bus="sata", model="hdd", name="nas-7200", digest="1")
    fitted = DiskFacts(size=1 << 30, bus="sata", model="ssd", name="mine", digest="2", fitted_to="mine.json")
    physical = DiskFacts(size=1 << 30, bus="sata", model="WDC")
    facts = " ".join(words(tree(RUN, manifest(disks=[sheet, sheet, fitted, physical]))).split())
    assert "nas-7200: data sheet; mine: fitted to mine.json" in facts


@pytest.mark.parametrize(("name", "shown"), [("nas-7200", "nas-7200 (hdd)"), ("", "hdd")])
def test_a_simulated_disk_has_the_name_of_its_model(name: str, shown: str) -> None:
    about = manifest(disks=[DiskFacts(size=1 << 30, bus="sata", model="hdd", name=name)])
    assert dict(rows(section(tree(RUN, about), "Environment")))["disk0.model"] == shown


@pytest.mark.parametrize(
    ("planned", "shown"), [(7, "5 of 7 planned: 3"), (5, "5 of 5 planned: 3"), (3, "5 (3 planned, 2 added): 3")]
)
def test_trials_beyond_the_plan_were_added(planned: int, shown: str) -> None:
    assert f"trials {shown} measured" in words(next(tree(RUN, manifest(planned=planned)).iter("header")))


@pytest.mark.parametrize("content", [SYNTHETIC, replace(SYNTHETIC, judgements=ALL, added=(of_study(INVENTED, "s"),))])
def test_all_synthetic_figures_are_marked(content: RunData) -> None:
    root = tree(content, manifest(synthetic=True))
    assert words(next(root.iter("title"))).startswith("SYNTHETIC: ")
    assert "Nothing was measured" in words(next(root.iter("body"))[0])
    captions = [*root.iter("figcaption"), *(one for one in root.iter("caption") if "Software" not in words(one))]
    assert len(captions) > 4
    assert all(words(one).count("synthetic") == 1 for one in captions)
    assert "synthetic" not in page(RUN, manifest(), "sweep-1").decode().partition("</style>")[2].lower()


def test_a_page_works_with_a_screen_reader_and_keys() -> None:
    root = tree(replace(RUN, judgements=ALL))
    assert root.get("lang") == "en"
    for table in root.iter("table"):
        heads = table.findall("thead/tr/th")
        assert heads
        assert all(one.get("scope") == "col" for one in heads)
        assert all(row[0].get("scope") == "row" and len(row) == len(heads) for row in table.iterfind("tbody/tr"))
        parent = table.getparent()
        assert parent is not None
        assert parent.get("tabindex") == "0"
        assert parent.get("aria-label")
    ids = set(valued(root, "id"))
    pictures = list(root.iterfind(".//figure/svg"))
    assert pictures
    for picture in pictures:
        assert picture.get("role") == "img"
        assert set(str(picture.get("aria-labelledby")).split()) <= ids


def test_a_cut_page_names_the_file_with_the_rest() -> None:
    root = tree(RUN, rows=2, charts=1)
    figures = words(section(root, "Figures"))
    assert "The first 2 of 3 cells; the other 1 are in summary.csv" in figures
    assert "More charts are not drawn" in figures
    assert len(list(root.iter("figure"))) == 1
    assert "single · never" not in figures
    whole = words(section(tree(RUN), "Figures"))
    assert "The first" not in whole


def test_without_layouts_another_axis_gives_the_rows_of_many_cells() -> None:
    cells = [
        CellRow(f"{n}-{x}", f"s/r/{n}/{x}", {"layout": "s", "workload": "r", "n": str(n), "md.x": str(x)})
        for n in range(30)
        for x in range(2)
    ]
    trials = [measured(cell.id, 1, direction(4e7, 1 << 20)) for cell in cells]
    found = section(tree(RunData("m", "qemu", False, cells, trials)), "s · r")
    assert [words(one).partition(":")[0] for one in found[1].iter("text") if one.get("class") == "label"] == [
        "x=0",
        "x=1",
    ]
    cells = [replace(cell, axes={**cell.axes, "md.x": "0"}) for cell in cells if cell.axes["md.x"] == "0"]
    found = section(tree(RunData("m", "qemu", False, cells, trials[::2])), "s · r")
    assert "(the first 24; 6 more are in the table)" in words(next(found.iter("figcaption")))


def test_an_empty_run_has_a_page() -> None:
    root = tree(RunData("m", "qemu", False, (), ()))
    assert "none yet" in words(root)
    harmless(root)


def test_names_that_would_break_out_stay_words() -> None:
    cell = CellRow(NASTY, NASTY, {"layout": NASTY, "workload": NASTY, NASTY: NASTY})
    trials = [
        replace(measured(NASTY, 1, direction(1e6, 4096)), **noted({"host_limited": NASTY, UNSETTLED: NASTY, "bottleneck": NASTY})),
        Trial(NASTY, 2, Outcome.BROKEN, NASTY, folder=NASTY),
    ]  # fmt: skip
    judgement = replace(ALL[1], guideline=ALL[1].guideline.model_copy(update={"id": NASTY, "claim": NASTY}))
    about = manifest(
        id="1", command=(NASTY,), text=NASTY, requested=Requested(only=(NASTY,)), versions={NASTY: {NASTY: NASTY}}
    )
    content = RunData(NASTY, NASTY, False, [cell], trials, judgements=[judgement])
    root = tree(content, about)
    harmless(root)
    assert words(root).count(SHOWN) > 15
    # A browser reads it as HTML, where names of elements may end others.
    browsed = lxml.html.fromstring(page(content, about, NASTY))
    assert {str(one.tag) for one in browsed.iter()} <= TAGS
    assert not browsed.xpath("//@onerror | //img")
    assert [one.text for one in browsed.iter("script")] == [SCRIPT.read_text()]


@given(samples.runs(), st.dictionaries(texts, texts, max_size=2), texts)
def test_any_run_is_a_page(content: RunData, versions: dict[str, str], name: str) -> None:
    about = manifest(versions={"6.1": versions}, command=(name,), text=name)
    harmless(tree(content, about))
