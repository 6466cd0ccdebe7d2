"""What is best, what may be, and what the rest costs."""

from dataclasses import replace
from statistics import fmean, geometric_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.ranking import recommend_settings
from matrix_runner.base.errors import BadInput
from matrix_runner.pages.ranking import recommendation_table
from matrix_runner.records.record import CellRow
from matrix_runner.work.metrics import KNOWN
from tests.answers.world import cells, measured_as, run

FIELD = cells(md_chunk=["64KiB", "256KiB", "1MiB"], workload=["oltp"], workload_bs=["4KiB", "16KiB"])
READ = KNOWN["read.bw"]
LEVELS = {"64KiB": 100.0, "256KiB": 99.9, "1MiB": 80.0}


def level(axes: dict[str, str]) -> float:
    return LEVELS[axes["md.chunk"]] * (3 if axes["workload.bs"] == "16KiB" else 1)


def test_the_best_what_is_like_it_and_the_price_of_the_rest() -> None:
    found = recommend_settings(list(run(FIELD, level, mood=0.2)), READ)
    chunks = [dict(one.places)["md.chunk"] for one in found.settings]
    assert set(chunks[:2]) == {"64KiB", "256KiB"}
    assert [one.candidate for one in found.settings] == [True, True, False]
    assert found.level == [found.settings[1]]
    last = found.settings[2].ratio
    assert last is not None
    assert last.ratio == pytest.approx(0.8, rel=0.02)
    assert found.workloads == ("oltp",)


def test_a_figure_far_from_the_best_is_not_called_as_good() -> None:
    levels = {"a": 100.0, "b": 99.0, "c": 53.0}
    field = cells(layout=[*levels])
    found = recommend_settings(list(run(field, lambda axes: levels[axes["layout"]], noise=0.5, rounds=2)), READ)
    assert [one.candidate for one in found.settings] == [True, True, True]
    rows = recommendation_table(found, {one.id: one for one in field}, None).rows
    remarks = {dict(one.places)["layout"]: row[-1] for one, row in zip(found.settings, rows, strict=True)}
    assert remarks["c"] == "cannot tell"


@pytest.mark.parametrize(("lost", "candidate"), [(0.0, False), (0.1, False), (0.3, True)])
def test_a_setting_that_a_faster_host_could_make_as_good_may_be_best(lost: float, candidate: bool) -> None:
    """1MiB reaches 80 % of the best, of which the host cost it a share."""
    measured = [
        replace(one, lost_share=lost if one.cell.axes["md.chunk"] == "1MiB" else 0.0) for one in run(FIELD, level)
    ]
    assert recommend_settings(measured, READ).settings[2].candidate is candidate


@pytest.mark.parametrize(
    ("values", "levels", "chosen"),
    [
        (["64KiB", "256KiB", "1MiB"], [99.9, 100.0, 100.0], "64KiB"),
        (["64KiB", "256KiB", "1MiB"], [100.0, 99.9, 80.0], "64KiB"),
        (["64KiB", "256KiB", "1MiB"], [80.0, 99.9, 100.0], "256KiB"),
        (["4096", "default", "256"], [100.0, 99.9, 99.9], "default"),
        (["4096", "16384", "256"], [100.0, 99.9, 99.9], "256"),
    ],
)
def test_equal_settings_keep_the_default_or_the_smallest(values: list[str], levels: list[float], chosen: str) -> None:
    by_value = dict(zip(values, levels, strict=True))
    found = recommend_settings(list(run(cells(md_chunk=values), lambda axes: by_value[axes["md.chunk"]])), READ)
    assert dict(found.chosen.places)["md.chunk"] == chosen


def test_the_practical_difference_decides_what_is_near() -> None:
    several = list(run(cells(md_chunk=["64KiB", "256KiB"]), lambda axes: LEVELS[axes["md.chunk"]], noise=0.5, rounds=2))
    strict, loose = (recommend_settings(several, READ, practical=one) for one in (1e-6, 1.0))
    (other,) = strict.level
    assert not strict.is_near(other)
    assert strict.chosen is strict.best
    assert loose.is_near(other)
    assert dict(loose.chosen.places)["md.chunk"] == "64KiB"


@pytest.mark.parametrize(("axis", "names"), [("layout", ["a", "b"]), ("md_level", ["0", "10"])])
def test_a_name_is_never_exchanged_for_another(axis: str, names: list[str]) -> None:
    """Which of two layouts is simpler is unknown: the one with the highest figure stays. A RAID level is a name."""
    several = cells(**{axis: names})
    found = recommend_settings(list(run(several, lambda axes: 100.0 + (names[1] in axes.values()))), READ)
    assert found.level
    assert found.chosen is found.best


def test_a_clear_best_is_recommended() -> None:
    found = recommend_settings(list(run(FIELD, level, column="read_lat_p99")), KNOWN["read.lat_p99"])
    assert found.chosen is found.best


def test_several_workloads_count_alike() -> None:
    found = recommend_settings(list(run(FIELD, level, noise=1e-6)), READ)
    assert found.best.level == pytest.approx((100 * 300) ** 0.5, rel=1e-3)
    assert len(found.best.cells) == 2


