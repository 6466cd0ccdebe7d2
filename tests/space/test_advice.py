"""The matrix that `matrix advise` writes: of any work, disks and file systems."""

from __future__ import annotations

import pytest

from matrix_runner.space.advice import PURPOSES, DiskWish, matrix_for, parse_purposes
from matrix_runner.space.load import parse


def layouts(disks: str) -> list[str]:
    text = matrix_for("m", "s.json", DiskWish.parsed(disks), "nas-7200", {"photos": 1.0}, ("ext4",))
    return list(parse("m.yaml", text).space.matrix.layouts)


@pytest.mark.parametrize("name", PURPOSES)
def test_each_work_makes_a_valid_matrix_whose_answer_is_weighed(name: str) -> None:
    text = matrix_for("m", "s.json", DiskWish.parsed("4x2TB"), "sata-ssd", {name: 2.0}, ("ext4", "xfs"))
    space = parse("m.yaml", text).space
    assert space.matrix.for_ == {name: 2.0}
    assert space.count() >= 12


def test_arrays_fit_the_number_of_disks() -> None:
    assert layouts("2x1TB") == ["raid1"]
    assert layouts("3x1TB") == ["raid1", "raid5", "raid10-far"]
    assert layouts("6x4TB") == ["raid5", "raid6", "raid10-far"]


def test_large_simulated_disks_are_small_ones_that_stand_for_them() -> None:
    def disks(size: str, model: str | None) -> tuple[int, int | None]:
        (one,) = parse(
            "m", matrix_for("m", "s", DiskWish.parsed(f"4x{size}"), model, {"log": 1}, ["xfs"])
        ).space.matrix.disks
        return one.size, one.stands_for

    assert disks("4TB", "nas-7200") == (8 << 30, 4 * 10**12)
    assert disks("512MiB", "nas-7200") == (512 << 20, 512 << 20)
    assert disks("4TB", None) == (4 * 10**12, None)


@pytest.mark.parametrize(
    ("disks", "model", "file"),
    [
        ("4x4TB", "nas-7200", "192MiB"),
        ("26x4TB", "nas-7200", "1248MiB"),
        ("4x4GiB", "nas-7200", "192MiB"),
        ("4x4TB", None, "8GiB"),
        ("4x1GiB", None, "256MiB"),
    ],
)
def test_caches_do_not_hold_the_files(disks: str, model: str | None, file: str) -> None:
    text = matrix_for("m", "s", DiskWish.parsed(disks), model, {"log": 1}, ["xfs"])
    assert f"size: {file}, ramp" in text
    assert not any("caches" in note for note in parse("m", text).space.notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("6", "write it like 6x4TB"),
        ("1x4TB", "advice is on 2 to 26 disks"),
        ("27x4TB", "not on 27"),
        ("4xlarge", "size"),
    ],
)
def test_impossible_disks_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DiskWish.parsed(text)


def test_work_has_weights() -> None:
    assert parse_purposes("photos:2, vms") == {"photos": 2.0, "vms": 1.0}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("games", "known are photos"),
        ("vms:many", "'many' of vms is not a number"),
        ("vms:0", "must be larger than 0"),
        ("vms:nan", "must be larger than 0"),
        ("vms:inf", "must be larger than 0"),
    ],
)
def test_unknown_work_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_purposes(text)
