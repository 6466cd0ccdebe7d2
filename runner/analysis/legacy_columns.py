"""Results in the columns and units of dd, IOzone and bonnie++, for comparison with old figures.

Any workload with the same I/O qualifies, by its preset or by its `rw`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.analysis.naming import value_key
from runner.analysis.tables import axes_of, warnings
from runner.base.errors import BadInput
from runner.base.quantities import parse_size
from runner.reports.table import Grid
from runner.reports.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Value

_KIB = 1024
#: The figure of a phase, without its suffix.
_SIDES = {
    **dict.fromkeys(("write", "rewrite", "randwrite"), "write"),
    **dict.fromkeys(("read", "reread", "randread", "seeks"), "read"),
}
#: Axes that do not distinguish lines, because they are columns.
_COLUMNS = ("workload.preset", "workload.phase", "workload.rw", "workload.bs", "workload.size")
_CPU = ("cpu_usr", "cpu_sys")


@dataclass(frozen=True, slots=True)
class LegacyFormat:
    #: The presets of this program.
    presets: tuple[str, ...]
    #: Its phase names for workloads without a preset, by `rw`.
    phases: Mapping[str, str]
    metrics: tuple[str, ...]
    #: The program's own output.
    shown: Callable[[Sequence[Samples]], Grid]
    #: Numbers for programs.
    plain: Callable[[Sequence[Samples]], Grid]


def display_as(name: str, found: Sequence[Samples]) -> Grid:
    meant, notes = _meant(name, found)
    return FAMILIAR[name].shown(meant).with_notes(*notes)


def data_as(name: str, found: Sequence[Samples]) -> Grid:
    meant, notes = _meant(name, found)
    return FAMILIAR[name].plain(meant).with_notes(*notes)


def _meant(name: str, found: Sequence[Samples]) -> tuple[list[Samples], tuple[str, ...]]:
    """Return the cells of a program's presets, or without any, those with the same I/O; and notes."""
    program = FAMILIAR[name]
    ours = [one for one in found if one.cell.axes.get("workload.preset") in program.presets]
    meant = ours or [one for one in found if one.cell.axes.get("workload.rw") in program.phases]
    if not meant:
        raise BadInput(
            f"no selected cell has the workload of {name}",
            resolution=f"`preset: {program.presets[0]}` makes a workload that does; "
            f"so does `rw: {' or '.join(program.phases)}`",
        )
    left = len(found) - len(meant)
    notes = (
        *warnings(one.run for one in meant),
        "" if ours else f"no workload is a preset of {name}: these are similar, but not the same",
        f"{left:,} of {len(found):,} cells are not workloads of {name}" if left else "",
    )
    return meant, notes


def _phase(one: Samples, phases: Mapping[str, str]) -> str:
    axes = one.cell.axes
    return axes.get("workload.phase") or phases[axes["workload.rw"]]


def _mean(one: Samples | None, metric: str) -> float | None:
    found = one.estimate(metric) if one else None
    return found.mean if found else None


def _doubt(several: Iterable[tuple[Samples, str]]) -> float | None:
    found = [one.estimate(metric) for one, metric in several]
    return max((one.relative for one in found if one and one.relative is not None), default=None)


def _in_percent(share: float | None) -> str:
    return "" if share is None else percent(share)


@dataclass(frozen=True, slots=True)
class _Copy:
    metric: str
    size: float
    rate: float
    records: float
    trials: int


def _copy(one: Samples) -> _Copy | None:
    side = "write" if one.estimate("write_bw") else "read"
    size, rate, ios = (_mean(one, f"{side}_{name}") for name in ("bytes", "bw", "ios"))
    metric = f"{side}_bw"
    return _Copy(metric, size, rate, ios, len(one.counted(metric))) if size and rate and ios else None


