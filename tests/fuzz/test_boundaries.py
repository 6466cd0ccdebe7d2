"""Each key of the schemas with each boundary of its kind, alone and in pairs, is understood or refused."""

from __future__ import annotations

import os

import pytest

from tests.support.amounts import times
from tests.support.boundaries import (
    EACH,
    OTHERS,
    PLACES,
    alone,
    changed,
    crashes,
    definitions,
    definitions_of_others,
    pairs,
    parse,
    some_pairs,
)

SEED = int(os.environ.get("MATRIX_TEST_SEED", "1"))


ALL = [*PLACES, *OTHERS]


def test_each_model_has_a_place() -> None:
    assert PLACES.keys() == definitions().keys() - {"Layer"}  # a layer is one of the others
    assert OTHERS.keys() == definitions_of_others().keys()


@pytest.mark.parametrize("name", ALL)
def test_the_documents_are_valid_without_odd_values(name: str) -> None:
    parse(name, changed(name))


@pytest.mark.parametrize("name", ALL)
def test_one_odd_value_ends_in_no_traceback(name: str) -> None:
    assert crashes(name, alone(name, EACH)) == {}


@pytest.mark.parametrize("name", ALL)
def test_each_pair_of_keys_with_odd_values_ends_in_no_traceback(name: str) -> None:
    assert crashes(name, some_pairs(name, times(1), SEED)) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
def test_boundary_values_end_without_a_traceback(name: str) -> None:
    assert crashes(name, alone(name)) == {}


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # the largest kinds have more than 100,000 pairs
@pytest.mark.parametrize("name", ALL)
def test_no_pair_of_odd_values_ends_in_a_traceback(name: str) -> None:
    assert crashes(name, pairs(name)) == {}
