"""A cell as something to be pasted on a machine of one's own: commands, and what makes its tunables last.

The scripts that a run leaves behind build for measuring: they mark what is theirs, wait for resyncs and put everything
back. Here is what an administrator would write for good. Disks are variables, which stand at the top; inside they are
paths that occur nowhere else, and become variables once everything has been quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.layers.crypt import CryptView
from runner.layers.fs import FsView
from runner.layers.integrity import IntegrityView
from runner.layers.lvm import LvmView
from runner.scripts.jinja import render
from runner.scripts.knobs import knobs
from runner.scripts.stack import built

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.layers.base import View
    from runner.scripts.knobs import Knob
    from runner.scripts.stack import Built
    from runner.space.space import Cell

_DISK = "/dev/disk/by-id/matrix-disk{:02}"
_WORD = re.compile(r"/dev/disk/by-id/matrix-disk(\d\d)")
_IN_RULE = re.compile(r"disk/by-id/matrix-disk(\d\d)")
_GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
_FOLDER = re.compile(r"/run/matrix/mnt-\w+-\d+")
#: What can stand in a rule of udev between its quotes.
_PLAIN = re.compile(r"[\w .:/+-]+")
#: Files of a disk that a profile of tuned has options for.
_OF_TUNED = {"queue/scheduler": "elevator", "queue/read_ahead_kb": "readahead"}
#: Checksums that systemd opens a device with, in all of its versions.
_KNOWN_AT_BOOT = {"crc32", "crc32c", "sha1", "sha256"}
#: Options that only tests want: marks by which what is ours is known, force, and quick keys.
_MARKS = {"-U": 2, "-L": 2, "-l": 2, "-q": 1, "-F": 1, "-f": 1, "--addtag": 2, "--setautoactivation": 2}


@dataclass(frozen=True, slots=True)
class Pasted:
    """What templates see."""

    disks: tuple[str, ...]
    stack: Built
    #: Of every device that has one: a rule of udev.
    rules: tuple[str, ...]
    #: Lines of systemd-tmpfiles.
    files: tuple[str, ...]
    #: Lines of a profile of tuned, but for the last ones.
    profile: tuple[str, ...]
    #: These: device, file below its folder in sysfs, value.
    named: tuple[tuple[str, str, str], ...]
    #: Device, file below its folder in sysfs, value: for now, until the next boot.
    settings: tuple[tuple[str, str, str], ...]
    #: Drives, and what their own caches are to be.
    caches: tuple[tuple[str, str], ...]
    #: Files of the whole machine, and values.
    host: tuple[tuple[str, str], ...]
    mounted: bool
    #: Which of these is one for each processor.
    governors: str


def pasteable(cell: Cell, own: Path | None = None) -> str:
    """The script of a cell, to be looked through, completed at its top, and run as root."""
    disks = tuple(_DISK.format(number) for number in range(1, len(cell.array.disks.devices) + 1))
    stack = built(cell.array.stack.value, disks, cell.array.disks, zeroed=False)
    turned = [knob for knob in knobs(cell.tune.value, stack) if knob.value is not None]
    used = tuple(f"disk{_number(disk)}" for disk in stack.disks)
    pasted = Pasted(
        used,
        stack,
        tuple(_rules(turned)),
        tuple(_files(turned)),
        tuple(_profile(turned, cell.name)),
        tuple((knob.device, knob.file, str(knob.value)) for knob in turned if _by_name(knob)),
        tuple((knob.device, knob.file, str(knob.value)) for knob in turned if knob.device and knob.way != "cache"),
        tuple((knob.device, str(knob.value)) for knob in turned if knob.way == "cache"),
        tuple((_host_file(knob), str(knob.value)) for knob in turned if not knob.device),
        any(isinstance(view, FsView) for view in stack.layers),
        _GOVERNORS,
    )
    text = render("recommend.sh", own, title=cell.name, paste=pasted, stack=stack, commands=_commands(stack.layers))
    return _with_variables(text)


def _number(disk: str) -> str:
    match = _WORD.fullmatch(disk)
    assert match is not None  # noqa: S101 - they are all made above
    return match[1]


def _with_variables(text: str) -> str:
    """Paths of disks as variables: as words, and inside of what is quoted for a rule."""
    text = _WORD.sub(r'"$disk\1"', text)
    text = _IN_RULE.sub(r"""'"${disk\1#/dev/}"'""", text)
    return _FOLDER.sub('"$mount_point"', text)


def _commands(layers: tuple[View, ...]) -> tuple[tuple[View, tuple[tuple[str, ...], ...]], ...]:
    """Of every layer what the tools are told, where that is not said by its template."""
    return tuple((layer, _told(layer)) for layer in layers)


def _told(layer: View) -> tuple[tuple[str, ...], ...]:
    if isinstance(layer, LvmView):
        return tuple(_without_marks(command) for command in layer.commands)
    if isinstance(layer, FsView):
        options = layer.mount[layer.mount.index("-o") + 1] if "-o" in layer.mount else "defaults"
        return (_without_marks(layer.mkfs), (layer.type, options, "0", "2"))
    if isinstance(layer, CryptView):
        format_options = tuple(one for one in layer.format_options if not one.startswith(("--pbkdf", "--iter-time")))
        # What is hashed how is another default in each version; and no header would tell a wrong passphrase later.
        plain = ("--hash=sha256", "--verify-passphrase") if layer.format == "plain" else ()
        return (format_options, (*layer.open_options, *plain), _in_crypttab(layer))
    if isinstance(layer, IntegrityView):
        return (layer.format_options, _in_integritytab(layer))
    return ()


def _in_crypttab(layer: CryptView) -> tuple[str, ...]:
    """How it is opened at boot: only what has no header must be told what it is. Empty if there is no way to say it."""
    flags = [flag for flag, wanted in layer.flags if wanted == "on"]
    asked = ["discard" if flag == "allow_discards" else flag.replace("_", "-") for flag in flags]
    if layer.format != "plain":
        return (",".join(("luks", *asked)),)
    if "," in layer.cipher:
        return ()
    how = (
        "plain",
        f"cipher={layer.cipher}",
        f"size={layer.key_size}",
        "hash=sha256",
        f"sector-size={layer.sector_size}",
    )
    return (",".join((*how, *asked)),)


def _in_integritytab(layer: IntegrityView) -> tuple[str, ...]:
    """The same, which every version of systemd understands: how checksums are kept is said anew at each opening."""
    known = layer.mode == "journal" and layer.algorithm in _KNOWN_AT_BOOT
    return (f"integrity-algorithm={layer.algorithm}",) if known else ()


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


def _host_file(knob: Knob) -> str:
    return _GOVERNORS if knob.way == "governor" else knob.file


def _rules(turned: list[Knob]) -> Iterator[str]:
    """A device has its settings in one line, in the order in which they must be turned."""
    by_device: dict[str, list[Knob]] = {}
    for knob in turned:
        if knob.device:
            by_device.setdefault(knob.device, []).append(knob)
    for device, several in by_device.items():
        link = device.removeprefix("/dev/")
        sets = ", ".join(_set(knob) for knob in several if _PLAIN.fullmatch(str(knob.value)))
        if sets:
            yield f'ACTION=="add|change", SUBSYSTEM=="block", SYMLINK=="{link}", {sets}'


def _set(knob: Knob) -> str:
    """What a rule does. A drive's cache is switched at the drive: what the kernel believes of it must stay true.

    That makes the kernel look at all of the drive anew and forget other settings, so it comes before any ATTR: an
    IMPORT is done while the line is matched, where a RUN would come last of all.
    """
    if knob.way == "cache":
        there = "/sys%p/device/scsi_disk/*/cache_type /sys%p/cache_type"
        already = f"grep -qsx {str(knob.value).replace(' ', '.')} {there}"  # else every change would reset the rest
        return (
            f"""IMPORT{{program}}="/bin/sh -c '{already} || echo {knob.value} | tee {there} >/dev/null 2>&1; true'\""""
        )
    return f'ATTR{{{knob.file}}}="{knob.value}"'


