"""Tests of SNIA's specification: what is refused, what runs, what it writes, and its figures."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.trial_result import Finding, finding
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.costs import deadline
from matrix_runner.decide.estimate import Pace, bytes_of, most_bytes_of, seconds_of
from matrix_runner.machines.base import Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.pages.csv_files import jobs_csv, trials_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.pts import pts_reports, rounds_csv
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial, TrialFacts
from matrix_runner.scripts.cell import cell_scripts, find_error, job, stack_scripts
from matrix_runner.work.pts.output import TESTS, documents, parse_rounds
from matrix_runner.work.pts.workload import PtsWorkload
from tests.support.dry import Dry
from tests.support.engine import Bench
from tests.support.matrices import space
from tests.support.shell import complaints

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.space.space import Cell

TEXT = """\
name: pts
disks: {count: 1, size: 1GiB, model: ageing-ssd}
layouts:
  raw: [LAYERS]
workloads:
  test: {WORK}
repeat: 1
"""
DISKS = ("/dev/a",)
MIB = 2**20


def text(work: str, layers: str = "disk") -> str:
    return TEXT.replace("LAYERS", layers).replace("WORK", work)


def cells_of(work: str, layers: str = "disk") -> list[Cell]:
    return list(space(text(work, layers)).cells())


def cell_of(work: str) -> Cell:
    (cell,) = cells_of(work)
    return cell


def test_of(cell: Cell) -> PtsWorkload:
    work = cell.work
    assert isinstance(work, PtsWorkload)
    return work


test_of.__test__ = False  # type: ignore[attr-defined]


def script_of(cell: Cell) -> str:
    return cell_scripts(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack).measure


def job_of(cell: Cell) -> str:
    return job(cell, stack_scripts(cell.stack, DISKS, zeroed=True).stack, seed=7)


@pytest.mark.parametrize(
    ("work", "layers", "why"),
    [
        ("preset: snia-iops, bs: 4KiB", "disk", "`bs` is set by the specification for snia-iops; remove it"),
        ("preset: snia-latency, iodepth: 4", "disk", "`iodepth` is set by the specification for snia-latency"),
        ("preset: snia-throughput, bs: 4KiB", "disk", "'4KiB': snia-throughput has requests of 1MiB and 128KiB"),
        ("preset: snia-iops, rw: read", "disk", "`rw` is set by the specification"),
        ("preset: [snia-iops, dd-read]", "disk", "dd-read is a program, and the others are tests of SNIA"),
        ("preset: snia-iops, rounds: 4", "disk", "must be at least 5"),
        ("rw: read, rounds: 7", "disk", "'rounds' has no effect: it ends tests of SNIA"),
        ("preset: snia-iops, size: 4x memory", "disk", "'4x memory' is no part of a device"),
        ("preset: snia-iops", "disk, fs: {type: ext4}", "use a layout without a file system"),
        ("preset: snia-iops", "disk, integrity: {}", "begins with a purge, which discards the device"),
    ],
)
def test_work_outside_the_specification_is_refused(work: str, layers: str, why: str) -> None:
    with pytest.raises(BadInput) as error:
        space(text(work, layers))
    assert why in f"{error.value.brief} {error.value.details}"


def test_a_model_without_a_state_is_refused() -> None:
    with pytest.raises(BadInput) as error:
        space(text("preset: snia-iops").replace("ageing-ssd", "nvme-ssd"))
    assert "the model of the disk has no `ageing:`; use `model: ageing-ssd`" in error.value.details


def test_the_rounds_are_those_of_the_specification() -> None:
    iops = test_of(cell_of("preset: snia-iops"))
    assert len(iops.job_names) == 7 * 8
    assert iops.job_names[:9] == (
        *("r100w0-1024k", "r100w0-128k", "r100w0-64k", "r100w0-32k", "r100w0-16k", "r100w0-8k", "r100w0-4k"),
        *("r100w0-512", "r95w5-1024k"),
    )
    assert iops.tracked == ("r0w100-4k", "r65w35-64k", "r100w0-1024k")
    latency = test_of(cell_of("preset: snia-latency"))
    assert len(latency.job_names) == 9
    assert latency.under_way == 1
    assert test_of(cell_of("preset: snia-wsat")).fill is None


def test_each_size_of_throughput_is_a_test_of_its_own() -> None:
    cells = cells_of("preset: snia-throughput")
    assert [cell.axes["workload.bs"] for cell in cells] == ["1MiB", "128KiB"]
    assert [test_of(cell).fill for cell in cells] == [MIB, 128 * 1024]
    assert [test_of(cell).tracked for cell in cells] == [("r0w100-1024k",), ("r0w100-128k",)]
    assert len(cells_of("preset: snia-throughput, bs: 1MiB")) == 1


def test_a_list_is_an_axis() -> None:
    cells = cells_of("preset: [snia-iops, snia-latency], runtime: 1s")
    assert [cell.axes["workload.preset"] for cell in cells] == ["snia-iops", "snia-latency"]
    assert len({cell.id for cell in cells}) == 2
    assert len(cells_of("preset: snia-iops, iodepth: [16, 32], runtime: [1s, 2s]")) == 4


def test_the_id_depends_on_the_number_of_rounds() -> None:
    assert cell_of("preset: snia-iops").id != cell_of("preset: snia-iops, rounds: 5").id


def test_the_job_has_each_point_once_one_after_another() -> None:
    found = job_of(cell_of("preset: snia-latency, runtime: 2s, size: 75%"))
    assert found.count("stonewall=1") == found.count("runtime=2000ms") == found.count("size=75%") == 9
    assert "rw=randrw\nbs=512\nrwmixread=65\n" in found
    assert "iodepth=1\nnumjobs=1\n" in found


def test_scripts_are_clean_and_fio_takes_the_jobs() -> None:
    cells = [cell for preset in TESTS for cell in cells_of(f"preset: {preset}")]
    assert complaints(script_of(cell) for cell in cells) == ""
    assert [find_error(job_of(cell)) for cell in cells] == [""] * 5


def test_tests_of_one_stack_share_no_scripts() -> None:
    cells = cells_of("preset: [snia-iops, snia-latency]")
    stack, rendered = stack_scripts(cells[0].stack, DISKS, zeroed=True).stack, dict[tuple[object, ...], str]()
    found = [cell_scripts(cell, stack, rendered=rendered).measure for cell in cells]
    assert found == [script_of(cell) for cell in cells]


def test_the_script_purges_fills_and_repeats() -> None:
    script = script_of(cell_of("preset: snia-iops, rounds: 9"))
    purge, fill, rounds = (script.index(one) for one in ("blkdiscard", "--bs=131072", "rounds=9 most_written=0"))
    assert purge < fill < rounds
    assert "--loops=2" in script
    wsat = script_of(cell_of("preset: snia-wsat"))
    assert "--loops" not in wsat
    assert f"rounds=360 most_written={4 * 2**30}" in wsat
    assert re.search(r"^apart=30 ", wsat, re.MULTILINE)


def test_the_estimate_counts_the_fill_and_the_usual_rounds() -> None:
    cell = cell_of("preset: snia-iops, runtime: 10s")
    pace = Pace()
    assert 7 * 56 * 10 < seconds_of(cell, pace) < 25 * 56 * 12
    assert bytes_of(cell, pace) > 2 * 2**30
    assert most_bytes_of(cell, pace) > bytes_of(cell, pace)
    assert deadline(cell.work, cell.span) > 25 * 56 * 10
    wsat = cell_of("preset: snia-wsat, runtime: 1s, rounds: 40")
    assert deadline(wsat.work, wsat.span) > 40 * 20  # fio takes seconds to start on a busy host
    assert seconds_of(wsat, pace) < 40 * 3


def _documents(rounds: list[float], names: tuple[str, ...]) -> str:
    """Return what fio prints in rounds with this rate of writes at each point."""
    return "\n".join(json.dumps({"jobs": [_job(name, rate) for name in names]}) for rate in rounds)


def _job(name: str, rate: float) -> dict[str, Any]:
    count = round(rate)
    times = {"min": 1, "max": int(2e9 / rate), "mean": 1e9 / rate, "N": count}
    side = {"io_bytes": count * 4096, "bw_bytes": count * 4096, "iops": rate, "runtime": 1000, "total_ios": count}
    idle = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "lat_ns": {**times, "N": 0}}
    return {
        "jobname": name,
        "error": 0,
        "usr_cpu": 1.0,
        "sys_cpu": 2.0,
        "job_runtime": 1000,
        "read": idle,
        "write": {**side, "lat_ns": times},
    }


def _found(cell: Cell, rounds: list[float], *, status: int = 0, slow: int = 1) -> Finding:
    work = test_of(cell)
    names = work.job_names or (work.points[0].name,)
    output = f"note\tpurge\tblkdiscard\n{_documents(rounds, names)}\n"
    return finding([StepResult("measure", status, output, 0.0)], work, slow)


def test_figures_are_means_of_the_last_five_rounds() -> None:
    found = _found(cell_of("preset: snia-latency"), [900.0, 100.0, 101.0, 99.0, 100.0, 100.0])
    assert found.outcome is Outcome.MEASURED
    assert not found.result.unsettled
    assert found.result.figures
    assert found.result.figures.write
    assert found.result.figures.write.iops == pytest.approx(100.0)
    assert found.result.figures.write.lat_max == pytest.approx(2e9 / 99, rel=1e-6)
    assert set(found.result.figures.jobs) == set(test_of(cell_of("preset: snia-latency")).job_names)
    assert found.result.notes["purge"] == "blkdiscard"
    assert found.result.notes["rounds"] == "6"
    assert found.result.notes["steady_state"].startswith("rounds 2 to 6; r0w100-4k: range ")
    assert found.result.notes["written_in_rounds"] == str(9 * 4096 * 1400)
    assert (found.result.steady, found.result.written_in_rounds) == (True, 9 * 4096 * 1400)


def test_without_a_steady_state_figures_do_not_count() -> None:
    found = _found(cell_of("preset: snia-latency, rounds: 5"), [900.0, 500.0, 300.0, 200.0, 100.0])
    assert found.result.unsettled.startswith("no steady state in 5 rounds: r0w100-4k: range ")
    assert found.result.notes["not_as_specified"] == "at most 5 rounds instead of 25"
    trial = Trial("c", 1, Outcome.MEASURED, figures=found.result.figures, facts=TrialFacts(settled=False))
    assert trial.counted is None


def test_write_saturation_needs_no_steady_state() -> None:
    found = _found(cell_of("preset: snia-wsat, runtime: 30s"), [900.0, 500.0, 300.0, 200.0, 100.0, 100.0])
    assert not found.result.unsettled
    assert found.result.figures
    assert found.result.figures.write
    assert found.result.figures.write.iops == pytest.approx(240.0)
    assert found.result.notes["steady_state"] == "no steady state in 6 rounds"
    assert found.result.steady is False
    assert found.result.notes["not_as_specified"] == "30 s instead of 60 s for each point"


def test_write_saturation_is_steady_over_thirty_rounds_each() -> None:
    found = _found(cell_of("preset: snia-wsat"), [900.0, *[100.0] * 29, 880.0, *[100.0] * 90, *[870.0]])
    assert not found.result.notes["steady_state"].startswith("rounds")
    steady = [900.0, *[100.0] * 29] * 4 + [890.0]
    assert _found(cell_of("preset: snia-wsat"), steady).result.notes["steady_state"].startswith("rounds 1 to 121; ")


def test_all_tracked_points_must_be_steady() -> None:
    work = test_of(cell_of("preset: snia-iops"))
    falling = {"r65w35-64k": [900.0, 800.0, 500.0, 300.0, 100.0]}
    rounds = [
        json.dumps({"jobs": [_job(name, falling.get(name, [100.0] * 5)[at]) for name in work.job_names]})
        for at in range(5)
    ]
    found = finding([StepResult("measure", 0, "\n".join(rounds), 0.0)], work)
    assert "r65w35-64k: range" in found.result.unsettled
    assert "r0w100-4k" not in found.result.unsettled


#: Stands for fio: each tracked job has a constant rate, but the one named $falling halves its rate in each round.
FIO = r"""
set -euo pipefail
fail() { echo "$*" >&2; exit 1; }
output=all.json status=0
fio() {
  {
    echo '{'
    for job in r0w100-4k r65w35-64k r100w0-1024k; do
      if [[ $job == "$missing" ]]; then continue; fi
      printf '%s\n' "\"jobname\" : \"$job\"," '"read" : {' "\"iops\" : $([[ $job == "$falling" ]] && echo $((64000 >> round)) || echo 100)," '}'
    done
    echo '}'
  } >round.json
}
confined() { "$@"; }
"""


@pytest.mark.parametrize("falling", ["r0w100-4k", "r65w35-64k", "r100w0-1024k", ""])
def test_rounds_end_only_when_all_tracked_points_are_steady(falling: str, tmp_path: Path) -> None:
    assert _rounds_run(tmp_path, falling=falling) == (8 if falling else 5)


def test_rounds_without_the_figures_of_a_tracked_point_are_no_steady_state(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="fio reported no figures of r65w35-64k in round 1"):
        _rounds_run(tmp_path, missing="r65w35-64k")


def _rounds_run(folder: Path, falling: str = "", missing: str = "") -> int:
    """Run the part of a test's script that has its rounds, with a stand-in for fio. Return the number of rounds."""
    script = script_of(cell_of("preset: snia-iops, rounds: 8"))
    rounds = script[script.index("\ntracked=(") : script.index("\nrm -f round.fio")]
    (folder / "job.fio").write_text("[global]\nrandseed=1\n")
    text = f"{FIO}\nfalling={falling} missing={missing}\n{rounds}\necho $((round < rounds ? round : rounds))"
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_slow_motion_is_taken_out_of_figures_and_rounds() -> None:
    found = _found(cell_of("preset: snia-wsat"), [100.0] * 6, slow=4)
    assert found.result.figures
    assert found.result.figures.write
    assert found.result.figures.write.iops == pytest.approx(400.0)
    assert {row.measures["iops"] for row in parse_rounds(found.result.files["rounds.csv"])} == {400.0}


