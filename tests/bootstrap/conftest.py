from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bootstrap.place import Place

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def set_up(place: Place) -> Place:
    """A machine that has been through it once."""
    assert place.bootstrap("plan").returncode == 0
    place.calls()
    return place
