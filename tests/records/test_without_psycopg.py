"""PostgreSQL is an extra of the package."""

import sys

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.store import SharedStore


@pytest.mark.parametrize("opening", [SharedStore.open, SharedStore.existing])
def test_a_store_in_postgresql_names_the_missing_package(
    opening: object, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    address: Address = address_of("postgresql://lab@db/matrix", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="needs the package psycopg") as caught:
        opening(address)  # type: ignore[operator]
    assert "matrix-runner[postgres]" in caught.value.resolution
