"""`matrix accept`, and nights that are compared with the accepted level."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ruamel.yaml import YAML

from matrix_runner.pages.change_files import HELP
from matrix_runner.records.record import CellRow
from tests.records import past
from tests.support.junit import parsed

if TYPE_CHECKING:
    from matrix_runner.records.record import Trial
    from tests.support.command import Said

Call = Callable[..., "Said"]
CELLS = [
    CellRow(
        f"{layout}{rw}{bs}",
        f"{layout}/oltp/rw={rw},bs={bs}",
        {"layout": layout, "workload": "oltp", "workload.rw": rw, "workload.bs": bs},
    )
    for layout, rw, bs in product(("raid5", "raid10"), ("randread", "randwrite"), ("4KiB", "8KiB"))
]
SLOW = "raid5randwrite"
LINE = re.compile(r'# (TYPE|HELP) \w+ .+|# EOF|\w+\{(\w+="[^"\n]*",?)+\} [0-9.e+-]+')
NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)


def night(number: int, speed: float = 1.0, slow: str = SLOW, **changes: object) -> None:
    """Record a night in which the cells whose id begins with `slow` have a speed of their own."""
    of_run = 1 + 0.002 * (number % 3)
    trials: list[Trial] = [
        past.measured(cell.id, at, 1e8 * of_run * noise * (speed if cell.id.startswith(slow) else 1))
        for at, noise in enumerate(NOISE, start=1)
        for cell in CELLS
    ]
    past.recorded(Path("results"), trials, number, CELLS, **{"exit": 0, "planned": len(trials), **changes})


@pytest.fixture
def nights(call: Call) -> Call:
    for number in range(1, 6):
        night(number)
    return call


def test_a_run_at_work_and_a_limit_in_the_past_are_refused(nights: Call) -> None:
    night(6, 0.8, finished=False)
    said = nights("accept", "latest", "--baseline", "--reason", "x")
    assert (said.status, "is not finished" in said.err) == (2, True)
    night(7, 0.8)
    said = nights("accept", "latest", "--reason", "x", "--until", "2020-01-01")
    assert (said.status, "--until 2020-01-01 is before" in said.err) == (2, True)
    said = nights("accept", "latest", "--reason", "x", "--until", "tomorrow")
    assert (said.status, "'tomorrow' is no day such as 2026-12-31" in said.err) == (2, True)
    assert not Path("known-changes.yaml").exists()


def test_a_slower_night_is_one_alarm_and_stays_until_it_is_accepted(nights: Call) -> None:
    for number in (6, 7, 8):
        night(number, 0.8)
        said = nights("summary", "latest", "--issue", "issue.md", "--annotations", "annotations")
        assert said.status == 1
        assert "2 figures slower" in said.out.splitlines()[0]
        assert Path("annotations").read_text().count("\n") == 1
        assert (
            "title=slower%3A all raid5 with workload.rw=randwrite::2 figures, 0.80× as fast"
            in Path("annotations").read_text()
        )
        assert "- **all raid5 with workload.rw=randwrite**: 2 figures" in Path("issue.md").read_text()
    assert nights("compare", "latest~1", "latest").status == 0
    assert nights("compare", "accepted", "latest").status == 1
    said = nights("accept", "latest", "--reason", "md: counts requests", "--link", "https://example.org/1")
    assert (said.status, Path("known-changes.yaml").read_text()) == (0, said.out)
    assert (
        '  cells: {"layout":"raid5","workload.rw":"randwrite"}\n  metric: "read.iops"\n  change: "-19.9%"\n' in said.out
    )
    said = nights("summary", "latest")
    assert said.status == 0, said.out
    assert "accepted, and part of what B is compared with in 2 figures" in said.out
    assert "md: counts requests" in said.out
    night(9, 0.6)
    assert nights("summary", "latest").status == 1


def test_an_accepted_change_that_is_gone_is_said(nights: Call) -> None:
    night(6, 0.8)
    assert nights("accept", "latest", "--reason", "md").status == 0
    night(7, 1.0)
    said = nights("compare", "accepted", "latest")
    assert said.status == 0
    assert "gone in 2 of 2 figures: -20" in said.out
    assert "remove or end its entry" in said.out


def test_an_accepted_change_ends(nights: Call) -> None:
    night(6, 0.8)
    assert nights("accept", "latest", "--reason", "md", "--until", "2026-03-08").status == 0
    night(8, 0.8)
    assert nights("summary", "latest").status == 0
    night(9, 0.8)
    assert nights("summary", "latest").status == 1


def test_a_slower_night_among_the_first_ones_is_no_part_of_the_level(nights: Call) -> None:
    for number in range(6, 16):
        night(number, 0.8)
    assert nights("summary", "latest").status == 1


def test_a_baseline_replaces_the_first_nights_and_is_not_pruned(nights: Call) -> None:
    for number in (6, 7):
        night(number, 0.8)
    assert nights("accept", "run-6", "--baseline", "--reason", "new controller").status == 0
    assert nights("summary", "run-7").status == 0
    assert "accepted: the level of run-6" in nights("compare", "accepted", "run-7").out
    night(8, 0.8)
    assert nights("accept", "run-7", "--baseline", "--reason", "newer disks").status == 0
    assert "accepted: the level of run-7" in nights("compare", "accepted", "run-8").out
    assert nights("runs", "prune", "--keep-last", "1", "--yes").status == 0
    assert sorted(path.name for path in Path("results").glob("run-*")) == ["run-6", "run-7", "run-8"]


@pytest.mark.parametrize("command", [("summary", "latest"), ("compare", "accepted", "latest"), ("history",)])
def test_a_baseline_that_names_no_run_is_an_error_with_its_place(nights: Call, command: tuple[str, ...]) -> None:
    Path("baselines.yaml").write_text("- {matrix: other, run: x}\n- {matrix: sweep, run: run-99}\n")
    said = nights(*command)
    assert said.status == 2
    assert "baselines.yaml:2:24: no run of sweep is called 'run-99'" in said.err
    assert "`matrix runs` lists them" in said.err


def test_what_cannot_be_accepted(nights: Call) -> None:
    assert "no figure of run-5 is slower than the accepted level" in nights("accept", "latest", "--reason", "x").err
    assert "is 5 runs" in nights("accept", "run-*", "--reason", "x").err
    assert "there is no accepted level for run-1" in nights("compare", "accepted", "run-1").err
    assert not Path("known-changes.yaml").exists()


def test_a_change_is_accepted_for_its_figure_only(nights: Call) -> None:
    night(6, 0.8)
    assert nights("accept", "latest", "--reason", "x").status == 0
    accepted = Path("known-changes.yaml").read_text()
    assert nights("compare", "accepted", "latest").status == 0
    for other in ("write.iops", "read.bw"):
        Path("known-changes.yaml").write_text(accepted.replace("read.iops", other))
        assert nights("compare", "accepted", "latest").status == 1
    Path("known-changes.yaml").write_text(accepted.replace("read.iops", "read.iopz"))
    said = nights("compare", "accepted", "latest")
    assert (said.status, "known-changes.yaml:4" in said.err, "read.iops" in said.err) == (2, True, True)


def test_a_history_takes_a_change_of_its_figure_only(nights: Call) -> None:
    for number in range(6, 21):
        night(number, 0.8 if number > 10 else 1.0)
    entry = "- {cells: {layout: raid5, rw: randwrite}, metric: METRIC, change: -20%, since: 2026-03-11, reason: md}\n"
    for metric, status in (("write.iops", 1), ("read.iops", 0)):
        Path("known-changes.yaml").write_text(entry.replace("METRIC", metric))
        assert nights("history", "--fail-on-change").status == status


def test_a_baseline_of_another_machine_is_said(nights: Call) -> None:
    for number in (6, 7):
        night(number, machine="local")
    Path("baselines.yaml").write_text("- {run: run-6}\n")
    said = nights("compare", "accepted", "run-5")
    assert said.status == 0
    why = "its baseline run-6 is not used: that is sweep on local of lab1, not sweep on qemu of lab1"
    assert why in " ".join(said.out.split())
    assert "not used" not in nights("compare", "accepted", "run-7").out


def test_a_baseline_is_the_level_of_its_own_night(nights: Call) -> None:
    night(6, 0.8)
    assert nights("summary", "latest").status == 1
    assert nights("accept", "latest", "--baseline", "--reason", "new controller").status == 0
    said = nights("summary", "latest")
    assert (said.status, "No baseline names another run." in said.out) == (0, True)
    written = Path("baselines.yaml").read_bytes()
    again = nights("accept", "latest", "--baseline", "--reason", "again")
    assert (again.status, again.out) == (0, "run-6 is the baseline already: new controller\n")
    assert Path("baselines.yaml").read_bytes() == written


def test_only_some_cells_are_accepted(nights: Call) -> None:
    night(6, 0.8)
    assert nights("accept", "latest", "--only", "bs=4KiB", "--reason", "x").status == 0
    said = nights("compare", "accepted", "latest")
    assert said.status == 1
    assert "1 slower" in said.out


def test_history_fails_on_a_change_until_it_is_accepted(nights: Call) -> None:
    for number in range(6, 11):
        night(number)
    for number in range(11, 21):
        night(number, 0.8)
    said = nights("history", "--fail-on-change")
    assert said.status == 1
    assert (
        "alarm: all raid5 with workload.rw=randwrite: 0.80× as fast from 2026-03-11 (run-11) on; 2 figures"
        in " ".join(said.out.split())
    )
    assert nights("history", "--only", "bs=4KiB").status == 0
    assert nights("accept", "run-11", "--reason", "md").status == 0
    said = nights("history", "--fail-on-change")
    assert said.status == 0
    assert "accepted in 2 figures: -19" in said.out


def test_a_comparison_and_a_history_for_other_programs(nights: Call) -> None:
    for number in range(6, 19):
        night(number, 0.8 if number > 9 else 1.0)
    compared = nights("compare", "accepted", "latest", "--junit", "compare.xml", "--prom", "compare.prom")
    history = nights("history", "--fail-on-change", "--junit", "history.xml", "--prom", "history.prom")
    assert (compared.status, history.status) == (1, 1), history.err
    for name in ("compare", "history"):
        root = parsed(Path(f"{name}.xml").read_bytes())
        failed = [one.get("name") for one in root.iterfind(".//testcase") if one.find("failure") is not None]
        assert failed == [f"raid5/oltp/rw=randwrite,bs={bs} read_iops" for bs in ("4KiB", "8KiB")]
        assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("8", "2", "0")
        lines = Path(f"{name}.prom").read_text().splitlines()
        assert lines[-1] == "# EOF"
        assert all(LINE.fullmatch(line) for line in lines), lines
        alarms = [line for line in lines if line.startswith("matrix_alarm{")]
        assert len(alarms) == 8
        red = [line for line in alarms if line.endswith(" 1")]
        assert len(red) == 2
        assert all('alarm="all raid5 with workload.rw=randwrite"' in line for line in red)
        assert 'matrix_run_start_seconds{matrix="sweep",machine="qemu",host="lab1"} 1773810367' in lines
    assert sum(line.startswith("matrix_speed_ratio{") for line in Path("compare.prom").read_text().splitlines()) == 8
    assert nights("accept", "run-10", "--reason", "md").status == 0
    assert nights("compare", "accepted", "latest", "--junit", "compare.xml").status == 0
    root = parsed(Path("compare.xml").read_bytes())
    assert root.get("failures") == "0"


def test_alert_rules_name_metrics_that_exist() -> None:
    rules = YAML(typ="safe").load((Path(__file__).parents[2] / "docs/own-tools/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        names = set(re.findall(r"matrix_\w+", rule["expr"]))
        assert names
        assert names <= HELP.keys()
