"""Synthetic runs of stacks and workloads whose true speed is known."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.run_folder import StackFacts
from matrix_runner.work.fio.output import Direction, Figures
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The request size of each workload.
SIZES = {"sequential": 1 << 20, "random": 4096, "mixed": 8192}

#: Three stacks whose figures are apart, and what each offers.
TRUTH = {
    "raid5": {"sequential/rw=read": 250.0, "random/rw=randwrite": 60.0},
    "raid6": {"sequential/rw=read": 200.0, "random/rw=randwrite": 40.0},
    "raid10": {"sequential/rw=read": 260.0, "random/rw=randwrite": 110.0},
}
FACTS = {
    "raid5": StackFacts(capacity=3000, rebuild_bytes=1000, rebuild_rate=10.0),
    "raid6": StackFacts(capacity=2000, rebuild_bytes=1000, rebuild_rate=10.0),
    "raid10": StackFacts(capacity=2000, rebuild_bytes=1000, rebuild_rate=10.0),
}


def cell(stack: str, work: str) -> CellRow:
    """`raid5/chunk=64KiB` and `random/rw=randread,iodepth=1`, as they stand in a cell's name."""
    layout, *variants = stack.split("/")
    workload, *places = work.split("/")
    axes = {"layout": layout, "workload": workload}
    axes |= {f"md.{axis}": value for axis, _, value in (one.partition("=") for one in variants)}
    axes |= {
        f"workload.{axis}": value for one in places for axis, _, value in (p.partition("=") for p in one.split(","))
    }
    return CellRow(f"{stack}/{work}", f"{stack}/{work}", axes)


def run(
    truth: Mapping[str, Mapping[str, float]],
    *,
    noise: float = 0.01,
    rounds: int = 3,
    host_limited: Mapping[str, int] = MappingProxyType({}),
    broken: Sequence[str] = (),
    over: bool = True,
    synthetic: bool = False,
    seed: int = 1,
) -> RunData:
    """Return what such a run records.

    `truth`: by stack and workload, the requests per second. `host_limited`: by stack, the percents of lost time.
    """
    chance = np.random.default_rng(seed)
    mood = np.exp(0.2 * chance.standard_normal(rounds))
    cells, trials = list[CellRow](), list[Trial]()
    for stack, works in truth.items():
        for work, iops in works.items():
            cells.append(one := cell(stack, work))
            for at in range(rounds):
                speed = iops * mood[at] * np.exp(noise * chance.standard_normal())
                lost = host_limited.get(stack)
                notes = {"host_limited": f"{lost}.0% (answers late {lost}.0%)"} if lost else {}
                trials.append(_trial(one, at + 1, work, float(speed), notes, broke=stack in broken))
    return RunData(
        "three", "dry" if synthetic else "qemu", synthetic, cells, trials, over=over, least=rounds, most=rounds
    )


def _trial(one: CellRow, round_number: int, work: str, iops: float, notes: Mapping[str, str], *, broke: bool) -> Trial:
    if broke:
        return Trial(one.id, round_number, Outcome.BROKEN, "the guest panicked")
    size = SIZES[one.axes["workload"]]
    read = iops * (0.0 if "write" in work else 0.7 if "mixed" in work else 1.0)
    sides = {name: _direction(rate, size) if rate else None for name, rate in (("read", read), ("write", iops - read))}
    return Trial(
        one.id,
        round_number,
        Outcome.MEASURED,
        figures=Figures(sides["read"], sides["write"], 1.0, 1.0, 1.0, 0),
        **noted(notes),
    )


def _direction(iops: float, size: int) -> Direction:
    return Direction(iops * size, iops, int(iops * size), int(iops), *(5e6,) * 8)


LAYOUTS = st.sampled_from(["raid5", "raid5/chunk=64KiB", "raid10", "stripe", "stripe/chunk=64KiB", "stripe/chunk=1MiB"])
WORKS = st.sampled_from(["sequential/rw=read", "random/rw=randread,iodepth=1", "random/rw=randwrite", "mixed"])
TRUTHS = st.dictionaries(LAYOUTS, st.dictionaries(WORKS, st.floats(1, 1e6), min_size=1), min_size=1)


@st.composite
def recorded_runs(draw: st.DrawFn) -> RunData:
    """Runs in which trials are missing, broken and skipped at random."""
    whole = run(draw(TRUTHS), noise=draw(st.sampled_from([0.0, 0.01, 1.0])), rounds=draw(st.integers(1, 4)))
    fates = draw(
        st.lists(
            st.sampled_from(["kept", "kept", "lost", "broken"]), min_size=len(whole.trials), max_size=len(whole.trials)
        )
    )
    broken = [replace(trial, outcome=Outcome.BROKEN, figures=None) for trial in whole.trials]
    trials = [
        broke if fate == "broken" else trial
        for trial, broke, fate in zip(whole.trials, broken, fates, strict=True)
        if fate != "lost"
    ]
    return replace(whole, trials=trials, over=draw(st.booleans()))
