"""The variants of workloads that replay a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.quantities import resolve_memory
from matrix_runner.base.variants import Choice, Coords, Variant, choices, texts
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.replay.workload import KEYS, ReplayWorkload

if TYPE_CHECKING:
    from matrix_runner.work.replay.trace import Trace
    from matrix_runner.work.workload import Workload
    from matrix_runner.work.written import Written

_OWN = ("replay", "speed")


def is_replay(axes: Mapping[str, Any]) -> bool:
    return not axes.keys().isdisjoint(_OWN)


def variants(written: Written, *, in_files: bool) -> Iterator[Variant[Workload]]:  # noqa: ARG001
    if "replay" not in written.axes:
        written.flaw("speed", "'speed' has no effect without `replay`")
        return
    if other := next((axis for axis in written.axes if axis not in {*KEYS, *_OWN}), ""):
        written.flaw(other, f"the trace of `replay` says what runs; remove `{other}`")
        return
    for choice in choices(written.axes):
        yield from _variant(written, choice)


def _variant(written: Written, choice: Choice) -> Iterator[Variant[Workload]]:
    trace: Trace = choice.values["replay"]
    given = {key: value for key, value in choice.values.items() if key in KEYS}
    shown = texts(constructed(WorkloadKeys, given), given)
    if "size" in given:
        given["size"] = resolve_memory(given["size"], written.memory)
    work = ReplayWorkload.of(trace, choice.values.get("speed", 1.0), given)
    if "speed" in choice.values:
        shown["speed"] = f"{work.speed:g}"
    coords: Coords = (
        ("workload", written.name),
        ("workload.replay", trace.path),
        *((f"workload.{key}", text) for key, text in shown.items()),
    )
    problems = [*work.problems()]
    written.report(problems, coords, choice)
    if not problems:
        if trace.left_out:
            written.note(f"a replay leaves out the {trace.left_out:,} trims of {trace}")
        yield written.variant(work, coords)
