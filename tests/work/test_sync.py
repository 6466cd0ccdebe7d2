"""A rebuild, resync, check or repair as a workload: what is refused, what runs, what it writes, and its figures."""

from __future__ import annotations

import csv
import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from matrix_runner.answers.cell_figures import Measured, measured_cell
from matrix_runner.base.errors import BadInput
from matrix_runner.carry.trial_result import finding, split_outputs
from matrix_runner.decide.costs import COSTS, GRACE, deadline
from matrix_runner.decide.estimate import Pace, bytes_of, most_bytes_of, seconds_of
from matrix_runner.language.guidelines import Bound
from matrix_runner.layers.base import Action, SyncTarget, sync_target
from matrix_runner.machines.base import StepResult
from matrix_runner.pages.csv_files import summary_csv, trials_csv
from matrix_runner.pages.explore import explored, page
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.sections import sections
from matrix_runner.pages.terminal import table
from matrix_runner.records.record import CellRow, Outcome
from matrix_runner.scripts.cell import cell_scripts, job, stack_scripts
from matrix_runner.space.variants import levels
from matrix_runner.statistics.stopping import Rule
from matrix_runner.work.fio.output import Sync
from matrix_runner.work.metrics import KNOWN
from matrix_runner.work.sync import SyncWorkload
from tests.support.engine import Bench
from tests.support.matrices import space

if TYPE_CHECKING:
    from matrix_runner.space.space import Cell

TEXT = """\
name: rebuilds
disks: {count: 4, size: 1GiB, model: st3500641as, bus: sata, slow: SLOW}
layouts:
  array: [LAYERS]
workloads:
  work: {WORK}
repeat: 2
"""
REBUILD = "sync_action: rebuild"
BUSY = "sync_action: rebuild, under: {rw: randwrite, bs: 4KiB, iodepth: 8}"
DISKS = ("/dev/a", "/dev/b", "/dev/c", "/dev/d")


def text(layers: str = "md: {level: 5}", work: str = REBUILD, slow: int = 1) -> str:
    return TEXT.replace("LAYERS", layers).replace("WORK", work).replace("SLOW", str(slow))


def cell_of(layers: str = "md: {level: 5}", work: str = REBUILD, slow: int = 1) -> Cell:
    (cell,) = space(text(layers, work, slow)).cells()
    return cell


def measure_script(cell: Cell) -> str:
    return cell_scripts(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack).measure


