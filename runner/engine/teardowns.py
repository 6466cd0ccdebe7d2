"""Keep the scripts of arrays on disks that outlive their rig, until the arrays are taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.engine.trial import tear_down_remains

if TYPE_CHECKING:
    from runner.engine.artifacts import Shelf
    from runner.machines.base import Rig
    from runner.scripts.cell import StackScripts


class Teardowns:
    """Arrays that are up, and those that lost rigs left behind."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._up: dict[str, StackScripts] = {}
        self._left: dict[str, StackScripts] = {}

    def keep(self, array: str, scripts: StackScripts) -> None:
        """Keep the scripts of an array that is about to be built where it could outlive its rig and this process."""
        self._shelf.keep_tear_down(array, scripts.tear_down)
        self._up[array] = scripts

    def lose(self, array: str) -> None:
        """Its rig was lost; unless it was taken apart before, it still exists."""
        if scripts := self._up.pop(array, None):
            self._left[array] = scripts

    @property
    def has_leftovers(self) -> bool:
        return bool(self._left)

    def forget(self, array: str) -> None:
        up, left = self._up.pop(array, None), self._left.pop(array, None)
        if up or left:
            self._shelf.forget_tear_down(array)

    async def tear_down_leftovers(self, rig: Rig) -> None:
        """If an array cannot be taken apart, the next set-up reports it."""
        for array, scripts in list(self._left.items()):
            if await tear_down_remains(rig, scripts):
                self.forget(array)
