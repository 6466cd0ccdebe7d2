"""The variants of workloads that rebuild or check an array, and the stacks on which they are impossible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.variants import Coords, Variant, choices, texts
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.sync.workload import SyncWorkload

if TYPE_CHECKING:
    from matrix_runner.work.workload import Workload
    from matrix_runner.work.written import Written

_ACTION, _UNDER = "sync_action", "under."


def is_rebuild(axes: Mapping[str, Any]) -> bool:
    return _ACTION in axes or any(name.startswith(_UNDER) for name in axes)


def variants(written: Written, *, in_files: bool) -> Iterator[Variant[Workload]]:
    if _ACTION not in written.axes:
        written.flaw("under", "'under' has no effect without `sync_action`")
        return
    for axis in written.axes:
        if axis != _ACTION and not axis.startswith(_UNDER):
            key = axis.partition(".")[0]
            written.flaw(axis, f"`sync_action` runs no I/O of its own; write `{key}` below `under:`, or remove it")
            return
    for choice in choices(written.axes):
        under = {axis.removeprefix(_UNDER): one for axis, one in choice.values.items() if axis != _ACTION}
        values = FioWorkload.effective(under, in_files=in_files) if under else {}
        made = constructed(FioWorkload, values).on(written.memory) if values else None
        given = {key: getattr(made, key) for key in made.model_fields_set} if made else None
        work = SyncWorkload.of(choice.values[_ACTION], given)
        shown = texts(made, values) if made else {}
        coords: Coords = (
            ("workload", written.name),
            (f"workload.{_ACTION}", work.sync_action),
            *((f"workload.{_UNDER}{axis}", text) for axis, text in shown.items()),
        )
        problems = [*work.problems(), *work.slow_problems(written.slow)]
        written.report(problems, coords, choice)
        if not problems:
            yield written.variant(work, coords)
