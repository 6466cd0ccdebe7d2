"""Each key of the schemas, with each boundary of its kind: small documents with one or two odd values."""

from __future__ import annotations

import copy
import json
import random
from collections import defaultdict
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.fuzz_parsers import parsers
from matrix_runner.base.errors import BadInput
from tests.support.top import TOP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Key = str | int
Document = dict[str, Any]

BASE: Document = {
    "name": "m",
    "disks": {"count": 4, "size": "1GiB"},
    "layouts": {"raid": [{"md": {"level": 5}}, {"fs": {"type": "ext4"}}], "bare": ["disk"]},
    "workloads": {"w": {"rw": "randread", "bs": "4KiB", "runtime": "1s"}},
}
_HDD: Document = {"kind": "hdd", "rpm": 7200, "seek": {"track": "1ms", "full": "15ms"}, "outer": "150MB/s"}
_SSD: Document = {"kind": "ssd", "read_latency": "80us", "write_latency": "30us", "channels": 8, "bandwidth": "500MB/s"}


class Place(NamedTuple):
    """Where keys of a model stand in a valid document."""

    document: Any
    path: tuple[Key, ...]


def _with(changes: Document, *path: Key) -> Place:
    return Place({**copy.deepcopy(BASE), **changes}, path)


def _layer(name: str, keys: Document, *below: Any) -> Place:
    return _with({"layouts": {"a": [*below, {name: keys}]}}, "layouts", "a", len(below), name)


def _model(keys: Document, *path: Key) -> Place:
    return _with({"disks": {"count": 2, "size": "1GiB", "model": keys}}, "disks", "model", *path)


def _fault(**keys: Any) -> Place:
    disks = {"count": 4, "size": "1GiB", "model": _HDD}
    return _with({"disks": disks, "faults": {"f": [{"disk": 1, **keys}]}}, "faults", "f", 0)


def _claim(kind: str, **keys: Any) -> Place:
    guideline = {"id": "g", "claim": "c", "source": "s", kind: {"metric": "read.iops", **keys}}
    return _with({"guidelines": [guideline]}, "guidelines", 0, kind)


def _work(keys: Document, *path: Key) -> Place:
    return _with({"workloads": {"w": keys}}, "workloads", "w", *path)


_RAID, _BARE = {"layout": "raid"}, {"layout": "bare"}
_READ: Document = {"rw": "read", "runtime": "2s"}
_TUNE: Document = {"tune": {"readahead": "128KiB"}}