@pytest.mark.parametrize(
    ("layers", "action", "why"),
    [
        ("md: {level: 0}", "rebuild", "RAID 0 has no redundancy, so there is nothing to rebuild"),
        ("lvm: {type: striped, stripes: 2}", "check", "LVM striped has no redundancy, so there is nothing to check"),
        ("disk: {}", "resync", "a resync needs an md array or an LVM volume with redundancy"),
        ("md: {level: 1, groups: 2}, md: {level: 0}", "check", "it has 2 arrays with redundancy (RAID 1)"),
        ("lvm: {type: raid1, volumes: 2, size: 64MiB}", "check", "it has 2 arrays with redundancy (LVM raid1)"),
        ("md: {level: 5, state: degraded}", "rebuild", "RAID 5 with `state: degraded` is not complete"),
        ("md: {level: 5, sync: background}", "check", "RAID 5 with `sync: background` is in a resync already"),
        ("md: {level: 5, spare: 1}", "rebuild", "a spare would replace the failed disk of RAID 5 at once"),
        ("lvm: {type: mirror}", "check", "LVM's type mirror has no check; use raid1"),
        ("lvm: {type: raid1}", "resync", "LVM starts a resync only on a volume without users; write repair"),
    ],
)
def test_stacks_without_such_an_array_are_impossible(layers: str, action: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        space(text(layers, f"sync_action: {action}"))
    assert f"impossible on array: {why}" in refused.value.details


def test_a_disk_that_fails_by_itself_is_impossible_beside_it() -> None:
    with pytest.raises(BadInput) as refused:
        space(text() + "faults: [{disk: 1, at: 1s, kind: dies}]\n")
    assert "a rebuild needs disks that do not fail" in refused.value.details


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("sync_action: check, rw: read", "`sync_action` runs no I/O of its own; write `rw` below `under:`"),
        ("rw: read, under: {rw: read}", "'under' has no effect without `sync_action`"),
        ("sync_action: scrub", "'scrub' is not one of rebuild, resync, check or repair"),
        ("sync_action: check, under: {rw: read, runtime: 5s}", "as long as the check; remove `runtime`"),
        ("sync_action: check, under: {rw: read, fio: {number_ios: 5}}", "as long as the check; remove `number_ios`"),
        ("sync_action: check, under: {rw: read, bs: 600B}", "direct I/O needs whole sectors"),
        ("sync_action: check, under: {bs: 4KiB}", "'rw' is missing"),
        ("sync_action: check, under: {rw: read, size: 5GiB}", "6:54: does not fit on array: 5GiB are needed"),
        ("sync_action: check, under: {rw: read, sizes: 5GiB}", "unknown key 'sizes'; did you mean size"),
    ],
)
def test_impossible_syncs_are_refused(work: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        space(text(work=work))
    assert why in refused.value.details


def test_axes_of_both_make_cells_with_ids_of_their_own() -> None:
    work = "sync_action: [rebuild, check], under: {rw: randread, bs: [4KiB, 64KiB], fio: {rate: [1m, 2m]}}"
    cells = list(space(text(work=work)).cells())
    assert len({cell.id for cell in cells}) == 8
    assert cells[0].name == "array/work/sync_action=rebuild,bs=4KiB,rate=1m"
    assert cells[0].axes["workload.under.rw"] == "randread"
    assert cell_of().id != cells[0].id


@pytest.mark.parametrize(
    ("layers", "member", "redundant", "walked"),
    [
        ("md: {level: 1}", 1.0, 3.0, 1.0),
        ("md: {level: 5}", 1.0, 1.0, 1.0),
        ("md: {level: 6}", 1.0, 2.0, 1.0),
        ("md: {level: 10}", 1.0, 2.0, 2.0),
        ("md: {level: 10, layout: f2}", 1.0, 2.0, 2.0),
        ("lvm: {type: raid1, mirrors: 3}", 1.0, 3.0, 1.0),
        ("lvm: {type: raid5, stripes: 3}", 1.0, 1.0, 1.0),
        ("lvm: {type: raid10, stripes: 2}", 1.0, 2.0, 2.0),
    ],
)
def test_the_sizes_of_an_array_follow_from_its_level(
    layers: str, member: float, redundant: float, walked: float
) -> None:
    stack = cell_of(layers).stack
    found = sync_target(levels(stack.layers.value, stack.disks))
    assert found
    shares = [size / 2**30 for size in (found.member, found.redundant, found.walked)]
    assert shares == pytest.approx([member, redundant, walked], rel=0.02)


def test_only_what_an_action_writes_counts_as_written() -> None:
    target = SyncTarget(member=10, redundant=30, walked=10)
    assert [target.written(action) for action in get_args(Action)] == [10, 30, 0, 30]


def test_estimates_and_deadlines_know_the_size_of_a_member() -> None:
    cell, pace = cell_of(), Pace(COSTS["virtual"])
    assert isinstance(cell.work, SyncWorkload)
    member = cell.work.target.member
    assert bytes_of(cell, pace) == most_bytes_of(cell, pace) == member
    assert seconds_of(cell, pace) == pytest.approx(member / 204.8e6, rel=0.1)
    assert deadline(cell.work, cell.span) == pytest.approx(member / 1e6 + GRACE, rel=0.01)
    busy = cell_of(work=BUSY)
    assert seconds_of(busy, pace) > 1.9 * seconds_of(cell, pace)
    assert most_bytes_of(busy, pace) > member + 100 * member  # while md keeps its least speed, fio may write a lot


def test_the_script_alone_runs_no_fio() -> None:
    cell = cell_of()
    script = measure_script(cell)
    assert job(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack, 1) == ""
    assert "fio --output" not in script
    assert "local lost=/dev/d" in script
    order = ["--fail", "--remove", "--zero-superblock", "echo frozen", "--add", "\nprepare\n", "\nbegan=", "\nbegin\n"]
    places = [script.index(word) for word in order]
    assert places == sorted(places)
    assert "was over at once" in script


def test_fio_beside_it_starts_before_it_and_ends_with_it() -> None:
    cell = cell_of(work=BUSY, slow=4)
    made = job(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack, 1)
    assert isinstance(cell.work, SyncWorkload)
    assert f"runtime={round(2 * cell.work.patience * 4 * 1000)}ms" in made
    script = measure_script(cell)
    places = [script.index(word) for word in ("\nprepare\n", "job.fio &", "\nbegan=", "\nended=", "kill -INT")]
    assert places[:4] == sorted(places[:4])
    assert f"\npatience={round(cell.work.patience * 4)}\n" in script


@pytest.mark.parametrize(
    ("layers", "action", "command"),
    [
        ("md: {level: 1}", "check", "action=check\n"),
        ("md: {level: 1}", "resync", 'echo 0 >"$at/resync_start"'),
        ("md: {level: 1, write_mostly: 1}", "rebuild", "echo writemostly"),
        ("lvm: {type: raid5}", "repair", 'dmsetup message "$mapped" 0 repair'),
        ("lvm: {type: raid5}", "rebuild", "--rebuild /dev/d"),
    ],
)
def test_each_kind_of_array_has_its_own_commands(layers: str, action: str, command: str) -> None:
    assert command in measure_script(cell_of(layers, f"sync_action: {action}"))


def test_a_file_system_above_needs_no_files_if_the_array_is_alone() -> None:
    cell = cell_of("md: {level: 1}, fs: {type: ext4}")
    assert cell.files is None
    assert cell.leaves_files
    scripts = cell_scripts(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack)
    assert "laying files out" not in scripts.tune
    busy = cell_of("md: {level: 1}, fs: {type: ext4}", BUSY.replace("iodepth: 8", "size: 64MiB"))
    assert busy.files
    assert busy.files.total == 64 * 2**20


FIO = Path(__file__).parents[1] / "data" / "fio-psync-grouped.json"
REPORT = {"action": "check", "began": 100.5, "ended": 110.5, "bytes": 10**9, "mismatch_cnt": 128}


def report(**changes: object) -> str:
    return f"sync\t{json.dumps({**REPORT, 'sync_speed_max': 204_800_000, **changes})}\n"


def found_in(output: str, status: int = 0, fio: str = "") -> tuple[Outcome, str, Sync | None, dict[str, str]]:
    work = cell_of(work=BUSY if fio else REBUILD).work
    split = split_outputs([StepResult("measure", status, output + fio, 1.0)], work)
    one = finding(split.steps, work, 2, split.report)
    return one.outcome, one.reason, one.result.figures.rebuild if one.result.figures else None, dict(one.result.notes)


def test_its_time_and_rate_are_the_figures() -> None:
    assert found_in(report()) == (Outcome.MEASURED, "", Sync(5.0, 2e8), {"mismatch_cnt": "128"})
    outcome, _, sync, notes = found_in(report(action="rebuild", bytes=2_040_000_000), fio=FIO.read_text())
    assert (outcome, sync) == (Outcome.MEASURED, Sync(5.0, 408_000_000))
    assert notes == {"sync_limit": "the rebuild was as fast as sync_speed_max allows: 204800000 bytes/s"}


@pytest.mark.parametrize(
    ("output", "status", "why"),
    [
        ("", 0, "the report of the sync is no JSON"),
        ("sync\t[1]\n", 0, "not as a script writes it"),
        (report(bytes="many"), 0, "not as a script writes it"),
        (report(ended=100.5), 0, "the sync took 0 s"),
        ("matrix: the rebuild did not begin\n", 1, "the rebuild did not begin"),
        (report() + "matrix: not as declared: md.degraded wanted 0\n", 1, "not as declared: md.degraded wanted 0"),
    ],
)
def test_without_a_report_a_trial_is_broken(output: str, status: int, why: str) -> None:
    outcome, reason, sync, _ = found_in(output, status)
    assert (outcome, sync) == (Outcome.BROKEN, None)
    assert why in reason


def test_journal_and_reports_have_its_figures(tmp_path: Path) -> None:
    bench = Bench(tmp_path, text(work=BUSY))
    bench.run()
    trials, (cell,) = bench.trials, bench.plan.selection.cells()
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    syncs = [trial.figures.rebuild for trial in trials if trial.figures]
    assert all(one and one.bw > 0 for one in syncs)
    assert all("sync.json" in kept for kept in bench.shelf.kept.values())
    recorded = RunData("rebuilds", "dry", True, [CellRow(cell.id, cell.name, cell.axes)], trials)
    (summary,) = recorded.summaries
    assert summary.headline == "sync_bw"
    rows = list(csv.DictReader(trials_csv(recorded)))
    assert [float(row["sync_bw"]) for row in rows] == [one.bw for one in syncs if one]
    (row,) = csv.DictReader(summary_csv(recorded))
    assert float(row["sync_seconds"]) == pytest.approx(summary.figures["sync_seconds"].mean)
    assert b"[[PROPERTY|sync_seconds=" in junit(recorded)
    assert table(recorded).columns[1] == "sync"
    (section,) = sections(recorded)
    assert section.columns[:2] == ("sync", "sync time")
    assert section.rows[0].texts[0][0].endswith("MB/s")
    assert b'"sync_seconds"' in page([explored(recorded, "run")], "rebuilds")
    row_of = CellRow(cell.id, cell.name, cell.axes)
    measured = measured_cell("run", row_of, trials, Rule(2, 2), ("sync_bw", "sync_seconds", "write_bw"))
    assert {name: len(rounds) for name, rounds in measured.columns.items()} == dict.fromkeys(measured.columns, 2)
    assert set(measured.columns) == {"sync_bw", "sync_seconds", "write_bw"}


def test_alone_there_is_no_job_and_no_figure_of_requests(tmp_path: Path) -> None:
    bench = Bench(tmp_path, text("lvm: {type: raid1}", "sync_action: check"))
    bench.run()
    assert {trial.notes["mismatch_cnt"] for trial in bench.trials} == {"0"}
    for trial in bench.trials:
        assert trial.figures
        assert (trial.figures.read, trial.figures.write) == (None, None)
        assert trial.figures.rebuild
    assert not any("job.fio" in kept for kept in bench.shelf.kept.values())


@pytest.mark.parametrize(("bounds", "low", "high"), [("at_most: 2m", 0.0, 120.0), ("at_least: 500ms", 0.5, inf)])
def test_a_guideline_bounds_the_time_in_any_unit(bounds: str, low: float, high: float) -> None:
    guideline = f"guidelines: [{{id: soon, claim: soon, bound: {{metric: sync.seconds, {bounds}}}}}]\n"
    (found,) = space(text() + guideline).matrix.guidelines
    assert isinstance(found.claimed, Bound)
    assert found.claimed.limits == (low, high)


def test_a_rate_is_no_bound_of_a_time() -> None:
    guideline = "guidelines: [{id: soon, claim: soon, bound: {metric: rebuild.seconds, at_most: 20MB/s}}]\n"
    with pytest.raises(BadInput) as refused:
        space(text() + guideline)
    assert "the unit does not fit rebuild.seconds; write a time, like 12ms" in refused.value.details


def test_only_syncs_have_figures_of_syncs() -> None:
    alone = Measured("run", CellRow("a", "a", {"workload.sync_action": "check"}))
    busy = Measured("run", CellRow("b", "b", {"workload.sync_action": "check", "workload.under.rw": "randread"}))
    plain = Measured("run", CellRow("c", "c", {"workload.rw": "randread"}))
    names = ("rebuild.seconds", "read.bw", "write.bw", "total.bw", "cpu.iowait")
    found = [[one.has(KNOWN[name]) for name in names] for one in (alone, busy, plain)]
    assert found == [
        [True, False, False, False, True],
        [True, True, False, True, True],
        [False, True, False, True, True],
    ]
    assert not KNOWN["rebuild.seconds"].more_is_better
    assert KNOWN["rebuild.bw"].more_is_better
