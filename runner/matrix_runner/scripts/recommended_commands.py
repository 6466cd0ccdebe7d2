"""A script for administrators: the commands that build a cell's stack, and make its tunables permanent.

The scripts of a run are for measurements: they mark their stacks, wait for resyncs and restore all settings. This one
has variables for the disks. The templates get unique paths, which are replaced by the variables after quoting.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from matrix_runner.layers.base import View
from matrix_runner.layers.fs import FsView
from matrix_runner.layers.lvm import LvmView
from matrix_runner.scripts.jinja import render
from matrix_runner.scripts.stack import Tunable, tunables_of, view_stack
from matrix_runner.space.space import Cell

_DISK = "/dev/disk/by-id/matrix-disk{:02}"
_WORD = re.compile(r"/dev/disk/by-id/matrix-disk(\d\d)")
_IN_RULE = re.compile(r"disk/by-id/matrix-disk(\d\d)")
_GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
_FOLDER = re.compile(r"/run/matrix/mnt-\w+-\d+")
#: Values that a udev rule can have between its quotes.
_PLAIN = re.compile(r"[\w .:/+-]+")
#: Files of a disk for which tuned has options.
_OF_TUNED = {"queue/scheduler": "elevator", "queue/read_ahead_kb": "readahead"}
#: Options that only tests need, and the number of their words: marks, force, and quick keys.
_MARKS = {"-U": 2, "-L": 2, "-l": 2, "-q": 1, "-F": 1, "-f": 1, "--addtag": 2, "--setautoactivation": 2}


def recommended_script(cell: Cell, own: Path | None = None) -> str:
    """Return the script of a cell. The user completes its first lines and runs it as root."""
    disks = tuple(_DISK.format(number) for number in range(1, len(cell.stack.disks.devices) + 1))
    stack = view_stack(cell.stack.layers.value, disks, cell.stack.disks, zeroed=False)
    tunables = [tunable for tunable in tunables_of(cell.tune.value, stack) if tunable.value is not None]
    host = [(_host_file(tunable), str(tunable.value)) for tunable in tunables if not tunable.device]
    values = {
        "disks": [_WORD.sub(r"disk\1", disk) for disk in stack.disks],
        # One udev rule for each device with settings.
        "rules": list(_rules(tunables)),
        # Lines for systemd-tmpfiles.
        "files": [f"w {file} - - - - {value}" for file, value in host],
        # Lines of a tuned profile; `named` are its last ones: device, file below its folder in sysfs, value.
        "profile": list(_profile(tunables, cell.name)),
        "named": _settings(tunable for tunable in tunables if _by_name(tunable)),
        # Until the next boot.
        "settings": _settings(tunable for tunable in tunables if tunable.device and tunable.way != "cache"),
        "caches": [(tunable.device, str(tunable.value)) for tunable in tunables if tunable.way == "cache"],
        "host": host,
        "mounted": stack.directory is not None,
        # The file in `host` that exists once for each processor.
        "governors": _GOVERNORS,
    }
    commands = [(layer, _commands_of(layer)) for layer in stack.layers]
    text = render("recommend.sh", own, title=cell.name, paste=values, stack=stack, commands=commands)
    # Paths of disks become variables, as words and inside the quotes of udev rules.
    text = _WORD.sub(r'"$disk\1"', text)
    text = _IN_RULE.sub(r"""'"${disk\1#/dev/}"'""", text)
    return _FOLDER.sub('"$mount_point"', text)


def _settings(tunables: Iterable[Tunable]) -> list[tuple[str, str, str]]:
    return [(tunable.device, tunable.file, str(tunable.value)) for tunable in tunables]


def _commands_of(layer: View) -> tuple[tuple[str, ...], ...]:
    """Return the arguments that the template of the layer does not contain."""
    if isinstance(layer, LvmView):
        return tuple(_without_marks(command) for command in layer.commands)
    if isinstance(layer, FsView):
        options = layer.mount[layer.mount.index("-o") + 1] if "-o" in layer.mount else "defaults"
        return (_without_marks(layer.mkfs), (layer.type, options, "0", "2"), _without_marks(layer.journal_mkfs))
    return layer.recommended


def _without_marks(command: tuple[str, ...]) -> tuple[str, ...]:
    kept, skip = list[str](), 0
    for at, word in enumerate(command):
        if skip:
            skip -= 1
        elif at and word in _MARKS:
            skip = _MARKS[word] - 1
        elif word == "-m" and command[at + 1 : at + 2] and command[at + 1].startswith("uuid="):
            skip = 1
        else:
            kept.append(word)
    return tuple(kept)


def _host_file(tunable: Tunable) -> str:
    return _GOVERNORS if tunable.way == "governor" else tunable.file


def _rules(tunables: list[Tunable]) -> Iterator[str]:
    """Write one rule for each device, with its settings in the order in which they must be set."""
    by_device: dict[str, list[Tunable]] = {}
    for tunable in tunables:
        if tunable.device:
            by_device.setdefault(tunable.device, []).append(tunable)
    for device, several in by_device.items():
        link = device.removeprefix("/dev/")
        sets = ", ".join(_rule_action(tunable) for tunable in several if _PLAIN.fullmatch(str(tunable.value)))
        if sets:
            yield f'ACTION=="add|change", SUBSYSTEM=="block", SYMLINK=="{link}", {sets}'


def _rule_action(tunable: Tunable) -> str:
    # A cache is switched at the drive, so that the kernel's view stays true. The switch makes the kernel reset other
    # settings of the drive, so it must come before any ATTR: an IMPORT runs while the line is matched, a RUN later.
    if tunable.way == "cache":
        there = "/sys%p/device/scsi_disk/*/cache_type /sys%p/cache_type"
        value = tunable.value
        already = f"grep -qsx {str(value).replace(' ', '.')} {there}"  # or every change would reset the rest
        return f"""IMPORT{{program}}="/bin/sh -c '{already} || echo {value} | tee {there} >/dev/null 2>&1; true'\""""
    return f'ATTR{{{tunable.file}}}="{tunable.value}"'


