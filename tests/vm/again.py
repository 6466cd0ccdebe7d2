"""What a run does when a rig is lost, for tests that restart one and have no run around them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from runner.machines.seam import RigLost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

T = TypeVar("T")


def once_more(scenario: Callable[[Path], Coroutine[Any, Any, T]], scratch: Path) -> T:
    """As it went; if the machine was lost, as it went on another.

    QEMU before 8.1 can die of a segmentation fault while a kernel boots: one emulated processor moves devices about in
    memory, another writes to one, and what it looks up is of before or of after.
    """
    first, second = scratch / "first", scratch / "second"
    first.mkdir()
    second.mkdir()
    try:
        return asyncio.run(scenario(first))
    except RigLost:
        return asyncio.run(scenario(second))
