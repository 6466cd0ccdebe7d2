"""What stands on disks that outlive their rig: until it is taken apart, there is always something that says how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.engine.trial import again_and_apart

if TYPE_CHECKING:
    from runner.engine.artifacts import Shelf
    from runner.machines.base import Rig
    from runner.scripts.cell import ArrayScripts


class Standing:
    """The arrays that are up, and those that were left behind by rigs that were lost."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._up: dict[str, ArrayScripts] = {}
        self._left: dict[str, ArrayScripts] = {}

    def begins(self, array: str, scripts: ArrayScripts) -> None:
        """It is about to be built where it could outlive its rig, and this process."""
        self._shelf.stands(array, scripts.tear_down)
        self._up[array] = scripts

    def left_behind(self, array: str) -> None:
        """Its rig was lost; if it was not taken apart before that, it is still there."""
        if scripts := self._up.pop(array, None):
            self._left[array] = scripts

    @property
    def anything_left(self) -> bool:
        """Whether something of a lost rig is still to be taken apart."""
        return bool(self._left)

    def taken_apart(self, array: str) -> None:
        """Nothing of it is there any more."""
        up, left = self._up.pop(array, None), self._left.pop(array, None)
        if up or left:
            self._shelf.stands_no_more(array)

    async def take_apart_what_was_left(self, rig: Rig) -> None:
        """What stays for all that, the next set-up names."""
        for array, scripts in list(self._left.items()):
            if await again_and_apart(rig, scripts):
                self.taken_apart(array)
