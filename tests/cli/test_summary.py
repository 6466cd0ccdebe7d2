"""`matrix summary`: what somebody reads who was asleep, and what a program makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.environment import Host, Requested, Revision
from matrix_runner.records.record import CellRow, Outcome, Trial
from tests.records import past
from tests.support.facts import noted

if TYPE_CHECKING:
    from tests.support.command import Said

Call = Callable[..., "Said"]
CELL = CellRow("c1", "raid5/chunk=64KiB/seq", {"layout": "raid5", "md.chunk": "64KiB", "workload": "seq"})
NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)
ADVICE = """\
name: sweep
disks: {count: 3, size: 64MiB}
layouts: {raid5: [md: {level: 5, chunk: 64KiB}]}
workloads: {seq: {rw: read, bs: 1MiB, runtime: 1s}}
repeat: 5
guidelines:
  - {id: fast, claim: it is fast, source: "[a link](http://x) @somebody", bound: {metric: read.bw, at_least: 150MB/s}}
"""


def trials(rate: float) -> list[Trial]:
    return [past.measured("c1", round_number, rate * noise) for round_number, noise in enumerate(NOISE, start=1)]


def night(results: Path, number: int, rate: float = 2e8, **changes: object) -> None:
    values: dict[str, object] = {"exit": 0, "planned": 5, "text": ADVICE, **changes}
    past.recorded(results, trials(rate), number, [CELL], **values)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    night(tmp_path / "results", 1)
    return tmp_path / "results"


def test_a_night_without_regressions(call: Call, results: Path) -> None:
    night(results, 2)
    said = call("summary", "latest", "--issue", "issue.md", "--annotations", "annotations")
    assert (said.status, said.out.splitlines()[0]) == (0, "# sweep on qemu: all measured")
    assert "| fast | holds |" in said.out
    assert "B against A: 0 slower, 0 faster, 1 same" in said.out
    assert not Path("issue.md").exists()
    assert Path("annotations").read_text() == ""


def test_its_commands_name_another_folder_of_runs(call: Call, results: Path) -> None:
    night(results, 2, 1e8)
    results.rename("elsewhere")
    assert call("summary", "latest", "--results", "elsewhere", "--issue", "issue.md").status == 1
    assert "matrix compare accepted run-2 --results elsewhere" in Path("issue.md").read_text()


def two_stacks(results: Path, **values: object) -> None:
    stripe = CellRow("c2", "stripe/seq", {"layout": "stripe", "workload": "seq"})
    faster = [past.measured("c2", round_number, 3e8 * noise) for round_number, noise in enumerate(NOISE, start=1)]
    past.recorded(results, [*trials(2e8), *faster], 2, [CELL, stripe], exit=0, planned=10, **values)


def test_the_fastest_stack_comes_first(call: Call, results: Path) -> None:
    two_stacks(results)
    title, _, answer, _, line, *_ = call("summary", "latest").out.splitlines()
    assert title.startswith("# sweep on qemu")
    assert answer == "**Fastest stack by workload (95 % confidence):**"
    assert line.startswith("- stripe is fastest for seq: ")
    assert line.endswith("as fast as raid5/chunk=64KiB.")


def visible(page: str) -> list[str]:
    return page.partition("<details>")[0].splitlines()


def test_a_heat_map_shows_how_far_the_stacks_are_apart(call: Call, results: Path) -> None:
    two_stacks(results)
    lines = visible(call("summary", "latest").out)
    at = lines.index("| stack | seq |")
    assert lines[at - 2].startswith("Share of the fastest stack of each workload: 🟩 90 % or more")
    assert [line.split()[:5] for line in lines[at + 2 : at + 4]] == [
        ["|", "stripe", "|", "🟩", "73,271"],
        ["|", "raid5/chunk=64KiB", "|", "🟪", "48,848"],
    ], lines


def test_a_page_is_short_if_everything_goes_wrong(call: Call, tmp_path: Path) -> None:
    cells = [CellRow(f"{at:08}", f"stripe-{at}/seq", {"layout": f"stripe-{at}", "workload": "seq"}) for at in range(80)]
    guidelines = "".join(
        f"  - {{id: g{at}, claim: it is fast, bound: {{metric: read.bw, at_least: 1GB/s}}}}\n" for at in range(40)
    )
    for number, rate in ((1, 3e8), (2, 2e8)):
        measured = [past.measured(cell.id, at, rate * noise) for cell in cells for at, noise in enumerate(NOISE, 1)]
        lost = [
            Trial(cell.id, 9, outcome, "lost") for cell in cells[:60] for outcome in [Outcome.BROKEN] * (number - 1)
        ]
        text = ADVICE.partition("  - ")[0] + guidelines
        past.recorded(tmp_path / "results", [*measured, *lost], number, cells, exit=0, planned=400, text=text)
    page = call("summary", "latest", "--against", "run-1").out
    assert len(visible(page)) < 60
    assert "60 cells broken, 40 guidelines fail, 80 figures slower" in page.splitlines()[0]
    for part in ("🟩", "## Guidelines", "| g0 | fails |", "## What broke", "B against A: 80 slower", "| slower |"):
        assert part in "\n".join(visible(page)), part
    folded = page.partition("<details>")[2]
    assert sum("| fails |" in line for line in folded.splitlines()) == 40


def test_unchanged_cells_are_folded(call: Call, results: Path) -> None:
    night(results, 2)
    page = call("summary", "latest").out
    assert "| same |" not in "\n".join(visible(page))
    assert "| same |" in page


def test_parts_of_a_matrix_have_no_fastest_stack(call: Call, results: Path) -> None:
    two_stacks(results, requested=Requested(shard="1/2"))
    assert "Fastest stack" not in call("summary", "latest").out


def test_host_limited_trials_are_in_the_title(call: Call, results: Path) -> None:
    late = [replace(one, **noted({"host_limited": "vda: 3 % late"})) for one in trials(2e8)]
    past.recorded(results, late, 2, [CELL], exit=0, planned=5)
    assert call("summary", "latest").out.splitlines()[0] == "# sweep on qemu: all measured, 1 cell host-limited"


def test_a_night_with_a_regression_and_a_failed_guideline(
    call: Call, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATRIX_STATE", "/var/lib/the state\udcff")
    night(
        results,
        2,
        1e8,
        exit=1,
        host=Host(kernel="6.12", cpu="some cpu", cores=2, memory=4 << 30, hostname="lab1"),
        revision=Revision(commit="1f3a9c" * 6, dirty=False),
        command=("matrix", "run", "--only", "layout=raid5; rm -rf", "--folder-to=/tmp/folder", "sweep.yaml"),
    )
    said = call("summary", "latest", "--issue", "issue.md", "--annotations", "annotations")
    assert (said.status, said.out.splitlines()[0]) == (1, "# sweep on qemu: 1 guideline fails, 1 figure slower")
    issue = Path("issue.md").read_text()
    assert "| raid5/chunk=64KiB/seq | read\\_iops | 48,848 IOPS | 24,424 IOPS | 0.5" in issue, issue
    assert "| host.kernel | 6.1.0 | 6.12 |" in issue
    assert (
        f"git checkout {'1f3a9c' * 6}\nMATRIX_STATE='/var/lib/the state\\xff' matrix run --only 'layout=raid5; rm -rf' sweep.yaml\n"
        in issue
    )
    assert "matrix compare accepted run-2" in issue
    assert "fast: it is fast" in issue
    lines = Path("annotations").read_text().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning"]
    assert lines[1].startswith(
        "::warning title=slower%3A raid5/chunk=64KiB/seq::read_iops 48,848 IOPS → 24,424 IOPS, 0.5"
    )


def test_a_night_with_wrong_data(call: Call, results: Path) -> None:
    reason = "wrong data: crc32c: verify failed at file /dev/md0 offset 0, length 4096"
    wrong = [*trials(2e8), Trial("c1", 6, Outcome.CORRUPT, reason), Trial("c1", 7, Outcome.BROKEN, "lost")]
    past.recorded(results, wrong, 2, [CELL], exit=1, planned=7, text=ADVICE)
    said = call("summary", "latest", "--annotations", "annotations")
    assert (said.status, said.out.splitlines()[0]) == (1, "# sweep on qemu: 1 cell corrupt, 1 cell broken")
    assert "| fast | not tested |" in said.out, "a cell with wrong data has no figures"
    assert f"| raid5/chunk=64KiB/seq | 1 of 7 | {reason}" in said.out
    assert Path("annotations").read_text().startswith("::error title=corrupt%3A raid5/chunk=64KiB/seq::wrong data: ")


def test_a_comparison_with_wrong_data_is_no_comparison_of_speed(call: Call, results: Path) -> None:
    past.recorded(results, [*trials(2e8), Trial("c1", 6, Outcome.CORRUPT, "wrong data")], 2, [CELL], exit=1)
    said = call("compare", "latest~1", "latest")
    assert said.status == 1
    assert "B read wrong data: raid5/chunk=64KiB/seq" in said.out
    shown = call("results", "latest", "--outcome", "corrupt").out
    assert "corrupt: wrong data" in shown
    assert "MB/s" not in call("results", "latest").out


def test_a_night_with_broken_trials(call: Call, results: Path) -> None:
    said_by_the_kernel = "oops\n::error::x\n<script>, 100%|"
    broken = [*trials(2e8), Trial("c1", 6, Outcome.BROKEN, said_by_the_kernel)]
    past.recorded(results, broken, 2, [CELL], exit=3, planned=6, text=ADVICE)
    said = call("summary", "latest", "--issue", "issue.md", "--annotations", "annotations")
    assert (said.status, said.out.splitlines()[0]) == (3, "# sweep on qemu: 1 cell broken")
    assert "| raid5/chunk=64KiB/seq | 1 of 6 | oops ::error::x \\<script>, 100%\\| |" in said.out
    (line,) = Path("annotations").read_text().splitlines()
    assert line == "::error title=broken%3A raid5/chunk=64KiB/seq::oops%0A::error::x%0A<script>, 100%25|"


def test_an_unfinished_run_is_not_good(call: Call, results: Path) -> None:
    night(results, 2, finished=False, exit=None)
    said = call("summary", "run-2", "--issue", "issue.md")
    assert (said.status, said.out.splitlines()[0]) == (3, "# sweep on qemu: 1 run not finished")
    assert "not finished" in Path("issue.md").read_text()
    night(results, 3)
    assert "accepted: the level of run-1" in call("summary", "latest").out


def test_a_night_without_an_earlier_run(call: Call, results: Path) -> None:
    said = call("summary", "run-1")
    assert said.status == 0
    assert "There is no good earlier run of the same part on the same machine and host." in said.out


def test_parts_of_a_night_are_compared_with_the_same_parts_before(call: Call, tmp_path: Path) -> None:
    results, other = tmp_path / "results", CellRow("c2", "raid5/chunk=16KiB/seq", {"layout": "raid5"})
    for number, rate in ((1, 2e8), (3, 1e8)):
        past.recorded(results, trials(2e8), number, [CELL], exit=0, requested=Requested(shard="1/2"))
        second = [past.measured("c2", round_number, rate * noise) for round_number, noise in enumerate(NOISE, start=1)]
        past.recorded(results, second, number + 1, [other], exit=0, requested=Requested(shard="2/2"))
    said = call("summary", "run-3,run-4")
    assert said.status == 1
    assert "B against A: 1 slower, 0 faster, 1 same" in said.out
    assert "| run-3 | shard 1/2 | lab1 |" in said.out


def test_the_exit_code_of_a_run_without_its_folder_counts(call: Call, results: Path, tmp_path: Path) -> None:
    night(results, 2, exit=1)
    assert call("summary", "run-2").status == 1
    shutil.rmtree(results / "run-2")
    said = call("summary", "run-2")
    assert said.status == 1
    assert "## Guidelines" not in said.out


def test_a_matrix_that_is_invalid_today(call: Call, results: Path) -> None:
    night(results, 2, text="name: sweep\nguidelines: [{id: gone, shape: unheard-of}]\n")
    said = call("summary", "latest")
    assert said.status == 0
    assert "not judged: matrix.yaml" in said.out
    assert "B against A" in said.out


def test_against_another(call: Call, results: Path) -> None:
    night(results, 2, 1e8, exit=1)
    night(results, 3, 1e8, exit=1)
    assert call("summary", "latest").status == 1
    assert "1 same" in call("summary", "latest", "--against", "latest~1").out
    said = call("summary", "latest", "--against", "nothing")
    assert (said.status, "no run in the store matches 'nothing'" in said.err) == (2, True)


def test_guidelines_of_runs_on_one_host(call: Call, results: Path) -> None:
    elsewhere = past.manifest().host.model_copy(update={"hostname": "nightly-2"})
    night(results, 2, 1e8, host=elsewhere)
    assert call("guidelines", "check", "*", "--on", "lab1").status == 0
    assert call("guidelines", "check", "*", "--on", "nightly-*").status == 1
    assert call("guidelines", "check", "run-1", "--on", "qemu").status == 0
    said = call("guidelines", "check", "run-1", "--on", "nightly-2")
    assert (said.status, "these runs were on other machines" in said.err) == (2, True)
    assert "sweep on qemu of lab1" in said.err


def test_a_run_without_measured_trials_is_not_all_measured(call: Call, results: Path) -> None:
    skipped = [Trial("c1", 1, Outcome.SKIPPED, "no such module")]
    past.recorded(results, skipped, 2, [CELL], exit=3, planned=5, text=ADVICE)
    said = call("summary", "run-2")
    assert (said.status, said.out.splitlines()[0]) == (3, "# sweep on qemu: 1 run measured nothing")


def test_suggested_commands_accept_their_arguments(call: Call, tmp_path: Path) -> None:
    cells = [CellRow(f"{number:08}", f"cell-{number}", {}) for number in range(201)]
    for number in (1, 2):
        one = [past.measured(cell.id, 1, 1e8) for cell in cells]
        past.recorded(tmp_path / "results", one, number, cells, exit=0, planned=201)
    said = call("summary", "latest")
    assert "--rows" not in said.out
    assert "151 more lines; `matrix compare accepted run-2` shows more" in said.out
    assert "1 more cells; `matrix results run-2` shows more" in said.out
    assert call("compare", "run-1", "run-2").status == call("results", "run-2").status == 0


def test_folded_lines_are_counted_above(call: Call, tmp_path: Path) -> None:
    cells = [CellRow(f"c{number}", f"cell-{number}", {}) for number in range(2)]
    for number in (1, 2):
        one = [past.measured(cell.id, at, 1e8 + at) for cell in cells for at in (1, 2, 3)]
        past.recorded(tmp_path / "results", one, number, cells, exit=0, planned=6)
    said = call("summary", "latest").out
    assert said.index('2 more lines; they are below, under "All figures"') < said.index("<summary>All figures")
    assert "(a rough value, from 2 figures)" in (call("compare", "run-1", "run-1").out)
