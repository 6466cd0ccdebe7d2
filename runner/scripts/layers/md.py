"""Arrays as mdadm is told to build them and as sysfs must show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.layers.md import RAID6_LAYOUTS, REDUNDANT, STRIPED
from runner.scripts.layers.base import Expectation, Ground, View, mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.language.layers import Md


@dataclass(frozen=True, slots=True, kw_only=True)
class MdView(View):
    """One array."""

    name: str
    uuid: str
    options: tuple[str, ...]
    #: The members as mdadm --create takes them: all but the journal, which is an option.
    arguments: tuple[str, ...]
    #: What the kernel must say each member is to the array: its state and its place.
    roles: tuple[tuple[str, str, str], ...]
    #: Members that are read only when they must be.
    write_mostly: tuple[str, ...]
    #: Bytes of one full stripe; empty if nothing is striped.
    stripe_width: str
    redundant: bool
    level: str
    state: str
    #: Members that are failed and taken out before measuring.
    lost: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """Of the superblocks."""
        return (self.uuid,)


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
        expects=tuple(_expectations(layer, under_way)),
        name=name,
        uuid=":".join(digits[at : at + 8] for at in range(0, 32, 8)),
        options=_options(layer, members),
        arguments=members[: active + layer.spare],
        roles=tuple(_roles(layer, members, active)),
        write_mostly=members[active - layer.write_mostly : active] if layer.write_mostly else (),
        stripe_width=str(layer.over(ground.below).full_stripe) if layer.level in STRIPED else "",
        redundant=layer.level in REDUNDANT,
        level=_level(layer),
        resync=resync,
        state=layer.state,
        under_way=under_way,
        lost=members[active - layer.lost : active] if layer.lost else (),
    )


def _roles(layer: Md, members: tuple[str, ...], active: int) -> Iterator[tuple[str, str, str]]:
    """What each member must be, as `state/slot` of sysfs."""
    for number, member in enumerate(members):
        setting = f"member{number + 1}"
        if active - layer.lost <= number < active:
            state, slot = ("spare", str(number)) if layer.state == "rebuilding" else ("", "")
        elif number < active:
            state, slot = "in_sync", str(number)
        else:
            state, slot = ("spare", "none") if number < active + layer.spare else ("journal", "journal")
        if state and active - layer.write_mostly <= number < active:
            state = "in_sync,write_mostly" if state == "in_sync" else f"write_mostly,{state}"
        yield setting, member, f"{state}/{slot}" if state else "absent"


def _resync(layer: Md, *, zeroed: bool) -> str:
    if layer.level not in REDUNDANT:
        return ""
    if layer.sync == "auto":
        return "assume-clean" if zeroed else "waited for"
    return "waited for" if layer.sync == "wait" else layer.sync


def _level(layer: Md) -> str:
    return "linear" if layer.level == "linear" else f"raid{layer.level}"


def _options(layer: Md, members: tuple[str, ...]) -> tuple[str, ...]:
    """What mdadm --create is told, beyond the members."""
    options = [f"--level={layer.level}", f"--raid-devices={layer.devices}", f"--metadata={layer.metadata}"]
    if layer.chunk is not None:
        options.append(f"--chunk={layer.chunk // 1024}K")
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


def _expectations(layer: Md, under_way: str) -> Iterator[Expectation]:
    """What /sys/block/mdX must hold."""
    yield Expectation("level", "md/level", _level(layer))
    yield Expectation("devices", "md/raid_disks", str(layer.devices))
    yield Expectation("metadata", "md/metadata_version", layer.metadata)
    yield Expectation("size", "size", None)
    if layer.chunk is not None:
        yield Expectation("chunk", "md/chunk_size", str(layer.chunk))
    if layer.layout is not None:
        yield Expectation("layout", "md/layout", str(layout_number(layer.layout)))
    if layer.level in REDUNDANT:
        component = layer.component()
        yield Expectation("degraded", "md/degraded", str(layer.lost))
        yield Expectation("sync_action", "md/sync_action", under_way or "idle")
        yield Expectation("bitmap", "md/bitmap/location", layer.bitmap)
        yield Expectation("consistency_policy", "md/consistency_policy", _policy(layer))
        yield Expectation("component_size", "md/component_size", None if component is None else str(component // 1024))


def _policy(layer: Md) -> str:
    """How the array comes to agree with itself after a crash."""
    if layer.journal:
        return "journal"
    if layer.ppl:
        return "ppl"
    return "resync" if layer.bitmap == "none" else "bitmap"


def layout_number(layout: str) -> int:
    """The kernel's number for a layout.

    RAID 10 (n2, f2, o2 …): near copies in the low byte, far copies in the next, bit 16 for offset.
    """
    if layout in RAID6_LAYOUTS:
        return RAID6_LAYOUTS[layout]
    copies = int(layout[1:])
    near = copies if layout[0] == "n" else 1
    far = copies if layout[0] != "n" else 1
    return near | far << 8 | (0x10000 if layout[0] == "o" else 0)
