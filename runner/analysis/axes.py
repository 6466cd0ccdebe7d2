"""Axes of cells under the names that layers share, and what it means that a cell lacks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from runner.analysis.matching import Key

    Axes = Mapping[str, str]

#: One setting by the name that each kind of layer has for it.
ALIASES = {"stripe_unit": ("md.chunk", "lvm.stripe_size"), "width": ("md.devices", "lvm.stripes")}
#: How a tunable is declared that is left as the kernel has it.
DEFAULT = "default"


def aliases_of(axes: Axes) -> dict[str, str]:
    """Return what a cell has by shared names. Where two of its layers have one name, it has none by it."""
    found = {}
    for alias, names in ALIASES.items():
        there = [name for name in names if name in axes]
        if len(there) == 1 and alias not in axes:
            found[alias] = axes[there[0]]
    return found


def with_aliases(axes: Axes) -> Axes:
    """Return the axes of a cell, each also under its shared name."""
    return {**axes, **aliases_of(axes)}


def common_aliases(cells: Iterable[Axes]) -> list[str]:
    """Return the shared names that unite axes of these cells. A cell with two axes of one name prevents that."""
    kinds = {tuple(name for names in ALIASES.values() for name in names if name in axes) for axes in cells}
    found = []
    for alias, names in ALIASES.items():
        there = [{*names} & {*kind} for kind in kinds]
        if all(len(one) < 2 for one in there) and len(set().union(*there)) > 1:
            found.append(alias)
    return found


def under_aliases(cells: Sequence[Axes], aliases: Collection[str]) -> list[Axes]:
    """Replace axes by their shared names."""
    renamed = {name: alias for alias in aliases for name in ALIASES.get(alias, ())}
    return [{renamed.get(name, name): value for name, value in axes.items()} for axes in cells] if renamed else [*cells]


def unite(cells: Sequence[Axes], named: Collection[str]) -> list[Axes]:
    """Replace axes by their shared names where these unite cells, or one is `named`; other named axes stay."""
    asked = [alias for alias in ALIASES if alias in named]
    free = [alias for alias in common_aliases(cells) if not {*ALIASES[alias]} & {*named}]
    return under_aliases(cells, {*asked, *free})


def of_work(axis: str) -> bool:
    """Whether an axis is of the work that is done on a stack."""
    return axis.partition(".")[0] == "workload"


def is_tunable(axis: str) -> bool:
    """Whether an axis is a kernel setting."""
    return axis.startswith("tune.")


def may_lack(axis: str) -> bool:
    """Whether some stacks cannot have an axis: those of layers and tunables."""
    return axis in ALIASES or ("." in axis and not of_work(axis))


def names_of(cells: Iterable[Axes]) -> list[str]:
    """Return every axis that any of these has."""
    return list(dict.fromkeys(name for axes in cells for name in axes))


def varying(cells: Sequence[Axes], but: Collection[str] = ()) -> list[str]:
    """Return the axes by which these cells differ."""
    return [name for name in names_of(cells) if name not in but and len({axes.get(name) for axes in cells}) > 1]


def tunables_with_default(cells: Iterable[Axes]) -> set[str]:
    """Return the tunables that a cell has as the kernel does."""
    return {name for axes in cells for name, value in axes.items() if value == DEFAULT and is_tunable(name)}


def keys_of(cells: Sequence[Axes], names: Sequence[str], runs: Sequence[str]) -> list[Key]:
    """Return where cells stand on some axes; None: the stack lacks the axis, which then tells it from no other.

    A tunable that a stack lacks counts as `default` where any cell has that. Runs of a matrix may have had other axes:
    an axis that a run does not know and other cells of the layout have is not lacking but unknown.
    """
    defaults = tunables_with_default(cells)
    in_run = {(run, name) for run, axes in zip(runs, cells, strict=True) for name in axes}
    in_layout = {(axes.get("layout"), name) for axes in cells for name in axes}

    def place(run: str, axes: Axes, name: str) -> str | None:
        if name in axes:
            return axes[name]
        if not may_lack(name) or ((run, name) not in in_run and (axes.get("layout"), name) in in_layout):
            return ""
        return DEFAULT if name in defaults else None

    return [tuple(place(run, axes, name) for name in names) for run, axes in zip(runs, cells, strict=True)]


def in_reading_order(names: Sequence[str]) -> list[str]:
    """Order axes as people read them: the layout, the work, the rest of the stack, tunables."""
    return sorted(names, key=lambda name: (name != "layout", not of_work(name), is_tunable(name)))


def is_part(axis: str) -> bool:
    """Whether an axis is of a layer or of the work, as opposed to a name, a tunable or the kernel."""
    return axis in ALIASES or ("." in axis and not is_tunable(axis))
