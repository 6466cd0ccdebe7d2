"""What is best, what may be, and what the rest costs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import BadInput
from runner.guidelines.recommend import recommended
from runner.model.metrics import KNOWN
from tests.guidelines.world import cells, measured_as, run

FIELD = cells(md_chunk=["64KiB", "256KiB", "1MiB"], workload=["oltp"], workload_bs=["4KiB", "16KiB"])
READ = KNOWN["read.bw"]
LEVELS = {"64KiB": 100.0, "256KiB": 99.9, "1MiB": 80.0}


def level(axes: dict[str, str]) -> float:
    return LEVELS[axes["md.chunk"]] * (3 if axes["workload.bs"] == "16KiB" else 1)


def test_the_best_what_is_like_it_and_the_price_of_the_rest() -> None:
    found = recommended(list(run(FIELD, level, mood=0.2)), READ)
    chunks = [dict(one.places)["md.chunk"] for one in found.settings]
    assert set(chunks[:2]) == {"64KiB", "256KiB"}
    assert [one.candidate for one in found.settings] == [True, True, False]
    assert found.level == [found.settings[1]]
    last = found.settings[2].ratio
    assert last is not None
    assert last.ratio == pytest.approx(0.8, rel=0.02)
    assert found.workloads == ("oltp",)


def test_several_workloads_count_alike() -> None:
    found = recommended(list(run(FIELD, level, noise=1e-6)), READ)
    assert found.best.level == pytest.approx((100 * 300) ** 0.5, rel=1e-3)
    assert len(found.best.cells) == 2


def test_of_latencies_the_lowest_is_best() -> None:
    found = recommended(list(run(FIELD, level, column="read_lat_p99")), KNOWN["read.lat_p99"])
    assert found.best.places == (("md.chunk", "1MiB"),)
    second = found.settings[1].ratio
    assert second is not None
    assert second.ratio > 1.2


def test_a_setting_of_which_a_part_is_lacking_is_left_out() -> None:
    every = list(run(FIELD, level))
    broken = [replace(measured_as(every[0].cell, {}), trials=0), *every[1:]]
    found = recommended(broken, READ)
    assert (len(found.settings), found.left_out) == (2, 1)


def test_without_figures_nothing_is_recommended() -> None:
    with pytest.raises(BadInput, match=r"nothing that was asked for has write\.bw"):
        recommended(list(run(FIELD, level)), KNOWN["write.bw"])


@given(st.integers(0, 10**6), st.sampled_from([0.001, 0.05, 0.5]), st.integers(1, 6))
def test_the_best_looks_best_and_is_always_a_candidate(seed: int, noise: float, blocks: int) -> None:
    found = recommended(list(run(FIELD, level, noise=noise, blocks=blocks, seed=seed)), READ)
    assert found.best.candidate
    assert found.best.level == max(one.level for one in found.settings)
    assert len(found.settings) == 3
    levels = [one.level for one in found.settings]
    assert levels == sorted(levels, reverse=True)
