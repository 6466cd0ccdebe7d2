"""numpy is an extra: all but four commands work without it, and these refuse before anything begins."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines.dry import Dry
from matrix_runner.records.record import CellRow
from matrix_runner.records.run_folder import latest, runs
from matrix_runner.statistics import arrays
from tests.records import past
from tests.support.choices import BEST, FIVE, SCREEN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

ALL_KINDS = """\
name: all
disks: {count: 4, size: 1GiB, model: nas-7200}
layouts:
  raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}, fs: {type: xfs}]
  raid10: [md: {level: 10, chunk: [16KiB, 64KiB]}, fs: {type: xfs}]
workloads:
  seq: {rw: [read, write], bs: 1MiB, iodepth: 4, size: 32MiB, runtime: 1s}
  oltp: {rw: randread, bs: 4KiB, iodepth: [1, 8], size: 32MiB, runtime: 1s}
repeat: {min: 6, max: 9, until: 1%}
guidelines:
  - id: wide
    best: {metric: read.bw, along: md.chunk, is: 64KiB, where: {layout: raid5, workload: seq}}
  - {id: faster, ratio: {metric: read.bw, of: {layout: raid10}, to: {layout: raid5}, at_least: 1x}}
"""
CELLS = [
    CellRow(f"c{at}", f"raid5/chunk={at}KiB", {"layout": "raid5", "md.chunk": f"{at}KiB", "workload": "seq"})
    for at in (16, 64)
]


@pytest.fixture
def base_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*vars(arrays.np)}:  # what another test has used
        monkeypatch.delattr(arrays.np, name)
    for name in [one for one in sys.modules if one.partition(".")[0] == "numpy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    for night in range(1, 15):
        trials = [
            past.measured(
                cell.id, number, (80e6 if night > 8 else 100e6) * (1 + 0.01 * ((7 * night + 5 * number + at) % 6))
            )
            for at, cell in enumerate(CELLS)
            for number in range(1, 13)
        ]
        past.recorded(tmp_path / "results", trials, night, CELLS, exit=0)
    return tmp_path


@pytest.mark.usefixtures("base_install")
@pytest.mark.parametrize("text", [ALL_KINDS, BEST.replace("VALUES", "default, 256, 512, 1024, 2048, 4096")])
def test_a_matrix_is_planned_run_and_reported_in_a_base_install(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    for words in (
        ("validate", "m.yaml"),
        ("plan", "--detect", "5%", "m.yaml"),
        ("render", "m.yaml", "--to", "scripts"),
        *[("run", "--on", "dry", "--fresh", "m.yaml")] * 2,
        ("report", "latest"),
        ("results", "latest"),
        ("recommend", "latest"),
        ("compare", "latest~1", "latest"),
        ("explore", "latest", "--to", "page.html"),
        ("summary", "latest"),
        ("site",),
        ("runs",),
    ):
        said = call(*words)
        assert said.status in ({0, 1} if words[0] in {"run", "compare", "summary"} else {0}), (words, said.err)
        assert "numpy" not in said.err + said.out, words
    if "guidelines" in text:
        assert call("guidelines", "check", "latest").status in {0, 1}


@pytest.mark.usefixtures("base_install")
def test_races_and_shards_need_no_numpy(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(FIVE)
    raced = call("run", "--on", "dry", "--race", "m.yaml")
    assert "the race is not decided yet: round 4 adds" in raced.out
    shards = [call("run", "--on", "dry", "--shard", f"{number}/2", "m.yaml") for number in (1, 2)]
    assert [one.status for one in shards] == [0, 0]
    names = [one.path.name for one in runs(tmp_path / "results") if one.manifest.part.startswith("shard")]
    assert call("merge", *names, "--to", "whole").status == 0


@pytest.mark.usefixtures("base_install", "nights")
def test_measured_runs_are_read_in_a_base_install(call: Call) -> None:
    for words in (
        ("report", "run-14"),
        ("results", "run-14"),
        ("compare", "run-1", "run-14"),
        ("summary", "run-14"),
        ("explore", "run-14", "--to", "page.html"),
        ("accept", "run-14", "--baseline", "--reason", "a new disk"),
    ):
        said = call(*words)
        assert said.status in {0, 1}, (words, said.err)
        assert "numpy" not in said.err + said.out, words


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("history",), "matrix history"),
        (("plan", "--race", "m.yaml"), "plan --race"),
        (("plan", "--design", "screen:60", "m.yaml"), "--design"),
        (("run", "--on", "dry", "--design", "pairwise", "m.yaml"), "--design"),
        (("run", "--on", "dry", "--design", "screen:60", "m.yaml"), "--design"),
        (("bisect", "m.yaml", "--on", "dry", "--along", "iodepth", "--good", "1", "--bad", "16"), "matrix bisect"),
    ],
)
@pytest.mark.usefixtures("base_install")
def test_what_needs_numpy_says_so_before_anything_begins(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], what: str
) -> None:
    (tmp_path / "m.yaml").write_text(SCREEN)
    monkeypatch.setattr(Dry, "refusals", lambda *_: pytest.fail("a machine was asked"))
    said = call(*words)
    assert said.status == 2
    brief, details, advice = said.err.strip().splitlines()
    assert brief == f"matrix: {what} needs the package numpy"
    assert details == f"numpy is not installed in {sys.prefix}"
    assert advice == "→ install it with `pip install 'matrix-runner[statistics]'`"
    assert not (tmp_path / "results").exists()


def test_a_site_without_numpy_says_why_no_change_is_shown(
    call: Call, nights: Path, request: pytest.FixtureRequest
) -> None:
    why = "The search for changes of level needs the package numpy, which is not installed"
    assert call("site").status == 0
    whole = (nights / "public/matrix-sweep.html").read_text()
    assert "alarm: " in whole
    assert why not in whole
    request.getfixturevalue("base_install")
    said = call("site")
    assert said.status == 0, said.err
    page = (nights / "public/matrix-sweep.html").read_text()
    assert why in page
    assert page.count("<polyline") == whole.count("<polyline"), "figures stay"
    assert "alarm: " not in page


def test_reports_of_designs_and_searches_say_what_they_lack(
    call: Call, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "m.yaml").write_text(SCREEN)
    assert call("run", "--on", "dry", "--design", "screen:60", "m.yaml").status == 0
    designed = latest(runs(tmp_path / "results"))
    call("bisect", "m.yaml", "--on", "dry", *("--along", "iodepth", "--good", "1", "--bad", "16"))
    searched = next(one for one in runs(tmp_path / "results") if one.manifest.search)
    assert designed
    request.getfixturevalue("base_install")
    said = call("report", str(designed.path))
    assert said.status == 0, said.err
    assert "The table of axes that matter needs the package numpy, which is not installed: install it with" in said.out
    assert "which is not installed" in (designed.path / "report.html").read_text()
    said = call("report", str(searched.path))
    assert said.status == 0, said.err
    assert "note: the answer of a search needs the package numpy, which is not installed: install it with" in said.err


def test_doctor_names_the_extras(call: Call, request: pytest.FixtureRequest) -> None:
    assert re.search(r"^extras    statistics, postgres", call("doctor", "--on", "dry").out, re.MULTILINE)
    request.getfixturevalue("base_install")
    said = call("doctor", "--on", "dry").out
    assert re.search(r"^extras    postgres", said, re.MULTILINE)
    assert "optional  pip install 'matrix-runner[statistics]': for history, bisect, --design and plan --race" in said


def test_completion_needs_no_numpy() -> None:
    script = (
        "import sys; sys.modules['numpy'] = None; sys.argv = ['matrix'];from matrix_runner.__main__ import main; main()"
    )
    asked = {"_MATRIX_COMPLETE": "bash_complete", "COMP_WORDS": "matrix run --", "COMP_CWORD": "2", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", script], env=asked, capture_output=True, text=True)
    assert "--design" in done.stdout
    assert "numpy" not in done.stderr
