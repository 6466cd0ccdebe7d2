"""Names and figures of a ranking in the answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, isfinite

from matrix_runner.answers.ranking import EQUAL, Pace, RankedStack, Ranking, Standing, stack_name
from matrix_runner.pages.terminal_text import digits, figure, times, times_between
from matrix_runner.pages.terminal_text import percent as rounded_percent
from matrix_runner.records.record import CellRow

_NAMES = 4  # the longest list of stacks or workloads
_FINE = 0.02  # narrower intervals have one digit more
FIRM = "\u00a0"  # a space without a line break
WITHIN = f"equal within {EQUAL * 100:g}{FIRM}%"


def join_few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return join([*names[:_NAMES], f"{more} more"] if more > 0 else names)


def name_stacks(cells: Iterable[CellRow], of: int) -> str:
    counts = Counter(map(stack_name, cells))
    limits = {name: "" if n == of else f" ({n} workload{'s' if n > 1 else ''})" for name, n in counts.items()}
    return join_few([f"{name}{limit}" for name, limit in limits.items()])


def standing_of(stack: RankedStack, one: Ranking) -> str:
    top = "highest" if one.metric.more_is_better else "lowest"
    if stack.standing is Standing.FASTEST and one.trials == 1:
        return f"{top}, in one round"
    if stack.standing is Standing.FASTEST and len(one.leaders) > 1:
        return top  # another one may be as fast
    text = WITHIN if stack.standing is Standing.EQUAL else stack.standing.value
    return f"{text}, out after {stack.behind.n_a} rounds" if one.raced and stack.is_out and stack.behind else text


def ratio_of(stack: RankedStack) -> str:
    ratio = stack.behind
    if ratio is None:
        return ""
    if not stack.has_interval:
        return times(ratio.ratio)
    if stack.corrected:
        least, most = stack.corrected
        return times_between(least, most).replace(" ", FIRM) if isfinite(most) else f"at least {times(least)}"
    fine = ratio.high - ratio.low < _FINE
    middle, low, high = (f"{one:.3f}" if fine else digits(one) for one in (ratio.ratio, ratio.low, ratio.high))
    return f"{middle}\u00d7 ({low} to {high})".replace(" ", FIRM)


def figure_of(one: Ranking, stack: RankedStack) -> str:
    level = figure(stack.level, one.metric.unit).replace(" ", FIRM)
    return f"{level}, {_pace_of(stack.pace)}" if stack.pace else level


def _pace_of(pace: Pace) -> str:
    if pace.is_reached:
        return "rate reached"
    got, wanted = (figure(rate, pace.unit).replace(" ", FIRM) for rate in (pace.rate, pace.wanted))
    return f"{got.partition(FIRM)[0] if pace.unit == '1/s' else got}{FIRM}of{FIRM}{wanted}"


def marked_name(stack: RankedStack) -> str:
    return f"{stack_name(stack.cell)}{mark(stack)}"


def mark(stack: RankedStack) -> str:
    return f"{FIRM}(!{FIRM}{percent(stack.lost_share)})" if stack.lost_share else ""


def percent(share: float) -> str:
    return rounded_percent(share).replace(" ", FIRM)


def percent_at_most(share: float) -> str:
    return f"{ceil(round(share * 100, 6))}{FIRM}%"  # 0.07 * 100 is above 7


def layout_name(cell: CellRow) -> str:
    return cell.axes.get("layout") or stack_name(cell)


def workload_name(one: Ranking) -> str:
    cell = one.fastest.cell
    faults = f" under faults={cell.axes['faults']}" if "faults" in cell.axes else ""
    return f"{cell.work or 'the workload'}{faults}"


def join(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last
