"""What rules leave out need not be possible."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.space.load import BadMatrix, parse
from matrix_runner.space.rules import rule_of
from matrix_runner.space.select import Ruled, select, values_of
from tests.support.matrices import space

MIXED = """\
name: mixed
disks: {count: 4, size: 512MiB}
layouts:
  small: [disk]
  big: [md: {level: 0}]
  parity: [md: {level: [5, 6], devices: [2, 4]}]
  files: [fs: {type: [ext4, btrfs]}]
tune: {stripe_cache_size: [default, 32768]}
workloads:
  far: {rw: read, bs: 1MiB, size: 1GiB}
  near: {rw: [read, randread], bs: 1MiB, size: 100MiB}
  odd: {rw: read, bs: [4KiB, 1000B]}
exclude:
  - {layout: small, workload: far}
  - {level: 6, devices: 2}
  - {layout: parity, workload: far}
  - {layout: files, type: ext4}
  - {layout: parity, stripe_cache_size: 32768}
  - {bs: 1000B}
"""


def test_a_matrix_may_leave_out_what_cannot_be() -> None:
    found = parse("mixed", MIXED).space
    names = {cell.name for cell in select(found).cells()}
    assert {name.partition("/")[0] for name in names} == {"small", "big", "parity", "files"}
    assert not [name for name in names if "ext4" in name or "32768" in name or "1000B" in name]
    assert {name.partition("/")[0] for name in names if "far" in name} == {"big", "files"}
    assert not [name for name in names if "level=6" in name and "devices=2" in name]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{layout: small, workload: far}", "does not fit on small: 1GiB are needed"),
        ("{level: 6, devices: 2}", "RAID 6 needs at least 4 devices"),
        ("{layout: files, type: ext4}", "ext4 uses one device"),
        ("{layout: parity, stripe_cache_size: 32768}", "too much for a machine with"),
        ("{bs: 1000B}", "whole sectors of 512B"),
    ],
)
def test_cells_that_are_not_excluded_must_be_possible(rule: str, told: str) -> None:
    line = f"  - {rule}\n"
    assert line in MIXED
    with pytest.raises(BadMatrix) as error:
        parse("mixed", MIXED.replace(line, ""))
    assert len(error.value.places) == 1
    assert told in error.value.details


def test_only_leaves_out_just_as_well() -> None:
    rules = "only:\n  - {layout: small, workload: near}\n  - {layout: parity, level: 5, stripe_cache_size: default, workload: near}\n"
    found = parse("mixed", re.sub(r"exclude:.*", rules, MIXED, flags=re.DOTALL)).space
    assert {cell.name.partition("/")[0] for cell in select(found).cells()} == {"small", "parity"}


def test_an_invalid_rule_excludes_no_cell() -> None:
    with pytest.raises(BadMatrix) as error:
        parse("mixed", MIXED.replace("{layout: small, workload: far}", "{layout: smal, workload: far}"))
    assert "does not fit on small" in error.value.details


@given(st.data())
def test_only_excluded_cells_count_as_excluded(data: st.DataObject) -> None:
    """Of a cell of which all is known it is certain; of one of which a part is known, never wrong."""
    found = space()
    values = values_of(found)
    axes = st.sets(st.sampled_from(sorted(values)), min_size=1, max_size=3)
    drawn = [
        rule_of({axis: data.draw(st.sampled_from(sorted(values[axis]))) for axis in data.draw(axes)}, values)
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    ruled = Ruled(tuple(drawn[:2]), tuple(drawn[2:]))
    for cell in list(found.cells())[:: data.draw(st.integers(1, 7))]:
        coords = tuple(cell.axes.items())
        wanted = not any(all(cell.axes.get(axis) in texts for axis, texts in rule.items()) for rule in ruled.exclude)
        wanted &= not ruled.only or any(
            all(cell.axes.get(axis) in texts for axis, texts in rule.items()) for rule in ruled.only
        )
        part = data.draw(st.sets(st.sampled_from(coords)))
        assert not (wanted and (ruled.out(coords) or ruled.out(tuple(part))))


ONE = """\
name: one
disks: {{count: 1, size: 4GiB}}
layouts: {{top: [disk{layers}]}}
workloads: {{work: {{rw: read, {work}}}}}
"""
SECTORS = "direct I/O needs whole sectors of 4KiB"


def told_of(layers: str, work: str) -> str:
    with pytest.raises(BadMatrix) as error:
        parse("one", ONE.format(layers=layers, work=work))
    assert len(error.value.places) == 1
    return error.value.places[0][1]


@pytest.mark.parametrize(
    ("layers", "work", "told"),
    [
        (", crypt: {sector_size: 4KiB}", "bs: 512B", f"{SECTORS}, and 512B is not"),
        (", integrity: {sector_size: 4KiB}, lvm: {}", "bs: 6KiB", f"{SECTORS}, and 6KiB is not"),
        (", crypt: {sector_size: 4KiB}", "bs: 4KiB, skip: 512B", f"{SECTORS}, and 512B is not"),
        (", crypt: {sector_size: 4KiB}", "bs: 4KiB, offset: 2KiB", f"{SECTORS}, and 2KiB is not"),
        (", crypt: {sector_size: 4KiB}, fs: {type: xfs}", "bs: 2KiB", f"{SECTORS}, and 2KiB is not"),
        ("", "offset: 1001B", "whole sectors of 512B, and 1001B is not"),
        ("", "size: 1001B", "1001B are less than one request of 4KiB"),
        ("", "size: 0", "0 are less than one request of 4KiB"),
    ],
)
def test_work_that_the_devices_would_refuse_is_refused(layers: str, work: str, told: str) -> None:
    assert told in told_of(layers, work)


@pytest.mark.parametrize(
    ("layers", "work"),
    [
        (", crypt: {sector_size: 4KiB}", "bs: 512B, direct: false, offset: 1000B"),
        (", crypt: {sector_size: 4KiB}, fs: {type: btrfs}", "bs: 512B"),
        (", crypt: {sector_size: 4KiB}, fs: {type: ext4, options: data=journal}", "bs: 512B"),
        (", crypt: {sector_size: 4KiB}", "bs: 8KiB, offset: 4KiB"),
        ("", "bs: 512B, offset: 512B"),
    ],
)
def test_work_that_goes_through_memory_or_in_sectors_is_not(layers: str, work: str) -> None:
    assert parse("one", ONE.format(layers=layers, work=work)).space.count() == 1
