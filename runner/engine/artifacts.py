"""What the loop wants of whoever keeps files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Shelf(Protocol):
    """Where the scripts and raw outputs of trials are put."""

    def put(self, cell: str, block: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Write them; returns the trial's folder, relative to the run."""

    def stands(self, array: str, tear_down: str) -> None:
        """Keep what takes an array apart, before it is built where it could outlive the process that builds it."""

    def stands_no_more(self, array: str) -> None:
        """It was taken apart."""
