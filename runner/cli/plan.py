"""`matrix plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.options import budget, jobs, kernel, matrix_file, on, only, results, shard
from runner.cli.screen import echo
from runner.engine.budget import ENDLESS, Cost, repeats
from runner.reports.terminal_text import duration
from runner.session.request import Checks, Request, load_request
from runner.session.run import choose_level

if TYPE_CHECKING:
    from runner.engine.estimate import Estimate, Pace
    from runner.language.matrix import Repeat
    from runner.session.run import Jobs
    from runner.space.select import Shard


@click.command("plan", epilog="Example:  matrix plan --only 'layout=raid5,bs=4KiB' --cells matrix/chunk-sweep.yaml")
@matrix_file
@only
@shard
@on
@kernel
@results
@jobs
@budget
@click.option(
    "--cells",
    "--list",
    "all_cells",
    is_flag=True,
    help="List every cell with its id, in the order of the first round.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    matrix: Path,
    only: tuple[str, ...],
    shard: Shard | None,
    place: str,
    kernel: str | None,
    results: Path,
    jobs: Jobs,
    budget: float,
    bytes_budget: float,
    all_cells: bool,
    form: str,
) -> None:
    """Show what a run would do: cells, stacks, rigs, time and bytes written. Starts no machine."""
    from runner.engine.estimate import QUIET, Load, estimate, pace_of
    from runner.engine.rigs import specs_of
    from runner.machines import machine
    from runner.machines.base import MachineOptions
    from runner.session.run_request import check_kernel

    request = load_request(matrix, only, shard, Checks(place))
    check_kernel(kernel, request.space.matrix.machine.kernel or ())
    specs = tuple(dict.fromkeys(specs_of(request.space.matrix, request.arrays(), kernel)))
    where = machine(place, MachineOptions())
    load = QUIET if where.synthetic else Load.now()
    pace = pace_of(results, where, place, request.space.matrix, specs, load)
    level, alone = choose_level(jobs, where, specs, request.arrays())
    refused = list(dict.fromkeys(refusal.message for spec in specs for refusal in where.refusals(spec)))
    notes = request.selection.notes(simulated=where.brings_disks)
    notes += filter(None, [alone, "" if pace.runs else load.note])
    notes += [f"`matrix run --on {place}` would be refused here: {reason}" for reason in refused]
    found = estimate(request.plan, pace, level.now)
    if form == "json":
        _print_json(request, found, level.now, _times(Cost(budget, bytes_budget), found, request.plan.repeat), notes)
        return
    if all_cells:
        for batch in request.plan.batches(1):
            for cell in batch.cells:
                echo(f"{cell.id}  {cell.name}")
    start = " at first" if level.most > level.now else ""
    parallel = f", {level.now} rigs in parallel{start}" if level.now > 1 else ""
    _print_text(request, found, pace, place, parallel, notes)
    if (wanted := Cost(budget, bytes_budget)) != ENDLESS:
        echo(f"{'budget':>8}  {_describe_budget(wanted, found, request.plan.repeat, pace, place)}")


def _print_text(request: Request, found: Estimate, pace: Pace, place: str, side_by_side: str, notes: list[str]) -> None:
    repeat = request.plan.repeat
    for note in notes:
        echo(f"note: {note}")
    left_out = request.space.count() - found.cells
    repeats = f"{repeat.min}" if repeat.min == repeat.max else f"{repeat.min} to {repeat.max}"
    trials = _span(f"{found.trials_least:,}", f"{found.trials_most:,}")
    basis = (
        f"from {_describe_runs(pace.runs, place)}" if pace.runs else "a first estimate: no run of it is recorded yet"
    )
    rows = [
        ("cells", f"{found.cells:,}" + (f" ({left_out:,} left out)" if left_out else "")),
        ("stacks", f"{found.stacks:,}, {_describe_builds(found)}"),
        ("rigs", f"{found.rigs} kind{'s' if found.rigs != 1 else ''}"),
        ("rounds", f"{repeats}, every cell once in each, in an order drawn from seed {request.plan.seed}"),
        ("trials", trials),
        ("time", f"{_span(duration(found.seconds_least), duration(found.seconds_most))} ({basis}{side_by_side})"),
        ("written", f"{_span(volume(found.bytes_least), volume(found.bytes_most))} ({_rate_basis(pace, place)})"),
    ]
    for name, text in rows:
        echo(f"{name:>8}  {text}")


def _describe_budget(budget: Cost, found: Estimate, repeat: Repeat, pace: Pace, place: str) -> str:
    from runner.statistics.ratios import t_factor

    times = _times(budget, found, repeat)
    if times < repeat.min:
        return f"enough for {times} trials of each cell; the minimum is {repeat.min}"
    enough = f"enough for {times} trials of each cell" + (", the maximum" if times == repeat.max else "")
    if pace.scatter is None:
        return f"{enough}; the width of intervals is unknown before the first run"
    if times < 2:
        return f"{enough}, too few for an interval"
    half = t_factor(times - 1, repeat.confidence) * pace.scatter / times**0.5
    scatter = f"if trials scatter by {pace.scatter:.1%} as in {_describe_runs(pace.scattered, place)}"
    return f"{enough}; intervals of ±{half:.1%} {scatter}"


def _times(budget: Cost, found: Estimate, repeat: Repeat) -> int:
    round_number = Cost(found.seconds_least / repeat.min, found.bytes_least / repeat.min)
    return repeats(budget, round_number, repeat.max)


def _describe_builds(found: Estimate) -> str:
    if found.builds == found.stacks:
        return "each built once in every round"
    return f"built {found.builds:,} times in every round: again for each trial with failing disks"


def _describe_runs(count: int, place: str) -> str:
    return f"{count} recorded run{'s' if count != 1 else ''} on {place}"


def _rate_basis(pace: Pace, place: str) -> str:
    if pace.write_rate is not None:
        return f"at {pace.write_rate / 1e6:,.0f} MB/s, the mean of {_describe_runs(pace.rated, place)}"
    if pace.physics is None:
        return f"at an assumed {pace.costs.bandwidth / 1e6:,.0f} MB/s at most"
    return "at the rates of the simulated disks"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def volume(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _print_json(request: Request, found: Estimate, jobs: int, times: int, notes: list[str]) -> None:
    """Print one JSON object, cell by cell: a million cells must not fill the memory."""
    import dataclasses

    import orjson

    head: dict[str, Any] = {
        "matrix": request.space.matrix.name,
        "seed": request.plan.seed,
        "repeat": request.plan.repeat.model_dump(),
        "jobs": jobs,
        "repeats_within_budget": times,
        "notes": notes,
        **dataclasses.asdict(found),
    }
    click.echo(orjson.dumps(head).decode()[:-1] + ',"batches":[', nl=False)
    for number, batch in enumerate(request.plan.batches(1)):
        cells = [{"id": cell.id, "name": cell.name, "axes": cell.axes} for cell in batch.cells]
        row = {"stack": batch.array.key, "label": batch.array.label, "kernel": batch.array.kernel, "cells": cells}
        click.echo(("," if number else "") + "\n" + orjson.dumps(row).decode(), nl=False)
    click.echo("\n]}")
