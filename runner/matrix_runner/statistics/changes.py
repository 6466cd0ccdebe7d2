"""Changes of level in a history of nights."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matrix_runner.statistics.arrays import Bools, Floats, Levels, np
from matrix_runner.statistics.correlated_changes import LEAST_NEWEST, LEAST_NIGHTS, has_clear_change, longest_arc
from matrix_runner.statistics.ratios import Ratio, bounded_exp, clear_correlation, unpaired_ratio
from matrix_runner.statistics.rounds import ROUNDING

ENOUGH_NIGHTS = 9  # fewer have too few orders for any change
#: So much clearer must the newest nights be: they are one search in three, for the rarest change.
NEWEST_HANDICAP = 1.2
#: So many standard deviations must each of them be away.
LEAST_APART = 1.7
#: So many times as many false ones may be among steps that are only perhaps there: they raise no alarm.
PERHAPS = 2
#: The numbers of random orders for comparison: few of them show that most histories have no change.
FEW_ORDERS, ORDERS = 499, 3999


@dataclass(frozen=True, slots=True)
class Change:
    """A step at night `at` (counted from 0); `ratio`: the new level over the old one."""

    at: int
    ratio: Ratio
    p: float  # the probability of a step as clear anywhere, if the order of nights were random
    certain: bool = True  # false: chance, or correlated nights, would often show one as clear without any step


@dataclass(frozen=True, slots=True)
class History:
    """The steps in a history with one value per night, or its trend, and what else is to be known about it."""

    changes: tuple[Change, ...] = ()
    #: The factor from the first night to the last, if a straight line describes them better than steps.
    trend: float | None = None
    #: The correlation of each night with the next one apart from changes; None if it is not clear.
    correlation: float | None = None
    weekly: bool = False  # whether a profile of weekdays was removed before the search
    newest: float | None = None  # the newest night over the median of those before, if it alone is far away


def read_history(
    nights: Sequence[float], weekdays: Sequence[int] = (), *, alarms: float = 0.01, seed: int = 1
) -> History:
    """Find the changes of level in a history of positive values; `weekdays`: the weekday of each night.

    Three searches look for the clearest difference of means: a step, some nights between others (an arc, as in
    circular binary segmentation), and the newest nights. It is a change if hardly any random order of the same nights
    has one as clear in any search. All parts are then searched in the same way. A history of independent nights
    without a change has a certain one with probability `alarms` at most, and `PERHAPS` times as often any. A change is
    certain if correlated nights without one do not explain it either (1 %, up to a correlation of 0.8). Fewer than
    about nine nights have too few orders for any change. A single night that is far away is clipped before the search.
    """
    nights = [float(night) for night in nights]
    if len(nights) < 2 * LEAST_NIGHTS:
        return History()
    logs = np.log(np.asarray(nights))
    profile = _profile(logs, weekdays)
    clipped, is_alone = _clip(logs - profile)
    newest = float(np.exp(logs[-1] - profile[-1] - np.median((logs - profile)[-1 - WINDOW : -1])))
    alone = newest if is_alone else None
    found = sorted(_split(clipped, 0, len(nights), alarms, seed))
    if any(p <= alarms for _, p, _ in found) and (line := _trend(clipped)):
        return History((), line, None, bool(profile.any()), alone)
    begins, ends = [0, *(at for at, *_ in found)], [*(at for at, *_ in found[1:]), len(nights)]
    ratios = (
        unpaired_ratio(nights[at : one[0]], nights[one[0] : to])
        for one, at, to in zip(found, begins, ends, strict=False)
    )
    changes = (Change(at, ratio, p, certain) for (at, p, certain), ratio in zip(found, ratios, strict=True) if ratio)
    level = np.zeros(len(nights))
    for begin, end in pairwise((0, *(at for at, *_ in found), len(nights))):
        level[begin:end] = clipped[begin:end].mean()
    return History(tuple(changes), None, clear_correlation((clipped - level).tolist()), bool(profile.any()), alone)


#: Nights around each one, which show the level there.
WINDOW = 7
#: The least weeks for a profile of weekdays, and how clear it must be (F): about 1 in 200 histories has one by chance.
LEAST_WEEKS, CLEAR_PROFILE = 4, 4.5
#: A night as many standard deviations from those around it is clipped to that, if its neighbours are not as far away.
FAR = 5.0


def _profile(logs: Floats, weekdays: Sequence[int]) -> Floats:
    """Return by how much the weekday of each night differs; 0 if weekdays do not differ clearly."""
    days = np.asarray(weekdays)
    groups = [days == day for day in sorted(set(weekdays))]
    if len(groups) < 2 or min(group.sum() for group in groups) < LEAST_WEEKS:
        return np.zeros(len(logs))
    sums, half = np.concatenate(([0.0], np.cumsum(logs))), WINDOW // 2
    at = np.arange(len(logs))
    low, high = np.maximum(0, at - half), np.minimum(len(logs), at + half + 1)
    apart = logs - (sums[high] - sums[low]) / (high - low)
    found = np.zeros(len(logs))
    for group in groups:
        found[group] = np.median(apart[group])
    between, within = float((found**2).sum()), float(((apart - found) ** 2).sum())
    clear = between * (len(logs) - len(groups)) > CLEAR_PROFILE * (len(groups) - 1) * within
    return found if clear else np.zeros(len(logs))


def _clip(logs: Floats) -> tuple[Floats, bool]:
    """Move each night that is alone far from those around it nearer to them; return whether the newest one was far.

    That one moves to their level, because one night is none. In any case, the newest night counts at most as far as the
    farther of the two before it.
    """
    half, n = WINDOW // 2, len(logs)
    level = np.array([np.median(logs[max(0, at - half) : at + half + 1]) for at in range(n)])
    apart = logs - level
    deviation = 1.4826 * float(np.median(abs(apart)))
    if not deviation:
        return logs, False
    alone, limit = _are_alone(abs(apart) > FAR * deviation), FAR * deviation
    clipped = np.where(alone, level + np.clip(apart, -limit, limit), logs)
    if alone[-1]:
        clipped[-1] = level[-1]
    allowed = float(np.median(clipped)), *clipped[-3:-1]
    clipped[-1] = np.clip(clipped[-1], min(allowed), max(allowed))
    return clipped, bool(alone[-1])


def _are_alone(far: Bools) -> Bools:
    beside = np.pad(far, 1)
    found: Bools = far & ~beside[:-2] & ~beside[2:]
    return found


def _trend(logs: Floats) -> float | None:
    """Return the factor from the first night to the last if a straight line fits better than the clearest change."""
    n, centred = len(logs), logs - logs.mean()
    at = np.arange(n) - (n - 1) / 2
    slope = float((at * centred).sum() / (at**2).sum())
    sums = np.concatenate(([0.0], np.cumsum(centred)))[None, :]
    by_change = n * max(float(_steps(sums)[0][0]), float(_arcs(sums)[0][0]))
    return bounded_exp(slope * (n - 1)) if slope**2 * float((at**2).sum()) > by_change else None


def _split(
    logs: Floats, begin: int, end: int, alarms: float, seed: int, *, certain: bool = True
) -> list[tuple[int, float, bool]]:
    """Return the changes between two places of a history, with their p, and whether they are certain.

    In a part, a change is certain only if the one that made the part is (`certain`): few nights hardly show that they
    are correlated.
    """
    nights = logs[begin:end]
    if len(nights) < 2 * LEAST_NIGHTS or not nights.std():
        return []
    at_end = end == len(logs)
    if _clearest(nights, FEW_ORDERS, seed, newest=at_end)[0] > 5 * PERHAPS * alarms:
        return []
    chance, edges = _clearest(nights, ORDERS, seed, newest=at_end)
    if chance > PERHAPS * alarms:
        return []
    certain = certain and chance <= alarms and has_clear_change(nights)
    cuts = [begin + edge for edge in edges]
    parts = pairwise((begin, *cuts, end))
    own = [(cut, chance, certain) for cut in cuts]
    return [*own, *(one for part in parts for one in _split(logs, *part, alarms, seed, certain=certain))]


def _clearest(nights: Floats, orders: int, seed: int, *, newest: bool) -> tuple[float, tuple[int, ...]]:
    """Return the share of random orders that are as clear as this one, and the edges of its clearest change."""
    sums = _orders(nights, orders, seed)
    found = [(1.0, *_steps(sums)), (1.0, *_arcs(sums)), *([(NEWEST_HANDICAP, *_newest(sums))] if newest else [])]
    chance, best = _chance([clear for _, clear, _ in found], [handicap for handicap, _, _ in found])
    return chance, found[best][2]


def _orders(nights: Floats, count: int, seed: int) -> Floats:
    """Return the sums of nights up to each place: in their own order, and in random ones."""
    rows = np.tile(nights - nights.mean(), (count + 1, 1))
    np.random.default_rng(seed).permuted(rows[1:], axis=1, out=rows[1:])
    return np.concatenate((np.zeros((count + 1, 1)), np.cumsum(rows, axis=1)), axis=1)


def _chance(clearness: Sequence[Floats], handicaps: Sequence[float]) -> tuple[float, int]:
    """Return the share of orders that are as clear as the first one in their clearest search, and that search.

    A search counts by its own p, so that one with more places does not hide the others (Westfall and Young, 1993).
    """
    chances = []
    for clear, handicap in zip(clearness, handicaps, strict=True):
        as_clear = len(clear) - np.searchsorted(np.sort(clear), clear * (1 - ROUNDING))
        chances.append(as_clear * handicap)
    least, most = np.min(chances, axis=0), np.max(clearness, axis=0)
    as_clear = (least < least[0]) | ((least == least[0]) & (most >= most[0] * (1 - ROUNDING)))
    return float(as_clear.mean()), int(np.argmin([one[0] for one in chances]))


def _variance(sums: Floats, inside: Levels | int, nights: int) -> Floats:
    """Return the variance between the nights inside, given their sums, and all others."""
    found: Floats = sums**2 / (inside * (nights - inside))
    return found


def _steps(sums: Floats) -> tuple[Floats, tuple[int, ...]]:
    """Return how clear the clearest step is in each order, and its place in the first order."""
    nights = sums.shape[1] - 1
    places = np.arange(LEAST_NIGHTS, nights - LEAST_NIGHTS + 1)
    clear = _variance(sums[:, places], places, nights)
    return clear.max(axis=1), (LEAST_NIGHTS + int(clear[0].argmax()),)


def _newest(sums: Floats) -> tuple[Floats, tuple[int, ...]]:
    """Return how clear the newest two nights are. The nearer one counts twice: one night is no level."""
    nights, apart = sums.shape[1] - 1, np.diff(sums, axis=1)
    other, last = apart[:, -LEAST_NEWEST:].T
    nearer = np.where(last * other > 0, np.minimum(abs(last), abs(other)), 0.0)
    nearer = np.where(nearer > LEAST_APART * apart.std(axis=1), nearer, 0.0)
    return _variance(LEAST_NEWEST * nearer, LEAST_NEWEST, nights), (nights - LEAST_NEWEST,)


def _arcs(sums: Floats) -> tuple[Floats, tuple[int, ...]]:
    """Return how clear the clearest arc is in each order, and its edges in the first order."""
    nights = sums.shape[1] - 1
    clearest, edges = np.zeros(len(sums)), (0, 0)
    for length in range(LEAST_NIGHTS, longest_arc(nights) + 1):
        begins = np.arange(LEAST_NIGHTS, nights - LEAST_NEWEST - length + 1)
        clear = _variance(sums[:, begins + length] - sums[:, begins], length, nights)
        if clear[0].max() > clearest[0]:
            begin = LEAST_NIGHTS + int(clear[0].argmax())
            edges = begin, begin + length
        np.maximum(clearest, clear.max(axis=1), out=clearest)
    return clearest, edges
