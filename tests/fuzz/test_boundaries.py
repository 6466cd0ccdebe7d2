"""Each key of the schemas with each boundary of its kind, alone and in pairs, is understood or refused."""

from __future__ import annotations

import os

import pytest

from bench.fuzz_parsers import parsers
from tests.support.amounts import times
from tests.support.boundaries import PLACES, alone, crashes, definitions, pairs, some_pairs

SEED = int(os.environ.get("MATRIX_TEST_SEED", "1"))


def test_each_model_has_a_place() -> None:
    assert PLACES.keys() == definitions().keys() - {"Layer"}  # a layer is one of the others


@pytest.mark.parametrize("name", PLACES)
def test_the_documents_are_valid_without_odd_values(name: str) -> None:
    parsers()["declared"].parse(PLACES[name].document)


@pytest.mark.parametrize("name", PLACES)
def test_one_odd_value_ends_in_no_traceback(name: str) -> None:
    assert crashes(alone(name)) == {}


@pytest.mark.parametrize("name", PLACES)
def test_two_odd_values_end_in_no_traceback(name: str) -> None:
    assert crashes(some_pairs(name, times(30), SEED)) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PLACES)
def test_no_pair_of_odd_values_ends_in_a_traceback(name: str) -> None:
    assert crashes(pairs(name)) == {}
