"""The yardstick is a file that follows from the sources, with one line for each published ratio."""

from collections import Counter

from docs.yardstick import FILE, yardstick, yardstick_text


def test_the_file_is_what_the_sources_give() -> None:
    """If it fails, `python -m docs.generate` writes it."""
    assert FILE.read_bytes() == yardstick_text()


def test_each_of_161_ratios_can_be_told_or_has_its_rule() -> None:
    rules = Counter(row[5] for row in yardstick().rows)
    assert rules == {"": 112, "repeat": 36, "doubted": 5, "no measurement": 5, "input": 3}
    assert all(row[4] == (not row[6]) for row in yardstick().rows)
