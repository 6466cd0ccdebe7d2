"""Workloads on raw devices and in file systems, from the same lines."""

from collections.abc import Iterable
from itertools import permutations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.decide.estimate import Pace, building_of, bytes_of, estimate, laid_out, resync_of
from matrix_runner.decide.plan import Plan
from matrix_runner.space.select import select
from matrix_runner.space.space import Cell
from matrix_runner.work.fio.workload import FioWorkload
from tests.support.costs import free
from tests.support.matrices import space

BOTH = """\
name: both
disks: {count: 4, size: 1GiB}
layouts:
  raw: [md: {level: 5}]
  fs:  [md: {level: 5}, fs: {type: ext4}]
workloads:
  wiki: {rw: read, bs: 64KiB, files: [1, 200], file_size: 4MB, offset: 1MiB}
"""


def cells(text: str) -> dict[str, Cell]:
    return {cell.name: cell for cell in space(text).cells()}


def test_keys_of_files_are_no_axis_without_files() -> None:
    found = space(BOTH)
    assert [cell.name for cell in found.cells()] == ["raw/wiki", "fs/wiki/files=1", "fs/wiki/files=200"]
    assert found.count() == 3
    raw, one, many = found.cells()
    assert isinstance(raw.work, FioWorkload)
    assert isinstance(many.work, FioWorkload)
    assert (raw.files, raw.work.offset, raw.workload.value.runtime) == (None, 1 << 20, 10)
    assert one.files is not None
    assert many.files is not None
    assert (one.files.total, many.files.total, many.work.offset) == (4 * 10**6, 800 * 10**6, 0)
    assert many.workload.value.runtime is None
    assert found.notes == (
        "workload wiki: files is not an axis for raw: there are no files on a raw device",
        "workload wiki: file_size is not an axis for raw: there are no files on a raw device",
        "workload wiki: offset is not an axis for fs: the file system decides where its files are",
    )


def test_rules_see_the_axes_of_both() -> None:
    assert [cell.name for cell in select(space(BOTH), ["files=200"]).cells()] == ["fs/wiki/files=200"]
    assert select(space(BOTH), ["layout=raw"]).count() == 1
    assert select(space(BOTH), ["workload=wiki"]).count() == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "  fs:  [md: {level: 5}, fs: {type: ext4}]\n",
            "",
            "'files' has no effect: there are no files on a raw device",
        ),
        ("  raw: [md: {level: 5}]\n", "", "'offset' has no effect: the file system decides"),
        (
            "200]",
            "2000]",
            "sweep.yaml:7:60: does not fit on fs: 2000 files of 4MB would take 8000MB; at least 3014MB are free",
        ),
        ("file_size: 4MB", "file_size: 4KiB", "files of 4KiB are less than one request of 64KiB"),
        ("file_size: 4MB", "file_size: 9x memory", "does not fit on fs"),
        ("offset: 1MiB", "fio: {nrfiles: 3}", "`nrfiles` is not allowed in the fio: map: write `files:`"),
        ("file_size: 4MB", "file_size: 4x memories", "not a size"),
    ],
)
def test_impossible_combinations_are_refused_before_the_start(old: str, new: str, said: str) -> None:
    assert old in BOTH
    with pytest.raises(BadInput) as error:
        space(BOTH.replace(old, new))
    assert said in str(error.value.details)


def test_memory_is_a_measure_on_devices_and_on_files() -> None:
    text = BOTH.replace("files: [1, 200], file_size: 4MB, offset: 1MiB", "size: [2x memory, 1GiB, 0.5x memory]")
    found = cells(text)
    assert list(found) == [
        f"{layout}/wiki/size={size}" for layout in ("raw", "fs") for size in ("2x_memory", "0.5x_memory")
    ]
    assert found["raw/wiki/size=2x_memory"].span == found["fs/wiki/size=2x_memory"].span == 1 << 30
    assert select(space(text), ["size=1GiB"]).count() == 2, "1GiB is the same cell"
    larger = cells(text + "machine: {memory: 768MiB}\n")
    assert larger["raw/wiki/size=2x_memory"].span == 3 << 29
    assert larger["raw/wiki/size=2x_memory"].id != found["raw/wiki/size=2x_memory"].id


def test_a_size_that_means_the_device_on_one_and_the_files_on_the_other() -> None:
    text = BOTH.replace("offset: 1MiB", "size: 1GiB")
    notes = space(text).notes
    assert "workload wiki: size is not an axis for fs: `files` and `file_size` give the size in a file system" in notes


@given(
    st.integers(1, 8),
    st.none() | st.integers(1, 300),
    st.none() | st.sampled_from(["10%", "100%", 10**6]),
    st.none() | st.sampled_from([40960, 10**6, "1%"]),
    st.integers(1 << 26, 1 << 44),
)
def test_files_follow_from_the_given_keys(
    jobs: int, files: int | None, size: int | str | None, each: int | str | None, room: int
) -> None:
    found = FioWorkload.model_construct(rw="read", numjobs=jobs, files=files, size=size, file_size=each).fileset(room)
    assert found.jobs == jobs
    assert files is None or found.count == files
    assert not isinstance(each, int) or found.each == each
    assert found.total == jobs * found.count * found.each
    if each is None and not isinstance(size, int):
        assert found.total <= room, "shares, and what is chosen where nothing is said, always fit"
    if each is None and size is None:
        assert found.total <= 1 << 30


def _laid_out(order: Iterable[Cell]) -> int:
    present, total = "", 0
    for cell in order:
        assert cell.files is not None
        if cell.files.name != present or not cell.leaves_files:
            total += laid_out(cell)
        present = cell.files.name if cell.leaves_files else ""
    return total


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_the_bytes_of_laid_out_files_are_the_mean_over_all_orders_of_a_round(kind: str) -> None:
    text = BOTH.replace("rw: read, bs: 64KiB", "rw: [read, randread, write], bs: 4KiB").replace("ext4", kind)
    found = space(text.replace("  raw: [md: {level: 5}]\n", "").replace(", offset: 1MiB", "") + "repeat: 1\n")
    (stack,) = found.stacks
    orders = list(permutations(found.cells()))
    assert len(set(map(_laid_out, orders))) > 1
    others = sum(bytes_of(cell, Pace()) for cell in found.cells())
    others += building_of(stack, Pace()).written + resync_of(stack)
    least = estimate(Plan(select(found), found.matrix.repeat, 1), Pace())
    assert least.bytes_least == pytest.approx(fmean(map(_laid_out, orders)) + others)


def test_the_estimate_counts_laying_out() -> None:
    found = space(
        BOTH.replace("[1, 200]", "200").replace("  raw: [md: {level: 5}]\n", "").replace(", offset: 1MiB", "")
    )
    least = estimate(Plan(select(found), found.matrix.repeat, 1), Pace(free()))
    assert least.bytes_least == least.bytes_prepared == 3 * 800 * 10**6
    assert 3 * 16 < least.seconds_least < 3 * 19, "mkfs and what stays in memory come on top"
