"""Records of machines in a cache of their own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines.vagrant import libvirt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    yield
    for record in filter(None, map(libvirt.read_record, libvirt.home().glob("*/"))):
        shutil.rmtree(record.sockets, ignore_errors=True)