_PARTED: Document = {
    "disks": {"g": {"count": 2, "size": "1GiB"}},
    "layouts": {"a": {"parts": {"p": {"on": "g", "layers": [{"md": {"level": 0}}]}}, "on": "p", "layers": ["crypt"]}},
}
_CACHED: Document = {
    "disks": {"g": {"count": 2, "size": "1GiB"}, "h": {"count": 1, "size": "1GiB"}},
    "layouts": {"a": {"on": "g", "layers": [{"md": {"level": 0}}, {"writecache": {"cache": "h"}}]}},
}
_BCACHED: Document = {
    **_CACHED,
    "layouts": {"a": {"on": "g", "layers": [{"md": {"level": 0}}, {"bcache": {"cache": "h"}}]}},
}
#: By the name of the definition in the schema.
PLACES: dict[str, Place] = {
    "": _with({}),
    "Ageing": _model({**_SSD, "ageing": {"spare": "10%"}}, "ageing"),
    "Best": _claim("best", along="layout", **{"is": "raid"}),
    "BlockTunablesAxes": Place({**BASE, "layouts": {"a": [{"lvm": {"stripes": 2}}]}, "tune": {"lvm": {"readahead": "128KiB"}}}, ("tune", "lvm")),
    "Bound": _claim("bound", at_least=1),
    "Burst": _model({"kind": "volume", "iops": 80, "burst": {"iops": 300, "credits": "10s"}}, "burst"),
    "BusLimit": _with({"disks": {"count": 2, "size": "1GiB", "model": _HDD}, "bus_limit": {"b": {"disks": [0, 1], "bandwidth": "200MB/s"}}}, "bus_limit", "b"),
    "Cliff": _model({**_SSD, "cliff": {"after": "100MiB", "bandwidth": "50MB/s"}}, "cliff"),
    "Corrupt": _fault(kind="corrupt", start="10%", length="1MiB"),
    "Column": _with(_PARTED, "layouts", "a", "parts", "p"),
    "CryptAxes": _layer("crypt", {"key_size": 256}, "disk"),
    "Dies": _fault(kind="dies", at="100ms"),
    "DiskNeeds": _with({"needs": {"disks": {"count": 2}}}, "needs", "disks"),
    "DiskTunablesAxes": _with({"tune": {"disk": {"readahead": "128KiB"}}}, "tune", "disk"),
    "Disks": _with({}, "disks"),
    "Find": _work({"rw": "randread", "iodepth": [1, 2, 4], "runtime": "1s", "find": {"max": "iops", "while": "read.p99 < 5ms"}}, "find"),
    "FsAxes": _layer("fs", {"type": "xfs"}, {"md": {"level": 5}}),
    "Guideline": _with({"guidelines": [{"id": "g", "claim": "c", "source": "s", "bound": {"metric": "read.iops", "at_least": 1}}]}, "guidelines", 0),
    "Hdd": _model(_HDD),
    "Ideal": _model({"kind": "ideal"}),
    "IntegrityAxes": _layer("integrity", {"interleave": "32KiB"}, "disk"),
    "JobOfSeveral": _work({"runtime": "1s", "jobs": {"one": {"rw": "read", "bs": "4KiB"}, "two": {"rw": "write"}}}, "jobs", "one"),
    "LvmAxes": _layer("lvm", {"stripes": 2}),
    "MachineWish": _with({"machine": {"cpus": 2}}, "machine"),
    "MdAxes": _layer("md", {"level": 5}),
    "MdTunablesAxes": _with({"tune": {"md": {"stripe_cache_size": 512}}}, "tune", "md"),
    "Medium": _fault(kind="medium", start="10%", length="1MiB"),
    "Monotone": _claim("monotone", along="md.level", direction="rises"),
    "Needs": _with({"needs": {"disks": {"count": 2}}}, "needs"),
    "OneDiskAxes": _layer("disk", {"number": 1}),
    "PartitionAxes": _layer("partition", {"count": 2}, "disk"),
    "PartedLayout": _with(_PARTED, "layouts", "a"),
    "PickAxes": _layer("pick", {"number": 1}, {"lvm": {"volumes": 2}}),
    "PreconditionAxes": _layer("precondition", {"how": "fill"}, "disk"),
    "Profile": _claim("profile", along="md.level", follows=[1, 0.9], within="10%"),
    "RatioOf": _claim("ratio", of=_RAID, to=_BARE, at_least=1),
    "ReadaheadOnlyAxes": _with({"tune": {"fs": {"readahead": "128KiB"}}}, "tune", "fs"),
    "Repeat": _with({"repeat": {"min": 3, "max": 5, "until": "5%"}}, "repeat"),
    "Scaling": _claim("scaling", along="md.level", at_least=1),
    "Seek": _model(_HDD, "seek"),
    "Shingled": _model({**_HDD, "write_cache": False, "shingled": {"band": "64MiB", "landing": "256MiB"}}, "shingled"),
    "Slow": _fault(kind="slow", at="100ms", times=10),
    "SomeDisksAxes": _layer("disks", {"count": 2}),
    "Ssd": _model(_SSD),
    "Stalls": _fault(kind="stalls", at="100ms", lasts="10ms"),
    "SteadyAxes": _work({"rw": "read", "runtime": "60s", "steady": {"within": "10%"}}, "steady"),
    "SumOf": _claim("sum", whole=_RAID, parts=[_BARE], within="10%"),
    "TuneAxes": _with(_TUNE, "tune"),
    "VmAxes": _with({"tune": {"vm": {"dirty_ratio": 20}}}, "tune", "vm"),
    "Volume": _model({"kind": "volume", "iops": 80}),
    "BcacheAxes": _with(_BCACHED, "layouts", "a", "layers", 1, "bcache"),
    "MemoryAxes": _layer("memory", {"count": 2, "size": "64MiB"}),
    "NvmeTcpAxes": _layer("nvme-tcp", {"queues": 1}),
    "WritecacheAxes": _with(_CACHED, "layouts", "a", "layers", 1, "writecache"),
    "Zone": _model({"kind": "hdd", "rpm": 7200, "zones": [{"to": "50%", "rate": "100MB/s"}, {"to": "100%", "rate": "60MB/s"}]}, "zones", 0),
    "WorkloadAxes": _work(_READ),
    "AnyWorkload": _work({"rw": "randwrite", "bs": "4KiB", "runtime": "1s"}),
    "ZfsAxes": _layer("zfs", {"vdev": "mirror"}),
    "WriteCache": _model({**_HDD, "write_cache": {"ranges": 64}}, "write_cache"),
}  # fmt: skip

_LAB: Document = {
    "cluster": {"address": "tls://lab1:8786", "certificates": "certs"},
    "hosts": {
        "lab1": {
            "reach": "ssh:root@lab1",
            "destroy": ["ata-1"],
            "disks": [{"id": "ata-1", "serial": "X1", "size": "4TB", "kind": "hdd", "tags": ["fast"]}],
        }
    },
}
_FIGURES: Document = {
    "source": "a",
    "tables": [
        {
            "id": "t",
            "title": "b",
            "at": "c",
            "metric": "total.iops",
            "unit": "IOPS",
            "where": {"bs": "16KiB"},
            "rows": [{"where": {"layout": "one"}, "value": 80}, {"where": {"layout": "three"}, "value": 241}],
            "whys": [{"where": {"layout": "one"}, "why": "x"}],
        }
    ],
}


