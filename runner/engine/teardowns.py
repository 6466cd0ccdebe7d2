"""Tear-down scripts of stacks on disks that outlive their rig."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.engine.trial import tear_down_remains

if TYPE_CHECKING:
    from runner.engine.recorder import Shelf
    from runner.machines.base import Rig
    from runner.scripts.cell import StackScripts


class Teardowns:
    """The stacks that are built, and those that lost rigs left behind."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._built: dict[str, StackScripts] = {}
        self._leftovers: dict[str, StackScripts] = {}

    def keep(self, array: str, scripts: StackScripts) -> None:
        """Save the scripts of a stack before it is built, because it may outlive its rig and this process."""
        self._shelf.keep_tear_down(array, scripts.tear_down)
        self._built[array] = scripts

    def lose(self, array: str) -> None:
        """Note that the rig is lost and its stack remains on the disks."""
        if scripts := self._built.pop(array, None):
            self._leftovers[array] = scripts

    @property
    def has_leftovers(self) -> bool:
        return bool(self._leftovers)

    def forget(self, array: str) -> None:
        built, leftover = self._built.pop(array, None), self._leftovers.pop(array, None)
        if built or leftover:
            self._shelf.forget_tear_down(array)

    async def tear_down_leftovers(self, rig: Rig) -> None:
        """Take the remaining stacks apart; if one fails, the next set-up reports it."""
        for array, scripts in list(self._leftovers.items()):
            if await tear_down_remains(rig, scripts):
                self.forget(array)