def _profile(tunables: list[Tunable], name: str) -> Iterator[str]:
    """Write the profile, disks first: a change of the scheduler resets other settings of the queue."""
    if sections := [*_disk_sections(tunables), *_host_sections(tunables)]:
        yield "[main]"
        yield f"summary=Recommended by matrix: {''.join(char if char.isprintable() else '_' for char in name)}"
        yield from sections


def _disk_sections(tunables: list[Tunable]) -> Iterator[str]:
    """Write one section for all disks with equal settings. Their links identify them, because other names may change.

    `dynamic=0` keeps tuned from sending disks to sleep.
    """
    by_device: dict[str, list[str]] = {}
    for tunable in tunables:
        if tunable.device and tunable.file in _OF_TUNED and _PLAIN.fullmatch(str(tunable.value)):
            by_device.setdefault(tunable.device, []).append(f"{_OF_TUNED[tunable.file]}={tunable.value}")
    alike: dict[tuple[str, ...], list[str]] = {}
    for device, options in by_device.items():
        alike.setdefault(tuple(options), []).append(device.removeprefix("/dev/"))
    for number, (options_of_all, links) in enumerate(alike.items()):
        yield from (f"[disk_{number}]", "type=disk") if number else ("[disk]",)
        yield f"devices_udev_regex=^DEVLINKS=(.* )?/dev/({'|'.join(links)})( |$)"
        yield from ("dynamic=0", *options_of_all)


def _by_name(tunable: Tunable) -> bool:
    """Return whether tuned can only write the file in sysfs, where a device's name may change at the next boot.

    The cache of a drive is left to udev: tuned would switch it each time, which resets the other settings.
    """
    writable = tunable.way != "cache" and tunable.file not in _OF_TUNED
    return bool(tunable.device and writable and _PLAIN.fullmatch(str(tunable.value)))


def _host_sections(tunables: list[Tunable]) -> Iterator[str]:
    """Write the sections of the machine. The template appends `named` to the last one.

    The governor is set by its file, because tuned's own option also disables deep sleep states.
    """
    groups: dict[str, list[str]] = {}
    for tunable in tunables:
        if tunable.file.startswith("/proc/sys/"):
            key = tunable.file.removeprefix("/proc/sys/").replace("/", ".")
            groups.setdefault("sysctl", []).append(f"{key}={tunable.value}")
        elif not tunable.device:
            groups.setdefault("sysfs", []).append(f"{_host_file(tunable)}={tunable.value}")
    if any(map(_by_name, tunables)):
        warning = "# These names of devices may change at the next boot. The udev rules use stable names."
        groups.setdefault("sysfs", []).append(warning)
    for group, lines in sorted(groups.items(), key=lambda item: item[0] == "sysfs"):
        yield from (f"[{group}]", *lines)
