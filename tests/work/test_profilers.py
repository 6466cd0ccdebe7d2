"""Profiles on request: what they need, the scripts that run them, what is kept, and where the report shows it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import get_args

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.trial import why_skipped
from matrix_runner.carry.trial_result import split_outputs
from matrix_runner.machines.base import StepResult
from matrix_runner.machines.dry import Dry
from matrix_runner.machines.requirements import OPTIONAL
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.pages.html import page
from matrix_runner.scripts.cell import cell_scripts, files_of, stack_scripts
from matrix_runner.work.profilers import PROFILERS, ProfilerName
from tests.pages.samples import RUN
from tests.support.begun_runs import manifest
from tests.support.matrices import space

MATRIX = """\
name: m
disks: {count: 2, size: 64MiB}
layouts: {one: [md: {level: 1}]}
profile: [cpu, locks, blktrace]
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
"""


def test_each_profiler_has_its_scripts_and_packages() -> None:
    assert [*PROFILERS] == [*get_args(ProfilerName)], "cpu is the last to start"
    for one in PROFILERS.values():
        assert {*one.need.program_names} <= {*OPTIONAL}, "`doctor` lists them, but no stack lacks them"


def test_a_profile_is_asked_for_by_name_once_and_a_single_one_needs_no_list() -> None:
    assert space(MATRIX.replace("[cpu, locks, blktrace]", "cpu")).matrix.profile == ("cpu",)
    assert space(MATRIX.replace("[cpu, locks, blktrace]", "[cpu, cpu]")).matrix.profile == ("cpu",)
    with pytest.raises(BadInput) as caught:
        space(MATRIX.replace("locks", "lock"))
    assert "locks" in caught.value.details


def test_what_a_profile_lacks_skips_the_cells_with_the_reason() -> None:
    found = space(MATRIX)
    spec = rig_spec(found.matrix, found.stacks[0], None)
    assert {"perf", "blktrace", "mdadm"} == {*spec.programs}
    assert "BLK_DEV_IO_TRACE" in spec.options
    why = why_skipped(found.stacks[0], Dry(), {"absent": "perf", "unset": "BLK_DEV_IO_TRACE"}, found.matrix.profile)
    assert "`profile: cpu` needs perf" in why
    assert "`profile: blktrace` needs CONFIG_BLK_DEV_IO_TRACE" in why
    without = space(MATRIX.replace("profile: [cpu, locks, blktrace]\n", ""))
    assert {*rig_spec(without.matrix, without.stacks[0], None).programs} == {"mdadm"}


def test_scripts_start_each_profiler_before_the_counters_and_end_it_after_them() -> None:
    found = space(MATRIX)
    (cell,) = found.cells()
    scripts = stack_scripts(cell.stack, ["/dev/vda", "/dev/vdb"], zeroed=True)
    files = files_of(scripts, cell_scripts(cell, scripts.stack, profile=found.matrix.profile))
    lines = files["4-measure.sh"].splitlines()
    began, ended = lines.index("counted before"), lines.index("counted after")
    for name in PROFILERS:
        (start,) = (at for at, line in enumerate(lines) if line.startswith(f"started {name} "))
        assert start < began
        assert f"profile-{name}" in files[f"profile-{name}.sh"]
    assert lines.index("stop_watchers", ended) > ended
    plain = files_of(scripts, cell_scripts(cell, scripts.stack))
    assert "watchers" not in plain["4-measure.sh"]


@pytest.mark.parametrize("wish", ["one", "none"])
def test_a_profiler_that_misses_a_signal_gets_another_one(wish: str) -> None:
    found = space(MATRIX)
    (cell,) = found.cells()
    scripts = stack_scripts(cell.stack, ["/dev/vda", "/dev/vdb"], zeroed=True)
    measure = cell_scripts(cell, scripts.stack, profile=found.matrix.profile).measure
    begin = measure.index("stop_watchers() {")
    stop = measure[begin : measure.index("\n}\n", begin) + 3].replace("sleep 0.05", "sleep 0.01")
    trap = {"one": "trap 'echo got; trap - TERM' TERM", "none": "trap '' TERM"}[wish]
    script = f'{stop}\nbash -c "{trap}; echo up >up; while sleep 0.01; do :; done" & watchers=($!)\n'
    script += "until [[ -s up ]]; do sleep 0.01; done; rm up\nstop_watchers\necho ended"
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-euc", script], capture_output=True, text=True, timeout=60, check=False, cwd=folder
        )
    assert done.stdout.split() == (["got", "ended"] if wish == "one" else ["ended"]), done


def test_a_profile_is_a_file_of_the_trial_and_a_failure_of_its_table_a_note() -> None:
    (cell,) = space(MATRIX).cells()
    steps = [
        StepResult("measure", 0, "{}\n", 1.0),
        StepResult("profile-cpu.txt", 0, "50 % md\n", 1.0),
        StepResult("profile-locks.txt", 1, "no lock was contended\n", 1.0),
        StepResult("profile-blktrace.txt", 0, "\n", 1.0),
    ]
    output = split_outputs(steps, cell.work)
    assert output.files == {"profile-cpu.txt": "50 % md\n"}
    assert output.notes["profile-locks"].startswith("not kept: ")
    assert [one.name for one in output.steps] == ["measure"]


def test_the_report_shows_profiles() -> None:
    text = page(replace(RUN, profiles={"mirror/writes": {"cpu": "50 % <md>"}}), manifest(), "run").decode()
    assert "<h2>Profiles</h2>" in text
    assert "<pre>50 % &lt;md&gt;</pre>" in text
    assert "<h2>Profiles" not in page(RUN, manifest(), "run").decode()
