"""What the tests of the store share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.address import Address, address_of
from tests.records import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[server.Server]:
    if server.MISSING:
        pytest.skip(server.MISSING)
    with server.private_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """An empty store, in each kind of database."""
    if request.param == "sqlite":
        return address_of(str(tmp_path / "shared" / "store.db"), tmp_path)
    running: server.Server = request.getfixturevalue("postgresql")
    return address_of(running.database(tmp_path.name), tmp_path)
