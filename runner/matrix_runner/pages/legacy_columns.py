"""Results in the columns and units of dd, IOzone and bonnie++, of workloads with the same I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matrix_runner.answers.axes import grouped, names_of, value_key
from matrix_runner.answers.selectors import describe_synthetic
from matrix_runner.answers.stored_samples import Samples
from matrix_runner.base.errors import BadInput
from matrix_runner.base.quantities import parse_size
from matrix_runner.pages.results import distinct_axes
from matrix_runner.pages.table import Grid, Value
from matrix_runner.pages.terminal_text import doubt_of_share

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
    presets: tuple[str, ...]
    phases: Mapping[str, str]  # its phase names for workloads without a preset, by `rw`
    metrics: tuple[str, ...]
    tabulate: Callable[[Sequence[Samples], bool], Grid]  # the program's own output for people, or numbers for programs


def legacy_table(name: str, found: Sequence[Samples], *, people: bool) -> Grid:
    program = FAMILIAR[name]
    with_preset = [one for one in found if one.cell.axes.get("workload.preset") in program.presets]
    chosen = with_preset or [one for one in found if one.cell.axes.get("workload.rw") in program.phases]
    if not chosen:
        raise BadInput(
            f"no selected cell has the workload of {name}",
            resolution=f"`preset: {program.presets[0]}` or `rw: {' or '.join(program.phases)}` makes such a workload",
        )
    left = len(found) - len(chosen)
    return program.tabulate(chosen, people).with_notes(
        *describe_synthetic(one.run for one in chosen),
        "" if with_preset else f"no workload is a preset of {name}: these are similar, but not the same",
        f"{left:,} of {len(found):,} cells are not workloads of {name}" if left else "",
    )


def _mean(one: Samples | None, metric: str) -> float | None:
    found = one.estimate(metric) if one else None
    return found.mean if found else None


def _widest_interval(figures: Iterable[tuple[Samples, str]]) -> float | None:
    found = [one.estimate(metric) for one, metric in figures]
    return max((one.relative for one in found if one and one.relative is not None), default=None)


def _dd_table(found: Sequence[Samples], people: bool) -> Grid:
    several = len({one.run.id for one in found}) > 1
    rows: list[tuple[Value, ...]] = []
    for one in found:
        # dd copies in one direction only.
        side = "write" if one.estimate("write_bw") else "read"
        size, rate, ios = (_mean(one, f"{side}_{name}") for name in ("bytes", "bw", "ios"))
        trials = len(one.counted(f"{side}_bw")) if size and rate and ios else 0
        name = (one.run.name, one.cell.name) if several or not people else (one.cell.name,)
        if not (size and rate and ios):
            rows.append((*name, *(None,) * (4 if people else 3), str(trials) if people else trials))
        elif people:
            records, doubt = f"{ios:.0f}+0", doubt_of_share(_widest_interval([(one, f"{side}_bw")]))
            rows.append((*name, records, records, dd_summary(round(size), size / rate), doubt, str(trials)))
        else:
            rows.append((*name, size, size / rate, rate, trials))
    if not people:
        return Grid(("run", "cell", "bytes", "seconds", "bytes_per_second", "trials"), rows)
    heads = ("records in", "records out", "copied", "±", "trials")
    return Grid((*(("run",) if several else ()), "cell", *heads), rows, right=frozenset(heads) - {"copied"})


def dd_summary(size: int, seconds: float) -> str:
    sizes = [_with_unit(size, 1000), _with_unit(size, 1024)]
    units = f" ({', '.join(sizes)})" if size >= 1024 else f" ({sizes[0]})" if size >= 1000 else ""
    return f"{size} byte{'s' if size != 1 else ''}{units} copied, {seconds:.6g} s, {_with_unit(size / seconds, 1000)}/s"


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


def _phase(one: Samples, phases: Mapping[str, str]) -> str:
    axes = one.cell.axes
    return axes.get("workload.phase") or phases[axes["workload.rw"]]


def _lines(found: Sequence[Samples], phases: Mapping[str, str]) -> tuple[list[str], list[_Line]]:
    with_preset = all("workload.phase" in one.cell.axes for one in found)
    columns = _COLUMNS if with_preset else (*_COLUMNS, "workload")
    names = [name for name in names_of(distinct_axes(found)) if name not in columns]
    varying = [name for name in names if _distinguishes_lines(name, found, phases)]
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


def _distinguishes_lines(axis: str, found: Sequence[Samples], phases: Mapping[str, str]) -> bool:
    """Return whether an axis separates lines. One that only some phases have (`new` files) separates phases."""
    by_phase = grouped((_phase(one, phases), one.cell.axes.get(axis)) for one in found)
    known = {value for values in by_phase.values() for value in values if value is not None}
    return len(known) > 1 or any(len({*values}) > 1 for values in by_phase.values())


def _table_of_lines(
    columns: Sequence[str], rows: Iterable[tuple[tuple[str, ...], Sequence[float | None], float | None]], people: bool
) -> Grid:
    if not people:
        return Grid((*columns, "rel"), [(*label, *figures, doubt) for label, figures, doubt in rows])
    shown = [
        (*label, *(None if one is None else f"{one:.0f}" for one in figures), doubt_of_share(doubt))
        for label, figures, doubt in rows
    ]
    return Grid((*columns, "±"), shown)


def _kilobytes(size: str) -> str:
    """Return a size in IOzone's unit. Other texts (a share, a multiple of memory) stay as written."""
    try:
        return f"{parse_size(size) / _KIB:.15g}"
    except ValueError:
        return size


