"""Which jobs of fio show a disk, and what they say about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.answers.disk_jobs import Unfit, disk_job, matrix_text
from matrix_runner.answers.fio_import import Group, parse_groups
from matrix_runner.scripts.cell import job, stack_scripts
from matrix_runner.simdisks.calibration import jobs_for
from matrix_runner.simdisks.loop import PERCENTILES, Pattern
from matrix_runner.space.load import load

FILE = Path(__file__).parents[1] / "data" / "fio-psync-grouped.json"
READ = {"rw": "randread", "bs": "4KiB", "iodepth": "8", "ioengine": "libaio", "direct": "1"}


def group(**options: str) -> Group:
    (found,) = parse_groups(FILE.read_bytes(), "one.json")
    figures = found.figures
    assert figures
    side = figures.read or figures.write
    rw = options.get("rw", "randread")
    read, write = (side if wanted else None for wanted in ("write" not in rw, "write" in rw))
    return replace(found, options={**READ, **options}, figures=replace(figures, read=read, write=write, runtime=15.0))


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({}, Pattern(8, 1.0)),
        ({"numjobs": "4"}, Pattern(32, 1.0)),
        ({"numjobs": "4", "ioengine": "psync"}, Pattern(4, 1.0)),
        ({"rw": "randwrite", "sync": "dsync", "bs": "16KiB"}, Pattern(8, 0.0, 16384, safe=True)),
        ({"rw": "randwrite", "fsync": "1"}, Pattern(8, 0.0, safe=True)),
        ({"rw": "read", "offset": "25%", "size": "1%"}, Pattern(8, 1.0, random=False, first=0.25, last=0.26)),
        ({"offset": "250KiB", "size": "100KiB"}, Pattern(8, 1.0, first=0.25, last=0.35)),
    ],
)
def test_options_are_a_pattern(options: dict[str, str], pattern: Pattern) -> None:
    job = disk_job(group(**options), "one.json", 1_024_000)
    assert replace(job.pattern, last=round(job.pattern.last, 6)) == replace(pattern, seconds=15.0)
    (figures,) = job.figures.values()
    assert len(figures.percentiles) == len(PERCENTILES)
    assert figures.percentiles[6] <= figures.percentiles[-1] <= figures.longest


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"direct": "0"}, "page cache"),
        ({"rate_iops": "100"}, "the option rate_iops"),
        ({"bs": "4KiB|8KiB"}, "several jobs with different bs"),
        ({"rw": "read", "numjobs": "2"}, "several sequential processes"),
        ({"rw": "randtrim"}, "rw=randtrim"),
        ({"bs": "4KiB,8KiB"}, "bs=4KiB,8KiB"),
        ({"iodepth": "1024"}, "more than 256 requests"),
        ({"offset": "10MiB"}, "size of the disk is unknown"),
        ({"size": "10GiB"}, "size of the disk is unknown"),
        ({"offset": "abc%"}, "an offset or a size of abc%"),
        ({"size": "nan%"}, "an offset or a size of nan%"),
        ({"offset": "-5%"}, "an offset or a size of -5%"),
        ({"offset": "100%"}, "beyond the end"),
        ({"iodepth": "0"}, "that fio refuses"),
        ({"rw": "randrw", "rwmixread": "150"}, "that fio refuses"),
    ],
)
def test_other_jobs_are_left_out_with_the_reason(options: dict[str, str], why: str) -> None:
    with pytest.raises(Unfit, match=why):
        disk_job(group(**options), "one.json", None)


def test_a_rate_of_zero_is_refused() -> None:
    found = group()
    assert found.figures
    assert found.figures.read
    still = replace(found.figures, read=replace(found.figures.read, iops=0.0))
    with pytest.raises(Unfit, match="that no disk has"):
        disk_job(replace(found, figures=still), "one.json", None)


@pytest.mark.parametrize("kind", ["hdd", "ssd"])
def test_the_matrix_of_a_calibration_asks_for_its_jobs(kind: str, tmp_path: Path) -> None:
    jobs = jobs_for(kind, writes=True)
    file = tmp_path / "m.yaml"
    file.write_text(matrix_text("calibrate-disk", 10**9, jobs))
    cells = list(load(file).space.cells())
    stacks = {cell.name: stack_scripts(cell.stack, ["/dev/a"], zeroed=False).stack for cell in cells}
    lines = {cell.name: job(cell, stacks[cell.name], 1).splitlines() for cell in cells}
    options = {name: dict(line.split("=", 1) for line in text if "=" in line) for name, text in lines.items()}
    for one in options.values():
        one["bs"] += "B"  # as `parse_groups` writes it
    found = {name: disk_job(replace(group(), options=one), "", None).pattern for name, one in options.items()}
    assert found == {
        f"alone/{name}": replace(one, seconds=found[f"alone/{name}"].seconds) for name, one in jobs.items()
    }
    assert options["alone/read-1"]["runtime"] == "15000ms"


@pytest.mark.parametrize("change", [{"iops": 0.0}, {"iops": 1e-9}, {"iops": 1e11}, {"lat_mean": 1e-300}])
def test_jobs_with_figures_of_no_disk_are_left_out(change: dict[str, Any]) -> None:
    found = group()
    assert found.figures and found.figures.read  # noqa: PT018
    figures = replace(found.figures, read=replace(found.figures.read, **change))
    with pytest.raises(Unfit, match="that no disk has"):
        disk_job(replace(found, figures=figures), "one.json", None)
