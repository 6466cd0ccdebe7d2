"""Sizes and times as fio reads them."""

from __future__ import annotations

import pytest

from matrix_runner.work.fio.bounds import UnknownBound, parse_fio_size, parse_fio_time


@pytest.mark.parametrize(
    ("text", "size"),
    [("4k", 4096), ("1MiB", 1 << 20), ("2gb", 2 << 30), ("0x100", 256), ("512", 512), ("1.5m", 1572864)],
)
def test_sizes_of_fio(text: str, size: int) -> None:
    assert parse_fio_size(text) == size


def test_times_of_fio() -> None:
    assert [parse_fio_time(one) for one in ("10", "5m", "100ms", "1d")] == [10.0, 300.0, 0.1, 86400.0]
    assert parse_fio_time("500", "us") == 0.0005
    with pytest.raises(UnknownBound):
        parse_fio_time("$ncpus")
