"""Synthetic runs of which the truth is known: cells on axes, and what each truly does."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from matrix_runner.answers.cell_figures import Measured
from matrix_runner.answers.verdicts import judge_guidelines
from matrix_runner.language.guidelines import Guideline
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.stopping import Rule, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matrix_runner.answers.verdicts import Judgement

Axes = dict[str, str]


def guideline(**shape: Any) -> Guideline:
    return Guideline.model_validate({"id": "one", **shape})


def cells(**axes: list[str]) -> list[CellRow]:
    """Every combination; `md_chunk` is the axis md.chunk."""
    names = [name.replace("_", ".", 1) for name in axes]
    return [row(dict(zip(names, values, strict=True))) for values in itertools.product(*axes.values())]


def row(axes: Axes) -> CellRow:
    name = "/".join(f"{axis}={value}" for axis, value in axes.items())
    return CellRow(name, name, axes)


def run(
    found: list[CellRow],
    truth: Callable[[Axes], float],
    *,
    noise: float = 0.01,
    rounds: int = 5,
    seed: int = 1,
    mood: float = 0.0,
    column: str = "read_bw",
    name: str = "run",
) -> Iterator[Measured]:
    """What such a run would measure; `mood` is what every round does to all of its cells."""
    chance = np.random.default_rng(seed)
    moods = np.exp(mood * chance.standard_normal(rounds))
    for cell in found:
        values = truth(dict(cell.axes)) * moods * np.exp(noise * chance.standard_normal(rounds))
        yield measured_as(
            cell, {round_number: float(value) for round_number, value in enumerate(values, start=1)}, column, name
        )


def measured_as(cell: CellRow, values: Mapping[int, float], column: str = "read_bw", name: str = "run") -> Measured:
    return Measured(name, cell, {column: values}, Rule(len(values), len(values)), StopReason.FIXED)


def verdict(one: Guideline, found: Iterator[Measured] | list[Measured], **more: Any) -> Judgement:
    (said,) = judge_guidelines([one], found, **more)
    return said


def of_layout(shape: str = "ratio", **more: Any) -> Guideline:
    return guideline(**{shape: {"metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, **more}})


CHUNKS = ["64KiB", "256KiB", "1MiB"]
FIELD = cells(layout=["raid0", "far"], md_chunk=CHUNKS, workload=["seq", "rnd"])
