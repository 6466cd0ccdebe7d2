"""Workloads that are what a program does: what is left open, what is refused, and what it comes to for fio."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.quantities import format_size
from matrix_runner.decide.estimate import Pace, bytes_of, laid_out
from matrix_runner.scripts.cell import find_rejected, job, stack_scripts
from matrix_runner.space.load import BadMatrix, parse
from matrix_runner.space.select import select
from matrix_runner.work.fio.keys import OWNED
from matrix_runner.work.fio.variants import PRESETS, Program, problems_of, values_of
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.pts.output import TESTS

if TYPE_CHECKING:
    from matrix_runner.space.space import Cell, Space

FORM = """\
name: familiar
machine: {{memory: 256MiB}}
disks: {{count: 2, size: 2GiB}}
layouts: {{{}}}
workloads:
  it: {{{}}}
{}
"""
RAW, FS = "raw: [md: {level: 0}]", "fs: [md: {level: 0}, fs: {type: ext4}]"
BOTH = f"{RAW}, {FS}"
OTHERWISE = "or remove `preset`"
PARTS = [(name, phase) for name, preset in PRESETS.items() for phase in preset.phases]


def space(work: str, layouts: str = BOTH, more: str = "") -> Space:
    return parse("m.yaml", FORM.format(layouts, work, more)).space


def cells(work: str, layouts: str = BOTH) -> dict[str, Cell]:
    return {cell.name: cell for cell in space(work, layouts).cells()}


def only(work: str, layouts: str = RAW) -> Cell:
    (found,) = cells(work, layouts).values()
    return found


def options(cell: Cell) -> dict[str, str]:
    """What fio is told."""
    stack = stack_scripts(cell.stack, ("/dev/a", "/dev/b"), zeroed=True).stack
    lines = [line.partition("=") for line in job(cell, stack, 1).splitlines() if "=" in line and line[0] != "#"]
    return {name: value for name, _, value in lines}


def errors(work: str, layouts: str = BOTH) -> list[str]:
    with pytest.raises(BadMatrix) as caught:
        space(work, layouts)
    return [f"{place.column - 8}: {message}" for place, message in caught.value.places]


def test_the_table_and_the_language_know_the_same() -> None:
    preset, phase = (get_args(get_args(Program.model_fields[name].annotation)[0]) for name in ("preset", "phase"))
    assert set(preset) == {*PRESETS, *TESTS}
    assert set(phase) == {part for _, part in PARTS if part}
    for one in PRESETS.values():
        assert set(one.meant) <= set(one.phases)


@pytest.mark.parametrize(("name", "phase"), PARTS)
def test_the_table_has_fields_and_options_of_fio(name: str, phase: str) -> None:
    for in_files in (False, True):
        for field in values_of(name, phase, {}, in_files=in_files):
            outer, _, option = field.partition(".")
            assert outer in FioWorkload.model_fields
            assert option not in OWNED


def test_a_program_of_several_phases_is_an_axis_over_them() -> None:
    assert list(cells("preset: bonnie", FS)) == [f"fs/it/phase={one}" for one in ("write", "rewrite", "read", "seeks")]
    assert list(cells("preset: iozone, bs: [4KiB, 1MiB]", RAW)) == [
        f"raw/it/phase={phase},bs={bs}"
        for phase in ("write", "read", "randread", "randwrite")
        for bs in ("4KiB", "1MiB")
    ]
    assert list(cells("preset: [dd-read, dd-write], size: 1GiB", RAW)) == [
        "raw/it/preset=dd-read",
        "raw/it/preset=dd-write",
    ]
    assert list(cells("preset: bonnie, phase: seeks", FS)) == ["fs/it"]


def test_rules_see_what_a_preset_is() -> None:
    found = space("preset: bonnie")
    assert [cell.name for cell in select(found, ["phase=seeks,layout=fs"]).cells()] == ["fs/it/phase=seeks"]
    assert select(found, ["rw=write"]).count() == 3
    assert select(found, ["preset=bonnie,bs=8KiB"]).count() == 7
    assert select(found, ["size=2x memory"]).count() == 7
    without = space("preset: bonnie", more="exclude: [{phase: [write, rewrite]}]")
    assert {cell.axes["workload.phase"] for cell in select(without).cells()} == {"read", "seeks"}


def test_a_preset_and_its_options_are_one_cell() -> None:
    told = "rw: read, bs: 1MiB, ioengine: psync, direct: false, size: 1GiB, fio: {fadvise_hint: 0}"
    assert only("preset: dd-read, size: 1GiB").id == only(told).id
    # Files are laid out before they are written, so writing is writing again.
    assert len(cells("preset: iozone, phase: [write, rewrite]", FS)) == 1


def test_the_preset_dd_matches_dd() -> None:
    read, write = cells("preset: [dd-read, dd-write], size: 1GiB", RAW).values()
    for cell, rw in ((read, "read"), (write, "write")):
        found = options(cell)
        wanted = {"rw": rw, "ioengine": "psync", "direct": "0", "bs": "1048576", "iodepth": "1", "numjobs": "1"}
        assert wanted.items() <= found.items()
        assert (found["fadvise_hint"], found["size"], "runtime" in found) == ("0", str(2**30), False)
    assert ("end_fsync" in options(read), options(write)["end_fsync"]) == (False, "1")
    assert ("zero_buffers" in options(read), options(write)["zero_buffers"]) == (False, "1")
    assert "end_fsync" not in options(only("preset: dd-write, size: 1GiB", FS))
    assert options(only("preset: dd-write, size: 1GiB, fio: {end_fsync: 1}", FS))["end_fsync"] == "1"


def test_dd_without_a_count_goes_over_everything() -> None:
    whole = options(only("preset: dd-read"))
    assert "size" not in whole
    assert "runtime" not in whole
    assert only("preset: dd-read, offset: 50%").span == only("preset: dd-read").span // 2
    assert options(only("preset: dd-read", FS))["size"] == str(2**30)


def test_a_preset_can_be_shortened() -> None:
    found = options(only("preset: dd-read, runtime: 3s, ramp: 500ms"))
    assert (found["time_based"], found["runtime"], found["ramp_time"]) == ("1", "3000ms", "500ms")


def test_the_preset_iozone_matches_iozone() -> None:
    """`iozone -i 0 -i 1 -i 2 -e -+n -r 8k -s 64m -t 3`, by its documentation."""
    work = "preset: iozone, bs: 8KiB, size: 64MiB, numjobs: 3, phase: [write, read, reread, randread, randwrite]"
    found = {name.partition("=")[2]: options(cell) for name, cell in cells(work, FS).items()}
    assert {phase: one["rw"] for phase, one in found.items()} == {
        "write": "write",
        "read": "read",
        "reread": "read",
        "randread": "randread",
        "randwrite": "randwrite",
    }
    for phase, one in found.items():
        # -t 3: each process on a file of its own.
        assert (one["numjobs"], one["nrfiles"], one["size"]) == ("3", "1", str(64 << 20))
        # -e: what is left to be written counts.
        assert ("end_fsync" in one) == (phase in {"write", "randwrite"})
        # Each record once, in an order that was shuffled, which is what fio's own map of them comes to.
        assert "norandommap" not in one
    assert ("pre_read" in found["reread"], "pre_read" in found["read"]) == (True, False)
    # -I and -o.
    one = options(only("preset: iozone, phase: write, direct: true, sync: sync", FS))
    assert (one["direct"], one["sync"]) == ("1", "sync")


def test_the_preset_bonnie_matches_bonnie() -> None:
    found = {name.rpartition("=")[2]: options(cell) for name, cell in cells("preset: bonnie", FS).items()}
    assert {one["bs"] for one in found.values()} == {"8192"}
    assert {one["size"] for one in found.values()} == {str(512 << 20)}  # twice the memory
    assert (found["rewrite"]["rw"], found["rewrite"]["ioengine"]) == ("write", "mmap")
    assert [phase for phase, one in found.items() if "end_fsync" in one] == ["write", "rewrite"]
    seeks = found["seeks"]
    assert (seeks["rw"], seeks["rwmixread"], seeks["numjobs"], seeks["norandommap"]) == ("randrw", "91", "5", "1")
    assert seeks["filename"].endswith("/trial.0.0")
    # 8192 are sought, and every tenth of them is written back.
    assert abs(int(seeks["number_ios"]) * 5 * 0.91 - 8192) < 20
    assert "number_ios" not in options(only("preset: bonnie, phase: seeks, runtime: 5s", FS))
    assert options(only("preset: bonnie, phase: seeks, numjobs: 3", FS))["number_ios"] == "3004"


def test_presets_for_files_are_refused_on_devices() -> None:
    """fio would clear a device before it writes it through a map."""
    found = space("preset: bonnie")
    assert "raw/it/phase=rewrite" not in {cell.name for cell in found.cells()}
    assert found.notes == ("workload it: no phase=rewrite for raw: fio can rewrite like bonnie++ only in files",)
    assert errors("preset: bonnie", RAW) == [
        "8: no layout has files for phase=rewrite: fio can rewrite like bonnie++ only in files"
    ]
    assert space("preset: bonnie", FS).notes == ()
    assert len(cells("preset: bonnie, phase: [write, read, seeks]", RAW)) == 3


def test_files_that_are_counted_need_no_size() -> None:
    found = only("preset: bonnie, phase: read, files: 4, file_size: 100MB", FS)
    assert found.files is not None
    assert (found.files.count, found.files.each) == (4, 10**8)


def test_few_requests_do_not_count_as_the_whole_file() -> None:
    cell = only("preset: bonnie, phase: seeks", FS)
    assert bytes_of(cell, Pace()) < 10 << 20


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (
            "preset: ddread",
            [
                "8: 'ddread' is not one of dd-read, dd-write, iozone, bonnie, snia-iops, snia-throughput, snia-latency or snia-wsat; did you mean dd-read?"
            ],
        ),
        (
            "presets: bonnie",
            ["-5: 'rw' is missing; add `rw: randread`", "0: unknown key 'presets'; did you mean set or preset?"],
        ),
        ("bs: 4KiB", ["-5: 'rw' is missing; add `rw: randread`"]),
        ("preset: dd-read, rw: write", ["21: 'write' is not what dd-read does; did you mean `preset: dd-write`?"]),
        (
            "preset: dd-read, rw: randrw",
            ["21: 'randrw' is not what dd-read does; remove `rw`, or remove `preset`"],
        ),
        ("preset: bonnie, rw: read", ["20: 'read' is not all that bonnie does; did you mean `phase: read`?"]),
        (
            "preset: dd-read, numjobs: [1, 4]",
            ["30: '4': dd is one process; remove `numjobs`, or remove `preset`"],
        ),
        (
            "preset: dd-read, iodepth: 8",
            ["26: 'iodepth' has no effect: ioengine=psync sends one request at a time"],
        ),
        (
            "preset: iozone, ioengine: libaio",
            ["26: 'libaio': IOzone makes one system call after the other; remove `ioengine`, " + OTHERWISE],
        ),
        (
            "preset: bonnie, phase: rewrite, direct: true",
            [
                "40: 'true': bonnie++ rewrites through the page cache; fio has no other way; remove `direct`, "
                + OTHERWISE
            ],
        ),
        (
            "preset: bonnie, phase: [write, reread]",
            ["31: 'reread' is not a phase of bonnie; its phases are write, rewrite, read, seeks"],
        ),
        ("preset: dd-write, phase: write", ["25: 'write': dd-write has no phases; remove `phase`"]),
        ("rw: read, phase: write", ["17: 'phase' has no effect: it selects a phase of a `preset`"]),
        ("preset: bonnie, phase: read, bs: 1q", ["33: '1q': no size unit 'q' is known; did you mean 1KiB?"]),
    ],
)
def test_keys_that_contradict_a_preset_are_reported_with_their_place(work: str, said: list[str]) -> None:
    assert errors(work) == said


def test_a_phase_that_one_of_two_programs_has_not_may_be_left_out() -> None:
    work = "preset: [iozone, bonnie], phase: [write, seeks]"
    assert any("not a phase of iozone" in one for one in errors(work))
    found = space(work, FS, "exclude: [{preset: iozone, phase: seeks}]")
    assert [cell.name for cell in found.cells()] == [
        "fs/it/preset=iozone,phase=write",
        "fs/it/preset=bonnie,phase=write",
        "fs/it/preset=bonnie,phase=seeks",
    ]


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_fio_takes_all_of_them() -> None:
    works = [f"preset: {name}{f', phase: {phase}' if phase else ''}" for name, phase in PARTS]
    jobs = {}
    for work in works:
        for cell in cells(work).values():
            stack = stack_scripts(cell.stack, ("/dev/a", "/dev/b"), zeroed=True).stack
            jobs[f"{work} {cell.name}"] = job(cell, stack, 1)
    assert len(jobs) == 2 * len(PARTS) - 1
    assert find_rejected(jobs) == {}


_FREE: dict[str, st.SearchStrategy[Any]] = {
    "bs": st.sampled_from([512, 4096, 1 << 20]),
    "size": st.sampled_from([64 << 20, 256 << 20, "50%"]),
    "runtime": st.sampled_from([0.5, 3.0]),
    "fsync": st.integers(0, 9),
    "sync": st.sampled_from(["none", "sync", "dsync"]),
    "numjobs": st.integers(1, 8),
    "direct": st.booleans(),
    "ioengine": st.sampled_from(["psync", "sync", "libaio", "mmap"]),
    "skip": st.sampled_from([0, 4096]),
    "fio.end_fsync": st.sampled_from([0, 1]),
    "fio.fadvise_hint": st.sampled_from([0, 1]),
}


@given(
    part=st.sampled_from(PARTS),
    told=st.fixed_dictionaries({}, optional=_FREE),
    in_files=st.booleans(),
)
def test_user_values_stay_or_are_refused(part: tuple[str, str], told: dict[str, Any], in_files: bool) -> None:
    """And what is not refused is what the program does."""
    found = values_of(*part, told, in_files=in_files)
    assert told.items() <= found.items()
    refused_ = {problem.field for problem in problems_of(*part, told)}
    assert refused_ <= told.keys()
    for name, allowed in PRESETS[part[0]].phases[part[1]].only.items():
        assert (found[name] in allowed) == (name not in refused_)


def test_jobs_may_share_a_file_without_a_preset() -> None:
    cell = only("rw: randread, numjobs: 4, shared: true, size: 256MiB", FS)
    assert cell.files is not None
    assert (cell.files.jobs, cell.files.total) == (1, 256 << 20)
    found = options(cell)
    assert re.search(r"/mnt-\w+-1/trial\.0\.0$", found["filename"])
    assert not {"directory", "nrfiles"} & found.keys()
    alone = only(f"rw: randread, size: {format_size(256 << 20)}", FS)
    assert alone.files == cell.files


def test_files_are_there_before_unless_writing_is_to_make_them() -> None:
    there, made = (only(f"rw: write, bs: 1KiB, size: 64MiB, direct: false{new}", FS) for new in ("", ", new: true"))
    assert (options(there)["overwrite"], options(made)["overwrite"]) == ("1", "0")
    assert there.id != made.id
    assert there.leaves_files
    assert not made.leaves_files  # nobody after it may take them for whole
    assert (laid_out(there), laid_out(made)) == (64 << 20, 0)
    both = cells("rw: [write, read], size: 64MiB, new: true", FS)
    assert [one.axes.get("workload.new") for one in both.values()] == ["true", None]


def test_later_phases_find_the_files_of_a_program() -> None:
    bonnie, iozone = (cells(f"preset: {name}, new: true", FS) for name in ("bonnie", "iozone"))
    for found in (bonnie, iozone):
        made = {name.rpartition("=")[2]: one.axes.get("workload.new") for name, one in found.items()}
        assert made == {phase: "true" if phase == "write" else None for phase in made}
        assert len(made) == 4
    first, again = cells("preset: iozone, phase: [write, rewrite], new: true", FS).values()
    assert (first.workload.value.new, again.workload.value.new) == (True, False)
    assert again.id == only("preset: iozone, phase: rewrite", FS).id == only("preset: iozone, phase: write", FS).id


def test_making_files_is_no_axis_where_files_are_mapped_or_shared() -> None:
    found = space("rw: write, new: true, ioengine: [psync, mmap], direct: false", FS)
    assert [cell.axes.get("workload.new") for cell in found.cells()] == ["true", None]
    assert found.notes == ("workload it: new is not an axis where ioengine=mmap needs existing files",)
    shared = cells("rw: write, new: true, numjobs: [1, 2], shared: true", FS)
    assert [one.axes.get("workload.new") for one in shared.values()] == ["true", None]


@pytest.mark.parametrize(
    ("work", "layouts", "said"),
    [
        ("rw: randwrite, new: true", FS, "20: 'new' has no effect: rw=randwrite needs existing files"),
        ("rw: write, new: true", RAW, "16: 'new' has no effect: there are no files on a raw device"),
        (
            "rw: write, new: true, ioengine: mmap, direct: false",
            FS,
            "16: 'new' has no effect: ioengine=mmap needs existing files",
        ),
        (
            "rw: write, new: true, numjobs: 2, shared: true",
            FS,
            "16: 'new' has no effect: jobs that share one file would overwrite each other's data",
        ),
        (
            "preset: iozone, phase: rewrite, new: true",
            FS,
            "37: 'new' has no effect: phase=rewrite uses existing files",
        ),
        ("rw: read, shared: true", FS, "18: 'shared' has no effect: one job has no files to share"),
        ("rw: read, numjobs: 2, shared: true", RAW, "30: 'shared' has no effect: there are no files on a raw device"),
        (
            "rw: read, numjobs: 2, shared: true, files: 3",
            FS,
            "30: does not fit on fs: jobs share one file, and there are 3",
        ),
    ],
)
def test_impossible_sharing_of_files_is_refused(work: str, layouts: str, said: str) -> None:
    assert errors(work, layouts) == [said]
