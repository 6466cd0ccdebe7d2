"""The yardstick is a file that follows from the sources, with one line for each published ratio."""

from collections import Counter

import pytest

from docs.yardstick import FILE, STUDIES, yardstick, yardstick_text
from matrix_runner.pages.terminal_text import times


def test_the_file_is_what_the_sources_give() -> None:
    """If it fails, `python -m docs.generate` writes it."""
    assert FILE.read_bytes() == yardstick_text()


def test_each_of_161_ratios_can_be_told_or_has_its_rule() -> None:
    rules = Counter(row[5] for row in yardstick().rows)
    assert rules == {"": 112, "repeat": 36, "doubted": 5, "no measurement": 5, "input": 3}
    assert all(row[4] == (not row[6]) for row in yardstick().rows)


@pytest.mark.parametrize(
    ("study", "table", "where", "ratio"),
    [
        ("lvm-striping", "read", "stripes=3", 1364 / 447),
        ("lvm-striping", "write", "stripes=4", 1364 / 346),
        ("raid-wiki", "sequential-read", "layout=raid10f2", 150 / 82),
        ("raid-wiki", "random-write", "layout=raid0", 80 / 56),
        ("raid-wiki/davidsen", "write", "layout=raid10f2", 64.5 / 54.7),
        ("raid-wiki/tuned", "rewrite", "tune.md.stripe_cache_size=16384", 124661 / 69515),
        ("raid-wiki/chunks", "nelson", "layout=far", 3.8),
        ("mdadm-lvm", "throughput", "rw=randwrite, bs=512KiB", 92821 / 98189),
        ("mdadm-lvm", "throughput", "rw=randread, bs=128KiB", 34578 / 59890),
        ("mdadm-lvm", "operations", "rw=write, bs=32KiB", 5836 / 5763),
    ],
)
def test_ten_ratios_are_those_of_the_texts_of_the_sources(study: str, table: str, where: str, ratio: float) -> None:
    (found,) = [row for row in yardstick().rows if row[:2] == (study, table) and where in str(row[2])]
    assert found[3] == pytest.approx(ratio, abs=1e-4)
    page = (STUDIES / study / "README.md").read_text()
    assert f"| {times(ratio)} |" in page
