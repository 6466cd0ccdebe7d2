"""Volume groups as LVM is told to build them and as the device mapper must show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.layers.lvm import REDUNDANT
from runner.scripts.layers.base import Ground, View, mark

if TYPE_CHECKING:
    from runner.language.layers import Lvm

VOLUME = "volume"
#: Nothing is asked of udev, nothing is left to daemons, nothing is written below /etc/lvm, and what cannot be lost is
#: not checked. What the system's own lvm.conf says otherwise holds.
CONFIG = (
    "devices{{use_devicesfile=0 scan_lvs=1 obtain_device_list_from_udev=0 external_device_info_source=none "
    "global_filter=[{filter}] filter=[{filter}]}} "
    "activation{{udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0}} backup{{backup=0 archive=0}} "
    'global{{use_lvmpolld=0 thin_check_executable="" cache_check_executable=""}}'
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the device mapper must say of a volume (None: only recorded); `key` is what templates call it."""

    setting: str
    key: str
    wanted: str | None


@dataclass(frozen=True, slots=True)
class Volume:
    """One logical volume: what LVM calls it, what the device mapper does, and what must be read of it."""

    name: str
    mapped: str
    readings: tuple[Reading, ...]

    @property
    def path(self) -> str:
        """The device."""
        return f"/dev/mapper/{self.mapped}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmView(View):
    """One volume group with its volumes."""

    name: str
    tag: str
    volumes: tuple[Volume, ...]
    #: Shows LVM these devices and no others.
    config: str
    #: Shows LVM all there are.
    sees_all: str
    #: What `lvm` is told, in this order; the first word is the command.
    commands: tuple[tuple[str, ...], ...]
    #: What the device mapper calls the volume that is the cache; empty if there is none.
    cache: str
    redundant: bool
    #: It stands on other layers, not on disks: whatever is found on these devices is left over from earlier ones.
    stands_on_layers: bool


def lvm(layer: Lvm, ground: Ground) -> tuple[View, ...]:
    """A volume group of each group of devices."""
    return tuple(
        _group(layer, part, ground.name(at, layer.groups)) for at, part in enumerate(ground.parts(layer.groups))
    )


def _group(layer: Lvm, ground: Ground, name: str) -> LvmView:
    members = tuple(ground.devices[int(number) - 1] for number in (layer.order or "").split())
    resync = _resync(layer, zeroed=ground.zeroed)
    tag = f"matrix-{mark(layer, members)}"
    prefix = f"{name.replace('-', '--')}-"
    volumes = tuple(
        Volume(one, prefix + one, tuple(_readings(layer, ground, resync, number)))
        for number, one in enumerate(_called(layer))
    )
    return LvmView(
        kind="lvm",
        members=ground.devices[: layer.devices],
        tops=tuple(one.path for one in volumes),
        name=name,
        tag=tag,
        volumes=volumes,
        config=config(members),
        sees_all=CONFIG.format(filter='"a|.*|"'),
        commands=(_vgcreate(layer, name, tag, members), *_volumes(layer, ground, name, members, resync)),
        cache=f"{prefix}fast_cvol" if layer.type == "cache" else "",
        redundant=layer.type in REDUNDANT,
        resync=resync,
        under_way="resync" if resync == "background" else "",
        stands_on_layers=ground.depth > 0,
    )


def _called(layer: Lvm) -> tuple[str, ...]:
    """What LVM is to call the volumes."""
    return (VOLUME,) if layer.volumes == 1 else tuple(f"{VOLUME}{number + 1}" for number in range(layer.volumes))


def config(devices: tuple[str, ...]) -> str:
    """LVM's configuration under which it sees these devices and no others, whatever the host is like."""
    seen = ", ".join(f'"a|^{_pattern(device)}$|"' for device in devices)
    return CONFIG.format(filter=f'{seen}, "r|.*|"')


