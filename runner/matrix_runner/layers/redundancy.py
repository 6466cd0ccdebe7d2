"""Rebuild, resync, check and repair of an array: what they move, and why a stack cannot do them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from matrix_runner.layers import lvm as lvm_layer
from matrix_runner.layers import md as md_layer
from matrix_runner.layers.lvm import Lvm
from matrix_runner.layers.md import PARITY, Md

if TYPE_CHECKING:
    from matrix_runner.layers.base import Layer
    from matrix_runner.layers.geometry import Below

Action = Literal["rebuild", "resync", "check", "repair"]


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """The sizes of an array with redundancy, in bytes."""

    member: int  # of each member, without metadata
    redundant: int  # of all copies and parity together
    walked: int  # over which the kernel counts its progress

    def written(self, action: Action) -> int:
        """Return the most bytes that an action writes to all disks."""
        return {"rebuild": self.member, "check": 0}.get(action, self.redundant)


def sync_target(levels: Iterable[tuple[Layer, Below]]) -> SyncTarget | None:
    """Return the sizes of the array of a stack; None if the stack has no array with redundancy, or several."""
    found = [(layer, below) for layer, below in levels if arrays_of(layer)]
    if len(found) != 1 or arrays_of(found[0][0]) != 1:
        return None
    layer, below = found[0]
    size = layer.devices_above(below)[0].size
    if isinstance(layer, Md):
        active = layer.active(below.count)
        copies = active if layer.level == 1 else layer.copies if layer.level == 10 else 1
        data = active // copies if layer.level == 1 else active - PARITY.get(layer.level, 0)
        member, parity = size * (layer.copies if layer.level == 10 else 1) // data, PARITY.get(layer.level, 0)
        mirrored = layer.level == 10
    elif isinstance(layer, Lvm):
        copies, parity, mirrored = layer.copies, layer.parity, layer.segment == "raid10"
        member = size // layer.stripe_count(below.count)
    else:
        return None
    return SyncTarget(member, size * (copies - 1) + member * parity, size if mirrored else member)


def arrays_of(layer: Layer) -> int:
    """Return the number of arrays and volumes with redundancy that a layer builds."""
    if isinstance(layer, Md):
        return layer.groups if layer.level in md_layer.REDUNDANT else 0
    if isinstance(layer, Lvm):
        return layer.groups * layer.volumes if layer.segment in lvm_layer.REDUNDANT else 0
    return 0


def why_not(stack: Iterable[Layer], action: Action) -> str:
    """Return why a stack cannot do it; empty if it can."""
    layers = [layer for layer in stack if isinstance(layer, Md | Lvm)]
    redundant = [layer for layer in layers if arrays_of(layer)]
    if not layers:
        return f"a {action} needs an md array or an LVM volume with redundancy"
    if not redundant:
        names = " and ".join(dict.fromkeys(map(_name, layers)))
        return f"{names} has no redundancy, so there is nothing to {action}"
    if (count := sum(map(arrays_of, redundant))) > 1:
        names = " and ".join(dict.fromkeys(map(_name, redundant)))
        return f"it has {count} arrays with redundancy ({names}); a {action} needs exactly one"
    (layer,) = redundant
    return _why_not_md(layer, action) if isinstance(layer, Md) else _why_not_lvm(layer, action)


def _name(layer: Md | Lvm) -> str:
    return layer.title if isinstance(layer, Md) else f"LVM {layer.segment}"


def _why_not_md(layer: Md, action: Action) -> str:
    if layer.state != "clean":
        return f"{layer.title} with `state: {layer.state}` is not complete before a {action}; remove `state`"
    if layer.sync == "background":
        return f"{layer.title} with `sync: background` is in a resync already; remove `sync`"
    if layer.spare and action == "rebuild":
        return f"a spare would replace the failed disk of {layer.title} at once; remove `spare`"
    return ""


def _why_not_lvm(layer: Lvm, action: Action) -> str:
    if layer.segment == "mirror":
        return f"LVM's type mirror has no {action}; use raid1"
    if layer.sync == "background":
        return f"LVM {layer.segment} with `sync: background` is in a resync already; remove `sync`"
    if action == "resync":
        return "LVM starts a resync only on a volume without users; write repair, which covers the same stripes"
    return ""
