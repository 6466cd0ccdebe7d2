"""Rates over the device or over time, and the use of disks and processors over time: chosen trials and their charts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, median_low

from matrix_runner.answers.axes import grouped
from matrix_runner.pages.axis_charts import MOST_SERIES, Plot, Series, point
from matrix_runner.pages.charts import Tick, spared, ticks
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal_text import MARK, figure, host_limited_mark
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.records.usage import SAMPLES, STACK, Course, Usage
from matrix_runner.work.fio.output import Piece, parse_pieces

MOST_USES = 12  # trials that the page draws
_LEAST_SAMPLES = 6  # shorter trials have no course worth a chart
_HEIGHT = 190
_NARROW = 180  # pixels of an axis with four charts beside each other
_LATENCY, _PROCESSORS = "mean latency", "time of the processors"  # titles of charts
#: What a reader cannot know, by the titles of charts.
_MEANINGS = {
    _LATENCY: "Latency is the mean of all requests to a device, of the device on top (stack) and of each disk, as the "
    "kernel counts it.",
    _PROCESSORS: "Waiting (iowait) is time in which a processor was idle because a request was not answered yet.",
}
_SHARES = tuple(Tick(share, f"{share} %" if share else "0") for share in (0, 50, 100))
Courses = dict[str, "Course"]


@dataclass(frozen=True, slots=True)
class Use:
    title: str
    kinds: tuple[str, ...]
    plots: tuple[Plot, ...]
    has_files: bool = False

    @property
    def has_latencies(self) -> bool:
        return _LATENCY in self.kinds


def choose_trials(cells: Sequence[CellRow], trials: Sequence[Trial]) -> list[tuple[CellRow, Trial]]:
    """Return the fastest cell of each stack and workload, of some stacks if they are many, with its median trial."""
    by_cell, best = _fastest(cells, trials)
    workloads = {workload for workload, _ in best}
    room = dict.fromkeys(workloads, max(1, MOST_USES // max(1, len(workloads))))
    chosen = set[str]()
    for (workload, _), cell in best.items():
        if room[workload] and len(chosen) < MOST_USES:
            room[workload] -= 1
            chosen.add(cell.id)
    ordered = {cell: sorted(by_cell[cell], key=lambda one: (_rate(one), one.round)) for cell in chosen}
    return [(cell, ordered[cell.id][(len(ordered[cell.id]) - 1) // 2]) for cell in cells if cell.id in chosen]


def _rate(trial: Trial) -> float:
    return trial.counted.deciding_rate if trial.counted else 0.0


def _fastest(
    cells: Sequence[CellRow], trials: Sequence[Trial]
) -> tuple[dict[str, list[Trial]], dict[tuple[str, str], CellRow]]:
    """Return the counted trials of each cell, and the fastest cell by workload and stack, the fastest first."""
    by_cell = grouped((trial.cell, trial) for trial in trials if trial.counted)
    rates = {cell: fmean(map(_rate, of)) for cell, of in by_cell.items()}
    best: dict[tuple[str, str], CellRow] = {}
    for cell in sorted((cell for cell in cells if cell.id in rates), key=lambda cell: -rates[cell.id]):
        best.setdefault((cell.workload, cell.setting), cell)
    return by_cell, best


def uses(recorded: RunData) -> list[Use]:
    """Return the charts of the use in trials. Charts of a workload have the same scales."""
    by_workload: dict[str, list[tuple[CellRow, Usage]]] = {}
    for cell in recorded.cells:
        found = recorded.usage.get(cell.id)
        courses = [*found.rates.values(), *found.processors.values(), *found.latencies.values()] if found else []
        if found and max(map(len, courses), default=0) >= _LEAST_SAMPLES:
            by_workload.setdefault(cell.workload, []).append((cell, found))
    return [use for several in by_workload.values() for use in _of_workload(several)]


def describe_uses(used: Sequence[Use], recorded: RunData) -> str:
    """Return what the charts show, and how many there could be."""
    count = len(_fastest(recorded.cells, recorded.trials)[1])
    sentences = [
        "For each stack and workload, the fastest cell: its median trial, over time.",
        "The start of fio, its ramp and its end are included, so the first and the last points may be low.",
    ]
    if any(one.has_files for one in used):
        sentences.append("If fio first wrote its files, this is included, too.")
    if count > len(used):
        rule = f"at most {MOST_USES}, and only trials with {_LEAST_SAMPLES} samples or more"
        sentences.append(f"{len(used)} of {count:,} are drawn: {rule}.")
    kinds = {kind for one in used for kind in one.kinds}
    return " ".join([*sentences, *(text for kind, text in _MEANINGS.items() if kind in kinds)])


def _of_workload(several: Sequence[tuple[CellRow, Usage]]) -> Iterator[Use]:
    shown = [(cell, _panels(one)) for cell, one in several]
    every = [course for _, panels in shown for *_, courses in panels for course in courses.values()]
    end = max((at for course in every for at, _ in course), default=0.0)
    tops = {"share": 1.0}
    for _, panels in shown:
        for _, unit, _, courses in panels:
            if unit != "share":
                tops[unit] = max((tops.get(unit, 0.0), *(value for of in courses.values() for _, value in of)))
    for (cell, panels), (_, one) in zip(shown, several, strict=True):
        mark = f" {MARK} host-limited" * one.is_host_limited
        made = {
            what: plot
            for what, unit, file, courses in panels
            if (plot := _plot(f"{cell.name}: {what}{mark}", courses, end, tops[unit], unit, file))
        }
        if made:
            yield Use(cell.name, tuple(made), tuple(made.values()), one.has_files)


def _panels(one: Usage) -> tuple[tuple[str, str, str, Courses], ...]:
    """Return the charts of a trial: title, unit, file and lines of each."""
    stack = {name: course for name, course in one.latencies.items() if name == STACK}
    disks = {name: course for name, course in one.latencies.items() if name != STACK}
    return (
        (_LATENCY, "ns", SAMPLES, _few(disks, MOST_SERIES - len(stack)) | stack),
        ("rate of each disk", "bytes/s", one.source, _few(one.rates)),
        ("busy time of each disk", "share", one.source, _few(one.busy)),
        (_PROCESSORS, "share", SAMPLES, dict(one.processors)),
    )


def _few(courses: Mapping[str, Course], most: int = MOST_SERIES) -> Courses:
    """Return the lines of a chart: each disk, or the least, median and most at each moment if disks are too many."""
    if len(courses) <= most:
        return dict(courses)
    by_moment = grouped(moment for course in courses.values() for moment in course)
    ranks: dict[str, Callable[[Sequence[float]], float]] = {"most": max, "median": median_low, "least": min}
    return {name: tuple((at, of(values)) for at, values in by_moment.items()) for name, of in ranks.items()}


def _plot(title: str, courses: Courses, end: float, top: float, unit: str, file: str) -> Plot | None:
    if not (any(courses.values()) and end and top):
        return None
    made = tuple(
        Series(name, tuple(point(at, end, value, top, figure(value, unit)) for at, value in course))
        for name, course in courses.items()
    )
    about = f"Lines over time, of one trial. Its {file} has the figures."
    up = _SHARES if unit == "share" else ticks(top, unit, 100)
    across = spared(ticks(end, "s", 100), pixels=_NARROW)
    return Plot(title, about, made, across, up, dots=False, height=_HEIGHT)


_ENOUGH = 3  # trials whose median needs no neighbouring places
PLACES = 100  # points of a curve; a pass over a device has as many
#: Title and unit of the axis, by the name of its column.
_ALONG = {"offset": ("over the device", "bytes"), "seconds": ("over time", "s")}


@dataclass(frozen=True, slots=True)
class Curve:
    title: str
    lines: tuple[tuple[str, str], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def curves(recorded: RunData) -> Iterator[Curve]:
    for one in recorded.summaries:
        trials = [[*parse_pieces(table)] for table in recorded.courses.get(one.cell.id, {}).values()]
        if made := _curve(one.cell.name, trials, "write" if "read_bw" not in one.figures else "read"):
            yield replace(made, title=f"{made.title}{host_limited_mark(one.host_limited, one.processor_limited)}")


def _curve(name: str, trials: Sequence[Sequence[Piece]], usual: str) -> Curve | None:
    pieces = [piece for trial in trials for piece in trial]
    end = max((one.at + one.length for one in pieces), default=0.0)
    sides = dict.fromkeys(one.side for one in pieces)
    # Over time, a dip is one of the disk. Over places, two trials alone do not tell a delay by the host from it.
    reach = 1 if len(trials) < _ENOUGH and any(one.along == "offset" for one in pieces) else 0
    by_side = {
        side: _medians([_rates((one for one in of if one.side == side), end) for of in trials], reach) for side in sides
    }
    rates = {side or usual: along for side, along in by_side.items() if any(along.values())}
    top = max((rate for along in rates.values() for rate in along.values()), default=0.0)
    if not end or not top:
        return None
    what, unit = _ALONG[pieces[0].along]
    return Curve(
        f"{name}: bandwidth {what}",
        tuple((side, _points(along, top)) for side, along in rates.items()),
        ticks(end, unit, 100),
        ticks(top, "bytes/s", 100),
    )


def _rates(pieces: Iterable[Piece], end: float) -> dict[int, float]:
    """Return the rate of one trial at each place: all bytes moved there by the time for them."""
    moved, took = dict[int, float](), dict[int, float]()
    for one in pieces:
        place = min(PLACES - 1, int(one.at * PLACES / end))
        moved[place] = moved.get(place, 0.0) + one.moved
        took[place] = took.get(place, 0.0) + one.seconds
    return {place: moved[place] / took[place] for place in sorted(moved) if took[place]}


def _medians(trials: Sequence[Mapping[int, float]], reach: int) -> dict[int, float]:
    """Return the median of the trials at each place and its neighbours: the host delays requests of few of them."""
    places = sorted({place for rates in trials for place in rates})
    around = {place: range(place - reach, place + reach + 1) for place in places}
    return {
        place: median(rates[one] for rates in trials for one in near if one in rates) for place, near in around.items()
    }


def _points(along: Mapping[int, float], top: float) -> str:
    return " ".join(
        f"{(place + 0.5) * 100 / PLACES:g},{round(100 - 100 * rate / top, 2):g}" for place, rate in along.items()
    )
