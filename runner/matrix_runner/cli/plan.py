"""`matrix plan`: the estimate is in decide/estimate.py, the budget in decide/budget.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.extras import require_statistics
from matrix_runner.base.quantities import format_size, parse_percent
from matrix_runner.carry.past_timings import pace_of
from matrix_runner.carry.trial import why_skipped
from matrix_runner.cli.options import (
    Parsed,
    budget,
    design,
    jobs,
    kernel,
    matrix_file,
    on,
    only,
    positive,
    race,
    results,
    shard,
)
from matrix_runner.cli.screen import echo, echo_whole, first_notes, json_text
from matrix_runner.decide.budget import ENDLESS, Cost, repeats
from matrix_runner.decide.concurrency import Level, choose_level
from matrix_runner.decide.estimate import QUIET, Estimate, Load, Pace, Slots, estimate
from matrix_runner.machines import Where, machine
from matrix_runner.machines.base import Machine, MachineOptions
from matrix_runner.machines.rig_specs import rig_spec, specs_of
from matrix_runner.pages.terminal_text import duration, percent, slow_motion, volume
from matrix_runner.session.run_request import RunOptions, check_kernel, race_of
from matrix_runner.session.selected_matrix import Checks, SelectedMatrix, load_selected, refusals_of
from matrix_runner.space.select import refuse_many
from matrix_runner.statistics.ratios import MOST_ROUNDS, rounds_to_detect, t_factor

if TYPE_CHECKING:
    from matrix_runner.decide.steering import RaceForecast

_EPILOG = """\b
Examples:
  matrix plan --only 'layout=raid5,bs=4KiB' --cells raid.yaml
  matrix plan --race raid.yaml                trials and time of `matrix run --race`
  matrix plan --detect 5% raid.yaml           rounds that show a difference of 5 %
