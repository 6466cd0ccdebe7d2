"""What scripts tell of the course of a rate, as tables."""

from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.work.fio.output import mark_synthetic, table_by_position, table_by_sample, table_by_time
from tests.support.fio import table


def test_a_place_that_was_gone_over_ends_where_the_next_begins() -> None:
    assert table(table_by_position("4096\t2000\t110\t300\n0\t1000\t5\t100\nnoise\n8192\t500\t300\t300\n")) == [
        {"offset": "0", "bytes": "1000", "seconds": "0.100", "bw": "10000"},
        {"offset": "4096", "bytes": "2000", "seconds": "0.200", "bw": "10000"},
        {"offset": "8192", "bytes": "500", "seconds": "0.000", "bw": ""},
    ]


def test_a_place_apart_is_as_fast_as_from_its_first_answer_to_its_last() -> None:
    (row,) = table(table_by_sample("12288\t5000\t1000\t2000\n", 1000))
    assert row == {"offset": "12288", "bytes": "4000", "seconds": "1.000", "bw": "4000"}


def test_intervals_of_time_have_bytes_of_each_direction() -> None:
    assert table(table_by_time("2\t0\t10\n10\t1\t1\n2\t1\t20\n", 0.5)) == [
        {"seconds": "1", "read_bw": "10240", "write_bw": "20480"},
        {"seconds": "5", "read_bw": "0", "write_bw": "1024"},
    ]


def test_synthetic_rows_are_marked() -> None:
    rows = table(mark_synthetic(table_by_time("1\t0\t10\n2\t0\t20\n", 1)))
    assert [(row["seconds"], row["synthetic"]) for row in rows] == [("1", "true"), ("2", "true")]


@given(st.dictionaries(st.integers(0, 99), st.tuples(st.integers(1, 10**9), st.integers(1, 10**4)), min_size=1))
def test_all_bytes_and_all_time_are_counted(places: dict[int, tuple[int, int]]) -> None:
    last, told = 0, ""
    for place, (moved, took) in sorted(places.items()):
        told += f"{place}\t{moved}\t{last}\t{last + took}\n"
        last += took
    rows = table(table_by_position(told))
    assert [int(row["offset"]) for row in rows] == sorted(places)
    assert sum(int(row["bytes"]) for row in rows) == sum(moved for moved, _ in places.values())
    assert abs(sum(float(row["seconds"]) for row in rows) - last / 1000) < 1e-6