def _dd_shown(found: Sequence[Samples]) -> Grid:
    several = len({one.run.id for one in found}) > 1
    rows: list[tuple[Value, ...]] = []
    for one in found:
        who = (one.run.name, one.cell.name) if several else (one.cell.name,)
        if copy := _copy(one):
            records, line = f"{copy.records:.0f}+0", dd_summary(round(copy.size), copy.size / copy.rate)
            rows.append((*who, records, records, line, _in_percent(_doubt([(one, copy.metric)])), str(copy.trials)))
        else:
            rows.append((*who, *(None,) * 4, "0"))
    heads = ("records in", "records out", "copied", "±", "trials")
    names = ("run", "cell") if several else ("cell",)
    return Grid((*names, *heads), rows, right=frozenset(heads) - {"copied"})


def _dd_plain(found: Sequence[Samples]) -> Grid:
    rows: list[tuple[Value, ...]] = []
    for one in found:
        copy = _copy(one)
        told = (copy.size, copy.size / copy.rate, copy.rate, copy.trials) if copy else (None, None, None, 0)
        rows.append((one.run.name, one.cell.name, *told))
    return Grid(("run", "cell", "bytes", "seconds", "bytes_per_second", "trials"), rows)


def dd_summary(size: int, seconds: float) -> str:
    sizes = [_with_unit(size, 1000), _with_unit(size, 1024)]
    told = f" ({', '.join(sizes)})" if size >= 1024 else f" ({sizes[0]})" if size >= 1000 else ""
    return f"{size} byte{'s' if size != 1 else ''}{told} copied, {seconds:.6g} s, {_with_unit(size / seconds, 1000)}/s"


def _with_unit(value: float, base: int) -> str:
    """Show one decimal below ten, like dd."""
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
    key: tuple[str, ...]
    size: str
    bs: str
    cells: Mapping[str, Samples]


def _lines(found: Sequence[Samples], phases: Mapping[str, str]) -> tuple[list[str], list[_Line]]:
    with_preset = all("workload.phase" in one.cell.axes for one in found)
    apart = [name for name in axes_of(found) if name not in (*_COLUMNS, *(() if with_preset else ("workload",)))]
    varying = [name for name in apart if _tells_apart(name, found, phases)]
    several = len({one.run.id for one in found}) > 1
    lines: dict[tuple[str, ...], dict[str, Samples]] = {}
    for one in found:
        axes = one.cell.axes
        run = (one.run.name,) if several else ()
        key = (*run, *(axes.get(name, "") for name in (*varying, "workload.size", "workload.bs")))
        phase, nth = _phase(one, phases), 1
        # Cells that differ in no axis get separate lines.
        while phase in lines.setdefault((*key, str(nth)), {}):
            nth += 1
        lines[*key, str(nth)][phase] = one
    ordered = sorted(lines.items(), key=lambda item: tuple(map(value_key, item[0])))
    names = [*(("run",) if several else ()), *varying]
    return names, [_Line(key[:-3], key[-3], key[-2], cells) for key, cells in ordered]


def _tells_apart(axis: str, found: Sequence[Samples], phases: Mapping[str, str]) -> bool:
    """Return whether an axis distinguishes lines.

    An axis that only some phases have (`new` files, a mixture) distinguishes phases.
    """
    of_phases: dict[str, set[str | None]] = {}
    for one in found:
        of_phases.setdefault(_phase(one, phases), set()).add(one.cell.axes.get(axis))
    told = set[str | None]().union(*of_phases.values()) - {None}
    return len(told) > 1 or any(len(values) > 1 for values in of_phases.values())


def _whole(figure: float | None) -> str | None:
    return None if figure is None else f"{figure:.0f}"


def _kilobytes(size: str) -> str:
    try:
        return f"{parse_size(size) / _KIB:.15g}"
    except ValueError:
        return size


#: By phase, in IOzone's order.
_IOZONE = {
    "write": "write",
    "rewrite": "rewrite",
    "read": "read",
    "reread": "reread",
    "randread": "random read",
    "randwrite": "random write",
}
_AS_IOZONE = {phase: phase for phase in _IOZONE}


