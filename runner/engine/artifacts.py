"""The interface that keeps the files of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Shelf(Protocol):
    """The place for scripts and raw outputs of trials."""

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Write the files of a trial; return its folder, relative to the run."""

    def keep_tear_down(self, array: str, tear_down: str) -> None:
        """Save the tear-down script of a stack before it is built, because it may outlive this process."""

    def forget_tear_down(self, array: str) -> None: ...
