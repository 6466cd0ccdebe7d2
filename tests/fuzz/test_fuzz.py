"""Mutated files and outputs are understood or refused by a named error. `python -m bench.fuzz` tries many more."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import fuzz
from bench.fuzz_parsers import Parser, parsers
from matrix_runner.base.errors import BadInput, HarnessBroken
from tests.support.amounts import times

#: The parsers by name. To make them takes long, and every process of tests reads this file.
NAMES = (
    "matrix",
    "declared",
    "jobs",
    "iolog",
    "blktrace",
    "hosts",
    "model",
    "guidelines",
    "published",
    "baselines",
    "known-changes",
    "fio",
    "guest",
    "smart",
    "census",
    "manifest",
    "journal",
)
KEPT = sorted(fuzz.CRASHERS.glob("*-*"))
LONGEST = 50 * 5 * 420  # characters of all errors of a file together


def test_each_parser_is_attacked() -> None:
    assert tuple(parsers()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_parser_takes_what_is_mutated(name: str) -> None:
    """Of a document that is refused before, no change tries anything."""
    parser = parsers()[name]
    for seed in parser.seeds:
        parser.parse(seed)


def test_an_unknown_parser_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz", "--only", "WRONG", "--inputs", "1"])
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    assert ended.value.code == 2
    assert "there is no parser WRONG; known are matrix, declared" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=times(10), deadline=None)
@given(seed=st.integers(min_value=0))
def test_a_mutated_input_ends_in_no_traceback(name: str, seed: int) -> None:
    found = fuzz.attack(name, parsers()[name], seed)
    assert found.crashes == {}
    assert found.longest < LONGEST


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_inputs_of_earlier_tracebacks_are_handled(file: Path) -> None:
    name = next(one for one in NAMES if file.name.startswith(f"{one}-"))
    content: str | bytes = file.read_bytes()
    if name not in {"journal", "blktrace"}:
        content = file.read_bytes().decode("utf-8", "surrogatepass")
    with contextlib.suppress(BadInput, HarnessBroken):
        parsers()[name].parse(content)


def test_a_traceback_is_counted_and_its_input_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "CRASHERS", tmp_path)

    def fail(_: object) -> None:
        raise TypeError("no such thing")

    found = fuzz.attack("hosts", Parser(("a: b",), fail), 1)
    assert found.tracebacks == found.inputs == 1
    assert [file.name for file in tmp_path.iterdir()] == [*found.crashes.values()]


def test_each_parser_gets_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"slow": 0.5, "quick": 0.01}

    def attack(name: str, _parser: Parser, _seed: int, tally: fuzz.Tally) -> None:
        tally.inputs += 1
        tally.spent += costs[name]

    monkeypatch.setattr(fuzz, "attack", attack)
    found = fuzz.attack_all({name: Parser((), bool) for name in costs}, 1, 20.0, 10**9)
    assert found["slow"].inputs == pytest.approx(20, abs=1)
    assert found["quick"].inputs == pytest.approx(1000, abs=60)


def _compute_for_ever(_: object) -> None:
    """Take time of the processor: the limit counts no other."""
    while True:
        pass


def test_an_input_that_takes_too_long_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "CRASHERS", tmp_path)
    monkeypatch.setattr(fuzz, "SECONDS", 0.01)
    found = fuzz.attack("hosts", Parser(("a: b",), _compute_for_ever), 1)
    assert [name.partition(" ")[0] for name in found.crashes] == ["bench.fuzz.TooSlow"]
