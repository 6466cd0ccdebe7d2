"""The rankings of a run in plain words: which stack is fastest, for what, and by how much."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from runner.guidelines.ranking import EQUAL, Standing
from runner.reports.junit import split_name
from runner.reports.number_format import digits, figure, times
from runner.reports.table_formats import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.guidelines.ranking import Ranking, Stack
    from runner.results.record import CellRow

#: Lines of the short answer, before they are wrapped; and where it leaves workloads out.
MOST_LINES, _SHORT = 12, 9
#: Groups of it; slower stacks that a line names; stacks or workloads in a list.
_GROUPS, _NAMED, _NAMES = 4, 2, 4
#: Trials that make an interval.
_ENOUGH = 2
#: From this difference on (1: twice as fast) a bound is of no use.
_FAR = 1.0
#: Narrower intervals have one digit more.
_FINE = 0.02
_CUT = "…"
#: Spaces that do not end a line.
_FIRM = "\u00a0"
_WITHIN = f"equal within {EQUAL * 100:g}{_FIRM}%"
SYNTHETIC = "These figures are synthetic: the dry machine invents them. They say nothing about storage."


@dataclass(frozen=True, slots=True)
class Group:
    """Workloads that the same stacks lead: a heading, and a line for each."""

    heading: str
    lines: tuple[str, ...] = ()
    #: How many times as fast as the next stack the fastest is, line by line.
    leads: tuple[float, ...] = ()

    def shortened(self, room: int) -> Group:
        """Keep so many lines, the last of which stands for all the rest."""
        left = len(self.lines) - (room - 1)
        if left < 2:  # one line needs no more room than a word about it
            return self
        rest = self.leads[room - 1 :]
        span = " to ".join(dict.fromkeys((times(min(rest)), times(max(rest)))))
        return Group(self.heading, (*self.lines[: room - 1], f"{_CUT} and {left} more, {span} as fast as the next"))


@dataclass(frozen=True, slots=True)
class Words:
    """A short answer."""

    title: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def cut(self) -> bool:
        """Whether the full list has more."""
        return any(line.startswith(_CUT) for group in self.groups for line in (group.heading, *group.lines))


def in_words(rankings: Sequence[Ranking], *, synthetic: bool, over: bool, most: int = MOST_LINES) -> Words | None:
    """Put rankings into about `most` lines; None if they tell a reader nothing (yet)."""
    if not rankings or not (over or any(one.slower for one in rankings)):
        return None
    groups = _shortened(list(_groups(rankings)), most)
    known = any(one.trials >= _ENOUGH for one in rankings)
    confidence = f" ({rankings[0].confidence * 100:g} % confidence)" if known else ""
    title = f"Fastest stack by workload{'' if over else ', so far'}{confidence}:"
    return Words(title, tuple(groups), tuple(_notes(rankings, synthetic=synthetic)))


def _groups(rankings: Sequence[Ranking]) -> Iterator[Group]:
    """Every workload: the stacks that lead most of them first; those where all stacks are alike last."""
    leading: dict[tuple[str, ...], list[Ranking]] = {}
    for one in rankings:
        leading.setdefault(_contenders(one) if one.slower else (), []).append(one)
    alike = leading.pop((), [])
    for names, several in sorted(leading.items(), key=lambda item: (-len(item[1]), len(item[0]))):
        yield _led(names, several, len(rankings))
    if alike:
        yield _single_trials(alike) if all(one.trials < _ENOUGH for one in alike) else _alike(alike, len(rankings))


def _shortened(groups: Sequence[Group], most: int) -> Iterator[Group]:
    """The first groups with their first lines, as many as there is room for."""
    if sum(1 + len(group.lines) for group in groups) <= most:
        yield from groups
        return
    shown = groups[:_GROUPS]
    for group in shown:
        yield group.shortened(max(2, min(4, _SHORT // len(shown) - 1)))
    if left := len(groups) - len(shown):
        yield Group(f"{_CUT} and {left} more such list{'s' if left > 1 else ''} of workloads")


def plain(words: Words, width: int) -> Iterator[str]:
    """Lines of a terminal, wrapped at words."""
    yield from _wrapped(words.title, "", width)
    for group in words.groups:
        yield from _wrapped(group.heading, "  ", width)
        for line in group.lines:
            yield from _wrapped(line, "    ", width)
    for note in words.notes:
        yield from _wrapped(note, "", width)


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        text,
        max(20, width),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )
    return [line.replace(_FIRM, " ") for line in lines]


def markdown(words: Words) -> str:
    """A list for a page."""
    lines = [f"**{escaped(words.title)}**", ""]
    for group in words.groups:
        lines.append(f"- {escaped(group.heading)}")
        lines += [f"  - {escaped(line)}" for line in group.lines]
    return "\n".join([*lines, *(f"\n{escaped(note)}" for note in words.notes)]).replace(_FIRM, " ") + "\n"


def full(rankings: Sequence[Ranking], *, synthetic: bool, over: bool) -> str:
    """Every workload with all of its stacks."""
    confidence = f"{rankings[0].confidence * 100:g} % confidence"
    lines = [f"The stacks of each workload, the fastest first{'' if over else ', so far'}."]
    lines.append(f"A ratio is how many times as fast the fastest one is ({confidence}).")
    lines += [SYNTHETIC] * synthetic
    for one in rankings:
        rows = [(_stack(stack), _figure(one, stack), _ratio(stack), _standing(stack)) for stack in one.stacks]
        rows += [(_stack_of(cell), "no figures", "", "") for cell in one.missing]
        name, level, ratio = (max(len(row[at]) for row in rows) for at in range(3))
        lines += ["", f"{_work(one)}:"]
        lines += [f"  {row[0]:{name}}  {row[1]:>{level}}  {row[2]:{ratio}}  {row[3]}".rstrip() for row in rows]
    notes = _notes(rankings, synthetic=False)
    return "\n".join([*lines, "", *notes]).rstrip().replace(_FIRM, " ") + "\n"


def as_objects(rankings: Sequence[Ranking]) -> list[dict[str, object]]:
    """The rankings for programs."""
    return [
        {
            "workload": _work(one),
            "metric": one.metric.name,
            "unit": one.metric.unit,
            "stacks": [_object(stack) for stack in one.stacks],
            "without_figures": [cell.name for cell in one.missing],
        }
        for one in rankings
    ]


def _object(stack: Stack) -> dict[str, object]:
    known = stack.behind if stack.apart is not None else None
    return {
        "stack": _stack_of(stack.cell),
        "cell": stack.cell.id,
        "value": stack.level,
        "standing": stack.standing.value,
        "fastest_over_this": stack.behind and stack.behind.ratio,
        "low": known and known.low,
        "high": known and known.high,
        "host_limited": stack.host_limited,
    }


def _contenders(one: Ranking) -> tuple[str, ...]:
    """The layouts that lead, or the stacks where there is one layout."""
    name = _contender(one)
    return tuple(sorted({name(stack.cell) for stack in one.leaders}))


def _contender(one: Ranking) -> Callable[[CellRow], str]:
    """What is compared: layouts, each by its best stack; or the stacks of the only layout."""
    return _layout_of if len({_layout_of(stack.cell) for stack in one.stacks}) > 1 else _stack_of


def _led(names: Sequence[str], several: Sequence[Ranking], of: int) -> Group:
    """The workloads that some layouts or stacks lead, the clearest first."""
    leads = "is fastest" if len(names) == 1 else "cannot be told apart"
    heading = f"{_few(names)} {leads} for"
    ordered = sorted(several, key=lambda one: -_lead(one))
    if len(ordered) == 1:
        return Group(f"{heading} {_work(ordered[0])}: {_reached(ordered[0])}.")
    lines = [f"{_work(one)}: {_reached(one)}" for one in ordered]
    return Group(f"{heading} {_share(len(ordered), of)}:", tuple(lines), tuple(map(_lead, ordered)))


def _share(some: int, of: int) -> str:
    if some == of:
        return "both workloads" if of == 2 else f"all {of} workloads"
    return f"{some} of {of} workloads"


def _lead(one: Ranking) -> float:
    """How many times as fast as the next contender the winner is."""
    ratio = _rivals(one)[0].behind
    return ratio.ratio if ratio else 1.0


def _rivals(one: Ranking) -> list[Stack]:
    """The best stack of each contender that is slower; the others of the winner, if it has no other rival."""
    name = _contender(one)
    leading = {name(stack.cell) for stack in one.leaders}
    best: dict[str, Stack] = {}
    for stack in one.slower:
        best.setdefault(name(stack.cell), stack)
    return [stack for name, stack in best.items() if name not in leading] or one.slower[:1]


def _reached(one: Ranking) -> str:
    """The figure, how far it is certain who reached it, and what is slower."""
    rivals = _rivals(one)
    than = [f"{_ratio(stack)} as fast as {_stack(stack)}" for stack in rivals[:_NAMED]]
    more = len(rivals) - len(than)
    than += [f"faster than {more} more"] if more else []
    who = _variant(one) if len(_contenders(one)) == 1 else _tie(one)
    return f"{_figure(one, one.fastest)}{who}, {_joined(than)}"


def _variant(one: Ranking) -> str:
    """Which stacks of the winning layout do it."""
    mark = _mark(one.fastest)
    layout = _layout_of(one.fastest.cell)
    own = [_stack_of(stack.cell).removeprefix(layout).strip("/") for stack in one.leaders]
    if not own[0] or _contender(one) is _stack_of:
        return mark
    every = sum(_layout_of(stack.cell) == layout for stack in one.stacks)
    if len(own) > _NAMED:
        return f" with {'any' if len(own) == every else len(own)} of its {every} stacks{mark}"
    return f" with {' or '.join(own)}{mark}"


def _tie(one: Ranking) -> str:
    """Which stack has the highest figure, and how far the others may be from it."""
    return f" ({_stack(one.fastest)}; {_alikeness([one])})"


def _alikeness(several: Sequence[Ranking]) -> str:
    """How large the differences between those that lead together may be."""
    if all(stack.standing is not Standing.UNDECIDED for one in several for stack in one.leaders):
        return _WITHIN
    bounds = [stack.apart for one in several for stack in one.leaders[1:]]
    known = [bound for bound in bounds if bound is not None and bound < _FAR]
    return "more trials needed" if len(known) < len(bounds) else f"at most {ceil(max(known) * 100)}{_FIRM}% apart"


def _alike(several: Sequence[Ranking], of: int) -> Group:
    """The workloads where every stack may be the fastest."""
    works = _share(of, of) if len(several) == of > 1 else _few([_work(one) for one in several])
    if (alikeness := _alikeness(several)) == _WITHIN:
        return Group(f"The stacks are {alikeness} for {works}.")
    return Group(f"The stacks cannot be told apart for {works} ({alikeness}).")


def _single_trials(several: Sequence[Ranking]) -> Group:
    """The order in which figures without an interval stand."""
    lines, leads = [], []
    for one in several:
        first, second = (f"{_stack(stack)}, {_figure(one, stack)}" for stack in one.stacks[:2])
        lines.append(f"{_work(one)}: {first} (next: {second})")
        leads.append(one.stacks[0].level / one.stacks[1].level)
    heading = "One trial of each cell cannot tell which stack is fastest. The highest figures:"
    return Group(heading, tuple(lines), tuple(leads))


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return _joined([*names[:_NAMES], f"{more} more"] if more > 0 else names)


def _notes(rankings: Sequence[Ranking], *, synthetic: bool) -> Iterator[str]:
    if any(stack.host_limited for one in rankings for stack in one.stacks):
        yield "(!) host-limited: the host could not keep up with its simulated disks, so this figure may be the host's."
    if missing := Counter(_stack_of(cell) for one in rankings for cell in one.missing):
        names = [name if count == len(rankings) else f"{name} ({count} workloads)" for name, count in missing.items()]
        yield f"Without figures, so not compared: {_few(names)}."
    if any(one.trials == 1 for one in rankings):
        yield "Intervals need two trials of each cell: `repeat: 3` or more."
    if synthetic:
        yield SYNTHETIC


def _standing(stack: Stack) -> str:
    if stack.standing is Standing.EQUAL:
        return _WITHIN
    return stack.standing.value


def _ratio(stack: Stack) -> str:
    """How many times as fast the fastest is, with the interval."""
    ratio = stack.behind
    if ratio is None:
        return ""
    if stack.apart is None:
        return times(ratio.ratio)
    fine = ratio.high - ratio.low < _FINE
    middle, low, high = (f"{one:.3f}" if fine else digits(one) for one in (ratio.ratio, ratio.low, ratio.high))
    return f"{middle}\u00d7 ({low} to {high})".replace(" ", _FIRM)


def _figure(one: Ranking, stack: Stack) -> str:
    return figure(stack.level, one.metric.unit).replace(" ", _FIRM)


def _stack(stack: Stack) -> str:
    return f"{_stack_of(stack.cell)}{_mark(stack)}"


def _mark(stack: Stack) -> str:
    return f"{_FIRM}(!)" if stack.host_limited else ""


def _stack_of(cell: CellRow) -> str:
    """Its part of a cell's name; faults are named with the workload."""
    parts = split_name(cell.name, cell.axes)[0].split("/")
    return "/".join(part for part in parts if not part.startswith("faults="))


def _layout_of(cell: CellRow) -> str:
    return cell.axes.get("layout") or _stack_of(cell)


def _work(one: Ranking) -> str:
    """The workload, as the cell of the fastest stack is called."""
    cell = one.fastest.cell
    faults = f" under faults={cell.axes['faults']}" if "faults" in cell.axes else ""
    return f"{split_name(cell.name, cell.axes)[1] or 'the workload'}{faults}"


def _joined(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last
