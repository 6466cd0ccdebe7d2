"""Linux software RAID. Over 400 lines: a layer is one module, from its declaration to what the kernel must report."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import (
    Action,
    Array,
    BuildContext,
    Expectation,
    NoneIfFalse,
    Problem,
    Sync,
    SyncTarget,
    View,
    mark,
    power_of_two,
)
from matrix_runner.layers.geometry import Below, Shape, common, losses_of, raid0_bytes, usable
from matrix_runner.layers.needs import Need

PAGE = 4096
DEFAULT_CHUNK = 512 * 1024
#: The kernel's numbers of the parity layouts of RAID 5 and 6.
PARITY_LAYOUTS = {
    "left-asymmetric": 0,
    "right-asymmetric": 1,
    "left-symmetric": 2,
    "right-symmetric": 3,
    "parity-first": 4,
    "parity-last": 5,
}
#: RAID 6 has more: DDF layouts, and RAID 5 layouts with the second parity on a separate disk.
RAID6_LAYOUTS = {
    **PARITY_LAYOUTS,
    "ddf-zero-restart": 8,
    "ddf-N-restart": 9,
    "ddf-N-continue": 10,
    "left-asymmetric-6": 16,
    "right-asymmetric-6": 17,
    "left-symmetric-6": 18,
    "right-symmetric-6": 19,
    "parity-first-6": 20,
}
_MIRRORED = 64 * 1024  # a mirror has no chunks, but mdadm rounds its size to a multiple of this
STRIPED = frozenset({0, 4, 5, 6, 10})
PARITY: dict[int | str, int] = {4: 1, 5: 1, 6: 2}  # number of parity devices
REDUNDANT = frozenset({1, 4, 5, 6, 10})


def _level(value: object) -> object:
    match = re.fullmatch(r"raid-?([0-9]+)", value, re.IGNORECASE) if isinstance(value, str) else None
    return int(match[1]) if match else value


_LAYOUT = (
    "^([nfo][2-9]|(left|right)-a?symmetric(-6)?|parity-first(-6)?|parity-last|ddf-(zero-restart|N-restart|N-continue))$"
)


def _layout(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(_LAYOUT, value):
        raise ValueError(
            f"no layout; RAID 10 has n2, f2, o2 and their like, RAID 5 and 6 have {', '.join(PARITY_LAYOUTS)}; "
            f"RAID 6 alone has {', '.join(name for name in RAID6_LAYOUTS if name not in PARITY_LAYOUTS)}"
        )
    return value


def _only(kind: type, message: str) -> BeforeValidator:
    """Refuse values of other types; true is no number."""

    def check(value: object) -> object:
        if type(value) is not kind:
            raise ValueError(message)
        return value

    return BeforeValidator(check)


def _state(value: object) -> object:
    """Accept `{degraded: 2}` for two lost disks; one is `degraded`."""
    if isinstance(value, dict) and list(value) == ["degraded"]:
        lost = value["degraded"]
        if lost in {1, 2, 3, 4} and not isinstance(lost, bool):
            return "degraded" if lost == 1 else f"degraded-{lost}"
        raise ValueError("write the number of lost disks: degraded: 1 to degraded: 4")
    return value


Level = Annotated[
    Literal["linear", 0, 1, 4, 5, 6, 10],
    BeforeValidator(_level),
    WithJsonSchema({"enum": ["linear", 0, 1, 4, 5, 6, 10, "raid0", "raid1", "raid4", "raid5", "raid6", "raid10"]}),
]
Metadata = Annotated[
    Literal["0.90", "1.0", "1.1", "1.2"],
    # YAML reads 1.2 as a number, and 0.90 as 0.9.
    BeforeValidator(lambda value: {0.9: "0.90"}.get(value, str(value)) if isinstance(value, float) else value),
    WithJsonSchema({"enum": ["0.90", "1.0", "1.1", "1.2", 0.9, 1.0, 1.1, 1.2]}),
]
State = Annotated[
    Literal["clean", "degraded", "degraded-2", "degraded-3", "degraded-4", "rebuilding"],
    BeforeValidator(_state),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["clean", "degraded", "rebuilding"]},
                {
                    "type": "object",
                    "properties": {"degraded": {"type": "integer", "minimum": 1, "maximum": 4}},
                    "required": ["degraded"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
    Field(
        description="state during the measurement: complete, without one disk (`degraded`) or more (`{degraded: 2}`), "
        "or during a rebuild"
    ),
]


#: The bytes that mdadm reserves for a bitmap, on devices of at least this size.
_BITMAP_ROOM = ((200 << 30, 128 << 10), (8 << 30, 64 << 10), (0, 4 << 10))
_BITMAP_HEAD = 256  # bytes of it
_MOST_BITMAP_CHUNK = 2 << 30


class Md(Array):
    """A Linux software RAID array over the devices below."""

    kind: ClassVar[str] = "md"
    noun: ClassVar[str] = "arrays"
    also_called: ClassVar[Mapping[str, str]] = dict.fromkeys(("mdadm", "mdraid", "raid"), "md: {level: 5}")
    needs: ClassVar[tuple[Need, ...]] = (
        Need(programs=("mdadm",)),
        Need("level", ("linear",), modules=("linear",)),
        *(Need("level", (level,), modules=(f"raid{level}",)) for level in (0, 1, 10)),
        Need("level", tuple(PARITY), modules=("raid456",)),
        Need("bitmap", ("lockless",), programs=("mdadm 4.6",), linux="6.18", options=("MD_LLBITMAP",)),
    )
    level: Level
    chunk: Size | None = Field(
        None, description="size of a chunk: a power of two, with RAID 0 any multiple of 4KiB; 512KiB if not given"
    )
    devices: int | None = Field(
        None, ge=1, description="number of active devices; if not given: all except spares and journal"
    )
    layout: Annotated[str, BeforeValidator(_layout), WithJsonSchema({"type": "string", "pattern": _LAYOUT})] | None = (
        Field(
            None,
            description="RAID 10: near (n2), far (f2) or offset (o2), with the number of copies; "
            "RAID 5 and 6: left-symmetric, right-asymmetric, parity-first …; "
            "RAID 6 also ddf-N-restart, left-symmetric-6 …",
        )
    )
    metadata: Metadata = "1.2"
    bitmap: Annotated[
        Literal["none", "internal", "lockless"],
        NoneIfFalse,
        WithJsonSchema({"enum": ["none", "internal", "lockless", False]}),
        Field(description="record of what is being written, for a short resync after a crash; lockless: by `llbitmap`"),
    ] = "none"
    bitmap_chunk: Size | None = Field(
        None,
        description="`bitmap: internal`: bytes of a device for one bit, a power of two; mdadm chooses if not given",
    )
    ppl: Annotated[bool, _only(bool, "write true or false; only `bitmap` has values such as internal")] = Field(
        False, description="RAID 5: partial parity log, against the write hole (damage by a crash while degraded)"
    )
    journal: Annotated[int, _only(int, "write the number of journal devices, from the last: 0 or 1")] = Field(
        0, ge=0, le=1, description="RAID 4, 5, 6: number of devices that hold a write journal: the last one"
    )
    spare: int = Field(0, ge=0)
    write_mostly: int = Field(
        0,
        ge=0,
        description="RAID 1: number of write-mostly devices, the last active ones; md reads them only if no other "
        "device can answer",
    )
    size: Size | None = Field(None, description="bytes to use of every device; all if not given")
    sync: Sync = "auto"
    state: State = "clean"

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        level = values["level"]
        name = level if level == "linear" else f"RAID {level}"
        idle: dict[str, str] = {}
        if level in {"linear", 1}:
            idle["chunk"] = f"{name} has no chunks"
        if level not in {5, 6, 10}:
            idle["layout"] = f"{name} has only one layout"
        if level not in REDUNDANT:
            idle |= dict.fromkeys(("spare", "bitmap", "sync", "state", "size"), f"{name} has no redundancy")
        if values["bitmap"] != "internal":
            idle["bitmap_chunk"] = f"bitmap {values['bitmap']} has no such chunks; internal has"
        if level != 5:
            idle["ppl"] = "only RAID 5 has a partial parity log"
        if level not in PARITY:
            idle["journal"] = "only RAID 4, 5 and 6 have a journal"
        if level != 1:
            idle["write_mostly"] = "only RAID 1 has write-mostly members"
        return idle

    @property
    def kernel_level(self) -> str:
        return "linear" if self.level == "linear" else f"raid{self.level}"

    @property
    def why_no_trims(self) -> str:
        # The module raid456 allows it with `devices_handle_discard_safely` only.
        return f"RAID {self.level} does not pass trims on" if self.level in PARITY else ""

    @property
    def title(self) -> str:
        return "md linear" if self.level == "linear" else f"RAID {self.level}"

    @property
    def copies(self) -> int:
        return int(self.layout[1:]) if self.layout and self.layout[1:].isdigit() else 2

    @property
    def lost_count(self) -> int:
        if self.state == "clean":
            return 0
        return int(self.state.removeprefix("degraded-")) if self.state.startswith("degraded-") else 1

    @property
    def tolerated_losses(self) -> int:
        if self.level == 1:
            return (self.devices or 2) - 1
        return self.copies - 1 if self.level == 10 else PARITY.get(self.level, 0)

    def active(self, count: int) -> int:
        return self.devices if self.devices is not None else count - self.spare - self.journal

    def resolve_part(self, below: Below) -> Self:
        layouts: dict[int | str, str] = {10: "n2", 5: "left-symmetric", 6: "left-symmetric"}
        chunk = self.chunk or DEFAULT_CHUNK if self.level in STRIPED else None
        layout = (self.layout or layouts.get(self.level)) if self.level != "linear" else None
        return self.model_copy(update={"chunk": chunk, "devices": self.active(below.count), "layout": layout})

    @property
    def memory(self) -> Mapping[str, int]:
        return {"stripe_cache_size": PAGE * (self.devices or 0) * self.groups} if self.level in PARITY else {}

    @property
    def redundant(self) -> bool:
        return self.level in REDUNDANT

    def sync_target(self, below: Below) -> SyncTarget:
        size, active, parity = self.devices_above(below)[0].size, self.active(below.count), PARITY.get(self.level, 0)
        copies = active if self.level == 1 else self.copies if self.level == 10 else 1
        data = active // copies if self.level == 1 else active - parity
        member = size * (copies if self.level == 10 else 1) // data
        return SyncTarget(member, size * (copies - 1) + member * parity, size if self.level == 10 else member)

    def why_no_sync(self, action: Action) -> str:
        if self.state != "clean":
            return f"{self.title} with `state: {self.state}` is not complete before a {action}; remove `state`"
        if self.bitmap == "lockless" and action == "resync":
            return f"the lockless bitmap of {self.title} cannot be made to forget; use another `bitmap:`"
        if self.spare and action == "rebuild":
            return f"a spare would replace the failed disk of {self.title} at once; remove `spare`"
        return ""

    def part_problems(self, below: Below) -> Iterator[Problem]:
        flaws = [
            *self._chunk_problems(below.smallest),
            *self._count_problems(below),
            *self._layout_problems(),
            *self._metadata_problems(below),
            *self._log_problems(below),
            *self._member_problems(below),
            *self._state_problems(below),
        ]
        yield from flaws
        if not flaws and not self.group_shape(below).size:
            what = "metadata and whole chunks" if self.level in STRIPED else "metadata"
            field = "chunk" if self.chunk is not None else "level"
            yield Problem(field, f"{what} need more space than {below.noun} of {format_size(below.smallest)} have")

    def _count_problems(self, below: Below) -> Iterator[Problem]:
        active = self.active(below.count)
        least = max(4 if self.level == 6 else 2, self.copies if self.level == 10 else 0)
        taken = {"spare": self.spare, "journal": self.journal}
        what = self.title + (f" with {self.copies} copies" if self.copies > 2 else "")
        if active + self.spare + self.journal > below.count:
            blamed = "spare" if self.devices is None else "devices"
            wanted = f"{active} devices" + (f" and {self.spare} spare" if self.spare else "")
            yield Problem(blamed, f"{wanted} are too many: {below.description}")
        elif active < least and self.devices is not None:
            yield Problem("devices", f"{what} needs at least {least} devices, not {active}")
        elif active < least:
            found = below.description + "".join(f", {number} of them {use}" for use, number in taken.items() if number)
            yield Problem("level", f"{what} needs at least {least} {below.noun}; {found}")

    def _chunk_problems(self, size: int) -> Iterator[Problem]:
        if self.chunk is None or self.level not in STRIPED:
            return
        if self.level != 0:
            yield from power_of_two("chunk", self.chunk, 4096, "a chunk")
        elif self.chunk % 4096 or not self.chunk:
            yield Problem("chunk", "a chunk of RAID 0 must be a multiple of 4KiB")
        if self.chunk * 4 > size:
            disk = f"a disk ({format_size(size)})"
            yield Problem("chunk", f"larger than a quarter of {disk}: no stripe would be left to measure")

    def _layout_problems(self) -> Iterator[Problem]:
        if self.layout is None or self.level not in {5, 6, 10}:
            return
        known = RAID6_LAYOUTS if self.level == 6 else PARITY_LAYOUTS if self.level == 5 else ()
        if (self.layout not in known) if known else (self.layout in RAID6_LAYOUTS):
            right = ", ".join(known) or "n2, f2, o2 …"
            yield Problem("layout", f"'{self.layout}' is no layout of {self.title}; it has {right}")

    def _metadata_problems(self, below: Below) -> Iterator[Problem]:
        if self.metadata != "1.2" and self.bitmap == "lockless":
            yield Problem("bitmap", f"metadata {self.metadata} cannot store a lockless bitmap; use 1.2")
        if self.metadata != "0.90":
            return
        if self.level == 0:
            why = "cannot store the layout of RAID 0, so mdadm refuses it"
            yield Problem("metadata", f"0.90 {why}; use 1.0, 1.1 or 1.2")
        if self.ppl or self.journal:
            yield Problem("metadata", "0.90 cannot store a partial parity log or a journal")
        if self.active(below.count) + self.spare > 27:
            yield Problem("metadata", "0.90 supports at most 27 devices")
        if self.redundant and min(below.smallest, self.size or below.smallest) > 4 * 2**40:
            yield Problem("metadata", "0.90 uses at most 4TiB of a device")

    def _log_problems(self, below: Below) -> Iterator[Problem]:
        if self.bitmap_chunk is not None:
            least = self._least_bitmap_chunk(self.size or below.smallest, self.active(below.count))
            yield from power_of_two("bitmap_chunk", self.bitmap_chunk, least, "a chunk of a bitmap on these devices")
            if self.bitmap_chunk > _MOST_BITMAP_CHUNK:
                yield Problem("bitmap_chunk", f"mdadm accepts at most {format_size(_MOST_BITMAP_CHUNK)}")
        if self.ppl and (self.bitmap != "none" or self.journal):
            yield Problem("ppl", "a partial parity log excludes a bitmap and a journal; use one of them")
        if self.ppl and self.active(below.count) > 64:
            yield Problem("ppl", "a partial parity log goes with at most 64 devices")
        if self.bitmap == "lockless" and self.sync == "background":
            yield Problem("sync", "a lockless bitmap syncs only what was written; remove `sync`")
        if self.journal and self.bitmap != "none":
            yield Problem("journal", "a journal excludes a bitmap; use one of them")

    def _least_bitmap_chunk(self, size: int, active: int) -> int:
        """Return the smallest chunk with which all bits fit into the space that mdadm reserves for them."""
        space = 60 * 1024 if self.metadata == "0.90" else next(room for least, room in _BITMAP_ROOM if size >= least)
        counted = size * active // self.copies if self.level == 10 else size
        least = 4096
        while counted > least * 8 * (space - _BITMAP_HEAD):
            least *= 2
        return least

    def _member_problems(self, below: Below) -> Iterator[Problem]:
        if self.level == 1 and self.write_mostly >= self.active(below.count) and self.write_mostly:
            yield Problem("write_mostly", "at least one device must stay readable")
        room = min((self._usable(member, below.devices[0]) for member in below.devices), default=0)
        if self.size is not None and self.size > room:
            limit = format_size(room // 1024 * 1024)
            yield Problem("size", f"more than the smallest of the {below.noun} has beside md's metadata ({limit})")
        elif self.size is not None and self.size % 1024:
            yield Problem("size", "md counts in whole KiB")

    def _state_problems(self, below: Below) -> Iterator[Problem]:
        if not self.redundant or self.state == "clean":
            return
        whole = self.model_copy(update={"devices": self.active(below.count)})
        possible = whole.tolerated_losses
        if self.lost_count > possible:
            state = {0: "clean", 1: "degraded"}.get(possible, f"{{degraded: {possible}}}")
            limit = f"on {whole.devices} devices it can lose {possible}; write state: {state}"
            yield Problem("state", f"{self.title} cannot lose {self.lost_count} disks: {limit}")
        if self.spare:
            yield Problem("state", "a spare would replace a lost disk at once; remove `spare`")
        if self.sync == "background":
            yield Problem("sync", "a degraded array cannot resync; remove `sync`")

    def group_shape(self, below: Below) -> Shape:
        active = self.active(below.count)
        members = below.devices[:active]
        chunk, stripes = common(members)
        sector = max(member.sector for member in members)
        sizes = [self._usable(member, below.devices[0]) for member in members]
        tolerated = self.model_copy(update={"devices": active}).tolerated_losses - self.lost_count
        losses = losses_of(members, tolerated)
        if self.level == "linear":
            return Shape(sum(sizes), chunk, stripes, sector=sector, losses=losses)
        each = min(*sizes, self.size or sizes[0])
        if self.level == 1:
            return Shape(self.size or each // _MIRRORED * _MIRRORED, chunk, stripes, sector=sector, losses=losses)
        unit = self.chunk or DEFAULT_CHUNK
        size = self._chunks(each // unit, active) * unit
        if self.level == 0:
            size = sum(raid0_bytes(member, unit) for member in sizes)
        return Shape(size, unit, self._data(active), sector=sector, losses=losses)

    def resync_bytes(self, below: Below) -> int:
        """Return the redundant bytes, if set-up always waits for the resync."""
        if self.sync != "wait":
            return 0
        size = sum(array.size for array in self.devices_above(below))
        active = self.active(below.count // self.groups)
        if self.level in {1, 10}:
            return size * ((active if self.level == 1 else self.copies) - 1)
        data = self._data(active)
        return size * (active - data) // data

    def _chunks(self, each: int, active: int) -> int:
        if self.level != 10:
            return each * self._data(active)
        if (self.layout or "n2").startswith("n"):
            return each * active // self.copies
        return each // self.copies * active

    def _usable(self, member: Shape, first: Shape) -> int:
        """Return the space of a member without metadata. All members reserve as much as the first."""
        chunk = self.chunk or DEFAULT_CHUNK if self.level in STRIPED else 0
        kept = first.size - usable(first.size, self.metadata, chunk, ppl=self.ppl)
        own = usable(member.size, self.metadata, chunk, ppl=self.ppl)
        return own if self.metadata in {"0.90", "1.0"} else max(0, member.size - kept)

    def _data(self, active: int) -> int:
        if self.level == 10:
            near = self.copies if (self.layout or "n2").startswith("n") else 1
            return active // near if active % near == 0 else active
        return active - PARITY.get(self.level, 0)

    def group_view(self, context: BuildContext, name: str) -> View:
        active = self.active(len(context.devices))
        members = context.devices[: active + self.spare + self.journal]
        digits = mark(self, members)
        resync = self.first_resync(zeroed=context.zeroed)
        under_way = "recover" if self.state == "rebuilding" else "resync" if resync == "background" else ""
        return MdView(
            members=members,
            tops=(f"/dev/md/{name}",),
            expects=tuple(_expectations(self, under_way)),
            name=name,
            uuid=":".join(digits[at : at + 8] for at in range(0, 32, 8)),
            options=_options(self, members),
            arguments=members[: active + self.spare],
            roles=tuple(_roles(self, members, active)),
            write_mostly=members[active - self.write_mostly : active],
            stripe_width=str(self.group_shape(context.below).full_stripe) if self.level in STRIPED else "",
            redundant=self.redundant,
            level=self.kernel_level,
            resync=resync,
            state=self.state,
            under_way=under_way,
            lost=members[active - self.lost_count : active],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MdView(View):
    kind: str = "md"
    name: str
    uuid: str
    options: tuple[str, ...]
    arguments: tuple[str, ...]  # the members for mdadm --create. A journal is not among them, but an option.
    roles: tuple[tuple[str, str, str], ...]  # the expected state and slot of each member
    write_mostly: tuple[str, ...]  # members that md reads only if it must
    stripe_width: str  # bytes of one full stripe; empty without striping
    redundant: bool
    level: str
    state: str
    lost: tuple[str, ...]  # members that the script fails and removes before measurement

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.uuid,)


def _roles(layer: Md, members: tuple[str, ...], active: int) -> Iterator[tuple[str, str, str]]:
    for number, member in enumerate(members):
        setting = f"member{number + 1}"
        if active - layer.lost_count <= number < active:
            state, slot = ("spare", str(number)) if layer.state == "rebuilding" else ("", "")
        elif number < active:
            state, slot = "in_sync", str(number)
        else:
            state, slot = ("spare", "none") if number < active + layer.spare else ("journal", "journal")
        if state and active - layer.write_mostly <= number < active:
            state = "in_sync,write_mostly" if state == "in_sync" else f"write_mostly,{state}"
        yield setting, member, f"{state}/{slot}" if state else "absent"


def _options(layer: Md, members: tuple[str, ...]) -> tuple[str, ...]:
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
    elif layer.redundant:
        options.append(f"--bitmap={layer.bitmap}")
    if layer.bitmap_chunk is not None:
        options.append(f"--bitmap-chunk={layer.bitmap_chunk // 1024}K")
    return tuple(options)


def _expectations(layer: Md, under_way: str) -> Iterator[Expectation]:
    yield Expectation("level", "md/level", layer.kernel_level)
    yield Expectation("devices", "md/raid_disks", str(layer.devices))
    yield Expectation("metadata", "md/metadata_version", layer.metadata)
    yield Expectation("size", "size", None)
    if layer.chunk is not None:
        yield Expectation("chunk", "md/chunk_size", str(layer.chunk))
    if layer.layout is not None:
        yield Expectation("layout", "md/layout", str(layout_number(layer.layout)))
    if layer.redundant:
        unit = layer.chunk or 1024
        component = None if layer.size is None else str(layer.size // unit * unit // 1024)
        yield Expectation("degraded", "md/degraded", str(layer.lost_count))
        yield Expectation("sync_action", "md/sync_action", under_way or "idle")
        if layer.bitmap == "lockless":
            yield Expectation("bitmap", "md/bitmap_type", "llbitmap")
        else:
            yield Expectation("bitmap", "md/bitmap/location", layer.bitmap)
        if layer.bitmap_chunk is not None:
            yield Expectation("bitmap_chunk", "md/bitmap/chunksize", str(layer.bitmap_chunk))
        policy = (
            "journal" if layer.journal else "ppl" if layer.ppl else "bitmap" if layer.bitmap != "none" else "resync"
        )
        yield Expectation("consistency_policy", "md/consistency_policy", policy)
        yield Expectation("component_size", "md/component_size", component)


def layout_number(layout: str) -> int:
    """Return the kernel's number of a layout. RAID 10: near copies, far copies in the next byte, bit 16 for offset."""
    if layout in RAID6_LAYOUTS:
        return RAID6_LAYOUTS[layout]
    copies = int(layout[1:])
    near, far = (copies, 1) if layout[0] == "n" else (1, copies)
    return near | far << 8 | (0x10000 if layout[0] == "o" else 0)
