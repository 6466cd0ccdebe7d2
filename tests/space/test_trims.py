"""Trim workloads: where they are possible, and what they give on every way to the reports."""

from __future__ import annotations

import asyncio
import csv
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.carry.trial_result import finding
from matrix_runner.machines.base import Step
from matrix_runner.machines.dry import plausible
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.pages.csv_files import trials_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import table
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.scripts.cell import cell_scripts, job, stack_scripts
from matrix_runner.simdisks.clib import Report
from matrix_runner.space.load import parse
from matrix_runner.work.fio.workload import FioWorkload
from tests.pages.samples import SEQ, direction, measured
from tests.support.dry import Dry

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.space.space import Space


WORK = FioWorkload.model_validate({"rw": "trim"})


def trims(layers: str, disks: str = "count: 4, size: 256MiB", work: str = "{rw: randtrim, runtime: 1s}") -> Space:
    text = f"name: t\ndisks: {{{disks}}}\nlayouts: {{l: [{layers}]}}\nworkloads: {{t: {work}}}\n"
    return parse("m.yaml", text).space


@pytest.mark.parametrize(
    "layers",
    ["disk", "md: {level: 0}", "md: {level: 1, devices: 2}", "lvm: {stripes: 4}", "crypt: {allow_discards: true}"],
)
def test_layers_that_pass_trims_on(layers: str) -> None:
    assert trims(layers).count() == 1


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("md: {level: 5}", "RAID 5 does not pass trims on"),
        ("lvm: {type: raid5, stripes: 3}", "LVM's raid5 does not pass trims on"),
        ("disk, integrity: {}", "dm-integrity does not pass trims on"),
        ("disk, crypt: {}", "dm-crypt passes no trims on; write `allow_discards: true`"),
        ("disk, fs: {type: ext4}", "fio cannot trim files; use a layout without a file system"),
    ],
)
def test_layers_that_pass_no_trims_on_are_refused(layers: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        trims(layers)
    assert said in error.value.details


def test_models_of_disks_have_no_trims() -> None:
    with pytest.raises(BadInput) as error:
        trims("disk", "count: 1, size: 256MiB, model: cloud-80iops")
    assert "models of disks know no trims" in error.value.details


def scripts(space: Space) -> tuple[str, str]:
    cell = next(space.cells())
    stack = stack_scripts(cell.stack, [f"/dev/vd{letter}" for letter in "abcd"], zeroed=True)
    return cell_scripts(cell, stack.stack).measure, job(cell, stack.stack, 1)


def test_a_device_that_cannot_discard_is_refused_before_fio_starts() -> None:
    measure, text = scripts(trims("disk"))
    assert "rw=randtrim\n" in text
    assert measure.index("cannot discard, so trims cannot be measured on it") < measure.index("fio --output-format")
    assert "cannot discard" not in scripts(trims("disk", work="{rw: write, runtime: 1s}"))[0]


def test_the_depth_is_no_axis_because_fio_sends_one_trim_at_a_time() -> None:
    found = trims("disk", work="{rw: [trim, randread], iodepth: [1, 8], runtime: 1s}")
    assert [cell.name for cell in found.cells()] == [
        "l/t/rw=trim",
        "l/t/rw=randread,iodepth=1",
        "l/t/rw=randread,iodepth=8",
    ]


def test_trims_of_the_dry_machine_are_only_trims() -> None:
    measure, text = scripts(trims("disk"))
    found = finding([plausible(Step("measure", measure, {"job.fio": text}))], WORK)
    assert found.result.figures
    assert list(found.result.figures.sides) == ["trim"]


def test_trims_are_in_the_journal_and_all_reports(tmp_path: Path) -> None:
    trim = direction(3e8, 1 << 20)
    whole = measured("c1", 1, None)
    assert whole.figures
    trial = replace(whole, figures=replace(whole.figures, trim=trim))
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.add_cells([SEQ])
        journal.record(trial)
        (again,) = journal.trials()
    assert again.figures == trial.figures
    run = RunData("m", "qemu", False, (SEQ,), (again,))
    (row,) = table(run).rows
    assert dict(zip(table(run).columns, row, strict=True))["trim"] == "300 MB/s"
    (line,) = csv.DictReader(trials_csv(run))
    assert (line["trim_bw"], line["trim_lat_p99"], line["read_bw"]) == ("300000000.0", "9000000.0", "")
    assert "[[PROPERTY|trim_bw=300000000 bytes/s]]" in junit(run).decode()
    assert "trim" not in table(RunData("m", "qemu", False, (SEQ,), (measured("c1", 1, trim),))).columns


def test_trims_of_a_matrix_for_physical_disks_are_no_figures_on_simulated_ones(tmp_path: Path) -> None:
    found, machine = trims("disk"), Dry()
    (cell,) = found.cells()

    async def measure(*reports: Report) -> Trial:
        async with machine.rig(rig_spec(found.matrix, cell.stack, None), tmp_path) as rig:
            rig.disk_reports = lambda: reports  # type: ignore[method-assign]
            built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
            return (await built.measure(cell, 1)).trial

    idle = Report(*(0 for _ in fields(Report)))
    assert asyncio.run(measure()).outcome is Outcome.MEASURED
    assert asyncio.run(measure(idle, idle, idle, idle)).reason.startswith("models of disks know no trims")
