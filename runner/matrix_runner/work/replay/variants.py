"""The variants of workloads that replay a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.findings import Note, place_of
from matrix_runner.base.quantities import resolve_memory
from matrix_runner.base.variants import Choice, Coords, Variant, choices, digest, label_of, texts
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.replay.workload import KEYS, ReplayWorkload

if TYPE_CHECKING:
    from matrix_runner.base.findings import Findings, Path
    from matrix_runner.work.replay.trace import Trace

_OWN = ("replay", "speed")


def is_replay(axes: Mapping[str, Any]) -> bool:
    return not axes.keys().isdisjoint(_OWN)


class ReplayVariants:
    def __init__(self, name: str, axes: Mapping[str, tuple[Any, ...]], memory: int, findings: Findings) -> None:
        self._name, self._axes, self._memory, self._findings = name, axes, memory, findings
        self._base: Path = ("workloads", name)
        self._several = tuple(f"workload.{axis}" for axis, values in axes.items() if len(values) > 1)

    def variants(self) -> Iterator[Variant[Workload]]:
        if "replay" not in self._axes:
            self._findings.flaw((*self._base, "speed"), "'speed' has no effect without `replay`")
            return
        if other := next((axis for axis in self._axes if axis not in {*KEYS, *_OWN}), ""):
            message = f"the trace of `replay` says what runs; remove `{other}`"
            self._findings.flaw((*self._base, *other.split(".")), message)
            return
        for choice in choices(self._axes):
            yield from self._variant(choice)

    def _variant(self, choice: Choice) -> Iterator[Variant[Workload]]:
        trace: Trace = choice.values["replay"]
        given = {key: value for key, value in choice.values.items() if key in KEYS}
        shown = texts(constructed(Workload, given), given)
        if "size" in given:
            given["size"] = resolve_memory(given["size"], self._memory)
        work = ReplayWorkload.of(trace, choice.values.get("speed", 1.0), given)
        if "speed" in choice.values:
            shown["speed"] = f"{work.speed:g}"
        coords: Coords = (
            ("workload", self._name),
            ("workload.replay", trace.path),
            *((f"workload.{key}", text) for key, text in shown.items()),
        )
        problems = [*work.problems()]
        for problem in problems:
            self._findings.flaw_of(coords, place_of(self._base, choice, problem.field), problem.message)
        if not problems:
            self._note_left_out(trace)
            label = "/".join(filter(None, (self._name, label_of(coords, self._several))))
            yield Variant(work, coords, label, digest(work.content()))

    def _note_left_out(self, trace: Trace) -> None:
        note = Note(f"workload {self._name}: a replay leaves out the {trace.left_out:,} trims of {trace}")
        if trace.left_out and note not in self._findings.notes:
            self._findings.notes.append(note)