def _of_others() -> Iterator[tuple[str, Place]]:
    """Yield the places in documents that are no matrix, by the schema and the name of the definition."""
    hosts = {"": (), "LabCluster": ("cluster",), "LabHost": ("hosts", "lab1"), "LabDisk": ("hosts", "lab1", "disks", 0)}
    yield from ((f"hosts {name}", Place(_LAB, path)) for name, path in hosts.items())
    accepted = {
        "baselines Baseline": {"matrix": "a", "host": "h", "run": "r", "reason": "x"},
        "known-changes KnownChange": {"cells": {"bs": "16KiB"}, "change": "-8%", "since": "2026-03-31", "reason": "x"},
    }
    yield from ((name, Place([entry], (0,))) for name, entry in accepted.items())
    tables = {"": (), "Table": ("tables", 0), "Row": ("tables", 0, "rows", 0), "Reason": ("tables", 0, "whys", 0)}
    yield from ((f"published {name}", Place(_FIGURES, path)) for name, path in tables.items())
    for name, place in PLACES.items():
        if place.path[:1] == ("guidelines",):
            yield f"guidelines {name}", Place(place.document["guidelines"], place.path[1:])
        elif place.path[:2] == ("disks", "model"):
            yield f"model {name}", Place(place.document["disks"]["model"], place.path[2:])


#: Of each kind of value. A model accepts few of them for each key; the others have to be refused.
_ODD: tuple[Any, ...] = (
    None, "", [], {}, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, float("nan"), float("inf"), True, "x", [0], [[]], {"x": 1},
    "0B", "1B", "511B", "512B", "1EiB", "9" * 30 + "TiB", "0%", "100%", "101%", "0.000001%", "0s", "1us", "999999999s",
    "0B/s", "1B/s", "\0", "a" * 5000,
)  # fmt: skip

#: Of these, each key gets each on every change, beside its own limits.
EACH: tuple[Any, ...] = (None, "", [], {}, 0, -1, 2**63, True, "x", "0B", "0%", "0s")

#: Of these, all pairs are tried at night.
_FEW: tuple[Any, ...] = (None, [], 0, -1, 2**63, "x", "0B", "1EiB", "0%", "100%", "0s")


@cache
def definitions() -> dict[str, Document]:
    schema = json.loads((TOP / "matrix/schema.json").read_text())
    return {"": schema, **schema["$defs"]}


@cache
def definitions_of_others() -> dict[str, Document]:
    found: dict[str, Document] = {}
    for kind in ("baselines", "guidelines", "hosts", "known-changes", "model", "published"):
        schema = json.loads((TOP / f"matrix/{kind}.schema.json").read_text())
        whole = {"": schema} if "properties" in schema else {}
        found |= {f"{kind} {name}": one for name, one in {**whole, **schema["$defs"]}.items()}
    return found


def _limits(schema: Any) -> Iterator[Any]:
    """Yield each limit in a schema, and the value beyond it."""
    if isinstance(schema, list):
        for one in schema:
            yield from _limits(one)
    elif isinstance(schema, dict):
        for name, by in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
            if name in schema:
                yield from (schema[name], schema[name] + by)
        yield from (one for one in schema.get("enum", ()) if one is not None)
        for name in ("anyOf", "items"):
            yield from _limits(schema.get(name))


def _keys(name: str) -> Document:
    schema = (definitions() | definitions_of_others())[name]
    found: Document = schema.get("properties") or next(
        one["properties"] for one in schema["anyOf"] if "properties" in one
    )
    return found


def _odd_values(name: str, odd: Iterable[Any]) -> list[tuple[str, Any]]:
    kinds = tuple(odd)
    return [(key, value) for key, schema in _keys(name).items() for value in (*kinds, *_limits(schema))]


def alone(name: str, odd: tuple[Any, ...] = _ODD) -> Iterator[Any]:
    for change in _odd_values(name, odd):
        yield changed(name, change)


def pairs(name: str) -> Iterator[Any]:
    for one, other in combinations(_odd_values(name, _FEW), 2):
        if one[0] != other[0]:
            yield changed(name, one, other)


def some_pairs(name: str, times: int, seed: int) -> Iterator[Any]:
    """Yield each pair of keys, `times` times, with a random odd value for both."""
    values, rng = defaultdict[str, list[Any]](list), random.Random(f"{name} {seed}")  # noqa: S311
    for key, value in _odd_values(name, _ODD):
        values[key].append(value)
    for two in [*combinations(values, 2)] * times:
        yield changed(name, *((key, rng.choice(values[key])) for key in two))


def changed(name: str, *changes: tuple[str, Any]) -> Any:
    place = PLACES.get(name) or OTHERS[name]
    document = copy.deepcopy(place.document)
    at: Any = document
    for step in place.path:
        at = at[step]
    at.update(changes)
    return document


def parse(name: str, document: Any) -> None:
    """Read a document as the program does: a matrix, or the file of another schema."""
    kind = name.partition(" ")[0] if name in OTHERS else "declared"
    parsers()[kind].parse(document if kind == "declared" else json.dumps(document))


def crashes(name: str, documents: Iterable[Any]) -> dict[str, str]:
    """Return the documents that are neither understood nor refused, each with its error."""
    found = dict[str, str]()
    for document in documents:
        try:
            parse(name, document)
        except BadInput:
            pass
        except Exception as error:  # noqa: BLE001
            found[repr(document)[:2000]] = repr(error)
    return found


OTHERS = dict(_of_others())
