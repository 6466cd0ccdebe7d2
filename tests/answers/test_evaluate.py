"""Results of a claim over several runs: each run is one value, and parts of several are put together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.language.guidelines import Guideline
from tests.answers.world import CHUNKS, FIELD, cells, guideline, measured_as, of_layout, run, verdict

CHUNKED = [cells(layout=["raid0", "far"], md_chunk=[chunk]) for chunk in ("64KiB", "512KiB")]


def effect(**bounds: str) -> Guideline:
    return guideline(
        ratio={"mean": True, "metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, **bounds}
    )


def parts(first: float, second: float, *, noise: float = 0.01, seed: int = 1) -> list[Measured]:
    """Two parts of a matrix, each run for itself, so that none has both chunks; and what far truly does in each."""
    return [
        one
        for number, factor in enumerate((first, second))
        for one in run(
            CHUNKED[number],
            lambda axes, factor=factor: factor if axes["layout"] == "far" else 1.0,  # type: ignore[misc]
            noise=noise,
            seed=2 * seed + number,
            name=f"{number}0123456-and-more",
        )
    ]


def test_several_runs_are_a_value_each() -> None:
    def shifted(by: float) -> Any:
        return lambda axes: by * 100 if axes["layout"] == "far" else 100.0

    runs = [
        one for number, factor in enumerate([1.0, 1.3, 0.8]) for one in run(FIELD, shifted(factor), name=f"run{number}")
    ]
    said = verdict(of_layout(within="10%"), runs)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert said.results[0].n == 3
    assert verdict(of_layout(within="10%"), [one for one in runs if one.run == "run0"]).verdict is Verdict.HOLDS


@pytest.mark.parametrize(("bound", "said"), [("3x", Verdict.FAILS), ("1.5x", Verdict.HOLDS)])
def test_an_effect_of_which_every_run_has_a_part_is_put_together(bound: str, said: Verdict) -> None:
    first, second = parts(2.0, 2.0)[:2], parts(2.0, 2.0)[2:]
    alone = [verdict(effect(at_least=bound), one) for one in (first, second)]
    both = verdict(effect(at_least=bound), [*first, *second])
    assert [one.verdict for one in (*alone, both)] == [said] * 3
    (result,) = both.results
    assert (result.n, result.case.label) == (5, "mean over 2 pairs")
    values = [one.results[0].value or 0.0 for one in alone]
    assert result.value == pytest.approx((values[0] * values[1]) ** 0.5)
    assert both.notes == ("no run has all cells: combined from 2 parts, whose half-widths add up",)


def test_pooled_runs_give_the_mean_and_name_a_run_that_differs() -> None:
    said = verdict(effect(at_least="1.5x"), parts(4.0, 1.0))
    assert said.verdict is Verdict.HOLDS
    assert said.results[0].value == pytest.approx(2.0, rel=0.02)
    assert said.notes[1].startswith("another verdict alone: run 10123456 (1.0")


def test_pooled_runs_err_at_the_stated_rate() -> None:
    """On the very edge of truth, and far from it in either part."""
    said = [
        verdict(effect(at_least="2x"), parts(4.0, 1.0, noise=0.1, seed=seed)).verdict is not Verdict.INCONCLUSIVE
        for seed in range(400)
    ]
    assert sum(said) / len(said) <= 0.05


def test_nights_in_which_another_cell_broke_each_are_put_together() -> None:
    field = cells(layout=["raid0", "far"], md_chunk=CHUNKS)
    night = [list(run(field, lambda _: 1.0, seed=seed, noise=1e-4, name=f"night-{seed}")) for seed in (1, 2)]
    for broken, found in enumerate(night):
        found[broken] = measured_as(found[broken].cell, {}, name=found[broken].run)
    said = verdict(effect(at_least="1.3x"), [one for found in night for one in found])
    assert (said.verdict, said.results[0].parts) == (Verdict.FAILS, 3)
    assert set(said.cells) == {cell.id for cell in field}


def test_contexts_of_one_run_that_share_no_round_are_put_together() -> None:
    field = cells(layout=["raid0", "far"], md_chunk=["64KiB", "512KiB"])
    found = [
        measured_as(cell, dict.fromkeys((1, 2) if cell.axes["md.chunk"] == "64KiB" else (3, 4), 1.0)) for cell in field
    ]
    said = verdict(effect(at_least="3x"), found)
    assert (said.verdict, said.results[0].n, said.results[0].parts) == (Verdict.FAILS, 2, 2)


def test_a_run_with_the_whole_effect_decides_alone() -> None:
    every = list(run([*CHUNKED[0], *CHUNKED[1]], lambda _: 1.0))
    alone = verdict(effect(at_least="1.3x"), every)
    assert verdict(effect(at_least="1.3x"), [*every, *parts(9.0, 1.0)[:2]]).results == alone.results


@given(st.floats(0.2, 5), st.floats(0.2, 5), st.sampled_from([0.01, 0.1]), st.integers(1, 1000))
def test_a_pooled_interval_is_as_wide_as_its_parts_allow(first: float, second: float, noise: float, seed: int) -> None:
    found = parts(first, second, noise=noise, seed=seed)
    one, other = (verdict(effect(at_least="1x"), half).results[0] for half in (found[:2], found[2:]))
    (both,) = verdict(effect(at_least="1x"), found).results
    assert one.value is not None
    assert other.value is not None
    assert both.value == pytest.approx((one.value * other.value) ** 0.5)
    assert both.low < (one.low * other.low) ** 0.5
    assert both.high > (one.high * other.high) ** 0.5
