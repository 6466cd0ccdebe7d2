"""Lists of known names in messages."""

import pytest

from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.work.metrics import KNOWN


def test_a_list_of_known_names_has_a_bounded_length() -> None:
    names = [f"{number:02}{'n' * 40_000}" for number in range(60)]
    said = did_you_mean("q", names)
    assert len(said) < 52 * 102
    assert said.startswith("known are 00nnn")
    assert said.endswith("n… and 10 more")


def test_few_short_names_are_listed_whole() -> None:
    assert did_you_mean("q", ["alpha", "beta", "alpha"]) == "known are alpha, beta"


@pytest.mark.parametrize(
    ("word", "known"), [("irq_affinity", ["rq_affinity", "nomerges"]), ("zfs", ["md", "fs"]), ("zfs", ["ext4", "xfs"])]
)
def test_an_own_name_is_not_a_spelling_mistake(word: str, known: list[str]) -> None:
    assert did_you_mean(word, known) == f"known are {', '.join(known)}"


@pytest.mark.parametrize(
    ("word", "meant"), [("ayout", "layout or count"), ("ocunt", "count"), ("smu", "sum"), ("dsk", "disk")]
)
def test_a_slip_names_the_word(word: str, meant: str) -> None:
    assert did_you_mean(word, ["layout", "count", "sum", "disk"]) == f"did you mean {meant}?"


def test_the_end_of_a_name_brings_all_names_that_end_so() -> None:
    assert did_you_mean("bw", KNOWN) == "did you mean read.bw or write.bw or trim.bw or total.bw or rebuild.bw?"
