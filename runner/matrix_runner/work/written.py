"""A workload as written: what each kind of work needs to make its variants, and to report what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matrix_runner.base.findings import Findings, Note, Path, place_of
from matrix_runner.base.variants import Choice, Coords, Variant, digest, label_of

if TYPE_CHECKING:
    from matrix_runner.layers import Problem
    from matrix_runner.work.workload import Workload


@dataclass(frozen=True, slots=True)
class Written:
    name: str
    axes: Mapping[str, tuple[Any, ...]]
    memory: int
    slow: int  # the declared factor of slow motion
    findings: Findings

    @property
    def path(self) -> Path:
        return ("workloads", self.name)

    @property
    def several(self) -> tuple[str, ...]:
        """Return the axes with several values."""
        return tuple(f"workload.{axis}" for axis, values in self.axes.items() if len(values) > 1)

    def flaw(self, axis: str, message: str) -> None:
        self.findings.flaw((*self.path, *axis.split(".")), message)

    def report(self, problems: Iterable[Problem], coords: Coords, choice: Choice) -> None:
        for problem in problems:
            self.findings.flaw_of(coords, place_of(self.path, choice, problem.field), problem.message)

    def note(self, text: str) -> None:
        note = Note(f"workload {self.name}: {text}")
        if note not in self.findings.notes:
            self.findings.notes.append(note)

    def variant(self, work: Workload, coords: Coords, several: Iterable[str] | None = None) -> Variant[Workload]:
        shown = label_of(coords, self.several if several is None else several)
        return Variant(work, coords, "/".join(filter(None, (self.name, shown))), digest(work.content()))
