"""The block devices of a host, by its inventory script; labels of runs on them, and the check before each script."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from shlex import join
from types import MappingProxyType
from typing import Literal

import orjson

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.hosts import LABEL_BYTES, LABEL_MAGIC, SECTOR
from matrix_runner.hosts.agent.agent import find_paths

SYSFS = "/sys/class/block"
#: Starts no process, as it runs before every trial. $1: the disk's name in scripts; $2: its node; $3: its folder in
#: sysfs; then the expected values of files there. Prints its result after the secret word in $matrix_mark.
CHECK = Path(__file__).with_name("same.sh").read_text(encoding="utf-8")


def identity_check(disks: "Iterable[tuple[str, Node]]", sysfs: str = SYSFS) -> str:
    calls = []
    for path, node in disks:
        known = {"dev": node.dev, "size": str(node.size // SECTOR), "diskseq": node.sequence}
        expected = (f"{name}={value}" for name, value in known.items() if value)
        words = join(("matrix_same", path, node.path, f"{sysfs}/{node.name}", *expected))
        calls.append(f"{words} || exit 1\n")
    return "".join([CHECK, *calls]) if calls else ""


def parse_report(output: bytes, mark: str) -> tuple[str, str]:
    line = output.partition(b"\n")[0].decode(errors="replace")
    word, _, details = line.removeprefix(f"{mark} ").partition(" ")
    return (word, details) if line.startswith(mark) and word in {"gone", "other"} else ("", "")


class DiskSwapped(HarnessBroken):
    def __init__(self, said: str, where: str) -> None:
        super().__init__(
            f"a disk of {where} was replaced by another disk",
            details=said,
            resolution="no script touches the other disk; `dmesg` and `matrix disks` show what happened",
        )


def require_lasting_identity(name: str, path: str, node: "Node") -> None:
    if path == node.path and not node.sequence:
        raise BadInput(
            f"{name} is only known as {path}, a name that another disk could get",
            details="it has no name in /dev/disk/by-id, and this kernel (before Linux 5.15) does not number media",
            resolution="run udev there, or a newer kernel; nothing was written",
        )


State = Literal["held", "free"]


@dataclass(frozen=True, slots=True)
class Label:
    """`held`: leased to the run. `free`: the next run may use the disk."""

    run: str
    disk: str
    serial: str
    state: State


def encode_label(label: Label) -> bytes:
    """Return the block. It is printable ASCII, also for odd serial numbers: the inventory reads only that."""
    content = json.dumps(asdict(label), separators=(",", ":"))
    text = f"{LABEL_MAGIC} 1 {_digest(content)} {content}"
    if len(text) >= LABEL_BYTES:
        raise ValueError(f"{label} is no label: it has to be shorter than {LABEL_BYTES} bytes")
    return text.encode().ljust(LABEL_BYTES, b"\0")


def decode_label(text: str) -> Label | None:
    words = text.rstrip("\0").split(" ", 3)
    if len(words) != 4 or words[:2] != [LABEL_MAGIC, "1"] or words[2] != _digest(words[3]):
        return None
    with suppress(ValueError, TypeError, RecursionError):
        label = Label(**json.loads(words[3]))
        return label if {*map(type, astuple(label))} == {str} else None  # anyone can write a disk
    return None


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


#: SCSI types of disks, simplified and zoned ones included; other types are tapes, CD-ROMs and the like.
SCSI_DISKS = {"", "0", "14", "20"}


@dataclass(frozen=True, slots=True)
class Signature:
    type: str
    offset: str = ""
    uuid: str = ""
    label: str = ""

    def __str__(self) -> str:
        where = f" at {self.offset}" if self.offset else ""
        name = f" '{self.label}'" if self.label else ""
        return f"{self.type}{name}{where}" + (f", UUID {self.uuid}" if self.uuid else "")


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    dev: str  # the device number, such as `8:16`: the same under all of its names
    size: int
    read_only: bool = False
    removable: bool = False
    partition: bool = False
    number: int = 0  # number and start (in bytes) of a partition
    start: int = 0
    scsi_type: str = ""
    serial: str = ""
    wwn: str = ""
    model: str = ""
    firmware: str = ""
    rotational: bool = False
    link: str = ""  # how an NVMe disk behind a network is reached
    backing: str = ""
    mapping: str = ""
    mapping_uuid: str = ""
    array_state: str = ""
    bcache: str = ""
    sequence: str = ""  # a number that the kernel never reuses for another medium or device
    written: int = 0
    signatures: tuple[Signature, ...] = ()
    filled: int | None = None  # non-zero bytes in the places that were read; None if unknown
    label: Label | None = None
    unreadable: str = ""

    @property
    def path(self) -> str:
        return f"/dev/{self.name.replace('!', '/')}"

    @property
    def is_disk(self) -> bool:
        return not (self.partition or self.mapping or self.array_state or self.name.startswith(("md", "dm-", "zram")))

    @property
    def identity(self) -> str:
        return self.wwn or self.serial or self.dev


@dataclass(frozen=True, slots=True)
class StableName:
    """A link in /dev/disk/by-id, or the name that udev would give where there is no udev."""

    name: str
    dev: str
    target: str = ""
    kind: str = "block special file"  # the kind of its target; empty if the target is missing


@dataclass(frozen=True, slots=True)
class Mount:
    dev: str
    source: str
    point: str
    type: str


@dataclass(frozen=True, slots=True)
class Census:
    nodes: Mapping[str, Node] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[StableName, ...] = ()
    mounts: tuple[Mount, ...] = ()
    swaps: Mapping[str, str] = field(default_factory=dict)
    #: The file system's UUID, by the name of each device of a mounted btrfs.
    btrfs: Mapping[str, str] = field(default_factory=dict)

    def by_number(self, dev: str) -> Node | None:
        return next((node for node in self.nodes.values() if node.dev == dev), None)

    def parts_of(self, node: Node) -> tuple[Node, ...]:
        return tuple(self.nodes[part] for part in self.parts.get(node.name, ()) if part in self.nodes)

    @property
    def disks(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.is_disk and (node.size or node.removable))

    def names_of(self, node: Node) -> tuple[str, ...]:
        return tuple(name.name for name in self.names if name.dev == node.dev)


@dataclass
class _Facts:
    keys: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    parts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    holders: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    signatures: dict[str, list[Signature]] = field(default_factory=lambda: defaultdict(list))
    links: list[StableName] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    swaps: dict[str, str] = field(default_factory=dict)
    btrfs: dict[str, str] = field(default_factory=dict)
    lsblk_error: str = ""


def parse_census(text: str) -> Census:
    # Not splitlines(): names can contain Unicode line separators.
    lines = [line.split("\t") for line in text.removesuffix("\n").split("\n")]
    if not lines or lines[-1] != ["end"]:
        raise HarnessBroken(
            "the disk inventory of a host was cut short",
            details=text[-500:],
            resolution="no disk was used; try again, and check the host if it happens again",
        )
    facts = _Facts()
    try:
        for words in lines:
            _add_line(facts, words)
        nodes = {name: _build_node(name, keys, facts) for name, keys in facts.keys.items() if "dev" in keys}
    except (ValueError, LookupError, TypeError) as problem:
        raise HarnessBroken(
            "the disk inventory of a host has a value that no kernel reports",
            details=str(problem)[:500],
            resolution="no disk was used; check the host and its programs",
        ) from problem
    known = {link.name for link in facts.links}
    without_udev = (StableName(name, one.dev, one.path) for one in nodes.values() for name in _udev_names(one))
    return Census(
        nodes=MappingProxyType(nodes),
        parts=_freeze(facts.parts),
        holders=_freeze(facts.holders),
        names=(*facts.links, *(one for one in without_udev if one.name not in known)),
        mounts=tuple(facts.mounts),
        swaps=MappingProxyType(facts.swaps),
        btrfs=MappingProxyType(facts.btrfs),
    )


def _freeze(relations: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({name: tuple(dict.fromkeys(others)) for name, others in relations.items()})


def _add_line(facts: _Facts, words: list[str]) -> None:
    match words:
        case ["node", name, key, value]:
            facts.keys[name][key] = value.strip()
        case ["unreadable" | "filled" | "label" as key, name, value]:
            facts.keys[name][key] = value
        case ["part", disk, part]:
            facts.parts[disk].append(part)
        case ["holder", name, holder]:
            facts.holders[name].append(holder)
        case ["link", name, dev, target, kind]:
            facts.links.append(StableName(name, dev.replace("-", ""), target, kind))
        case ["mount", dev, source, point, kind]:
            facts.mounts.append(Mount(dev, unescape(source), unescape(point), kind))
        case _:
            _add_reported(facts, words)


def _add_reported(facts: _Facts, words: list[str]) -> None:
    match words:
        case ["swap", dev, path]:
            facts.swaps[dev] = path
        case ["btrfs", name, uuid]:
            facts.btrfs[name] = uuid
        case ["mdstat", line]:  # as `md0 : active raid1 sdb1[1] sda1[0](F)`
            array, _, members = line.partition(" : ")
            for member in re.findall(r"(\S+)\[", members):
                facts.holders[member].append(array.strip())
        case ["wipefs", name, output]:
            try:
                found = orjson.loads(output)["signatures"] if output.strip() else ()
                keys = ("type", "offset", "uuid", "label")
                facts.signatures[name] += [Signature(*(str(one.get(key) or "") for key in keys)) for one in found]
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
                facts.keys[name]["unreadable"] = f"wipefs printed invalid JSON: {output[:200]}"
        case ["blkid", name, status, *output]:
            facts.signatures[name] += _parse_blkid(int(status), " ".join(output), facts.signatures[name])
            facts.signatures[name] = list(_add_table_uuids(" ".join(output), facts.signatures[name]))
        case ["lsblk", output]:
            _add_lsblk(facts, output)


def _add_lsblk(facts: _Facts, output: str) -> None:
    """Add facts of each device and those below it, from udev or from sysfs by lsblk itself."""
    try:
        rows = orjson.loads(output)["blockdevices"]
        while rows:
            row = rows.pop()
            rows += row.get("children", ())
            for key in ("serial", "wwn", "model"):
                if row.get(key):
                    name = row["kname"].replace("/", "!")
                    facts.keys[name].setdefault(f"lsblk {key}", str(row[key]).strip())
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        facts.lsblk_error = f"lsblk printed invalid JSON: {output[:200]}"


def _parse_blkid(status: int, output: str, known: Iterable[Signature]) -> Iterator[Signature]:
    """Yield what blkid found besides wipefs. Status 2: no signature; status 8: several, and blkid does not choose."""
    if status == 8:
        yield Signature(f"several at once ({output or 'blkid cannot tell which'})")
    elif status == 0:
        pairs = dict(word.partition("=")[::2] for word in output.split())
        types = {one.type for one in known}
        for key, uuid in (("TYPE", "UUID"), ("PTTYPE", "PTUUID")):
            if key in pairs and pairs[key] not in types:
                yield Signature(pairs[key], uuid=pairs.get(uuid, ""))
    elif status != 2:
        yield Signature(f"content at which blkid failed: {output}")


def _add_table_uuids(output: str, known: Iterable[Signature]) -> Iterator[Signature]:
    """Add UUIDs of partition tables, which blkid knows and wipefs does not. A GPT has a protective MBR as well."""
    pairs = dict(word.partition("=")[::2] for word in output.split())
    kind = pairs.get("PTTYPE", "")
    for one in known:
        of_it = one.type == kind or (kind == "gpt" and one.type == "PMBR")
        yield replace(one, uuid=pairs.get("PTUUID", "")) if of_it and not one.uuid else one


def unescape(text: str) -> str:
    """Return a path of /proc/mounts, in which the kernel escapes blanks, tabs, newlines and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _build_node(name: str, keys: Mapping[str, str], facts: _Facts) -> Node:
    def first(*wanted: str) -> str:
        return next((keys[key] for key in wanted if keys.get(key)), "")

    # If the driver reports both, lsblk is not needed. Otherwise lsblk may be needed to detect a twin.
    serial, wwn = first("vpd_pg80", "serial", "device/serial"), first("wwid", "device/wwid")
    lsblk_error = "" if serial and wwn else facts.lsblk_error
    filled = first("filled")
    paths = [facts.keys[path] for path in find_paths(name, facts.keys)]
    return Node(
        name=name,
        dev=keys["dev"],
        size=int(first("size") or 0) * SECTOR,
        read_only=first("ro") == "1",
        removable=first("removable") == "1",
        partition="partition" in keys,
        number=int(first("partition") or 0),
        start=int(first("start") or 0) * SECTOR,
        scsi_type=first("device/type"),
        # A loop device is identified by its file.
        serial=serial or first("lsblk serial", "loop/backing_file"),
        wwn=wwn or first("lsblk wwn"),
        model=first("device/model", "lsblk model"),
        firmware=first("device/firmware_rev", "device/rev"),
        rotational=first("queue/rotational") == "1",
        link="; ".join(filter(None, map(_describe_link, (keys, *paths)))),
        backing=first("loop/backing_file"),
        mapping=first("dm/name"),
        mapping_uuid=first("dm/uuid"),
        array_state=first("md/array_state"),
        bcache=first("bcache/state"),
        sequence=first("diskseq"),
        written=_written(keys) or sum(map(_written, paths)),
        signatures=tuple(dict.fromkeys(facts.signatures.get(name, ()))),
        filled=int(filled) if filled.isdecimal() else None,
        label=decode_label(first("label")),
        unreadable=first("unreadable") or lsblk_error,
    )


def _written(keys: Mapping[str, str]) -> int:
    stat = keys.get("stat", "").split()
    return int(stat[6]) * SECTOR if len(stat) > 6 else 0


def _describe_link(keys: Mapping[str, str]) -> str:
    """Return the network to an NVMe disk, and what was chosen for it with `nvme connect`, as the kernel has it."""
    transport, address, queues, depth = (keys.get(f"device/{key}", "") for key in _LINK)
    if not depth or transport == "pcie":
        return ""
    # One queue is for commands to the controller. The depth is counted from 0.
    return f"NVMe over {transport}, {address}, {int(queues) - 1} queues, depth {int(depth) + 1}"


_LINK = ("transport", "address", "queue_count", "sqsize")


def _udev_names(node: Node) -> Iterator[str]:
    wwn = node.wwn
    if node.partition or node.backing:
        return
    if wwn.startswith("naa."):
        yield f"wwn-0x{wwn.removeprefix('naa.')}"
    elif wwn.startswith("0x"):
        yield f"wwn-{wwn}"
    elif wwn.startswith(("eui.", "nvme.", "uuid.")):
        yield f"nvme-{wwn}"
    if node.serial and node.name.startswith("vd"):
        yield f"virtio-{node.serial[:20]}"
