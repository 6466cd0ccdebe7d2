"""A stack on given disks, as templates see it: its layers from the bottom up, and the files of its tunables."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TypeVar

from matrix_runner.base.model import written
from matrix_runner.language.tune import OF_PARITY, OF_REDUNDANT, SCOPES, SETTINGS, Tune, split, target_kind
from matrix_runner.layers.bare import On
from matrix_runner.layers.base import BuildContext, Expectation, View, tops
from matrix_runner.layers.fs import FsView
from matrix_runner.layers.geometry import Below
from matrix_runner.layers.md import MdView
from matrix_runner.layers.partition import TableView
from matrix_runner.space.variants import Layers, axis_names, levels
from matrix_runner.work.slow import TIMES
from matrix_runner.work.slow import tunable as slowed_value

T = TypeVar("T")

#: Names of disks in a machine of this program or in a recommended script. There no other run can use the same names;
#: on a host one can.
_PRIVATE = re.compile(r"matrix-(disk)?\d+$")


@dataclass(frozen=True, slots=True)
class StackView:
    layers: tuple[View, ...]
    tops: tuple[str, ...]  # its highest devices, and the disks that it uses
    disks: tuple[str, ...]
    names: Mapping[str, str]  # the name of each device in readings
    queued: frozenset[str]  # disks with a queue whose depth can be set
    bay: str  # part of the names of mount points and of remembered tunables on the host
    slow: int = 1  # how many times slower than real time its disks work
    retimed: bool = False  # it was built at another pace, so each trial sets what depends on it
    only_read: bool = False  # its disks are only read, and may have content

    @property
    def directory(self) -> str | None:
        return next((layer.directory for layer in self.layers if layer.directory), None)

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(mark for layer in self.layers for mark in layer.marks)

    @property
    def bare(self) -> tuple[str, ...]:
        """Return the disks that no layer holds open in the kernel: those without a layer or with partitions only."""
        held: set[str] = set()
        for layer in reversed(self.layers):
            # An open partition also keeps its disk open.
            if layer.holds or held.intersection(set(layer.tops) - set(layer.members)):
                held.update(layer.members)
        return tuple(disk for disk in self.disks if disk not in held)

    @property
    def devices(self) -> tuple[str, ...]:
        made = (device for layer in reversed(self.layers) for device in layer.tops)
        return tuple(dict.fromkeys((*self.tops, *made, *self.disks)))


def view_stack(stack: Layers, disks: Sequence[str], below: Below, *, zeroed: bool, slow: int = 1) -> StackView:
    """Put a stack on disks. `zeroed`: the disks are known to read as zeros, so md can skip the first resync."""
    devices, layers = tuple(disks), list[View]()
    names = {disk: f"disk{number}" for number, disk in enumerate(disks)}
    axes = axis_names(layer.kind for layer in stack)
    bay = bay_of(disks)
    prefix = "matrix" if all(map(_PRIVATE.search, disks)) else f"matrix-{bay}"
    parts, types = groups_of(disks, below), tuple(layer.lvm_type for layer in stack if layer.lvm_type)
    for depth, (layer, ground) in enumerate(levels(stack, below)):
        if isinstance(layer, On):
            parts[layer.keep] = devices
        given = (*devices, *chain.from_iterable(parts[name] for name in layer.parts))
        zeros = zeroed and not ground.scrambled_by
        context = BuildContext(given, ground, depth, zeros, bay, prefix, slow, types)
        made = _with_names(layer.views(context), axes[depth])
        for view in made:
            # A layer that passes devices on keeps their names.
            names = dict(zip(view.tops, view.names, strict=False)) | names
        devices = tops(made) or devices  # a file system leaves no device
        layers += made
    used = {member for layer in layers for member in layer.members}
    queued = frozenset(disk for disk, shape in zip(disks, below.devices, strict=False) if shape.queued)
    return StackView(tuple(layers), devices, tuple(disk for disk in disks if disk in used), names, queued, bay, slow)


def groups_of(disks: Sequence[T], below: Below) -> dict[str, tuple[T, ...]]:
    """Return the disks of each named group."""
    ends = accumulate(part.top.count for part in below.parts)
    return {part.name: tuple(disks[end - part.top.count : end]) for part, end in zip(below.parts, ends, strict=True)}


def bay_of(disks: Sequence[str]) -> str:
    return hashlib.blake2b(" ".join(sorted(disks)).encode(errors="surrogateescape"), digest_size=4).hexdigest()


def _with_names(made: tuple[View, ...], axis: str) -> tuple[View, ...]:
    """Name the devices of a layer for readings, with the numbers that `pick` uses."""
    order = tops(made)
    if len(order) < 2:
        return tuple(replace(view, names=(axis,)) for view in made)
    places = {path: f"{axis}[{number}]" for number, path in enumerate(order, start=1)}
    return tuple(replace(view, names=tuple(places[path] for path in view.tops)) for view in made)


# Tunables as files of sysfs and /proc/sys: the file, its devices and its text.
#
# The tunables, and the key `tune` that takes them: language/tune.py.

#: Read with every trial: they explain surprises later. Each costs about 0.2 ms on an emulated processor, so only
#: settings that differ between machines or are often changed are here.
ALWAYS_OF_DISKS = (
    *("queue/scheduler", "queue/nr_requests", "queue/max_sectors_kb", "queue/rotational"),
    *("queue/write_cache", "queue/read_ahead_kb", "queue/wbt_lat_usec", "device/queue_depth"),
)
ALWAYS_OF_TOP = ("queue/read_ahead_kb", "queue/logical_block_size", "size")
ALWAYS_OF_OTHERS = ("queue/read_ahead_kb",)
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
MEMORY = "/proc/sys/vm"
ALWAYS_OF_MEMORY = ("dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes")
STRIPE_CACHED = frozenset({"raid4", "raid5", "raid6"})
HUGEPAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
#: A tunable that resets others is set before them.
_FIRST = ("scheduler", "cache", "requests")
#: Timers of file systems, and how long bfq waits for the next request of a process.
XFS_TIMER = "/proc/sys/fs/xfs/xfssyncd_centisecs"
ZFS_TIMER = "/sys/module/zfs/parameters/zfs_txg_timeout"  # seconds until a transaction group is written
#: For md and LVM arrays without their own limits.
RESYNC_LIMITS = ("/proc/sys/dev/raid/speed_limit_max", "/proc/sys/dev/raid/speed_limit_min")
#: bcache waits before it writes back, and lets requests bypass a cache that takes longer to answer.
BCACHE_TIMERS = (
    "bcache/writeback_delay",
    *(f"bcache/cache/congested_{way}_threshold_us" for way in ("read", "write")),
)
F2FS_TIMERS = ("cp_interval", "idle_interval", "discard_idle_interval", "gc_idle_interval")
SLICE = "queue/iosched/slice_idle"


@dataclass(frozen=True, slots=True)
class Tunable:
    """One file to be set on one device; `value` None: restore the value before the first change."""

    setting: str
    device: str  # empty for a tunable of the whole host
    file: str
    value: str | None
    way: str = ""  # how it is set (`templates/turn/<way>.sh`), where that is more than writing the file

    @property
    def command(self) -> str:
        return f"turn_{self.way}" if self.way else "turn"

    @property
    def words(self) -> tuple[str, ...]:
        known = {**dict.fromkeys(_FIRST, (self.device,)), "host": (self.file,), "governor": ()}
        where = known.get(self.way, (self.device, self.file))
        return where if self.value is None else (*where, self.value)

    @property
    def expects(self) -> tuple[Expectation, ...]:
        files = {self.setting: self.file}
        if self.way == "cache":
            files[f"{self.setting}.kernel"] = "queue/write_cache"
        asked = self.value is None
        return tuple(Expectation(setting, file, self.value, asked=asked) for setting, file in files.items())


def tunables_of(tune: Tune, stack: StackView) -> tuple[Tunable, ...]:
    """Return the declared tunables of a stack, first those that reset others."""
    found = [tunable for name, value in written(tune).items() for tunable in _tunables_of_key(name, value, stack)]
    return tuple(sorted(found, key=lambda tunable: _FIRST.index(tunable.way) if tunable.way in _FIRST else len(_FIRST)))


def _tunables_of_key(name: str, value: int | str, stack: StackView) -> Iterator[Tunable]:
    key = split(name)[1]
    in_kib = key in SETTINGS and SETTINGS[key].in_kib and isinstance(value, int)
    text = None if value == "default" else str(int(value) // 1024) if in_kib else str(value)
    text = text and slowed_value(key, text, stack.slow)
    if key == "cpu_governor":
        yield Tunable(name, "", "", text, "governor")
    elif key.startswith(("vm.", "sysctl.")):
        yield Tunable(name, "", f"/proc/sys/{key.removeprefix('sysctl.').replace('vm.', 'vm/')}", text, "host")
    elif key == "transparent_hugepages":
        yield Tunable(name, "", HUGEPAGES, text, "host")
    else:
        devices = _devices(name, stack)
        if not devices:
            raise ValueError(f"the stack has no device for {name}")
        for device in devices:
            setting = name if len(devices) == 1 else f"{stack.names[device]}.{key}"
            file, way = _file_and_way(key, is_disk=device in stack.disks)
            yield Tunable(setting, device, file, text, way)


def _file_and_way(key: str, *, is_disk: bool) -> tuple[str, str]:
    """Return the file of a tunable in the device's folder of sysfs, and how it is set."""
    if key.startswith("sysfs."):
        return key.removeprefix("sysfs."), "own"
    if key in SETTINGS and (key != "write_cache" or is_disk):
        return SETTINGS[key].file, SETTINGS[key].way
    return f"queue/{key.replace('.', '/')}", ""


