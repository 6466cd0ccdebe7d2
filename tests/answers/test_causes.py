from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.history import find_causes

Axes = dict[str, str]
EVERY: list[Axes] = [
    {"layout": layout, "md.level": level, "md.chunk": chunk, "workload": "mix", "workload.rw": rw, "workload.bs": bs}
    for (layout, level), chunk, rw, bs in product(
        (("raid5", "5"), ("raid6", "6"), ("raid10", "10")),
        ("64KiB", "512KiB"),
        ("randread", "randwrite"),
        ("4KiB", "16KiB", "256KiB"),
    )
]


def named(moved: dict[int, float]) -> list[str]:
    """Return the names of the causes, and how many cells each has."""
    places = [(EVERY[at], size) for at, size in moved.items()]
    causes = find_causes(places, [axes for at, axes in enumerate(EVERY) if at not in moved])
    return [f"{cause.name('one')}: {len(cause.members)}" for cause in causes]


def those(size: float = -0.1, **wanted: str) -> dict[int, float]:
    names = {"rw": "workload.rw", "bs": "workload.bs"}
    chosen = {names.get(axis, axis): value.split("|") for axis, value in wanted.items()}
    return {at: size for at, axes in enumerate(EVERY) if all(axes[axis] in some for axis, some in chosen.items())}


def test_cells_that_moved_together_are_one_cause_named_by_what_they_share() -> None:
    assert named(those(layout="raid5", rw="randwrite")) == ["all raid5 with workload.rw=randwrite: 6"]


def test_several_values_of_an_axis_are_one_cause() -> None:
    assert named(those(layout="raid5|raid6", rw="randwrite", bs="4KiB|16KiB")) == [
        "all raid5|raid6 with workload.rw=randwrite, workload.bs=4KiB|16KiB: 8"
    ]


def test_two_causes_stay_apart_and_the_strongest_is_first() -> None:
    moved = {**those(-0.05, layout="raid10"), **those(-0.2, layout="raid5", rw="randread")}
    assert named(moved) == ["all raid5 with workload.rw=randread: 6", "all raid10: 12"]


def test_a_strong_cause_is_not_named_after_the_cells_of_a_weak_one() -> None:
    assert named({**those(-0.08), **those(-0.7, layout="raid5")}) == ["all raid5: 12", "all raid10|raid6: 24"]


def test_cells_that_moved_in_opposite_directions_have_two_causes() -> None:
    moved = {**those(-0.1, rw="randread"), **those(0.1, rw="randwrite")}
    assert named(moved) == ["all workload.rw=randread: 18", "all workload.rw=randwrite: 18"]


def test_all_cells_and_a_single_one() -> None:
    assert named(those()) == ["all cells: 36"]
    assert named({7: -0.1}) == ["one: 1"]
    assert named({}) == []


def test_the_strongest_cell_of_a_cause_is_first() -> None:
    moved = those(layout="raid5") | {3: -0.25}
    (cause,) = find_causes([(EVERY[at], size) for at, size in moved.items()], EVERY[12:])
    assert list(moved)[cause.members[0]] == 3


def test_cells_with_different_axes() -> None:
    plain = {"layout": "plain", "workload": "mix"}
    (cause,) = find_causes([(plain, -0.1)], EVERY)
    assert cause.members == (0,)
    assert cause.shared["layout"] == ("plain",)


@given(st.dictionaries(st.integers(0, len(EVERY) - 1), st.sampled_from([-0.3, -0.1, 0.2])))
def test_each_moved_cell_has_one_cause_and_no_other_cell_has_its_values(moved: dict[int, float]) -> None:
    still = [axes for at, axes in enumerate(EVERY) if at not in moved]
    moved_axes = [EVERY[at] for at in moved]
    causes = find_causes([(EVERY[at], size) for at, size in moved.items()], still)
    assert sorted(at for cause in causes for at in cause.members) == list(range(len(moved)))
    for cause in causes:
        assert not any(all(axes.get(name) in some for name, some in cause.shared.items()) for axes in still)
        having = [
            at for at, axes in enumerate(moved_axes) if all(axes[name] in some for name, some in cause.shared.items())
        ]
        assert having == sorted(cause.members)
