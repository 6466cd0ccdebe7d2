"""The ranking at the end of a race: which stacks left it, and why."""

from __future__ import annotations

from dataclasses import replace

from matrix_runner.answers.ranking import Standing
from matrix_runner.pages.answer import full_answer, summarize_rankings
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Trial
from tests.answers.rankings import run

WRITE = "random/rw=randwrite"


def raced(rounds: dict[str, list[float]]) -> RunData:
    """Return a race with these figures of each stack in its rounds."""
    cells, trials = list[CellRow](), list[Trial]()
    for stack, values in rounds.items():
        for number, value in enumerate(values, start=1):
            one = run({stack: {WRITE: value}}, noise=0.0, rounds=1, seed=1)
            cells += one.cells[: number == 1]
            trials.append(replace(one.trials[0], round=number))
    return RunData("three", "qemu", False, cells, trials, least=3, most=3, raced=True, over=True)


#: Those after the first are equal or slower: the intervals reach below the first one by less than 5 %.
RATES = {"a": 100.0, "b": 97.0, "c": 97.0, "d": 97.0, "e": 97.0}

#: `noisy` may be the best; `slow` loses to `steady` in four rounds, and its interval to `noisy` stays wide.
SLOW = {
    "noisy": [150.0, 80.0, 140.0, 82.0, 140.0, 84.0, 150.0],
    "steady": [100.0, 101.0, 100.0, 101.0, 100.0, 101.0, 100.0],
    "slow": [90.0, 90.8, 90.1, 90.9],
}


def test_a_stack_that_lost_to_another_candidate_is_out() -> None:
    (one,) = raced(SLOW).rankings
    standings = {stack.cell.axes["layout"]: stack.standing for stack in one.stacks}
    assert standings == {"noisy": Standing.FASTEST, "steady": Standing.UNDECIDED, "slow": Standing.OUT}
    assert [stack.cell.axes["layout"] for stack in one.slower] == ["slow"]


def test_the_answer_names_what_left_the_race_and_asks_for_no_larger_repeat() -> None:
    found = raced(SLOW).rankings
    words = summarize_rankings(found, synthetic=False, over=True)
    assert words
    assert "Out of the race for random/rw=randwrite: slow after 4 rounds." in words.notes
    assert "The race saved 3 trials: as many rounds of all stacks take so many more." in words.notes
    assert not [note for note in words.notes if "`repeat:`" in note]
    assert "slower than another, out after 4 rounds" in full_answer(found, synthetic=False, over=True)


def test_stacks_that_may_be_as_fast_are_not_called_slower() -> None:
    chance = [1.0, 1.02, 0.98, 1.02, 0.98, 1.03, 0.97, 1.0]
    near = {name: [rate * one for one in chance[at:] + chance[:at]] for at, (name, rate) in enumerate(RATES.items())}
    words = summarize_rankings(raced(near).rankings, synthetic=False, over=True)
    assert words
    text = " ".join(line.text for group in words.groups for line in (group.heading, *group.lines))
    assert "as fast as or faster than 2 more" in text


def test_an_undecided_race_says_how_to_go_on() -> None:
    wild = raced({"a": [9.0, 1.0, 5.0], "b": [1.0, 9.0, 4.0], "c": [1e-4, 1.1e-4, 0.9e-4]}).rankings
    words = summarize_rankings(wild, synthetic=False, over=True)
    assert words
    assert words.notes[0].startswith("The race ended undecided.")