#: By phase, in IOzone's order.
_IOZONE = {
    **{phase: phase for phase in ("write", "rewrite", "read", "reread")},
    "randread": "random read",
    "randwrite": "random write",
}


def _iozone_table(found: Sequence[Samples], people: bool, *, suffix: str, unit: float) -> Grid:
    names, lines = _lines(found, {phase: phase for phase in _IOZONE})
    rows = []
    for line in lines:
        means = [_mean(line.cells.get(phase), f"{_SIDES[phase]}_{suffix}") for phase in _IOZONE]
        doubt = _widest_interval((one, f"{_SIDES[phase]}_{suffix}") for phase, one in line.cells.items())
        label = (*line.key, _kilobytes(line.size), _kilobytes(line.bs))
        rows.append((label, [None if mean is None else mean / unit for mean in means], doubt))
    heads = ("KB", "reclen", *_IOZONE.values())
    return replace(_table_of_lines((*names, *heads), rows, people), right=frozenset({*heads, "±", "rel"}))


#: By phase: the name here, and the name in bonnie++'s CSV.
_BONNIE = {
    "write": ("output block K/sec", "put_block"),
    "rewrite": ("rewrite K/sec", "rewrite"),
    "read": ("input block K/sec", "get_block"),
    "seeks": ("random seeks /sec", "seeks"),
}
_BONNIE_PHASES = {"write": "write", "rw": "rewrite", "read": "read", "randrw": "seeks"}
_SEEKERS = 5


def _bonnie_table(found: Sequence[Samples], people: bool) -> Grid:
    names, lines = _lines(found, _BONNIE_PHASES)
    rows = []
    for line in lines:
        size = line.size if line.bs in {"", "8KiB"} else f"{line.size}:{line.bs}"
        figures = [figure for phase in _BONNIE for figure in _rate_and_cpu(line.cells.get(phase), phase)]
        doubt = _widest_interval((one, _bonnie_metric(phase)) for phase, one in line.cells.items())
        rows.append(((*line.key, size), figures, doubt))
    columns = [
        column for shown, name in _BONNIE.values() for column in ((shown, "%CP") if people else (name, f"{name}_cpu"))
    ]
    heads = ("Size", *columns)
    return replace(_table_of_lines((*names, *heads), rows, people), right=frozenset({*heads, "±", "rel"}))


def _bonnie_metric(phase: str) -> str:
    return f"{_SIDES[phase]}_{'iops' if phase == 'seeks' else 'bw'}"


def _rate_and_cpu(one: Samples | None, phase: str) -> tuple[float | None, float | None]:
    rate = _mean(one, _bonnie_metric(phase))
    if one is None or rate is None:
        return None, None
    busy = [_mean(one, metric) for metric in _CPU]
    seekers = _SEEKERS if phase == "seeks" and "workload.preset" in one.cell.axes else 1
    jobs = int(one.cell.axes.get("workload.numjobs", seekers))
    cpu = sum(part for part in busy if part is not None) * jobs if None not in busy else None
    return rate if phase == "seeks" else rate / _KIB, cpu


_RATES = tuple(f"{side}_{name}" for side in ("read", "write") for name in ("bw", "iops"))
_IOZONE_WORK = ("iozone",), {phase: phase for phase in ("write", "read", "randread", "randwrite")}, _RATES
FAMILIAR: dict[str, LegacyFormat] = {
    "dd": LegacyFormat(
        ("dd-read", "dd-write"),
        {rw: rw for rw in ("read", "write")},
        (*_RATES, "read_bytes", "write_bytes", "read_ios", "write_ios"),
        _dd_table,
    ),
    "iozone": LegacyFormat(*_IOZONE_WORK, partial(_iozone_table, suffix="bw", unit=_KIB)),
    "iozone-ops": LegacyFormat(*_IOZONE_WORK, partial(_iozone_table, suffix="iops", unit=1)),
    "bonnie": LegacyFormat(("bonnie",), _BONNIE_PHASES, (*_RATES, *_CPU), _bonnie_table),
}
