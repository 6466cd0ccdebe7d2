"""How often: what is written, and what it comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from matrix_runner.language.matrix import Repeat


@pytest.mark.parametrize(
    ("written", "bounds"),
    [
        (5, (5, 5)),
        ({}, (3, 3)),
        ({"min": 7}, (7, 7)),
        ({"max": 2}, (2, 2)),
        ({"until": "5%"}, (3, 20)),
        ({"until": "5%", "min": 8}, (8, 20)),
        ({"until": "5%", "max": 9}, (3, 9)),
        ({"until": "5%", "max": 3}, (2, 3)),
        ({"until": "5%", "max": 2}, (1, 2)),
        ({"until": "5%", "min": 4, "max": 6}, (4, 6)),
        ({"until": None, "min": 4}, (4, 4)),
    ],
)
def test_missing_keys_get_defaults(written: Any, bounds: tuple[int, int]) -> None:
    repeat = Repeat.model_validate(written)
    assert (repeat.min, repeat.max) == bounds


@pytest.mark.parametrize(
    ("written", "least"), [({}, 2), ({"confidence": "99%"}, 2), (3, 3), ({"max": 4}, 4), ({"until": "5%"}, 3)]
)
def test_a_race_begins_with_two_trials_if_the_matrix_names_no_number(written: Any, least: int) -> None:
    repeat = Repeat.model_validate(written)
    assert repeat.of_race.min == least
    assert repeat.of_race.confidence == repeat.confidence


bound = st.integers(0, 30)
odd = st.one_of(st.none(), st.booleans(), st.integers(-2, 0), st.text(max_size=3))
maps = st.fixed_dictionaries({}, optional={"min": bound, "max": bound}) | st.dictionaries(
    st.sampled_from(["min", "max"]), odd | bound
)


@given(maps, st.sampled_from([None, "5%"]))
def test_bounds_of_repeat_are_useful_or_refused(bounds: dict[str, Any], until: str | None) -> None:
    written = {**bounds, "until": until}
    try:
        repeat = Repeat.model_validate(written)
    except ValidationError:
        return
    assert 1 <= repeat.min <= repeat.max
    assert (repeat.min < repeat.max) == (repeat.until is not None)
    assert all(getattr(repeat, bound) == written[bound] for bound in ("min", "max") if bound in written)


@given(st.integers(1, 1000))
def test_one_number_is_never_refused(count: int) -> None:
    assert Repeat.model_validate(count) == Repeat.model_validate({"min": count, "max": count})