def _devices(name: str, stack: StackView) -> tuple[str, ...]:
    kind = target_kind(name, top="")
    if not kind:
        return _with_queues(stack.tops, stack)
    if kind == "disk":
        only = stack.queued if split(name)[1] == "ncq_depth" else stack.disks
        return tuple(disk for disk in stack.disks if disk in only)
    views = [view for view in stack.layers if view.kind == kind and _has(view, split(name)[1])]
    return _with_queues(tuple(device for view in views for device in view.tops), stack)


def _has(view: View, key: str) -> bool:
    if not isinstance(view, MdView):
        return True
    return view.redundant if key in OF_REDUNDANT else view.level in STRIPE_CACHED or key not in OF_PARITY


def _with_queues(devices: tuple[str, ...], stack: StackView) -> tuple[str, ...]:
    """Replace devices without a queue by those below them: a plain partition by its disk, for example."""
    below = {top: view.members for view in stack.layers if not _has_queues(view) for top in view.tops}
    while any(device in below for device in devices):
        devices = tuple(one for device in devices for one in below.get(device, (device,)))
    return tuple(dict.fromkeys(devices))


def _has_queues(view: View) -> bool:
    """Return whether its devices have their own queues, if only for readahead."""
    if isinstance(view, TableView):
        return view.mapped
    return view.kind in (*SCOPES, "pick")