def test_a_round_that_failed_makes_the_trial_broken() -> None:
    cell = cell_of("preset: snia-wsat")
    assert _found(cell, [100.0] * 3, status=1).outcome is Outcome.BROKEN
    work = test_of(cell)
    cut = finding([StepResult("measure", 0, '{\n  "jobs" : [\n', 0.0)], work)
    assert (cut.outcome, cut.reason[:32]) == (Outcome.BROKEN, "fio failed: fio's JSON is cut sh")
    assert finding([StepResult("measure", 0, "", 0.0)], work).reason.startswith("fio failed: fio printed no JSON")


def test_documents_of_several_lines_are_separated() -> None:
    assert [*documents('x\n{\n "a": {\n }\n}\ny\n{\n "b": 1\n}\n{"c": 2}\n')] == [{"a": {}}, {"b": 1}, {"c": 2}]


def test_a_budget_counts_all_rounds_and_the_fill() -> None:
    cell = cell_of("preset: snia-latency")
    found = _found(cell, [100.0] * 6)
    spending = Spending(Cost(1e9, 1e15))
    left = spending.left.written
    facts = TrialFacts(written_in_rounds=found.result.written_in_rounds)
    spending.add(Trial(cell.id, 1, Outcome.MEASURED, figures=found.result.figures, facts=facts), cell)
    assert left - spending.left.written == pytest.approx(2 * 2**30 + 6 * 9 * 100 * 4096)