def test_the_figure_of_one_workload_is_the_mean_as_in_tables() -> None:
    (one,) = run(FIELD[:1], level, noise=0.2)
    rates = one.rounds(READ).values()
    assert recommend_settings([one], READ).best.level == pytest.approx(fmean(rates))
    assert geometric_mean(rates) < 0.999 * fmean(rates)


def test_steered_trials_leave_more_candidates() -> None:
    found = list(run(FIELD, lambda axes: 100.0 if axes["md.chunk"] == "1MiB" else 99.0, noise=0.004, mood=0.2))
    plain, steered = recommend_settings(found, READ), recommend_settings(found, READ, share=0.12)
    assert plain.level == []
    assert steered.level != []
    for one, other in zip(plain.settings[1:], steered.settings[1:], strict=True):
        assert one.ratio
        assert other.ratio
        assert other.ratio.low < one.ratio.low < one.ratio.high < other.ratio.high
    assert plain.confidence == steered.confidence


def test_the_lowest_latency_is_best() -> None:
    found = recommend_settings(list(run(FIELD, level, column="read_lat_p99")), KNOWN["read.lat_p99"])
    assert found.best.places == (("md.chunk", "1MiB"),)
    second = found.settings[1].ratio
    assert second is not None
    assert second.ratio > 1.2


def test_a_setting_of_which_a_part_is_lacking_is_left_out() -> None:
    every = list(run(FIELD, level))
    broken = [replace(measured_as(every[0].cell, {}), trials=0), *every[1:]]
    found = recommend_settings(broken, READ)
    assert (len(found.settings), found.left_out) == (2, 1)


def test_a_recommendation_without_figures_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no selected cell has write\.bw"):
        recommend_settings(list(run(FIELD, level)), KNOWN["write.bw"])


def on_both(files: list[str]) -> list[CellRow]:
    """Work on files, of which a device has none."""
    raw = cells(layout=["raw"], workload=["work"], workload_bs=["4KiB", "16KiB"])
    return [*raw, *cells(layout=["fs"], workload=["work"], workload_bs=["4KiB", "16KiB"], workload_files=files)]


def faster_raw(axes: dict[str, str]) -> float:
    return 120.0 if axes["layout"] == "raw" else 100.0


def test_devices_and_file_systems_are_held_against_each_other() -> None:
    found = recommend_settings(list(run(on_both(["4"]), faster_raw)), READ)
    assert [one.places for one in found.settings] == [(("layout", "raw"),), (("layout", "fs"),)]
    assert [len(one.cells) for one in found.settings] == [2, 2]
    assert found.left_out == 0


def test_settings_with_other_work_are_not_compared() -> None:
    both = list(run(on_both(["4", "8"]), faster_raw))
    with pytest.raises(BadInput, match="no setting was measured with all selected workloads") as caught:
        recommend_settings(both, READ)
    assert caught.value.resolution == "narrow it with --for"
    assert "workload=work, bs=4KiB, files=8" in caught.value.details
    narrowed = [one for one in both if one.cell.axes.get("workload.files") != "8"]
    assert len(recommend_settings(narrowed, READ).settings) == 2


def test_workloads_of_other_names_are_other_work() -> None:
    field = [*cells(layout=["raw"], workload=["one"], workload_bs=["4KiB"]), *cells(layout=["fs"], workload=["two"])]
    with pytest.raises(BadInput, match="no setting was measured"):
        recommend_settings(list(run(field, faster_raw)), READ)


@given(st.integers(0, 10**6), st.sampled_from([0.001, 0.05, 0.5]), st.integers(1, 6))
def test_the_best_looks_best_and_is_always_a_candidate(seed: int, noise: float, rounds: int) -> None:
    found = recommend_settings(list(run(FIELD, level, noise=noise, rounds=rounds, seed=seed)), READ)
    assert found.best.candidate
    assert found.best.level == max(one.level for one in found.settings)
    assert len(found.settings) == 3
    levels = [one.level for one in found.settings]
    assert levels == sorted(levels, reverse=True)


def test_workloads_count_by_their_weights() -> None:
    """The first layout is faster for reads, the second by less for writes, of which there are more variants."""
    field = [
        *cells(layout=["a", "b"], workload=["reads"]),
        *cells(layout=["a", "b"], workload=["writes"], workload_bs=["4KiB", "16KiB"]),
        *cells(layout=["a", "b"], workload=["others"]),
    ]
    rates = {("a", "reads"): 150.0, ("b", "writes"): 120.0, ("b", "others"): 900.0}
    found = list(run(field, lambda axes: rates.get((axes["layout"], axes["workload"]), 100.0)))

    def best(weights: dict[str, float]) -> str:
        chosen = recommend_settings(found, READ, weights=weights)
        assert set(chosen.workloads) == (set(weights) or {"reads", "writes", "others"})
        return dict(chosen.best.places)["layout"]

    assert best({}) == "b"
    assert best({"reads": 1, "writes": 1}) == "a"
    assert best({"reads": 1, "writes": 3}) == "b"
