"""What was measured, in the columns and units of dd, IOzone and bonnie++, for whoever has figures of theirs.

Whatever does what these programs do can be shown so, whether a preset says it or a workload's own `rw`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import BadInput
from runner.history.ordering import of_value
from runner.history.results import axes_of, warnings
from runner.model.units import parse_size
from runner.reports.grid import Grid
from runner.reports.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.history.samples import Samples
    from runner.reports.grid import Value

_KIB = 1024
#: The figure that a phase is told by, without its end.
_SIDES = {
    **dict.fromkeys(("write", "rewrite", "randwrite"), "write"),
    **dict.fromkeys(("read", "reread", "randread", "seeks"), "read"),
}
#: What tells lines apart is all but these, which are columns.
_COLUMNS = ("workload.preset", "workload.phase", "workload.rw", "workload.bs", "workload.size")
_CPU = ("cpu_usr", "cpu_sys")


@dataclass(frozen=True, slots=True)
class Familiar:
    """The output of a program."""

    #: The presets that are this program.
    presets: tuple[str, ...]
    #: What it would call work that no preset says it of, by its `rw`.
    phases: Mapping[str, str]
    metrics: tuple[str, ...]
    #: `plain`: as numbers.
    grid: Callable[[Sequence[Samples], bool], Grid]


def shown_as(name: str, found: Sequence[Samples], *, plain: bool) -> Grid:
    """Cells in the columns of a program: those of its presets, or where there are none, those that do what it does."""
    program = FAMILIAR[name]
    ours = [one for one in found if one.cell.axes.get("workload.preset") in program.presets]
    meant = ours or [one for one in found if one.cell.axes.get("workload.rw") in program.phases]
    if not meant:
        raise BadInput(
            f"no cell that was chosen does what {name} does",
            resolution=f"`preset: {program.presets[0]}` makes a workload that does; "
            f"so does `rw: {' or '.join(program.phases)}`",
        )
    left = len(found) - len(meant)
    notes = (
        *warnings(one.run for one in meant),
        "" if ours else f"no workload here is a preset of {name}: these do what it does, not as it does it",
        f"{left:,} of {len(found):,} cells are none of {name}'s" if left else "",
    )
    return program.grid(meant, plain).with_notes(*notes)


def _phase(one: Samples, phases: Mapping[str, str]) -> str:
    axes = one.cell.axes
    return axes.get("workload.phase") or phases[axes["workload.rw"]]


def _mean(one: Samples | None, metric: str) -> float | None:
    found = one.estimate(metric) if one else None
    return found.mean if found else None


def _doubt(several: Iterable[tuple[Samples, str]], *, plain: bool) -> Value:
    """The widest interval of what stands in a line, as a share of the mean."""
    found = [one.estimate(metric) for one, metric in several]
    widths = [one.relative for one in found if one and one.relative is not None]
    if plain:
        return max(widths, default=None)
    return percent(max(widths)) if widths else ""


def _dd(found: Sequence[Samples], plain: bool) -> Grid:
    several = len({one.run.id for one in found}) > 1
    rows: list[tuple[Value, ...]] = []
    for one in found:
        side = "write" if one.estimate("write_bw") else "read"
        size, rate, ios = (_mean(one, f"{side}_{name}") for name in ("bytes", "bw", "ios"))
        who = (one.run.name, one.cell.name) if several or plain else (one.cell.name,)
        trials = len(one.counted(f"{side}_bw"))
        if not (size and rate and ios):
            rows.append((*who, *(None,) * 3, *((0,) if plain else (None, "0"))))
        elif plain:
            rows.append((*who, size, size / rate, rate, trials))
        else:
            records, line = f"{ios:.0f}+0", copied(round(size), size / rate)
            rows.append((*who, records, records, line, _doubt([(one, f"{side}_bw")], plain=False), str(trials)))
    names = ("run", "cell") if several or plain else ("cell",)
    if plain:
        return Grid((*names, "bytes", "seconds", "bytes_per_second", "trials"), rows)
    heads = ("records in", "records out", "copied", "±", "trials")
    return Grid((*names, *heads), rows, right=frozenset(heads) - {"copied"})


def copied(size: int, seconds: float) -> str:
    """dd's last line."""
    sizes = [_with_unit(size, 1000), _with_unit(size, 1024)]
    told = f" ({', '.join(sizes)})" if size >= 1024 else f" ({sizes[0]})" if size >= 1000 else ""
    return f"{size} byte{'s' if size != 1 else ''}{told} copied, {seconds:.6g} s, {_with_unit(size / seconds, 1000)}/s"


def _with_unit(value: float, base: int) -> str:
    """Below ten with a digit behind the point, as dd does it."""
    prefixes = ("", "k", "M", "G", "T", "P") if base == 1000 else ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    power = 0
    while _rounded(value) >= base and power < len(prefixes) - 1:
        value, power = value / base, power + 1
    shown = f"{_rounded(value):.1f}" if power and _rounded(value) < 10 else f"{value:.0f}"
    return f"{shown} {prefixes[power]}B"


def _rounded(value: float) -> float:
    return round(value, 1) if value < 9.95 else round(value)


@dataclass(frozen=True, slots=True)
class _Line:
    """Cells that stand in one line: of one array, of blocks and files of one size."""

    key: tuple[str, ...]
    size: str
    bs: str
    cells: Mapping[str, Samples]