@pytest.mark.parametrize("preset", TESTS)
def test_a_run_records_and_reports_it(preset: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, text(f"preset: {preset}, runtime: 1s"))
    bench.run()
    trials = list(bench.journal.trials())
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    cells = bench.journal.cells()
    assert ",synthetic\n" in bench.shelf.kept[cells[0].name, 1]["rounds.csv"]
    rounds = {cell.id: {1: bench.shelf.kept[cell.name, 1]["rounds.csv"]} for cell in cells}
    recorded = replace(RunData("pts", "dry", True, cells, trials), rounds=rounds)
    for report in pts_reports(recorded):
        captions = [caption for caption, _ in report.tables]
        assert captions[-2:] == ["Steady state of the last trial", "Rounds of the last trial"]
        assert len(captions) == {"snia-latency": 4, "snia-wsat": 2}.get(preset, 3)
        assert "Not as specified: 1 s instead of 60 s for each point." in report.facts
    rows = list(csv.DictReader(StringIO(rounds_csv(recorded))))
    points = len(TESTS[preset].mixes) * len(TESTS[preset].sizes)
    assert len(rows) == 5 * points
    assert {(row["machine"], row["synthetic"]) for row in rows} == {("dry", "true")}
    assert list(trials_csv(recorded))
    assert junit(recorded)
    if points > 2:
        jobs = list(csv.DictReader(StringIO(jobs_csv(recorded))))
        assert len(jobs) == points