"""


@click.command("plan", epilog=_EPILOG)
@matrix_file
@only
@shard
@on
@kernel
@results
@jobs
@budget
@race
@design
@click.option(
    "--detect",
    metavar="PERCENT",
    type=Parsed("percent", partial(positive, parse_percent)),
    help="The rounds that show a difference of this size between two cells, e.g. 5%.",
)
@click.option(
    "--cells", "--list", "all_cells", is_flag=True, help="List every cell with its id, in the order of the first round."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(all_cells: bool, form: str, detect: float | None, place: str, **options: Any) -> None:
    """Show what a run would do: cells, stacks, rigs, time and bytes written. Starts no rig."""
    each = all_cells or form == "json"
    plan = prepare_plan(RunOptions(**options, place=Where(place)), each=each, detect=detect)
    if form == "json":
        _print_json(plan)
        return
    if all_cells:
        for batch in plan.selected.plan.batches(1):
            for cell in batch.cells:
                echo(f"{cell.id}  {cell.name}")
    for note in first_notes(plan.notes):
        echo(f"note: {note}")
    for name, text in _rows(plan):
        echo(f"{name:>8}  {text}")


@dataclass(frozen=True)
class RunPlan:
    options: RunOptions
    selected: SelectedMatrix
    pace: Pace
    level: Level
    estimate: Estimate
    notes: list[str]
    detect: float | None  # the smallest difference to show, as a share

    @cached_property
    def race(self) -> RaceForecast | None:
        """Return the trials of the run as a race, with those of workloads that do not race."""
        if self.options.race is None:
            return None
        from matrix_runner.decide.steering import RaceForecast, forecast

        selected = self.selected
        race = race_of(selected, self.options.race, self.options.matrix)
        least, confidence = selected.plan.repeat.min, selected.plan.repeat.confidence
        others = self.estimate.trials_least - least * sum(race.sizes)
        found = forecast(race.sizes, race.powers, least, self.scatter, confidence, race.practical)
        return RaceForecast(*(one + others for one in found))

    @property
    def scatter(self) -> float:
        return _SCATTER if self.pace.scatter is None else self.pace.scatter

    @property
    def rounds_to_detect(self) -> int | None:
        if not self.detect:
            return None
        return rounds_to_detect(self.detect, self.scatter, self.selected.plan.repeat.confidence)

    def seconds_of(self, trials: float) -> float:
        return self.estimate.seconds_least * trials / max(1, self.estimate.trials_least)

    @property
    def repeats_within_budget(self) -> int:
        repeat, found = self.selected.plan.repeat, self.estimate
        one_round = Cost(found.seconds_least / repeat.min, found.bytes_least / repeat.min)
        return repeats(self.options.budget, one_round, repeat.max)


def prepare_plan(options: RunOptions, *, each: bool, detect: float | None = None) -> RunPlan:
    if options.race is not None:
        require_statistics("plan --race")
    place = options.place.machine
    wish = options.only, options.shard, Checks(place), options.design
    selected = load_selected(options.matrix, *wish, raced=options.race is not None)
    if each:
        refuse_many(selected.selection, "list")
    matrix = selected.space.matrix
    check_kernel(options.kernel, matrix.machine.kernel or ())
    specs = tuple(dict.fromkeys(specs_of(matrix, selected.stacks(), options.kernel)))
    where = machine(place, MachineOptions())
    load = QUIET if where.synthetic else Load.now()
    pace = pace_of(options.results, where, place, matrix, specs, load)
    level, alone = choose_level(options.jobs, where, specs, selected.stacks())
    refused = [refusal.message for refusal in refusals_of(where, specs)]
    notes = selected.selection.notes(simulated=where.brings_disks)
    notes += filter(None, [alone, "" if pace.runs else load.note])
    notes += [f"`matrix run --on {place}` would be refused here: {reason}" for reason in refused]
    notes += () if refused else _notes_on_skips(selected, where, options.kernel)
    return RunPlan(options, selected, pace, level, estimate(selected.plan, pace, Slots.of(level.now)), notes, detect)


def _notes_on_skips(selected: SelectedMatrix, where: Machine, kernel: str | None) -> Iterator[str]:
    """Return what is known to be missing here, without starting a rig."""
    known, skipped, matrix = cache(where.known), Counter[str](), selected.space.matrix
    for stack in selected.stacks():
        spec = rig_spec(matrix, stack, kernel)
        if why := why_skipped(stack, where, known(spec), matrix.profile):
            skipped[why] += selected.selection.count_of(stack)
    for why, count in skipped.items():
        yield f"{count:,} cell{'s' if count > 1 else ''} will be skipped here: {why}"


def _rows(plan: RunPlan) -> Iterator[tuple[str, str]]:
    found, pace, level, repeat = plan.estimate, plan.pace, plan.level, plan.selected.plan.repeat
    left_out = plan.selected.space.count() - found.cells
    yield "cells", f"{found.cells:,}" + (f" ({left_out:,} left out)" if left_out else "")
    builds = "each built once in every round"
    if found.builds != found.stacks:
        builds = f"built {found.builds:,} times in every round: again for each trial with failing disks"
    yield "stacks", f"{found.stacks:,}, {builds}"
    yield "rigs", f"{found.rigs} kind{'s' if found.rigs != 1 else ''}"
    rounds = _span(str(repeat.min), str(repeat.max))
    searched = " (those of a search as it needs them)" * bool(plan.selected.plan.finds)
    yield (
        "rounds",
        f"{rounds}, every cell once in each{searched}, in an order drawn from seed {plan.selected.plan.seed}",
    )
    yield "trials", _span(f"{found.trials_least:,}", f"{found.trials_most:,}")
    basis = f"from {_runs(plan, pace.runs)}" if pace.runs else "a first estimate: no similar run is recorded yet"
    start = " at first" if level.most > level.now else ""
    parallel = f", {level.now} rigs in parallel{start}" if level.now > 1 else ""
    yield "time", f"{_span(duration(found.seconds_least), duration(found.seconds_most))} ({basis}{parallel})"
    if pace.once > found.seconds_least * _MOST:
        yield "of it", f"{duration(pace.once)} to build the virtual machine, only in the first run"
    if slow := slow_motion(found.factors):
        yield "slow", slow
    if found.seconds_filling > found.seconds_least * _MOST:
        largest = max(disk.size for disk in plan.selected.space.matrix.disks)
        smaller = ""
        if pace.physics and largest > _ENOUGH:
            smaller = f"; simulated disks have the same rates with `size: {format_size(_ENOUGH)}`"
        yield "of it", f"{duration(found.seconds_filling)} to fill stacks on disks of {volume(largest)}{smaller}"
    yield "written", f"{_span(volume(found.bytes_least), volume(found.bytes_most))} ({_written_at(plan)})"
    if plan.options.budget != ENDLESS:
        yield "budget", _describe_budget(plan)
    if plan.race:
        yield "race", describe_race(plan)
    if plan.detect:
        yield "detect", _describe_detect(plan, percent(plan.detect))


def _written_at(plan: RunPlan) -> str:
    found, pace = plan.estimate, plan.pace
    if pace.write_rate is not None:
        rate = f"at {volume(round(pace.write_rate))}/s, the mean of {_runs(plan, pace.rated)}"
    elif pace.physics is None:
        rate = f"at an assumed {pace.costs.bandwidth / 1e6:,.0f} MB/s; faster disks get more"
    else:
        rate = "at the rates of the simulated disks"
    prepared = found.bytes_prepared / max(1, found.bytes_least)
    if prepared >= _MENTIONED:
        rate = f"{prepared * 100:.0f} % to build stacks and lay out files; the rest {rate}"
    return rate


_MOST = 0.5  # the least part of the time that is worth a word
_ENOUGH = 2**30  # bytes of a simulated disk: its model scales to any size
_MENTIONED = 0.01  # the least part of the bytes that is worth a word


_SCATTER = 0.03  # of trials, before the first run


def describe_race(plan: RunPlan) -> str:
    def of(trials: int) -> str:
        return f"{trials:,} trials, {duration(plan.seconds_of(trials))}"

    trials, most, unraced = plan.race or (0, 0, 0)
    each = f"every cell for as many rounds: {of(unraced)}"
    return f"about {of(trials)} (95 % of simulations: at most {most:,} trials); {each}; {_scatter_of(plan)}"


def _scatter_of(plan: RunPlan) -> str:
    if plan.pace.scatter is None:
        return f"if trials scatter by {percent(_SCATTER)}, an assumption before the first run"
    return f"if trials scatter by {percent(plan.scatter)} as in {_runs(plan, plan.pace.runs)}"


def _describe_detect(plan: RunPlan, size: str) -> str:
    confidence = f"{plan.selected.plan.repeat.confidence * 100:g} % confidence"
    if (rounds := plan.rounds_to_detect) is None:
        return f"more rounds than {MOST_ROUNDS:,} are needed for {size}; {_scatter_of(plan)}"
    trials = plan.selected.plan.trials(rounds)
    cost = f"`repeat: {rounds}`, {trials:,} trials, {duration(plan.seconds_of(trials))}"
    return f"{cost} show {size} between two cells in 9 of 10 runs ({confidence}); {_scatter_of(plan)}"


def _describe_budget(plan: RunPlan) -> str:
    times, repeat, pace = plan.repeats_within_budget, plan.selected.plan.repeat, plan.pace
    if times < repeat.min:
        return f"enough for {times} trials of each cell; the minimum is {repeat.min}"
    enough = f"enough for {times} trials of each cell" + (", the maximum" if times == repeat.max else "")
    if pace.scatter is None:
        return f"{enough}; the width of intervals is unknown before the first run"
    if times < 2:
        return f"{enough}, too few for an interval"
    half = t_factor(times - 1, repeat.confidence) * pace.scatter / times**0.5
    return f"{enough}; intervals of ±{percent(half)} {_scatter_of(plan)}"


def _runs(plan: RunPlan, count: int) -> str:
    return f"{count} recorded run{'s' if count != 1 else ''} on {plan.options.place.machine}"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _print_json(plan: RunPlan) -> None:
    """Print one JSON object, cell by cell: a million cells must not fill the memory."""
    selected = plan.selected
    head: dict[str, Any] = {
        "matrix": selected.space.matrix.name,
        "seed": selected.plan.seed,
        "repeat": selected.plan.repeat.model_dump(),
        "jobs": plan.level.now,
        "repeats_within_budget": plan.repeats_within_budget,
        "notes": plan.notes,
        **({"race": plan.race._asdict()} if plan.race else {}),
        **({"rounds_to_detect": plan.rounds_to_detect} if plan.detect else {}),
        **asdict(plan.estimate),
    }
    echo_whole(json_text(head)[:-1] + ',"batches":[', newline=False)
    for number, batch in enumerate(selected.plan.batches(1)):
        cells = [{"id": cell.id, "name": cell.name, "axes": cell.axes} for cell in batch.cells]
        row = {"stack": batch.stack.key, "label": batch.stack.label, "kernel": batch.stack.kernel, "cells": cells}
        echo_whole(("," if number else "") + "\n" + json_text(row), newline=False)
    echo_whole("\n]}")
