"""Arrays as mdadm is told to build them and as sysfs must show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.model.layers.md import PARITY, PARITY_LAYOUTS, REDUNDANT
from runner.render.layers.base import Expectation, Ground, View, mark

if TYPE_CHECKING:
    from runner.model.layers import Md
    from runner.model.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class MdView(View):
    """One array."""

    name: str
    uuid: str
    options: tuple[str, ...]
    #: The devices as mdadm --create takes them, with its flags among them.
    arguments: tuple[str, ...]
    redundant: bool
    level: str
    #: How the first resync is dealt with: ruled out, waited for, or measured beside.
    resync: str
    state: str
    #: What md must be doing while it is measured, beside answering; empty if nothing.
    under_way: str
    #: Members that are failed and taken out before measuring.
    lost: tuple[str, ...]


def md(layer: Md, ground: Ground) -> tuple[View, ...]:
    """An array of each group."""
    return tuple(
        _array(layer, part, ground.name(at, layer.groups)) for at, part in enumerate(ground.parts(layer.groups))
    )


def _array(layer: Md, ground: Ground, name: str) -> MdView:
    active = layer.active(len(ground.devices))
    members = ground.devices[: active + layer.spare + layer.journal]
    digits = mark(layer, members)
    resync = _resync(layer, zeroed=ground.zeroed)
    under_way = "recover" if layer.state == "rebuilding" else "resync" if resync == "background" else ""
    return MdView(
        kind="md",
        members=members,
        tops=(f"/dev/md/{name}",),
        expects=tuple(_expectations(layer, layer.over(ground.below), under_way)),
        name=name,
        uuid=":".join(digits[at : at + 8] for at in range(0, 32, 8)),
        options=_options(layer, members),
        arguments=_arguments(layer, members, active),
        redundant=layer.level in REDUNDANT,
        level=_level(layer),
        resync=resync,
        state=layer.state,
        under_way=under_way,
        lost=members[active - layer.lost : active] if layer.lost else (),
    )


def _resync(layer: Md, *, zeroed: bool) -> str:
    if layer.level not in REDUNDANT:
        return ""
    if layer.sync == "auto":
        return "assume-clean" if zeroed else "waited for"
    return "waited for" if layer.sync == "wait" else layer.sync


def _level(layer: Md) -> str:
    return "linear" if layer.level == "linear" else f"raid{layer.level}"


def _arguments(layer: Md, members: tuple[str, ...], active: int) -> tuple[str, ...]:
    """Members in order; mdadm takes everything behind --write-mostly as such."""
    if not layer.write_mostly:
        return members
    plain = active - layer.write_mostly
    return (*members[:plain], "--write-mostly", *members[plain:active], *members[active:])


def _options(layer: Md, members: tuple[str, ...]) -> tuple[str, ...]:
    """What mdadm --create is told, beyond the members."""
    options = [f"--level={layer.level}", f"--raid-devices={layer.devices}", f"--metadata={layer.metadata}"]
    if layer.chunk is not None:
        options.append(f"--{'rounding' if layer.level == 'linear' else 'chunk'}={layer.chunk // 1024}K")
    if layer.layout is not None:
        options.append(f"--layout={layer.layout}")
    if layer.size is not None:
        options.append(f"--size={layer.size // 1024}K")
    if layer.spare:
        options.append(f"--spare-devices={layer.spare}")
    if layer.journal:
        options.append(f"--write-journal={members[-1]}")
    elif layer.ppl:
        options.append("--consistency-policy=ppl")
    elif layer.level in REDUNDANT:
        options.append(f"--bitmap={layer.bitmap}")
    return tuple(options)


def _expectations(layer: Md, shape: Shape, under_way: str) -> list[Expectation]:
    """What /sys/block/mdX must hold."""
    found = [
        Expectation("md.level", "md/level", _level(layer)),
        Expectation("md.devices", "md/raid_disks", str(layer.devices)),
        Expectation("md.metadata", "md/metadata_version", layer.metadata),
        Expectation("md.size", "size", None),
    ]
    if layer.chunk is not None and layer.level != "linear":
        found.append(Expectation("md.chunk", "md/chunk_size", str(layer.chunk)))
        found.append(Expectation("md.stripe_width", "queue/optimal_io_size", str(shape.full_stripe)))
    if layer.layout is not None:
        found.append(Expectation("md.layout", "md/layout", str(layout_number(layer.layout))))
    if layer.level in REDUNDANT:
        found += [
            Expectation("md.degraded", "md/degraded", str(layer.lost)),
            Expectation("md.sync_action", "md/sync_action", under_way or "idle"),
            Expectation("md.bitmap", "md/bitmap/location", layer.bitmap),
        ]
    if layer.level in PARITY:
        policy = "journal" if layer.journal else "ppl" if layer.ppl else None
        found.append(Expectation("md.consistency_policy", "md/consistency_policy", policy))
    return found


def layout_number(layout: str) -> int:
    """The kernel's number for a layout.

    RAID 10 (n2, f2, o2 …): near copies in the low byte, far copies in the next, bit 16 for offset.
    """
    if layout in PARITY_LAYOUTS:
        return PARITY_LAYOUTS[layout]
    copies = int(layout[1:])
    near = copies if layout[0] == "n" else 1
    far = copies if layout[0] != "n" else 1
    return near | far << 8 | (0x10000 if layout[0] == "o" else 0)
