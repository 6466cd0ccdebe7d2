"""Guidelines as a user meets them: at the end of a run, and of runs that are long over."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.command import Said

    Call = Callable[..., Said]

OWN = """\
guidelines:
  - {id: alike, claim: chunks hardly matter, ratio: {metric: read.bw, of: {chunk: 16KiB}, to: {chunk: 64KiB}, within: 50%}}
  - {id: quick, claim: it is quick, bound: {metric: read.bw, at_least: 900MB/s}}
  - shared.yaml
"""
SHARED = "- {id: doubled, ratio: {metric: write.iops, of: {chunk: 64KiB}, to: {chunk: 16KiB}, at_least: 2x}}\n"
MATRIX = SMALL.replace("repeat: 2", "repeat: 4") + OWN


@pytest.fixture
def ran(call: Call, tmp_path: Path) -> Said:
    (tmp_path / "small.yaml").write_text(MATRIX)
    (tmp_path / "shared.yaml").write_text(SHARED)
    return call("run", "--on", "dry", "small.yaml")


def folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "results").glob("small-*")
    return found


def test_a_run_ends_with_its_verdicts(ran: Said, tmp_path: Path) -> None:
    assert ran.status == 0, "what is synthetic fails nothing"
    assert "synthetic: fails" in ran.out
    assert "guidelines: 1 holds, 2 fails; figures are synthetic, so these verdicts do not count" in ran.out
    rows = list(csv.DictReader(io.StringIO((folder(tmp_path) / "verdicts.csv").read_text())))
    assert {row["guideline"]: row["verdict"] for row in rows} == {
        "alike": "holds",
        "quick": "fails",
        "doubled": "fails",
    }
    assert {row["synthetic"] for row in rows} == {"true"}
    junit = (folder(tmp_path) / "junit.xml").read_text()
    assert "small.guidelines" in junit
    for chunk in ("16KiB", "64KiB"):
        assert f"rests on raid5/chunk={chunk}/work/rw=randwrite" in junit


#: Claims that nothing measured in MATRIX would decide, and why.
BEYOND = {
    "scaling: {metric: read.bw, along: layout, at_least: 0.9 per layout}": "layout has a single value",
    "profile: {metric: read.bw, along: chunk, follows: [1, 2, 3], within: 5%}": "the shape has 3 places, and chunk 2",
    "bound: {metric: read.bw, where: {rw: randwrite}, at_least: 1MB/s}": "its cells have no read.bw",
    "ratio: {metric: read.bw, of: {rw: read}, to: {rw: randwrite}, at_least: 2x}": "its cells have no read.bw",
}


@pytest.mark.parametrize(("shape", "why"), BEYOND.items())
def test_undecidable_guidelines_are_refused_before_the_run(call: Call, tmp_path: Path, shape: str, why: str) -> None:
    own = SMALL + f"guidelines:\n  - {{id: beyond, {shape}}}\n"
    (tmp_path / "small.yaml").write_text(own)
    said = call("validate", "small.yaml")
    assert said.status == 2
    line, column = own.count("\n"), own.splitlines()[-1].index(shape.split(":")[0]) + 1
    assert f"small.yaml:{line}:{column}: no cells of this matrix can decide it: {why}" in said.err
    assert call("run", "--on", "dry", "small.yaml").status == 2
    assert not (tmp_path / "results").exists()


def test_undecidable_guidelines_of_a_shared_file_are_only_noted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(MATRIX)
    (tmp_path / "shared.yaml").write_text("".join(f"- {{id: b{at}, {one}}}\n" for at, one in enumerate(BEYOND)))
    said = call("validate", "small.yaml")
    assert said.status == 0
    for at, why in enumerate(BEYOND.values()):
        assert f"guideline b{at} is not tested: no cells of this matrix can decide it: {why}" in said.out


def test_one_guideline_of_a_file_is_selected_by_its_id(ran: Said, call: Call) -> None:
    said = call("guidelines", "check", "latest", "--guidelines", "small.yaml#quick", "--format", "csv")
    assert {row["guideline"] for row in csv.DictReader(io.StringIO(said.out))} == {"quick"}
    assert "shared.yaml#doubled" in call("guidelines", "list", "shared.yaml#doubled").out
    said = call("guidelines", "list", "shared.yaml#doubl")
    assert said.status == 2
    assert "there is no guideline doubl; did you mean doubled?" in said.err


def test_a_report_finds_a_run_by_its_name(ran: Said, call: Call, tmp_path: Path) -> None:
    (folder(tmp_path) / "verdicts.csv").unlink()
    assert call("report", folder(tmp_path).name).status == 0
    assert (folder(tmp_path) / "verdicts.csv").exists()
    assert call("report", "nothing-such").status == 2


def test_a_second_report_is_identical(ran: Said, call: Call, tmp_path: Path) -> None:
    before = (folder(tmp_path) / "verdicts.csv").read_bytes()
    (folder(tmp_path) / "verdicts.csv").unlink()
    (tmp_path / "shared.yaml").unlink()
    assert call("report", str(folder(tmp_path))).status == 0
    assert (folder(tmp_path) / "verdicts.csv").read_bytes() == before


def test_json_has_it_in_the_last_event(call: Call, tmp_path: Path, ran: Said) -> None:
    said = call("run", "--on", "dry", "--fresh", "--json", "small.yaml")
    (end,) = [row for row in map(json.loads, said.out.splitlines()) if row["event"] == "end"]
    assert [(one["id"], one["verdict"], one["synthetic"]) for one in end["guidelines"]] == [
        ("alike", "holds", True),
        ("quick", "fails", True),
        ("doubled", "fails", True),
    ]


def test_a_changed_guideline_continues_the_run(ran: Said, call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(MATRIX.replace("900MB/s", "1MB/s"))
    done = call("run", "--on", "dry", "--retry-broken", "small.yaml")
    assert done.status == 0
    assert "guidelines: 2 holds, 1 fails" in done.out
    assert folder(tmp_path).is_dir(), "there is one run"
    assert "guidelines: 2 holds, 1 fails" in call("guidelines", "check", "latest").out


def test_a_check_uses_the_guidelines_of_the_run_or_of_a_file(ran: Said, call: Call, tmp_path: Path) -> None:
    assert "guidelines: 1 holds, 2 fails" in call("guidelines", "check", "latest").out
    (tmp_path / "other.yaml").write_text(SHARED.replace("doubled", "other"))
    said = call("guidelines", "check", "latest", "--guidelines", "other.yaml", "--format", "json")
    (row,) = json.loads(said.out)["rows"]
    assert (said.status, row["guideline"], row["verdict"], row["rounds"]) == (0, "other", "fails", 4)


def test_each_of_several_runs_counts_as_one_value(ran: Said, call: Call, tmp_path: Path) -> None:
    call("run", "--on", "dry", "--fresh", "small.yaml")
    said = call("guidelines", "check", "small-*", "--format", "json")
    assert {row["rounds"] for row in json.loads(said.out)["rows"]} == {2}


@pytest.mark.parametrize("words", [("--only", "rw=read"), ("--race", "--for", "rw=read")])
def test_a_part_of_a_matrix_and_a_race_are_judged_by_their_own_trials(
    call: Call, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "small.yaml").write_text(MATRIX.replace("64KiB]", "64KiB, 256KiB]").replace("repeat: 4", "repeat: 3"))
    (tmp_path / "shared.yaml").write_text(SHARED)
    call("run", "--on", "dry", *words, "small.yaml")
    written = list(csv.DictReader(io.StringIO((folder(tmp_path) / "verdicts.csv").read_text())))
    judged = list(csv.DictReader(io.StringIO(call("guidelines", "check", "latest", "--format", "csv").out)))
    assert [(row["guideline"], row["verdict"], row["rounds"]) for row in judged] == [
        (row["guideline"], row["verdict"], row["rounds"]) for row in written
    ]
    rounds = {row["guideline"]: int(row["rounds"] or 0) for row in judged}
    raced = "--race" in words
    assert rounds["doubled"] == (3 if raced else 0), "random writes have their minimum, or none"
    assert rounds["alike"] > 3 if raced else rounds["alike"] == 3


def test_a_run_without_guidelines_needs_a_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    call("run", "--on", "dry", "small.yaml")
    said = call("guidelines", "check", "latest")
    assert said.status == 2
    assert "the matrix has no guidelines" in said.err


def test_a_list_shows_shipped_guidelines_or_those_of_files(ran: Said, call: Call, tmp_path: Path) -> None:
    rows = json.loads(call("guidelines", "list", "--format", "json").out)["rows"]
    assert {"far-reads-like-raid0", "striping-scales", "chunk-for-parity"} <= {row["guideline"] for row in rows}
    rows = json.loads(call("guidelines", "list", "small.yaml", "shared.yaml", "--format", "json").out)["rows"]
    assert [row["guideline"] for row in rows] == ["alike", "quick", "doubled", "doubled"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {id: a, bound: {metric: read.bw, where: {md.chnk: 1}, at_least: 1MB/s}}", "bad.yaml:1:44: no matrix can have the axis 'md.chnk'; did you mean"),
        ("- {id: a, bond: {metric: read.bw}}", "bad.yaml:1:11: unknown key 'bond'; did you mean bound?"),
        ("- {id: a, bound: {metric: read.bw, wher: 1}}", "bad.yaml:1:36: unknown key 'wher'; did you mean where?"),
        ("- {id: a, bound: {metric: raed.bw, at_least: 1MB/s}}", "bad.yaml:1:27: 'raed.bw': there is no such metric"),
        ("- [", "not valid YAML"),
        (SMALL, "this matrix has no guidelines"),
    ],
)  # fmt: skip
def test_errors_in_a_guideline_file_have_their_line(call: Call, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    done = call("guidelines", "list", "bad.yaml")
    assert done.status == 2
    assert said in done.err


@pytest.mark.parametrize("repeat", ["2", "{min: 3, max: 5, until: 30%}"])
def test_until_decided_measures_until_all_guidelines_are_decided(call: Call, tmp_path: Path, repeat: str) -> None:
    """And what is said of it later is by the rule that it went by, not by that of its matrix."""
    open_claim = OWN.replace("within: 50%", "within: 3%").replace("  - shared.yaml\n", "")
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", f"repeat: {repeat}") + open_claim)
    said = call("run", "--on", "dry", "--until-decided", "--budget", "1h", "small.yaml")
    assert said.status == 0
    rows = list(csv.DictReader(io.StringIO((folder(tmp_path) / "verdicts.csv").read_text())))
    rounds = {row["guideline"]: int(row["rounds"]) for row in rows}
    assert rounds["alike"] > 2
    assert json.loads((folder(tmp_path) / "manifest.json").read_text())["steered"] is True
    before = (folder(tmp_path) / "verdicts.csv").read_bytes()
    call("report", str(folder(tmp_path)))
    assert (folder(tmp_path) / "verdicts.csv").read_bytes() == before
    checked = json.loads(call("guidelines", "check", "latest", "--format", "json").out)["rows"]
    assert {row["guideline"]: row["high"] for row in checked if row["high"]} == {
        row["guideline"]: float(row["high"]) for row in rows if row["high"]
    }


def test_until_decided_needs_guidelines(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    said = call("run", "--on", "dry", "--until-decided", "small.yaml")
    assert said.status == 2
    assert "has no guidelines to decide" in said.err
