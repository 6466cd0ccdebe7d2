"""Hints in messages: an example for a place, a layer for a word, a valid name for a text."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from matrix_runner.base.model import NAME
from matrix_runner.layers import LAYERS
from matrix_runner.layers.fs import LEAST

_RAID = re.compile(r"raid[ _-]?(0|1|4|5|6|10)", re.IGNORECASE)
_NAME_RULE = "a name has letters from a to z, digits and . _ + -, and begins with a letter"
#: The patterns of the models in words.
PATTERNS = {
    NAME: _NAME_RULE,
    rf"^({NAME.strip('^$')})?$": _NAME_RULE,
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": "a name has letters from a to z, digits, and . _ -",
    r"^[A-Za-z][A-Za-z0-9_+-]*$": "a job has letters from a to z, digits and _ + -, and begins with a letter",
    r"^([^\n\r]+\.)?[A-Za-z][A-Za-z0-9_-]*$": "write an option of fio, like bs, or one of a job, like reader.bs",
    r"^[a-z]+$": "write small letters, like performance",
    r"^[a-z][a-z0-9_]*$": "an option has small letters, digits and _, like read_expire",
    r"^(0x|naa\.|eui\.|nvme\.|t10\.)?\S+$": "a World Wide Name has no spaces",
    r"^(local|ssh:[A-Za-z0-9@_][A-Za-z0-9@_.:-]*)$": "write local or ssh:HOST",
    r"^(tls|tcp)://\S+:\d+$": "write the address of a scheduler, like tls://lab:8786",
    r"^[a-z0-9_]+(,[a-z0-9_]+)?(-[a-z0-9_:]+)+$": "write a cipher as cryptsetup does, like aes-xts-plain64",
}
_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_SPELLED = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
#: Examples of required keys.
_REQUIRED = {
    "name": "name: first-try",
    "disks": "disks: {count: 4, size: 1GiB}",
    "layouts": "layouts: {raid5: [md: {level: 5}]}",
    "workloads": "workloads: {random: {rw: randread, bs: 4KiB}}",
    "level": "level: 5",
    "count": "count: 4",
    "size": "size: 1GiB",
    "rw": "rw: randread",
    "max": "max: iops",
    "while": 'while: "read.p99 < 5ms"',
}


def as_name(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.translate(_GERMAN)).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-")
    return name if re.fullmatch(NAME, name) else ""


def of_pattern(text: object, pattern: str) -> str:
    if pattern not in PATTERNS:
        return f"does not have the form {pattern}"
    name = as_name(str(text)) if PATTERNS[pattern] == _NAME_RULE else ""
    return PATTERNS[pattern] + (f"; write {name}" if name else "")


def guess_layer(word: str) -> str:
    if raid := _RAID.fullmatch(word):
        return f"md: {{level: {raid[1]}}}"
    if word.lower() in LEAST:
        return f"fs: {{type: {word.lower()}}}"
    return next((one.also_called[word.lower()] for one in LAYERS.values() if word.lower() in one.also_called), "")


def guess_boolean(given: object) -> str:
    return _SPELLED.get(str(given).strip().lower(), "")


def guess_time(given: object) -> str:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s?|secs?|seconds?|mins?|minutes?|hours?|hrs?)\s*", str(given).lower())
    return f"{found[1]}{found[2][:1] or 's'}" if found else ""


def required(key: str, path: Sequence[str | int]) -> str:
    if key in _REQUIRED and (key != "size" or path[:1] == ("disks",)):
        return _REQUIRED[key]
    return "type: ext4" if key == "type" and path[-1:] == ("fs",) else ""


def example(path: Sequence[str | int], given: Any) -> str:
    match list(path):
        case ["disks"] | ["disks", int()]:
            hosts = "`; disks of a host are declared in hosts.yaml, see `matrix help physical-disks"
            count = given if str(given) in map(str, range(1, 25)) else 4
            return f"{{count: {count}, size: 1GiB}}{hosts if _DEVICE.match(str(given)) else ''}"
        case ["layouts"]:
            return f"{{{as_name(str(given)) or 'raid5'}: {_stack(given)}}}"
        case ["layouts", _]:
            return _stack(given)
        case ["layouts", *_, int()]:
            return "{md: {level: 5}}"
        case ["layouts", *_, int(), "fs"]:
            return "{type: ext4}"
        case ["exclude" | "only", *at] if len(at) < 2:
            condition = f"{{{_condition(given)}}}"
            return condition if at else f"[{condition}]"
        case ["guidelines"]:
            return f"[{given if str(given).endswith(('.yaml', '.yml')) else 'guidelines/parity.yaml'}]"
        case ["faults", *_, int()]:
            return _FAULT
        case ["faults", *_]:
            return f"[{_FAULT}]"
    return _EXAMPLES.get(tuple(str(step) for step in path if not isinstance(step, int))) or _of_one(path)


_DEVICE = re.compile(r"/dev/|(sd|vd|hd)[a-z]+$|nvme\d")
_FAULT = "{disk: 0, at: 1s, kind: dies}"
_LINK = "{disks: [0, 1], bandwidth: 100MB/s}"
_EXAMPLES = {
    ("bus_limit",): f"{{pci: {_LINK}}}",
    ("machine",): "{memory: 1GiB}",
    ("needs",): "{disks: {count: 4, kind: hdd}}",
    ("needs", "disks"): "{count: 4, kind: hdd}",
    ("tune",): "{readahead: 4MiB}",
    ("tune", "vm"): "{dirty_ratio: 10}",
    ("tune", "iosched"): "{read_expire: 500}",
    ("workloads",): "{random: {rw: randread, bs: 4KiB}}",
}


def _of_one(path: Sequence[str | int]) -> str:
    match list(path):
        case ["bus_limit", _]:
            return _LINK
        case ["workloads", _]:
            return "{rw: randread, bs: 4KiB}"
        case ["workloads", _, "fio"]:
            return "{norandommap: 1}"
        case ["workloads", _, "find"]:
            return '{max: iops, while: "read.p99 < 5ms"}'
    return ""


def _stack(given: object) -> str:
    word = str(given)
    if word in LAYERS and word in {"disk", "disks"}:
        return f"[{word}]"
    meant = guess_layer(word)
    if meant.startswith("fs:"):
        return f"[md: {{level: 5}}, {meant}]"
    return f"[{meant}]" if ":" in meant else "[md: {level: 5}]"


def _condition(given: object) -> str:
    """Return `layout: raid5` for `layout=raid5` and for `raid5`."""
    axis, equals, value = str(given).partition("=")
    if equals and axis and value:
        return f"{axis.strip()}: {value.strip()}"
    return f"layout: {as_name(str(given)) or 'raid5'}"
