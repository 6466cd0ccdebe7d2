"""The legend of the marks of doubtful figures: `(!)` and a word."""

from collections.abc import Iterable, Iterator

MARK = "(!)"
HOST_LIMITED = (
    "(!) host-limited: the host was too slow or too busy, so the figure may be too low. A number counts "
    "such trials. A percentage is the share of the time lost in such trials, on average over all trials; a ratio is "
    "then a range. These help: a host without other work, fewer `--jobs` if it is more than 1, longer trials, KVM, "
    "`slow: 32` in `disks:` (slow motion; by default, simulated disks get up to 16)."
)
SOME_HOST_LIMITED = f"{MARK}: some of the trials are host-limited"
#: By a word of the mark, its meaning.
_MEANINGS = {
    "host-limited": HOST_LIMITED,
    "saturated": (
        "(!) saturated: the number counts trials in which the disks could not keep up with the trace, so the figures "
        "are of a slower replay."
    ),
    "settled": "(!) unsettled: the number counts trials without the wanted steady state. The figures leave them out.",
    "two states": (
        "(!) two states: the trials fall into two separate groups, so the mean or p99 describes neither. The column "
        "`states` of summary.csv has both."
    ),
    "only": "(!) on few requests only: the figure is not reliable. A longer `runtime:` gives more requests.",
}


def host_limited_mark(trials: int) -> str:
    return f" {MARK} {trials} host-limited" if trials else ""


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
