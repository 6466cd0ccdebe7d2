from __future__ import annotations

import pytest

from matrix_runner.work.metrics import headline, is_large, sides_of


@pytest.mark.parametrize(
    ("rates", "name"),
    [
        ({"read_bw": 2e8, "read_iops": 200.0}, "read_bw"),
        ({"read_bw": 4e6, "read_iops": 1000.0}, "read_iops"),
        ({"write_bw": 2e8, "write_iops": 200.0}, "write_bw"),
        ({"read_bw": 4e6, "read_iops": 1000.0, "write_bw": 2e6, "write_iops": 500.0}, "total_iops"),
        ({"read_bw": 2e8, "read_iops": 200.0, "write_bw": 1e8, "write_iops": 100.0}, "total_bw"),
        ({}, None),
    ],
)
def test_the_headline_is_the_total_of_mixed_work_in_the_unit_of_its_requests(
    rates: dict[str, float], name: str | None
) -> None:
    assert headline(rates) == name


def test_a_total_alone_makes_no_mixed_work() -> None:
    """Cells of one direction have a total, too, which equals it."""
    assert headline({"read_bw": 2e8, "read_iops": 200.0, "total_bw": 2e8, "total_iops": 200.0}) == "read_bw"
    assert sides_of({"write_bw", "total_bw"}) == ("write",)
    assert sides_of({"read_bw", "write_bw"}) == ("total", "read", "write")


def test_requests_of_64_kib_are_large_although_fio_rounds_their_bandwidth_down() -> None:
    assert is_large(64 * 1024 * 100 - 1, 100)
    assert not is_large(63.5 * 1024 * 100, 100)
