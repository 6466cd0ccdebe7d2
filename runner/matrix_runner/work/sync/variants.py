"""The variants of workloads that rebuild or check an array, and the stacks on which they are impossible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.findings import place_of
from matrix_runner.base.variants import Coords, Variant, choices, digest, label_of, texts
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.sync.workload import SyncWorkload

if TYPE_CHECKING:
    from matrix_runner.base.findings import Findings, Path

_ACTION, _UNDER = "sync_action", "under."


def is_rebuild(axes: Mapping[str, Any]) -> bool:
    return _ACTION in axes or any(name.startswith(_UNDER) for name in axes)


class RebuildVariants:
    def __init__(
        self, name: str, axes: Mapping[str, tuple[Any, ...]], memory: int, findings: Findings, slow: int
    ) -> None:
        self._name, self._axes, self._memory = name, axes, memory
        self._findings, self._slow = findings, slow
        self._base: Path = ("workloads", name)
        self._several = tuple(f"workload.{axis}" for axis, values in axes.items() if len(values) > 1)

    def on(self, *, in_files: bool) -> Iterator[Variant[Workload]]:
        if _ACTION not in self._axes:
            self._findings.flaw((*self._base, "under"), "'under' has no effect without `sync_action`")
            return
        for axis in self._axes:
            if axis != _ACTION and not axis.startswith(_UNDER):
                key = axis.partition(".")[0]
                message = f"`sync_action` runs no I/O of its own; write `{key}` below `under:`, or remove it"
                self._findings.flaw((*self._base, *axis.split(".")), message)
                return
        for choice in choices(self._axes):
            under = {axis.removeprefix(_UNDER): one for axis, one in choice.values.items() if axis != _ACTION}
            foreign = Workload.idle_on_files if in_files else Workload.idle_on_devices
            defaults = {name: info.default for name, info in Workload.model_fields.items()}
            idle = {**Workload.idle({**defaults, **under}), **foreign(under)} if under else {}
            values = {axis: one for axis, one in under.items() if axis not in idle}
            made = constructed(Workload, values).on(self._memory) if values else None
            given = {key: getattr(made, key) for key in made.model_fields_set} if made else None
            work = SyncWorkload.of(choice.values[_ACTION], given)
            shown = texts(made, values) if made else {}
            coords: Coords = (
                ("workload", self._name),
                (f"workload.{_ACTION}", work.sync_action),
                *((f"workload.{_UNDER}{axis}", text) for axis, text in shown.items()),
            )
            problems = [*work.problems(), *work.slow_problems(self._slow)]
            for problem in problems:
                place = place_of(self._base, choice, problem.field)
                self._findings.flaw_of(coords, place, problem.message)
            if not problems:
                label = "/".join(filter(None, (self._name, label_of(coords, self._several))))
                yield Variant(work, coords, label, digest(work.content()))