def _files(turned: list[Knob]) -> Iterator[str]:
    for knob in turned:
        if not knob.device:
            yield f"w {_host_file(knob)} - - - - {knob.value}"


def _profile(turned: list[Knob], name: str) -> Iterator[str]:
    """Of disks first: another scheduler forgets what else is set of its queue."""
    if sections := [*_disks_of_profile(turned), *_host_of_profile(turned)]:
        yield "[main]"
        yield f"summary=Recommended by matrix: {''.join(char if char.isprintable() else '_' for char in name)}"
        yield from sections


def _disks_of_profile(turned: list[Knob]) -> Iterator[str]:
    """A section for all that are set alike. They are told by their links, as in rules of udev; tuned knows nothing
    else that stays theirs. And it is not to send them to sleep, which it does (`dynamic`) unless told otherwise.
    """
    by_device: dict[str, list[str]] = {}
    for knob in turned:
        if knob.device and knob.file in _OF_TUNED and _PLAIN.fullmatch(str(knob.value)):
            by_device.setdefault(knob.device, []).append(f"{_OF_TUNED[knob.file]}={knob.value}")
    alike: dict[tuple[str, ...], list[str]] = {}
    for device, options in by_device.items():
        alike.setdefault(tuple(options), []).append(device.removeprefix("/dev/"))
    for number, (options_of_all, links) in enumerate(alike.items()):
        yield from (f"[disk_{number}]", "type=disk") if number else ("[disk]",)
        yield f"devices_udev_regex=^DEVLINKS=(.* )?/dev/({'|'.join(links)})( |$)"
        yield from ("dynamic=0", *options_of_all)


def _by_name(knob: Knob) -> bool:
    """Whether a profile can only write it to a file of sysfs, where a device has the name of the day.

    A drive's cache is left to udev: to switch it is to forget the rest, and a profile switches it each time.
    """
    return (
        bool(knob.device)
        and knob.way != "cache"
        and knob.file not in _OF_TUNED
        and _PLAIN.fullmatch(str(knob.value)) is not None
    )


def _host_of_profile(turned: list[Knob]) -> Iterator[str]:
    """Of the machine, and last what those of devices follow that have to be named.

    A governor is a file like others: who asks tuned for one by its own option is kept from sleeping deeply as well.
    """
    groups: dict[str, list[str]] = {}
    for knob in turned:
        if knob.file.startswith("/proc/sys/"):
            groups.setdefault("sysctl", []).append(f"{_sysctl(knob.file)}={knob.value}")
        elif not knob.device:
            groups.setdefault("sysfs", []).append(f"{_host_file(knob)}={knob.value}")
    if any(map(_by_name, turned)):
        groups.setdefault("sysfs", []).append(
            "# Devices are called here as they were that day; rules of udev know them for good."
        )
    for group, lines in sorted(groups.items(), key=lambda item: item[0] == "sysfs"):
        yield from (f"[{group}]", *lines)


def _sysctl(file: str) -> str:
    return file.removeprefix("/proc/sys/").replace("/", ".")