def _lines(found: Sequence[Samples], phases: Mapping[str, str]) -> tuple[list[str], list[_Line]]:
    """By what they differ in, and what then stands in each."""
    with_preset = all("workload.phase" in one.cell.axes for one in found)
    apart = [name for name in axes_of(found) if name not in (*_COLUMNS, *(() if with_preset else ("workload",)))]
    varying = [name for name in apart if len({one.cell.axes.get(name) for one in found}) > 1]
    several = len({one.run.id for one in found}) > 1
    lines: dict[tuple[str, ...], dict[str, Samples]] = {}
    for one in found:
        axes = one.cell.axes
        run = (one.run.name,) if several else ()
        key = (*run, *(axes.get(name, "") for name in (*varying, "workload.size", "workload.bs")))
        phase, nth = _phase(one, phases), 1
        # Cells that differ in something that no axis names stand below each other.
        while phase in lines.setdefault((*key, str(nth)), {}):
            nth += 1
        lines[*key, str(nth)][phase] = one
    ordered = sorted(lines.items(), key=lambda item: tuple(map(of_value, item[0])))
    names = [*(("run",) if several else ()), *varying]
    return names, [_Line(key[:-3], key[-3], key[-2], cells) for key, cells in ordered]


def _kilobytes(size: str) -> str:
    """As IOzone counts it; what is no size (a share, a multiple of memory) as it was written."""
    try:
        return f"{parse_size(size) / _KIB:.15g}"
    except ValueError:
        return size


#: By the phases, in IOzone's order.
_IOZONE = {
    "write": "write",
    "rewrite": "rewrite",
    "read": "read",
    "reread": "reread",
    "randread": "random read",
    "randwrite": "random write",
}


def _iozone_in(end: str, of: float) -> Callable[[Sequence[Samples], bool], Grid]:
    """In KB/s, or with -O in operations a second."""

    def grid(found: Sequence[Samples], plain: bool) -> Grid:
        names, lines = _lines(found, {phase: phase for phase in _IOZONE})
        rows = []
        for line in lines:
            means = [_mean(line.cells.get(phase), f"{_SIDES[phase]}_{end}") for phase in _IOZONE]
            figures = [None if mean is None else mean / of if plain else f"{mean / of:.0f}" for mean in means]
            doubt = _doubt([(one, f"{_SIDES[phase]}_{end}") for phase, one in line.cells.items()], plain=plain)
            rows.append((*line.key, _kilobytes(line.size), _kilobytes(line.bs), *figures, doubt))
        heads = ("KB", "reclen", *_IOZONE.values(), "rel" if plain else "±")
        return Grid((*names, *heads), rows, right=frozenset(heads))

    return grid


#: By the phases: what bonnie++ calls them here, and in its lines of CSV.
_BONNIE = {
    "write": ("output block K/sec", "put_block"),
    "rewrite": ("rewrite K/sec", "rewrite"),
    "read": ("input block K/sec", "get_block"),
    "seeks": ("random seeks /sec", "seeks"),
}
_DONE_BY_BONNIE = {"write": "write", "rw": "rewrite", "read": "read", "randrw": "seeks"}
_SEEKERS = 5


def _bonnie(found: Sequence[Samples], plain: bool) -> Grid:
    names, lines = _lines(found, _DONE_BY_BONNIE)
    rows: list[tuple[Value, ...]] = []
    for line in lines:
        figures: list[Value] = []
        for phase in _BONNIE:
            rate, cpu = _of_bonnie(line.cells.get(phase), phase)
            figures += (rate, cpu) if plain else ("" if one is None else f"{one:.0f}" for one in (rate, cpu))
        doubt = _doubt([(one, _metric(phase)) for phase, one in line.cells.items()], plain=plain)
        size = line.size if line.bs in {"", "8KiB"} else f"{line.size}:{line.bs}"
        rows.append((*line.key, size, *figures, doubt))
    told = [(name, f"{name}_cpu") if plain else (head, "%CP") for head, name in _BONNIE.values()]
    heads = ("Size", *(one for pair in told for one in pair), "rel" if plain else "±")
    return Grid((*names, *heads), rows, right=frozenset(heads))


def _metric(phase: str) -> str:
    return f"{_SIDES[phase]}_{'iops' if phase == 'seeks' else 'bw'}"


def _of_bonnie(one: Samples | None, phase: str) -> tuple[float | None, float | None]:
    """The rate of a phase and how much of one processor it took, all processes together."""
    rate = _mean(one, _metric(phase))
    busy = [_mean(one, metric) for metric in _CPU]
    if one is None or rate is None:
        return None, None
    seekers = _SEEKERS if phase == "seeks" and "workload.preset" in one.cell.axes else 1
    jobs = int(one.cell.axes.get("workload.numjobs", seekers))
    cpu = sum(part for part in busy if part is not None) * jobs if None not in busy else None
    return rate if phase == "seeks" else rate / _KIB, cpu


_RATES = tuple(f"{side}_{name}" for side in ("read", "write") for name in ("bw", "iops"))
_OF_IOZONE = ("iozone",), {phase: phase for phase in ("write", "read", "randread", "randwrite")}, _RATES
FAMILIAR: dict[str, Familiar] = {
    "dd": Familiar(
        ("dd-read", "dd-write"),
        {rw: rw for rw in ("read", "write")},
        (*_RATES, "read_bytes", "write_bytes", "read_ios", "write_ios"),
        _dd,
    ),
    "iozone": Familiar(*_OF_IOZONE, _iozone_in("bw", _KIB)),
    "iozone-ops": Familiar(*_OF_IOZONE, _iozone_in("iops", 1)),
    "bonnie": Familiar(("bonnie",), _DONE_BY_BONNIE, (*_RATES, *_CPU), _bonnie),
}
