"""The rankings of a run in words: which stack is fastest, for what, and by how much."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.decision import Decision
from matrix_runner.answers.ranking import Gap, GapKind, RankedStack, Ranking, Standing, gap_of, stack_name
from matrix_runner.base.findings import join
from matrix_runner.pages.ranking import (
    FIRM,
    all_else_equal,
    decision_text,
    figure_of,
    join_few,
    layout_name,
    mark,
    marked_name,
    name_stacks,
    percent,
    percent_at_most,
    ratio_of,
    standing_of,
    within,
    workload_name,
)
from matrix_runner.pages.table import escape_markdown
from matrix_runner.pages.terminal_text import HOST_LIMITED, times_alike
from matrix_runner.records.record import CellRow

MOST_LINES, _SHORT = 12, 9  # lines of the short answer before wrapping; lines of workloads if some are left out
_GROUPS, _NAMED = 4, 2  # groups of the short answer; slower stacks that a line names
_ENOUGH = 2  # trials that make an interval
_CUT = "…"
_GAPS = {
    GapKind.HOST: "this host is too slow to tell",
    GapKind.TRIALS: "more trials needed",
}
_TIED = "cannot be told apart"
_PAIRWISE = (
    "Each interval applies to its own pair only; which stacks may be fastest is tested for all together.",
    "So a stack can be `cannot tell` though its interval excludes 1.",
    "The fastest stack was chosen from the same trials, so its lead may look larger than it is.",
)
_OF_RACE = "The intervals hold after any number of rounds, and for all stacks of a workload together."
_RAISE = "For more trials, raise `repeat:` and run the same command again: it adds them to this run."
_RACE_ENDED = (
    "The race ended undecided. If a budget stopped it, the same command continues it; "
    "else more rounds would not tell these stacks apart."
)
SYNTHETIC = "These figures are synthetic: the dry machine invents them. They are not measurements."


class Line(NamedTuple):
    text: str
    lead: float = 1.0  # how many times as fast as the next stack the fastest is
    needs_trials: bool = False
    is_rest: bool = False  # it stands for lines that are left out


@dataclass(frozen=True, slots=True)
class Group:
    heading: Line
    lines: tuple[Line, ...] = ()

    def shorten(self, room: int) -> "Group":
        rest = [line.lead for line in self.lines[room - 1 :]]
        if len(rest) < 2:  # a summary takes a line too
            return self
        span = " to ".join(dict.fromkeys(times_alike(min(rest), max(rest))))
        left = Line(f"{_CUT} and {len(rest)} more, {span} as fast as the next", is_rest=True)
        return Group(self.heading, (*self.lines[: room - 1], left))


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    title: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def is_cut(self) -> bool:
        return any(line.is_rest for group in self.groups for line in (group.heading, *group.lines))


def summarize_rankings(
    rankings: Sequence[Ranking],
    *,
    synthetic: bool,
    over: bool,
    most: int = MOST_LINES,
) -> ShortAnswer | None:
    """Summarise rankings in about `most` lines."""
    if not rankings:
        return None
    groups = tuple(_shorten(list(_groups(rankings)), most))
    confidence = f" ({rankings[0].confidence * 100:g} % confidence)" if _has_intervals(rankings) else ""
    raced = ", or one that is " + within(rankings[0]) if rankings[0].raced else ""
    title = f"Fastest stack by workload{raced}{'' if over else ', so far'}{confidence}:"
    notes = list(_notes(rankings, synthetic=synthetic, over=over))
    if over and any(line.needs_trials for group in groups for line in (group.heading, *group.lines)):
        notes.insert(0, _RACE_ENDED if rankings[0].raced else _RAISE)
    return ShortAnswer(title, groups, tuple(notes))


def _groups(rankings: Sequence[Ranking]) -> Iterator[Group]:
    alone = [one for one in rankings if not one.compared]
    leading = grouped((_contenders(one) if one.slower else (), one) for one in rankings if one.compared)
    alike = leading.pop((), [])
    for names, several in sorted(leading.items(), key=lambda item: (-len(item[1]), len(item[0]))):
        yield _group_of_leaders(names, several, len(rankings))
    limited = [one for one in alike if one.is_host_limited]
    if limited:
        lost = max(stack.lost_share for one in limited for stack in one.leaders)
        works = f"{_name_any(limited, len(rankings))} (up to {percent(lost)} of the time lost)"
        yield Group(Line(f"This host is too slow to tell which stack is fastest for {works}."))
    if alike := [one for one in alike if one not in limited]:
        if all(one.trials < _ENOUGH for one in alike):
            yield _single_trials(alike)
        else:
            gap = gap_of(alike)
            if gap.kind is GapKind.WITHIN:
                yield Group(Line(f"The stacks are {within(alike[0])} for {_name_workloads(alike, len(rankings))}."))
            else:
                text = f"The stacks {_TIED} for {_name_any(alike, len(rankings))} ({_describe_gap(gap)})."
                yield Group(Line(text, needs_trials=gap.kind is GapKind.TRIALS))
    if alone:
        why = "the stack with the highest figure cannot be compared with another"
        yield Group(Line(f"No answer for {_name_any(alone, len(rankings))}: {why}."))


def _has_intervals(rankings: Sequence[Ranking]) -> bool:
    return any(one.trials >= _ENOUGH for one in rankings)


def _shorten(groups: Sequence[Group], most: int) -> Iterator[Group]:
    if sum(1 + len(group.lines) for group in groups) <= most:
        yield from groups
        return
    shown = groups[:_GROUPS]
    for group in shown:
        yield group.shorten(max(2, min(4, _SHORT // len(shown) - 1)))
    if left := len(groups) - len(shown):
        yield Group(Line(f"{_CUT} and {left} more such list{'s' if left > 1 else ''} of workloads", is_rest=True))


def answer_lines(words: ShortAnswer, width: int) -> Iterator[str]:
    yield from _wrap(words.title, "", width)
    for group in words.groups:
        yield from _wrap(group.heading.text, "  ", width)
        for line in group.lines:
            yield from _wrap(line.text, "    ", width)
    for note in words.notes:
        yield from _wrap(note, "", width)


def _wrap(text: str, indent: str, width: int) -> list[str]:
    hanging = f"{indent}  "
    lines = textwrap.wrap(
        text, max(20, width), initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False
    )
    return [line.replace(FIRM, " ") for line in lines]


def answer_as_markdown(words: ShortAnswer) -> str:
    lines = [f"**{escape_markdown(words.title)}**", ""]
    for group in words.groups:
        lines.append(f"- {escape_markdown(group.heading.text)}")
        lines += [f"  - {escape_markdown(line.text)}" for line in group.lines]
    return "\n".join([*lines, *(f"\n{escape_markdown(note)}" for note in words.notes)]).replace(FIRM, " ") + "\n"


def full_answer(
    rankings: Sequence[Ranking],
    decision: Decision | None = None,
    *,
    synthetic: bool,
    over: bool,
    part: str = "",
) -> str:
    """Return all rankings. `part`: the cells that they are of, if not of all."""
    confidence = f"{rankings[0].confidence * 100:g} % confidence"
    lines = [
        *([*decision_text(decision), ""] if decision else []),
        f"The stacks of each workload, the fastest first{'' if over else ', so far'}.",
        f"A ratio is how many times as fast the fastest one is ({confidence}).",
        *([_OF_RACE] if rankings[0].raced else _PAIRWISE if _has_intervals(rankings) else ()),
        *[SYNTHETIC] * synthetic,
        *([f"These are {part}."] if part else ()),
    ]
    for at, one in enumerate(rankings):
        rows = [(marked_name(s), figure_of(one, s), ratio_of(s), standing_of(s, one)) for s in one.stacks]
        rows += [(stack_name(cell), "no figures", "", "") for cell in one.missing]
        rows += [(stack_name(cell), "", "", "not ranked: degraded") for cell in one.degraded]
        name, level, ratio = (max(len(row[at]) for row in rows) for at in range(3))
        lines += ["", f"{workload_name(one)}:"]
        lines += [f"  {row[0]:{name}}  {row[1]:>{level}}  {row[2]:{ratio}}  {row[3]}".rstrip() for row in rows]
        lines += [f"  {text}" for text in (all_else_equal(decision, at) if decision and decision.axes else ())]
    notes = _notes(rankings, synthetic=False, over=over)
    return "\n".join([*lines, "", *notes]).rstrip().replace(FIRM, " ") + "\n"


def as_objects(rankings: Sequence[Ranking]) -> list[dict[str, object]]:
    return [
        {
            "workload": workload_name(one),
            "metric": one.metric.name,
            "unit": one.metric.unit,
            "stacks": [_object(stack) for stack in one.stacks],
            "without_figures": [cell.name for cell in one.missing],
            "degraded": [cell.name for cell in one.degraded],
        }
        for one in rankings
    ]


def _object(stack: RankedStack) -> dict[str, object]:
    measured = stack.behind if stack.has_interval else None
    low, high = stack.corrected or (measured and measured.low, measured and measured.high)
    return {
        "stack": stack_name(stack.cell),
        "cell": stack.cell.id,
        "value": stack.level,
        "standing": stack.standing.value,
        "fastest_over_this": stack.behind and stack.behind.ratio,
        "low": low,
        "high": high,
        "host_limited_share": stack.lost_share,
        "sync_lat_p99": stack.sync_p99,
    }


def _contenders(one: Ranking) -> tuple[str, ...]:
    name = _contender(one)
    return tuple(sorted({name(stack.cell) for stack in one.leaders}))


def _contender(one: Ranking) -> Callable[[CellRow], str]:
    return layout_name if len({layout_name(stack.cell) for stack in one.stacks}) > 1 else stack_name


def _group_of_leaders(names: Sequence[str], several: Sequence[Ranking], of: int) -> Group:
    is_tie = len(names) > 1
    heading = f"{join_few(names)} {_TIED if is_tie else 'is fastest'} for"
    ordered = sorted(several, key=lambda one: -_lead(one))
    if len(ordered) == 1:
        (one,) = ordered
        name, needs_trials = workload_name(one), is_tie and gap_of([one]).kind is GapKind.TRIALS
        text = _describe_tie(one, f" for {name}") if is_tie else f"{heading} {name}: {_describe_lead(one)}."
        return Group(Line(text, needs_trials=needs_trials))
    describe = _describe_tie if is_tie else _describe_lead
    lines = [
        Line(f"{workload_name(one)}: {describe(one)}", _lead(one), is_tie and gap_of([one]).kind is GapKind.TRIALS)
        for one in ordered
    ]
    return Group(Line(f"{heading} {_share(len(ordered), of)}:"), tuple(lines))


def _name_workloads(several: Sequence[Ranking], of: int) -> str:
    return _share(of, of) if len(several) == of > 1 else join_few([workload_name(one) for one in several])


def _name_any(several: Sequence[Ranking], of: int) -> str:
    """Name workloads after a negation, where "all" could mean that it is true for some."""
    if len(several) == of > 1:
        return "either workload" if of == 2 else f"any of the {of} workloads"
    return _name_workloads(several, of)


def _share(some: int, of: int) -> str:
    if some == of:
        return "both workloads" if of == 2 else f"all {of} workloads"
    return f"{some} of {of} workloads"


def _lead(one: Ranking) -> float:
    ratio = _rivals(one)[0].behind
    return ratio.ratio if ratio else 1.0


def _rivals(one: Ranking) -> list[RankedStack]:
    """Return the best stack of each slower contender; without one, a slower stack of the winner."""
    name = _contender(one)
    leading = {name(stack.cell) for stack in one.leaders}
    best = _best_stacks(one.slower, name)
    return [stack for name, stack in best.items() if name not in leading] or one.slower[:1]


def _best_stacks(stacks: Iterable[RankedStack], contender: Callable[[CellRow], str]) -> dict[str, RankedStack]:
    """Return the best stack by contender."""
    best: dict[str, RankedStack] = {}
    for stack in stacks:
        best.setdefault(contender(stack.cell), stack)
    return best


def _describe_lead(one: Ranking) -> str:
    return f"{figure_of(one, one.fastest)}{_winning_stacks(one)}, {_describe_rivals(one, marked_name)}"


def _describe_tie(one: Ranking, where: str = "") -> str:
    """Describe the stacks that may be fastest. `where`: the workload, to make it a sentence."""
    best = _best_stacks(one.leaders, _contender(one)).values()
    text = join_few([f"{stack_name(stack.cell)} ({figure_of(one, stack)})" for stack in best])
    gap = gap_of([one])
    is_within = gap.kind is GapKind.WITHIN
    if where:
        text += f" are {within(one)}{where}" if is_within else f" {_TIED}{where}"
    if gap.kind is not GapKind.HOST and not (where and is_within):
        text += f"; {within(one) if is_within else _describe_gap(gap)}"
    text += f"; {stack_name(one.fastest.cell)} is {_describe_rivals(one, lambda stack: stack_name(stack.cell))}"
    slowed = [stack for stack in (*one.leaders, *_rivals(one)[:_NAMED]) if stack.lost_share]
    lost = join_few([f"{stack_name(stack.cell)} {percent(stack.lost_share)}" for stack in slowed]) if slowed else ""
    return text + f". Time lost because the host was too slow: {lost}" * bool(lost) + "." * bool(where)


def _describe_rivals(one: Ranking, name: Callable[[RankedStack], str]) -> str:
    rivals = _rivals(one)
    than = [f"{ratio_of(stack)} as fast as {name(stack)}" for stack in rivals[:_NAMED]]
    others = rivals[_NAMED:]
    than_others = "as fast as or faster than" if any(not stack.is_out for stack in others) else "faster than"
    return join([*than, *([f"{than_others} {len(others)} more"] if others else [])])


def _winning_stacks(one: Ranking) -> str:
    limited = mark(one.fastest)
    layout = layout_name(one.fastest.cell)
    own = [stack_name(stack.cell).removeprefix(layout).strip("/") for stack in one.leaders]
    if not own[0] or _contender(one) is stack_name:
        return limited
    every = sum(layout_name(stack.cell) == layout for stack in one.stacks)
    if len(own) > _NAMED:
        return f" with {'any' if len(own) == every else len(own)} of its {every} stacks{limited}"
    return f" with {' or '.join(own)}{limited}"


def _describe_gap(gap: Gap) -> str:
    return _GAPS.get(gap.kind) or f"at most {percent_at_most(gap.most)} apart"


def _single_trials(several: Sequence[Ranking]) -> Group:
    lines = []
    for one in several:
        first, second = (f"{marked_name(stack)}, {figure_of(one, stack)}" for stack in one.stacks[:2])
        lead = one.stacks[0].level / one.stacks[1].level
        lead = lead if one.metric.more_is_better else 1 / lead
        lines.append(Line(f"{workload_name(one)}: {first} (next: {second})", lead))
    which = "highest" if all(one.metric.more_is_better for one in several) else "best"
    heading = f"One round cannot tell which stack is fastest. The {which} figures:"
    return Group(Line(heading), tuple(lines))


def _out_of_race(rankings: Iterable[Ranking]) -> Iterator[str]:
    """Return for each workload which stacks left its race, the first ones first, and after how many rounds."""
    for one in rankings:
        left = [(stack.behind.n_a, stack_name(stack.cell)) for stack in one.stacks if stack.is_out and stack.behind]
        if one.raced and left:
            names = [f"{name} after {rounds} round{'s' * (rounds > 1)}" for rounds, name in sorted(left)]
            yield f"Out of the race for {workload_name(one)}: {join_few(names)}."


def _notes(rankings: Sequence[Ranking], *, synthetic: bool, over: bool) -> Iterator[str]:
    yield from _out_of_race(rankings)
    if saved := sum(one.saved for one in rankings):
        trials = f"{saved:,} trial{'s' if saved > 1 else ''}"
        yield f"The race saved {trials}: as many rounds of all stacks take so many more."
    if any(stack.lost_share for one in rankings for stack in one.stacks):
        yield HOST_LIMITED
    if any(stack.sync_p99 for one in rankings for stack in one.stacks):
        yield "sync p99: 99 % of the fsyncs and fdatasyncs took at most this long."
    uncompared = [stack.cell for one in rankings for stack in one.stacks[1:] if stack.standing is Standing.NOT_COMPARED]
    # Stacks with too few rounds for an interval while other stacks have enough.
    compared = [stack for one in rankings if one.trials >= _ENOUGH for stack in one.stacks]
    without_interval = [stack.cell for stack in compared if stack.behind and stack.behind.n_a < _ENOUGH]
    for why, cells in (
        ("Without figures, so not compared", [cell for one in rankings for cell in one.missing]),
        ("No round in common with the fastest, so not compared", uncompared),
        ("One round in common with the fastest, so no interval", without_interval),
        ("Degraded arrays are not ranked", [cell for one in rankings for cell in one.degraded]),
    ):
        if cells:
            yield f"{why}: {name_stacks(cells, len(rankings))}."
    if over and any(one.trials == 1 for one in rankings):
        yield "Intervals need two trials of each cell: `repeat: 3` or more."
    if synthetic:
        yield SYNTHETIC
