"""Why two sides have nothing in common: in what their cells differ, told so that the next command can be another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeAlias

    from runner.analysis.operands import Key
    from runner.analysis.samples import Samples

    _Found: TypeAlias = Mapping[Key, Sequence[Samples]]

#: Of what two runs were done with, what may make cells of one name others.
_OF_CELLS = ("seed", "disk", "digest.matrix")
_FEW = 4


def strangers(cells: Mapping[str, AbstractSet[str]], declared: AbstractSet[str]) -> list[str]:
    """Which of several runs, with the ids of their cells, have none that is declared and so nothing to do with it.

    None of them, if all have a cell in common: they are of one matrix, as it was before.
    """
    if len(cells) < 2 or frozenset.intersection(*map(frozenset, cells.values())):
        return []
    return [name for name, ids in cells.items() if not ids & declared]


def why_apart(left: _Found, right: _Found, differing: Iterable[tuple[str, str, str]]) -> tuple[str, str]:
    """The evidence, and what to do about it; both empty if it is not known. `differing`: by what their runs differ."""
    return _alike(left, right, differing) or _by_axes(left, right)


def _alike(left: _Found, right: _Found, differing: Iterable[tuple[str, str, str]]) -> tuple[str, str] | None:
    """Cells of one name that are not the same: their ids cover everything that they resolve to."""
    ids = [{one.cell.id for several in side.values() for one in several} for side in (left, right)]
    there = [{one.cell.name: one.cell for several in side.values() for one in several} for side in (left, right)]
    alike = there[0].keys() & there[1].keys()
    if not alike or ids[0] & ids[1]:
        return None
    axes = {
        axis: f"{there[0][name].axes.get(axis, 'none')} → {there[1][name].axes.get(axis, 'none')}"
        for name in sorted(alike)
        for axis in {**there[0][name].axes, **there[1][name].axes}
        if there[0][name].axes.get(axis) != there[1][name].axes.get(axis)
    }
    facts = {name: f"{one} → {other}" for name, one, other in differing if name.startswith(_OF_CELLS)}
    if axes or len(facts) > 1:
        facts.pop("digest.matrix", None)  # it says no more than that something differs
    told = [f"{name}: {change}" for name, change in {**axes, **facts}.items()]
    more = f" and {len(told) - _FEW} more" if len(told) > _FEW else ""
    what = f"{', '.join(told[:_FEW])}{more}" if told else "in nothing that the store knows of"
    seed = "give both runs one `seed:`: modelled disks take the position of their platters from it"
    count = f"{len(alike):,} cell{'s have' if len(alike) != 1 else ' has'}"
    return (
        f"{count} the same name on both sides but another id, as what it resolves to differs: {what}",
        seed if "seed" in facts and not axes else "compare runs of one matrix on the same disks",
    )


def _by_axes(left: _Found, right: _Found) -> tuple[str, str]:
    """The axes on which no cell of the one side stands where a cell of the other does."""
    there = [_values(side) for side in (left, right)]
    apart = [
        f"{axis} ({_few(one)} → {_few(there[1].get(axis, {'none'}))})"
        for axis, one in there[0].items()
        if not one & there[1].get(axis, {"none"})
    ]
    apart += [f"{axis} (none → {_few(there[1][axis])})" for axis in there[1] if axis not in there[0]]
    if not apart:
        return "", ""
    return f"the sides differ in {', '.join(apart)}", "compare by one of these axes, or choose cells with --only"


def _values(side: _Found) -> dict[str, set[str]]:
    """Of every axis that counts, the values; an id counts as a whole, and stands for all axes of its cell."""
    keys = [
        dict(part.partition("=")[::2] for part in key[1:]) if len(key) > 1 else dict(several[0].cell.axes)
        for key, several in side.items()
    ]
    axes = dict.fromkeys(axis for key in keys for axis in key)
    return {axis: {key.get(axis, "none") for key in keys} for axis in axes}


def _few(values: Iterable[str]) -> str:
    told = sorted(values)
    return ", ".join(told[:_FEW]) + (f" and {len(told) - _FEW} more" if len(told) > _FEW else "")
