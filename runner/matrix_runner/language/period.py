"""The key `period`: what an earlier kernel did, as tunables of today's. A tunable of the matrix itself wins."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

_VERSION = re.compile(r"linux-(\d{1,2})\.(\d{1,3})(?:\.(\d{1,3}))?")
_FIRST, _LAST = (2, 2), (6, 12)
Version = tuple[int, ...]
Raw = dict[str, Any]


_SCHEDULER = frozenset({"scheduler", "disk.scheduler"})


class Rule(NamedTuple):
    """A setting of kernels of a period. `since` is included, `before` is not."""

    path: tuple[str, ...]
    value: int | str
    since: Version
    before: Version
    source: str
    applies: Callable[[Raw], bool] = lambda _: True
    also: frozenset[str] = frozenset()  # tunables that replace it, too

    @property
    def name(self) -> str:
        return ".".join(self.path)


def _buses(data: Raw) -> set[object]:
    disks = data.get("disks")
    several = disks.values() if _is_grouped(disks) else _each(disks)
    return {one.get("bus") for one in several if isinstance(one, dict)}


def _is_grouped(disks: object) -> TypeGuard[Raw]:
    return isinstance(disks, dict) and bool(disks) and all(isinstance(one, dict) for one in disks.values())


def _has_lvm(data: Raw) -> bool:
    layouts = data.get("layouts")
    stacks = layouts.values() if isinstance(layouts, dict) else ()
    lists = [layers for one in stacks for layers in _lists_of_layers(one)]
    return any(layer == "lvm" or (isinstance(layer, dict) and "lvm" in layer) for one in lists for layer in _each(one))


def _lists_of_layers(layout: object) -> Iterator[object]:
    if not isinstance(layout, dict):
        yield layout
        return
    parts = layout.get("parts")
    for column in (layout, *(parts.values() if isinstance(parts, dict) else ())):
        yield column.get("layers") if isinstance(column, dict) else column


def _each(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


#: The bus of disks of a period, if `disks` has none: its disks have a queue depth, so that the scheduler has to sort.
BUS = "sata"
RULES = (
    Rule(("scheduler",), "mq-deadline", _FIRST, (2, 6), "one elevator that sorts and limits the wait (ll_rw_blk.c)"),
    Rule(
        ("scheduler",),
        "bfq",
        (2, 6),
        (5, 0),
        "the anticipatory scheduler, from 2.6.18 on CFQ: both wait for the next read of a process, as bfq does",
    ),
    Rule(
        ("nr_requests",),
        128,
        _FIRST,
        (5, 0),
        "NR_REQUEST, later BLKDEV_MAX_RQ, of queues before blk-mq",
        lambda data: not any("none" in _each(value) for name, value in _own(data).items() if name in _SCHEDULER),
    ),
    Rule(
        ("ncq_depth",), 1, _FIRST, (2, 6, 18), "libata has NCQ since 2.6.18; only on sata", lambda d: _buses(d) == {BUS}
    ),
    Rule(("wbt_lat_usec",), 0, _FIRST, (4, 10), "write-back throttling (blk-wbt.c) came with 4.10"),
    Rule(("disk", "max_sectors_kb"), 128, _FIRST, (2, 6), "MAX_SECTORS: just below 128 KiB"),
    Rule(("disk", "max_sectors_kb"), 512, (2, 6), (4, 3), "BLK_DEF_MAX_SECTORS: 1024 sectors"),
    Rule(
        ("lvm", "max_sectors_kb"),
        128,
        _FIRST,
        (2, 6, 31),
        "SAFE_MAX_SECTORS of stacked devices: 255 sectors. Since 4.10 a read goes up to this size at once",
        _has_lvm,
    ),
    Rule(
        ("disk", "sysfs", "queue/write_cache"),
        "write through",
        _FIRST,
        (2, 6, 33),
        "no barriers: ext3 sent none by default, md passed none on before 2.6.33; the disk keeps its cache",
        also=frozenset({"write_cache"}),
    ),
    *(
        Rule(("vm", name), value, since, before, source, also=frozenset({f"vm.{name.removesuffix('ratio')}bytes"}))
        for since, before, most, background, source in (
            ((2, 6), (2, 6, 22), 40, 10, "defaults of mm/page-writeback.c until 2.6.21"),
            ((2, 6, 22), (2, 6, 30), 10, 5, "defaults of mm/page-writeback.c from 2.6.22 to 2.6.29"),
        )
        for name, value in (("dirty_ratio", most), ("dirty_background_ratio", background))
    ),
)


def version_of(period: str) -> Version:
    found = _VERSION.fullmatch(period)
    if not found:
        raise ValueError("write the name of a kernel, like linux-2.6.12")
    version = tuple(int(part) for part in found.groups() if part is not None)
    if not _FIRST <= version <= (*_LAST, 999):
        raise ValueError("known are the settings of linux-2.2 to linux-6.12")
    return version


def rules_of(version: Version) -> Iterator[Rule]:
    return (rule for rule in RULES if rule.since <= version < rule.before)


def of_period(period: str | None) -> dict[str, int | str]:
    """Return the tunables that a period may set, by name."""
    return {rule.name: rule.value for rule in rules_of(version_of(period))} if period else {}


def expanded(data: Any) -> Any:
    """Return a matrix, not yet validated, with the settings of its period."""
    period = data.get("period") if isinstance(data, dict) else None
    tune = data.get("tune") or {} if isinstance(data, dict) else None
    if not (isinstance(period, str) and isinstance(tune, dict)):
        return data
    try:
        version = version_of(period)
    except ValueError:  # the field reports it
        return data
    disks = {"disks": _with_bus(data["disks"])} if "disks" in data else {}
    found = {**data, **disks, "tune": dict(tune)}
    own = {_target(name) for name in _own(data)}
    for rule in rules_of(version):
        if not own & {_target(rule.name), *rule.also} and rule.applies(found):
            found["tune"] = _with(found["tune"], rule.path, rule.value)
    return found


def _with_bus(disks: object) -> object:
    if _is_grouped(disks):
        return {name: {"bus": BUS, **one} for name, one in disks.items()}
    several = [{"bus": BUS, **one} if isinstance(one, dict) else one for one in _each(disks)]
    return several if isinstance(disks, list) else several[0]


def _with(tune: Mapping[str, Any], path: tuple[str, ...], value: object) -> Raw:
    first, *rest = path
    if rest:
        inner = tune.get(first) or {}
        value = _with(inner, tuple(rest), value) if isinstance(inner, dict) else inner
    return {**tune, first: value}


def _own(data: Raw) -> Raw:
    """Return the tunables as written, by name."""

    def flat(value: object, name: str) -> Iterator[tuple[str, object]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{name}.{key}" if name else str(key))
        else:
            yield name, value

    return dict(flat(data.get("tune") or {}, ""))


def _target(name: str) -> str:
    # Without a kind of layer, these tunables are those of disks.
    return name.removeprefix("disk.")