@dataclass(frozen=True, slots=True)
class _Iozone:
    """Rates in IOzone's units: KB/s, or operations per second with -O."""

    end: str
    of: float

    def shown(self, found: Sequence[Samples]) -> Grid:
        names, lines = _lines(found, _AS_IOZONE)
        rows = [(*self._where(line), *map(_whole, self._rates(line)), _in_percent(self._doubt(line))) for line in lines]
        heads = ("KB", "reclen", *_IOZONE.values(), "±")
        return Grid((*names, *heads), rows, right=frozenset(heads))

    def plain(self, found: Sequence[Samples]) -> Grid:
        names, lines = _lines(found, _AS_IOZONE)
        rows = [(*self._where(line), *self._rates(line), self._doubt(line)) for line in lines]
        heads = ("KB", "reclen", *_IOZONE.values(), "rel")
        return Grid((*names, *heads), rows, right=frozenset(heads))

    def _where(self, line: _Line) -> tuple[str, ...]:
        return *line.key, _kilobytes(line.size), _kilobytes(line.bs)

    def _rates(self, line: _Line) -> list[float | None]:
        means = [_mean(line.cells.get(phase), self._metric(phase)) for phase in _IOZONE]
        return [None if mean is None else mean / self.of for mean in means]

    def _doubt(self, line: _Line) -> float | None:
        return _doubt((one, self._metric(phase)) for phase, one in line.cells.items())

    def _metric(self, phase: str) -> str:
        return f"{_SIDES[phase]}_{self.end}"


#: By phase: the name here, and the name in bonnie++'s CSV.
_BONNIE = {
    "write": ("output block K/sec", "put_block"),
    "rewrite": ("rewrite K/sec", "rewrite"),
    "read": ("input block K/sec", "get_block"),
    "seeks": ("random seeks /sec", "seeks"),
}
_DONE_BY_BONNIE = {"write": "write", "rw": "rewrite", "read": "read", "randrw": "seeks"}
_SEEKERS = 5


def _bonnie_shown(found: Sequence[Samples]) -> Grid:
    names, lines = _lines(found, _DONE_BY_BONNIE)
    rows = [
        (*_size_of(line), *(_whole(one) or "" for one in _figures(line)), _in_percent(_doubt_of(line)))
        for line in lines
    ]
    heads = ("Size", *(one for head, _ in _BONNIE.values() for one in (head, "%CP")), "±")
    return Grid((*names, *heads), rows, right=frozenset(heads))


def _bonnie_plain(found: Sequence[Samples]) -> Grid:
    names, lines = _lines(found, _DONE_BY_BONNIE)
    rows = [(*_size_of(line), *_figures(line), _doubt_of(line)) for line in lines]
    heads = ("Size", *(one for _, name in _BONNIE.values() for one in (name, f"{name}_cpu")), "rel")
    return Grid((*names, *heads), rows, right=frozenset(heads))


def _size_of(line: _Line) -> tuple[str, ...]:
    return *line.key, line.size if line.bs in {"", "8KiB"} else f"{line.size}:{line.bs}"


def _figures(line: _Line) -> list[float | None]:
    return [figure for phase in _BONNIE for figure in _of_bonnie(line.cells.get(phase), phase)]


def _doubt_of(line: _Line) -> float | None:
    return _doubt((one, _metric(phase)) for phase, one in line.cells.items())


def _metric(phase: str) -> str:
    return f"{_SIDES[phase]}_{'iops' if phase == 'seeks' else 'bw'}"


def _of_bonnie(one: Samples | None, phase: str) -> tuple[float | None, float | None]:
    """Return the rate of a phase, and the CPU time of all processes as a share of one processor."""
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
_BY_BYTES, _BY_REQUESTS = _Iozone("bw", _KIB), _Iozone("iops", 1)
FAMILIAR: dict[str, LegacyFormat] = {
    "dd": LegacyFormat(
        ("dd-read", "dd-write"),
        {rw: rw for rw in ("read", "write")},
        (*_RATES, "read_bytes", "write_bytes", "read_ios", "write_ios"),
        _dd_shown,
        _dd_plain,
    ),
    "iozone": LegacyFormat(*_OF_IOZONE, _BY_BYTES.shown, _BY_BYTES.plain),
    "iozone-ops": LegacyFormat(*_OF_IOZONE, _BY_REQUESTS.shown, _BY_REQUESTS.plain),
    "bonnie": LegacyFormat(("bonnie",), _DONE_BY_BONNIE, (*_RATES, *_CPU), _bonnie_shown, _bonnie_plain),
}