def _pattern(path: str) -> str:
    """A path as a regular expression; what might mean something in one matches as any character."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "/_-:") else "." for char in path)


def _resync(layer: Lvm, *, zeroed: bool) -> str:
    if layer.type not in REDUNDANT:
        return ""
    if layer.sync == "auto":
        return "assume-clean" if zeroed and layer.type != "raid6" else "waited for"
    return "waited for" if layer.sync == "wait" else layer.sync


def _vgcreate(layer: Lvm, name: str, tag: str, members: tuple[str, ...]) -> tuple[str, ...]:
    align = ("--dataalignment", f"{layer.alignment}b") if layer.alignment is not None else ()
    extent = ("--physicalextentsize", f"{layer.extent_size}b")
    return ("vgcreate", "--addtag", tag, "--setautoactivation", "n", *extent, *align, name, *members)


def _volumes(layer: Lvm, ground: Ground, name: str, members: tuple[str, ...], resync: str) -> list[tuple[str, ...]]:
    """The commands that make the volumes."""
    slow = members[: len(members) - (layer.fast or 0)]
    heads = [("lvcreate", "--name", one) for one in _called(layer)]
    head = heads[0]
    if layer.type == "thin":
        virtual = ("--type", "thin", "--thinpool", "pool", "--virtualsize", f"{layer.over(ground.below).size}b", name)
        return [(*head, *_thin(layer, ground), name, *slow), *((*more, *virtual) for more in heads[1:])]
    if layer.type == "cache":
        return [(*head, *_plain(layer), *_size(layer, ground, "PVS"), name, *slow), *_cache(layer, name, members)]
    how = (*_plain(layer), *_copies(layer), *(("--nosync",) if resync == "assume-clean" else ()))
    if _is_whole(layer) and len({shape.size for shape in ground.below.devices}) > 1:
        # LVM would begin with the largest.
        first, *more = ((*head, *how, "--extents", "100%PVS", name, slow[0]), *slow[1:])
        return [first, *(("lvextend", "--extents", "+100%PVS", f"{name}/{VOLUME}", str(one)) for one in more)]
    if layer.type == "linear" and not _is_whole(layer):
        return [command for number in range(len(heads)) for command in _linear(layer, ground, name, members, number)]
    return [(*one, *how, *_size(layer, ground, "FREE"), name, *slow) for one in heads]


def _linear(layer: Lvm, ground: Ground, name: str, members: tuple[str, ...], number: int) -> list[tuple[str, ...]]:
    """The commands that make a volume of a part of the devices: told which, LVM keeps their order."""
    volume = _called(layer)[number]
    head: tuple[str, ...] = ("lvcreate", "--name", volume, "--type", "linear")
    found, sign, of = list[tuple[str, ...]](), "", name
    for place, first, last in layer.pieces(ground.below, number):
        # Behind a colon stand the extents, so those of a path are told apart.
        path = members[place].replace(":", "\\:").replace("@", "\\@")
        found.append((*head, "--extents", f"{sign}{last - first + 1}", of, f"{path}:{first}-{last}"))
        head, sign, of = ("lvextend",), "+", f"{name}/{volume}"
    return found


def _is_whole(layer: Lvm) -> bool:
    """Whether it is a linear volume that takes its devices one after the other to their ends."""
    return layer.type == "linear" and layer.size == "100%" and layer.volumes == 1


def _plain(layer: Lvm) -> tuple[str, ...]:
    plain = {"thin": "linear", "cache": "linear"}.get(str(layer.type), str(layer.type))
    if layer.stripe_size is None:
        return ("--type", plain)
    kind = "striped" if plain == "linear" else plain
    return ("--type", kind, "--stripes", str(layer.stripes), "--stripesize", f"{layer.stripe_size}b")


def _copies(layer: Lvm) -> tuple[str, ...]:
    if layer.mirrors is None:
        return ()
    log = ("--mirrorlog", "core") if layer.type == "mirror" else ()
    return ("--mirrors", str(layer.mirrors), *log)


def _size(layer: Lvm, ground: Ground, of: str) -> tuple[str, str]:
    asked = layer.asked(ground.below)
    return ("--extents", f"100%{of}") if asked is None else ("--size", f"{asked}b")


def _thin(layer: Lvm, ground: Ground) -> tuple[str, ...]:
    """A pool of everything, and in it a volume as large as was asked for."""
    whole = layer.model_copy(update={"size": "100%", "volumes": 1}).over(ground.below).size
    return (
        "--type", "thin", "--thinpool", "pool", *_plain(layer)[2:], "--chunksize", f"{layer.chunk}b",
        "--poolmetadatasize", f"{layer.pool_metadata(whole)}b", "--poolmetadataspare", "n",
        "--size", f"{whole}b", "--virtualsize", f"{layer.over(ground.below).size}b",
    )  # fmt: skip


def _cache(layer: Lvm, name: str, members: tuple[str, ...]) -> list[tuple[str, ...]]:
    fast = members[-(layer.fast or 0) :]
    return [
        ("lvcreate", "--name", "fast", "--type", "linear", "--extents", "100%PVS", name, *fast),
        (
            "lvconvert", "--type", "cache", "--cachevol", "fast", "--cachemode", str(layer.cache_mode),
            "--cachepolicy", "smq", "--chunksize", f"{layer.chunk}b", f"{name}/{VOLUME}",
        ),
    ]  # fmt: skip


def _readings(layer: Lvm, ground: Ground, resync: str, number: int) -> list[Reading]:
    """What must be in the device mapper's tables of a volume; only the first begins where data do."""
    order = (layer.order or "").split()
    slow, fast = order[: len(order) - (layer.fast or 0)], order[len(order) - (layer.fast or 0) :]
    even = len({shape.size for shape in ground.below.devices[: layer.devices]}) == 1
    # Where an image has several devices, or they differ in size, LVM chooses; it may not need them all.
    if layer.type == "linear" and not _is_whole(layer):
        slow = [slow[place] for place, _, _ in layer.pieces(ground.below, number)]
    fixed = layer.type == "linear" or (even and len(slow) == layer.images(layer.stripes or 1))
    plain = number == 0 and layer.type in {"linear", "striped"}
    start = layer.data_start(None) if layer.alignment is not None and plain else None
    found = [
        Reading("type", "type", layer.type),
        Reading("stripes", "stripes", str(layer.stripes)),
        Reading("stripe_size", "stripe_size", _text(layer.stripe_size)),
        Reading("order", "order", " ".join(slow) if fixed else None),
        Reading("mirrors", "mirrors", _text(layer.mirrors)),
        Reading("extent_size", "extent_size", str(layer.extent_size)),
        Reading("data_start", "data_start", _text(start)),
        Reading("bytes", "size", _text(layer.asked(ground.below))),
    ]
    if layer.type in {"thin", "cache"}:
        found.append(Reading("chunk", "chunk", str(layer.chunk)))
    if layer.type == "cache":
        found.append(Reading("cache_mode", "cache_mode", layer.cache_mode))
        found.append(Reading("fast", "fast", " ".join(fast)))
    if layer.type in REDUNDANT:
        found.append(Reading("degraded", "degraded", "0"))
        found.append(Reading("sync_action", "sync_action", "resync" if resync == "background" else "idle"))
    return found


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
