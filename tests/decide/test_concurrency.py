"""Who is at work beside whom. Nothing here looks at a clock: work goes on when it is told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.concurrency import Level, Turns

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager

    from matrix_runner.decide.concurrency import Turn


class Works:
    """Pieces of work that last until they are told to end."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.at_work: set[str] = set()
        self.turn: dict[str, Turn] = {}
        self.over: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, held: AbstractAsyncContextManager[Turn]) -> None:
        self.over[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._work(name, held))
        await settled()

    async def _work(self, name: str, held: AbstractAsyncContextManager[Turn]) -> None:
        async with held as self.turn[name]:
            self.at_work.add(name)
            try:
                await self.over[name].wait()
            finally:
                self.at_work.remove(name)

    async def end(self, name: str) -> None:
        self.over[name].set()
        await settled()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await settled()


async def settled() -> None:
    """Everybody went on as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_work_up_to_the_level_runs_and_the_rest_waits() -> None:
    works = Works(turns := Turns(Level.of(2)))
    for name in "abcd":
        await works.begin(name, turns.turn())
    assert works.at_work == {"a", "b"}
    await works.end("b")
    assert works.at_work == {"a", "c"}
    await works.end("a")
    assert works.at_work == {"c", "d"}


async def test_work_alone_waits_for_earlier_work_and_blocks_later_work() -> None:
    works = Works(turns := Turns(Level.of(4)))
    await works.begin("a", turns.turn())
    await works.begin("alone", turns.turn(alone=True))
    await works.begin("later", turns.turn())
    assert works.at_work == {"a"}
    await works.end("a")
    assert works.at_work == {"alone"}
    await works.end("alone")
    assert works.at_work == {"later"}
    assert [works.turn[name].beside for name in ("a", "alone", "later")] == [0, 0, 0]


async def test_a_turn_knows_how_many_were_beside_it_at_most() -> None:
    works = Works(turns := Turns(Level.of(4)))
    for name in "abc":
        await works.begin(name, turns.turn())
    await works.end("a")
    await works.end("b")
    await works.begin("d", turns.turn())
    assert {name: turn.beside for name, turn in works.turn.items()} == {"a": 2, "b": 2, "c": 2, "d": 1}


async def test_a_cancelled_waiter_leaves_the_queue() -> None:
    works = Works(turns := Turns(Level.of(2)))
    await works.begin("a", turns.turn())
    await works.begin("alone", turns.turn(alone=True))
    await works.begin("later", turns.turn())
    await works.cancel("alone")
    assert works.at_work == {"a", "later"}
    await works.begin("alone again", turns.turn(alone=True))
    await works.begin("last", turns.turn())
    await works.cancel("a")
    await works.cancel("later")
    assert works.at_work == {"alone again"}
    await works.cancel("alone again")
    assert works.at_work == {"last"}


async def test_cancelled_in_the_moment_in_which_its_turn_comes_it_passes_it_on() -> None:
    works = Works(turns := Turns(Level.of(1)))
    for name in "abc":
        await works.begin(name, turns.turn())
    works.over["a"].set()
    works.tasks["a"].add_done_callback(lambda _: works.tasks["b"].cancel())
    await settled()
    assert works.at_work == {"c"}


async def test_a_host_limited_trial_lowers_the_level() -> None:
    works = Works(turns := Turns(Level(most=4, now=3)))
    for name in "abcd":
        await works.begin(name, turns.turn())
    turns.host_limited(works.turn["a"])
    await works.end("a")
    assert works.at_work == {"b", "c"}
    assert turns._level.now == 2


@given(st.lists(st.tuples(st.sampled_from(["together", "alone", "end", "cancel"]), st.integers(0, 9)), max_size=60))
def test_work_alone_is_alone_and_all_work_has_a_turn(steps: list[tuple[str, int]]) -> None:
    async def played() -> None:
        works = Works(turns := Turns(Level.of(3)))
        for number, (what, which) in enumerate(steps):
            if what in {"together", "alone"}:
                await works.begin(f"{what}-{number}", turns.turn(alone=what == "alone"))
            elif names := [name for name, task in works.tasks.items() if not task.done()]:
                await getattr(works, what)(names[which % len(names)])
            alone = [name for name in works.at_work if name.startswith("alone")]
            assert len(works.at_work) <= (1 if alone else 3)
        left = [name for name, task in works.tasks.items() if not task.done()]
        assert bool(left) == bool(works.at_work), "somebody is at work as long as anybody waits"
        for name in left:
            await works.end(name)
        assert all(task.done() for task in works.tasks.values())

    asyncio.run(played())


class Failed(BaseException):
    """Not even an Exception."""


async def endless(ended: Counter[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await settled()
        ended[name] += 1


async def fails(error: BaseException) -> None:
    await settled()
    raise error


@pytest.mark.parametrize("error", [Failed("x"), ValueError("x")])
async def test_an_error_stops_the_others_and_is_raised(error: BaseException) -> None:
    ended = Counter[str]()
    with pytest.raises(type(error)) as caught:
        await Turns(Level.of(3)).side_by_side(iter([endless(ended, "a"), fails(error), endless(ended, "b")]))
    assert caught.value is error
    assert ended == {"a": 1, "b": 1}


async def test_a_stop_waits_for_running_work_and_starts_no_more() -> None:
    ended = Counter[str]()

    def works() -> Iterator[Coroutine[object, object, None]]:
        for name in "abc":
            yield endless(ended, name)

    task = asyncio.create_task(Turns(Level.of(2)).side_by_side(works()))
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == {"a": 1, "b": 1}


async def test_errors_during_a_stop_are_raised() -> None:
    async def breaks() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("the journal is full")

    task = asyncio.create_task(Turns(Level.of(2)).side_by_side(iter([breaks(), endless(Counter(), "b")])))
    await settled()
    task.cancel()
    with pytest.raises(ValueError, match="the journal is full"):
        await task


async def test_more_are_begun_as_soon_as_more_may_be() -> None:
    turns, begun = Turns(Level(most=3, now=1)), list[str]()

    async def work(name: str) -> None:
        begun.append(name)
        async with turns.turn() as turn:
            turns.kept_up(turn)
        await asyncio.Event().wait()

    task = asyncio.create_task(turns.side_by_side(work(name) for name in "abcd"))
    await settled()
    assert begun == ["a", "b"], "one kept up alone, and the second was not in full company"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
