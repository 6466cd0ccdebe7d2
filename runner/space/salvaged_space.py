"""The space of a matrix of which something is malformed: what is impossible about the rest, and not because of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.messages import keys_at
from runner.language.suggestions import near
from runner.space.axis_catalogue import Known
from runner.space.size_checks import flaws_of
from runner.space.space import Space, expand

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.language.matrix import Matrix
    from runner.language.yaml_source import Flaw, Path, Source
    from runner.space.salvage import Remains

#: Sections that say which cells there are.
_CELLS = frozenset(("machine", "disks", "bus_limit", "faults", "layouts", "tune", "workloads"))
#: Where nobody knows how many disks were meant, how large, or how much memory, all of these are tried: of any one can
#: build nearly anything, and they are so different that nothing is said of all that is only true of one.
_GUESSES = ((12, 2**40, 2**30), (15, 3 * 2**40, 2**36), (24, 5 * 2**40, 2**37))
#: What others beside it mean, may be or need depends on what these say; None: all of them.
_DECIDES: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(("type", "how", "rw")),
    "scheduler": frozenset({"iosched"}),
    "direct": frozenset({"ioengine", "bs"}),
    "ioengine": frozenset({"direct"}),
    "ramp": frozenset({"steady"}),
    "runtime": frozenset({"size", "steady", "rate", "rate_iops", "thinktime"}),
    "steady": frozenset({"runtime"}),
    "size": frozenset({"offset", "skip", "files", "profile", "each"}),
    "files": frozenset({"size", "file_size"}),
    "file_size": frozenset({"bs", "files", "size"}),
    "bs": frozenset({"size", "offset", "skip", "direct", "profile", "each", "file_size"}),
    "profile": frozenset({"each"}),
    "each": frozenset({"profile"}),
    "numjobs": frozenset({"shared"}),
    "stripes": frozenset({"stripe_size"}),
    "devices": frozenset({"order", "stripes"}),
}
#: How many devices stand on a layer, and of what kind, depends on these: so does what may stand above.
_DECIDES_ABOVE = frozenset({"type", "count", "devices", "volumes", "groups", "number", "level"})


def what_is_left(source: Source, matrix: Matrix, remains: Remains[Matrix]) -> tuple[Space, list[Flaw], Known]:
    """The space of what is left of a matrix, what is impossible in it for certain, and what may be spoken of."""
    gone = {*remains.gone, *(("layouts", name) for name in source.lacking)}
    gone |= {("machine", key) for path in remains.gone if path[0] == "machine" and path[1:] for key in _meant(path, 1)}
    each = [_impossible(guess, gone) for guess in _guesses(matrix, gone)]
    space, _ = each[0]
    shared = set.intersection(*(set(found) for _, found in each))
    found = [*_certain(shared, [flaw.path for flaw in remains.flaws], gone)]
    touched = {str(path[0]) for path in (*gone, *(flaw.path for flaw in found))}
    if _CELLS.isdisjoint(meant for section in touched for meant in (section, *near(section, _CELLS))):
        return space, found, Known.of(space)
    return space, found, Known.of_what_is_left(space, source, remains)


def _impossible(matrix: Matrix, gone: Collection[Path]) -> tuple[Space, list[Flaw]]:
    """The space of a matrix, and what is impossible about it."""
    space, findings = expand(matrix)
    found = flaws_of(space, findings)
    # What uses it may be among what is gone or impossible.
    lost = {path[0] for path in gone if path[0] != "disks" or path[-1] not in {"count", "size"}}
    sure = {"layouts", "disks"}.isdisjoint((*lost, *(flaw.path[0] for flaw in found)))
    return space, [*found, *(findings.unused if sure else ())]


def _guesses(matrix: Matrix, gone: Collection[Path]) -> Iterator[Matrix]:
    """The matrix, or several with one guess each at what nothing can stand in for."""
    unknown = {path for path in gone if path[0] == "disks" and path[-1] in {"count", "size"}}
    lacking = ("layouts",) in gone or all(("layouts", name) in gone for name in matrix.layouts)
    if lacking:  # how large what stands in for them is, says nothing
        unknown |= {("disks", at, "size") for at in range(len(matrix.disks))}
    lacks_memory = ("machine", "memory") in gone
    if not (unknown or lacks_memory):
        yield matrix
        return
    for count, size, memory in _GUESSES:
        machine = matrix.machine.model_copy(update={"memory": memory} if lacks_memory else {})
        disks = list(matrix.disks)
        for _, *at, key in unknown:
            place = at[0] if at and isinstance(at[0], int) else 0
            disks[place] = disks[place].model_copy(update={"count": count} if key == "count" else {"size": size})
        yield matrix.model_copy(update={"machine": machine, "disks": tuple(disks)})


def _certain(found: Iterable[Flaw], told: Collection[Path], gone: Collection[Path]) -> Iterator[Flaw]:
    """Without what stands where something malformed did, and what may only be so because of it."""
    for flaw in found:
        malformed = any(path and flaw.path[: len(path)] == path for path in told)
        over = flaw.path[0] == "faults" and flaw.path[-1] == "at" and any(path[0] == "workloads" for path in gone)
        if not (malformed or over or any(_decides(path, flaw.path) for path in gone)):
            yield flaw


def _decides(gone: Path, found: Path) -> bool:
    """Whether something may only be wrong because of what is gone beside it, or below."""
    around = _around(gone)
    if len(gone) == len(around):
        return False
    keys = _meant(gone, len(around))
    if around != _around(found):
        return not _DECIDES_ABOVE.isdisjoint(keys) and _stands_on(found, around)
    beside = {str(step) for step in found[len(around) :]}
    decided = [_DECIDES.get(key, frozenset()) for key in keys]
    return any(one is None or not one.isdisjoint(beside) for one in decided)


def _meant(path: Path, at: int) -> set[str]:
    """The key there, or those that it may be a misspelling of."""
    key = str(path[at])
    known = keys_at(path[:at]) if path[0] in {"layouts", "workloads", "machine"} else [key]
    return {key} if key in known else set(near(key, known))


def _stands_on(found: Path, layer: Path) -> bool:
    """Whether what was found is about a layer above this one."""
    match layer, found:
        case ["layouts", below, int(at), *_], ["layouts", above, int(place), *_]:
            return below == above and place > at
    return False


def about(gone: Path, found: Path) -> bool:
    """Whether something that was found is about a workload, a layer or a value of which something is gone."""
    around = _around(gone)
    return found == gone or (len(around) > 1 and _around(found) == around)


def _around(path: Path) -> Path:
    """The layer, the workload or the section that something belongs to."""
    return path[: {"layouts": 4, "workloads": 2}.get(str(path[0]), 1)]
