"""Numbers for people, styles of terminal text, and the marks of doubtful figures with their legend."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from matrix_runner.work.metrics import is_large

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from matrix_runner.statistics.ratios import Ratio
    from matrix_runner.statistics.stopping import Estimate

_UNITS = {"bytes/s": (1e6, "MB/s"), "1/s": (1.0, "IOPS"), "bytes": (1e6, "MB")}
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def figure(value: float | None, unit: str, least: float | None = None) -> str:
    """Format a figure; `least`: of those in its row, whose unit all have."""
    if value is None:
        return ""
    if unit == "share":
        return f"{digits(value * 100)} %"
    if unit == "ns":
        size, name = next(((size, name) for size, name in _TIMES if (least or value) >= size), _TIMES[-1])
    else:
        size, name = _UNITS.get(unit, (1.0, unit))
    return f"{digits(value / size)} {name}".strip()


def figures_from(fitted_to: str) -> str:
    """Return where the figures of a disk model are from."""
    return f"fitted to {fitted_to}" if fitted_to else "data sheet"


def digits(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(ratio: float) -> str:
    return (f"{ratio:.3f}" if 0.9 < ratio < 1.1 else digits(ratio)) + "\u00d7"


def times_alike(*ratios: float) -> list[str]:
    """Format ratios of one sentence. All have the decimals of the one that needs most."""
    fine = any(0.9 < one < 1.1 for one in ratios) and max(ratios) < 10
    return [f"{one:.3f}\u00d7" if fine else times(one) for one in ratios]


def times_between(low: float, high: float) -> str:
    return " to ".join(times_alike(low, high))


def times_within(ratio: float, low: float, high: float) -> str:
    middle, least, most = times_alike(ratio, low, high)
    return f"{middle} ({least} to {most})"


def ratio_texts(ratio: Ratio | None) -> tuple[str, str]:
    """Format a ratio and its interval; without them, the texts are empty."""
    if ratio is None:
        return "", ""
    return times(ratio.ratio), times_between(ratio.low, ratio.high) if ratio.low else ""


def percent(share: float) -> str:
    """Format a share of a mean: two significant digits, whole numbers from 10 on, no exponent."""
    value = share * 100
    if value >= 9.95:
        return f"{value:,.0f} %"
    return f"{value:.2g} %" if value >= 0.01 or not value else "<0.01 %"


def doubt(estimate: Estimate | None) -> str:
    return doubt_of_share(estimate.relative if estimate else None)


def doubt_of_share(share: float | None) -> str:
    """Format the half width of an interval. If it is more than the mean, its number says nothing more."""
    return "" if share is None else percent(share) if share <= 1 else ">100 %"


def rate(bw: float | None, iops: float | None) -> str:
    if bw is None or iops is None:
        return ""
    return f"{digits(bw / 1e6)} MB/s" if is_large(bw, iops) else f"{digits(iops)} IOPS"


def displayed_rate(bw: Estimate | None, iops: Estimate | None) -> Estimate | None:
    if bw is None or iops is None:
        return None
    return bw if is_large(bw.mean, iops.mean) else iops


def spaced(text: str) -> str:
    """Separate numbers from per cent signs, as in the other texts for people."""
    return re.sub(r"(?<=\d)%", " %", text)


def duration(seconds: float) -> str:
    """Format seconds as `1 h 02 min`, `3 min 20 s` or `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


def about(seconds: float) -> str:
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    text = duration(max(1, round(seconds / step)) * step)
    return f"about {text.removesuffix(' 00 s')}"


def slow_motion(factors: Mapping[int, int]) -> str:
    """Return how many cells have each factor; empty if all run at full speed."""
    if max(factors, default=1) == 1:
        return ""
    slowed = [f"{cells:,} in slow motion, {factor} times slower" for factor, cells in factors.items() if factor > 1]
    full = [f"{factors[1]:,} cells at full speed"] if 1 in factors else []
    return f"{'; '.join([*full, *slowed])} (what this host needed before, else a guess)"


def volume(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


#: Styles repeat what words state. Dim, yellow, white and bright colours are hard to read on some backgrounds.
GOOD, BAD, DOUBT = "green", "bold red", "magenta"
FAINT = "bright_black"  # of rows that need no reading


MARK = "(!)"
HOST_LIMITED = (
    "(!) host-limited: the host was too slow or too busy, so the figure may be too low. A number counts "
    "such trials. A percentage is the share of the time lost in such trials, on average over all trials; a ratio is "
    "then a range. These help: a host without other work, longer trials; with simulated disks also KVM, fewer `--jobs` "
    "if it is more than 1, and `slow: 32` in `disks:` (slow motion; by default, they get up to 16)."
)
PROCESSOR_LIMITED = (
    "(!) processor-limited: disks mostly waited for a busy processor of the machine, so its parity, checksums or "
    "ciphers are the limit, and the figure may be too low. KVM helps: without it, processors are emulated."
)
SOME_HOST_LIMITED = f"{MARK}: some of the trials are host-limited"
#: By a word of the mark, its meaning.
_MEANINGS = {
    "host-limited": HOST_LIMITED,
    "processor-limited": PROCESSOR_LIMITED,
    "saturated": (
        "(!) saturated: the number counts trials in which the disks could not keep up with the trace, so the figures "
        "are of a slower replay."
    ),
    "stalled": (
        "(!) stalled: the number counts trials in which one request took more than a tenth of the time. The figures "
        "leave them out, unless half of the trials are stalled."
    ),
    "settled": "(!) unsettled: the number counts trials without the wanted steady state. The figures leave them out.",
    "two states": (
        "(!) two states: the trials fall into two separate groups, so the mean or p99 describes neither. The column "
        "`states` of summary.csv has both."
    ),
    "only": "(!) on few requests only: the figure is not reliable. A longer `runtime:` gives more requests.",
}


def host_limited_mark(trials: int, by_processor: int = 0) -> str:
    """Return the mark of host-limited trials. `by_processor`: those of them that are processor-limited."""
    counts = ((trials - by_processor, "host-limited"), (by_processor, "processor-limited"))
    return "".join(f" {MARK} {count} {word}" for count, word in counts if count)


def stalled_mark(trials: int) -> str:
    return f" {MARK} {trials} stalled" if trials else ""


def unsettled_mark(trials: int, measured: int) -> str:
    if not trials:
        return ""
    return " (!) none settled" if trials == measured else f" (!) {trials} unsettled"


def legend(texts: Iterable[str]) -> list[str]:
    """Return the meaning of each mark in the texts, which may end with a colon and a reason."""
    marks = [mark for text in texts for mark in _marks(text)]
    return [meaning for word, meaning in _MEANINGS.items() if any(word in mark for mark in marks)]


def _marks(text: str) -> Iterator[str]:
    return (part.partition(":")[0] for part in text.split(f"{MARK} ")[1:])
