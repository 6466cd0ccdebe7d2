import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.quantities import format_size, format_time, parse_extent, parse_percent, parse_size, parse_time


@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_size_survives_being_written_and_read(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(min_value=0, max_value=10**7))
def test_a_time_survives_being_written_and_read(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_time(format_time(seconds)) == pytest.approx(seconds, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65536), ("64 KiB", 65536), ("1.5MiB", 1572864), ("2GB", 2 * 10**9), ("512B", 512), (0, 0)],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("64k", "did you mean 64KiB or 64KB"),
        ("64", "did you mean 64KiB"),
        (64, "did you mean 64KiB"),
        ("1G", "did you mean 1GiB or 1GB"),
        ("1.0001KiB", "whole number of bytes"),
        ("fast", "not a size"),
        (True, "not a size"),
        ("-4KiB", "not a size"),
        ("\u0664KiB", "not a size"),
    ],
)
def test_a_wrong_size_gets_a_correct_example(text: object, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        parse_size(text)


def test_percentages_and_times_want_their_unit() -> None:
    assert parse_percent("5 %") == 0.05
    assert parse_time("2m") == 120
    assert parse_extent("25%") == "25%"
    assert parse_extent("1MiB") == 1 << 20
    for parse, text in ((parse_percent, "5"), (parse_time, "10"), (parse_time, 10), (parse_extent, "120%")):
        with pytest.raises(ValueError, match=r"."):
            parse(text)


def test_no_two_times_look_alike() -> None:
    assert (format_time(1_000_000), format_time(1_000_001)) == ("1000000s", "1000001s")
    assert (format_time(0.07), format_time(1.5)) == ("70ms", "1.5s")
