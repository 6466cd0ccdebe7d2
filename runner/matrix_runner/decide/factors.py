"""The factor of slow motion of each trial: as large as this host needs to keep up with the disks. It does no I/O."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isinf

from matrix_runner.base.model import digest
from matrix_runner.decide.costs import COSTS, Costs, rate
from matrix_runner.language.matrix import Matrix
from matrix_runner.records.record import TrialFacts
from matrix_runner.space.space import Cell
from matrix_runner.work.slow import FACTORS

_UNLIMITED = replace(COSTS["none"], bandwidth=1e18, requests=1e15)  # finite: an ideal disk has no limit
_FAR = 0.25  # a trial that lost more of its time skips a factor
_LITTLE = 0.25  # of the limit: a trial that lost less may do with half its factor


class Factors:
    """Choose the factor for each kind of cells: by what this host needed so far, before that by a formula.

    Cells are of a kind if they have the same workload and disks, and layers of the same kinds.
    """

    def __init__(
        self,
        matrix: Matrix,
        costs: Costs,
        known: Mapping[str, int] | None = None,
        keep: Callable[[str, int], None] = lambda _, __: None,
    ) -> None:
        models = [disk.physics for disk in matrix.every_disk() if disk.physics]
        self._fastest = max(models, key=lambda model: model.rate(2**20, random=False, write=False), default=None)
        # The phase of a platter is random.
        contents = [{**model.content(), "phase": 0} for model in models]
        self._disks = digest(contents).hex()
        self._costs, self._limit = costs, matrix.machine.strain
        ideal = not models or isinf(max(model.rate(1, random=False, write=False) for model in models))
        self._helps = costs.waits and not ideal
        self._known, self._keep = dict(known or {}), keep
        self._failed: dict[str, int] = {}  # the largest factor at which the host did not keep up
        self._kept_up: dict[str, int] = {}  # the smallest one at which it did
        self._possible: dict[bytes, tuple[int, ...]] = {}

    def of(self, cell: Cell) -> int:
        possible = self._possible_factors(cell)
        if len(possible) == 1:
            return possible[0]
        wanted = self._known.get(self._kind(cell)) or self._guess(cell)
        return possible[min(bisect_left(possible, wanted), len(possible) - 1)]

    def learn(self, cell: Cell, facts: TrialFacts) -> bool:
        """Learn from a trial. Return whether it was host-limited and can be measured again with a larger factor."""
        possible, kind, slow = self._possible_factors(cell), self._kind(cell), facts.slow
        lost = facts.host_limited_share if facts.lost is None else facts.lost
        if lost is None or slow not in possible:
            return False
        at, wanted = possible.index(slow), slow
        if facts.is_host_limited:
            self._failed[kind] = max(slow, self._failed.get(kind, 0))
            larger = possible[min(at + (2 if lost > _FAR else 1), len(possible) - 1)]
            known = self._kept_up.get(kind, 0)
            wanted = known if slow < known < larger else larger
        else:
            self._kept_up[kind] = min(slow, self._kept_up.get(kind, slow))
            if at and lost < _LITTLE * self._limit and possible[at - 1] > self._failed.get(kind, 0):
                wanted = possible[at - 1]
        if self._known.get(kind) != wanted:
            self._known[kind] = wanted
            self._keep(kind, wanted)
        return wanted > slow

    def _possible_factors(self, cell: Cell) -> tuple[int, ...]:
        """Return the factors at which fio can do the work of a cell, as far as one of them is of use."""
        key = cell.workload.digest
        if key not in self._possible:
            work = cell.work
            fits = [slow for slow in FACTORS if not any(work.slow_problems(slow))]
            self._possible[key] = tuple(fits) if self._helps else FACTORS[:1]
        return self._possible[key]

    def _guess(self, cell: Cell) -> float:
        """Return how many times more its disks can do than this host, if the speed of such hosts was ever measured."""
        if not self._costs.measured:
            return 1.0
        work, stack = cell.work, cell.stack
        return rate(work, stack, self._fastest, _UNLIMITED) / rate(work, stack, None, self._costs)

    def _kind(self, cell: Cell) -> str:
        layers = [
            (one.kind, getattr(one, "level", None), getattr(one, "type", None)) for one in cell.stack.layers.value
        ]
        shape = (self._disks, layers, cell.stack.width, cell.workload.digest.hex())
        return digest(shape).hex()[:16]