def test_a_run_resumes_after_its_tests(tmp_path: Path) -> None:
    bench = Bench(tmp_path, text("preset: snia-latency, runtime: 1s"))
    bench.run()
    machine = Dry()
    bench.run(machine=machine)
    assert machine.rigs == []


def test_the_tables_have_the_mixes_and_sizes_of_the_specification() -> None:
    cell = cell_of("preset: snia-iops")
    found = _found(cell, [100.0, 110.0, 100.0, 100.0, 100.0])
    row = CellRow(cell.id, cell.name, cell.axes)
    trial = Trial(cell.id, 1, Outcome.MEASURED, figures=found.result.figures, notes=found.result.notes)
    (report,) = pts_reports(
        RunData("m", "qemu", False, [row], [trial], rounds={cell.id: {1: found.result.files["rounds.csv"]}})
    )
    _, table = report.tables[0]
    assert table.columns == ("request in KiB", *(f"R/W {one}/{100 - one}" for one in (100, 95, 65, 50, 35, 5, 0)))
    assert [line[0] for line in table.rows] == ["1024", "128", "64", "32", "16", "8", "4", "0.5"]
    assert {value for line in table.rows for value in line[1:]} == {"102 IOPS"}
    _, steady = report.tables[1]
    assert [line[0] for line in steady.rows] == ["r0w100-4k", "r65w35-64k", "r100w0-1024k"]
    assert {line[-1] for line in steady.rows} == {"yes"}
    assert [one.name for one in report.chart.series][:2] == ["r0w100-4k", "r0w100-1024k"]
    assert len(report.chart.series) == 6
    assert report.chart.title.endswith("writes by round (6 of 8 request sizes)")


def test_the_dry_machine_has_five_rounds() -> None:
    cell = cell_of("preset: snia-wsat")
    step = Step("measure", script_of(cell), {"job.fio": job_of(cell)})
    assert len([*documents(plausible(step).output)]) == 5