@dataclass(frozen=True, slots=True)
class Timer:
    """Files of the kernel that were not declared, and that slow motion changes."""

    command: str
    device: str  # the device whose folder in sysfs has the files; empty for paths
    files: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.device, *self.files)))


def timers(stack: StackView, tunables: tuple[Tunable, ...]) -> tuple[Timer, ...]:
    """Return what slow motion changes beside the declared tunables. `default` declares nothing."""
    if stack.slow == 1 and not stack.retimed:
        return ()
    declared = {(one.device, one.file) for one in tunables if one.value is not None}

    def left(device: str, files: Iterable[str]) -> tuple[str, ...]:
        return tuple(file for file in files if (device, file) not in declared and ("", file) not in declared)

    host = sorted(f"{MEMORY}/{key.removeprefix('vm.')}" for key in TIMES if key.startswith("vm."))
    zfs = (ZFS_TIMER,) if any(layer.kind == "zfs" for layer in stack.layers) else ()
    found = [Timer("slow_host", "", left("", (*host, XFS_TIMER, *RESYNC_LIMITS, *zfs)))]
    queue = sorted(f"queue/{key.replace('.', '/')}" for key in TIMES if key.startswith(("iosched.", "wbt_")))
    for disk in stack.disks:
        files = left(disk, (*queue, "queue/io_timeout"))
        # One setting in two units.
        if (disk, SLICE) in declared or (disk, f"{SLICE}_us") in declared:
            files = tuple(file for file in files if not file.startswith(SLICE))
        found.append(Timer("slow_times", disk, tuple(file for file in files if file != SLICE)))
    of_md = sorted(key.removeprefix("sysfs.") for key in TIMES if key.startswith("sysfs.md/"))
    for layer in stack.layers:
        if isinstance(layer, MdView) and layer.redundant:
            found.append(Timer("slow_times", layer.device, left(layer.device, of_md)))
        elif layer.kind == "bcache":
            found.append(Timer("slow_times", layer.device, BCACHE_TIMERS))
        elif isinstance(layer, FsView) and layer.type == "f2fs":
            found.append(Timer("slow_f2fs", layer.members[0], F2FS_TIMERS))
    return tuple(one for one in found if one.files)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The files to read from one block device."""

    device: str
    name: str
    expects: tuple[Expectation, ...]
    recorded: tuple[str, ...]  # files to record without a check


def inspections(stack: StackView, tunables: tuple[Tunable, ...]) -> tuple[Inspection, ...]:
    """Return the read-back before a measurement: layers, tunables, and settings that are always recorded."""
    found: list[Inspection] = []
    for layer in stack.layers:
        for device in layer.tops:
            if device not in layer.members:
                always = ALWAYS_OF_TOP if device in stack.tops else ALWAYS_OF_OTHERS
                if layer.kind == "partition":
                    always = ALWAYS_OF_OTHERS  # its size is checked against the declaration
                of = stack.names[device]
                found.append(_inspection(device, of, layer.expects, tunables, (*always, *_always_of(layer))))
    for disk in stack.disks:
        always = (*(ALWAYS_OF_TOP if disk in stack.tops else ()), *ALWAYS_OF_DISKS)
        found.append(_inspection(disk, stack.names[disk], (), tunables, always))
    return tuple(found)


def _always_of(layer: View) -> tuple[str, ...]:
    if not isinstance(layer, MdView):
        return ()
    return tuple(one.file for key, one in SETTINGS.items() if one.file.startswith("md/") and _has(layer, key))


def _inspection(
    device: str, of: str, expects: tuple[Expectation, ...], tunables: tuple[Tunable, ...], always: tuple[str, ...]
) -> Inspection:
    set_here = tuple(one for tunable in tunables if tunable.device == device for one in tunable.expects)
    expects = tuple(replace(one, setting=f"{of}.{one.setting}") for one in expects)
    known = {one.file for one in (*expects, *set_here)}
    recorded = tuple(file for file in dict.fromkeys(always) if file not in known)
    return Inspection(device, of, (*expects, *set_here), recorded)


def host_expectations(tunables: tuple[Tunable, ...]) -> tuple[Expectation, ...]:
    set_here = tuple(one for tunable in tunables if tunable.way == "host" for one in tunable.expects)
    # A changed setting is read on every processor.
    if any(tunable.way == "governor" for tunable in tunables):
        return set_here
    return (*set_here, Expectation("cpu_governor", GOVERNOR, None))


def memory_settings_to_record(tunables: tuple[Tunable, ...]) -> tuple[str, ...]:
    known = {one.file for tunable in tunables if tunable.way == "host" for one in tunable.expects}
    return tuple(name for name in ALWAYS_OF_MEMORY if f"{MEMORY}/{name}" not in known)
