"""The registry of kinds of work: each is a folder here, a subclass of Workload and a line in KINDS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from matrix_runner.base.axes import axes_of
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.presets import Program
from matrix_runner.work.fio.variants import variants as of_fio
from matrix_runner.work.jobs.keys import SeveralJobs
from matrix_runner.work.jobs.variants import has_jobs
from matrix_runner.work.jobs.variants import variants as of_jobs
from matrix_runner.work.pts.variants import is_pts
from matrix_runner.work.pts.variants import variants as of_pts
from matrix_runner.work.pts.workload import PtsKeys
from matrix_runner.work.replay.variants import is_replay
from matrix_runner.work.replay.variants import variants as of_replay
from matrix_runner.work.replay.workload import ReplayKeys
from matrix_runner.work.sync.variants import is_rebuild
from matrix_runner.work.sync.variants import variants as of_sync
from matrix_runner.work.sync.workload import SyncKeys

if TYPE_CHECKING:
    from matrix_runner.base.model import Model
    from matrix_runner.base.variants import Variant
    from matrix_runner.work.workload import Workload
    from matrix_runner.work.written import Written


class Variants(Protocol):
    def __call__(self, written: Written, *, in_files: bool) -> Iterator[Variant[Workload]]: ...


class Kind(NamedTuple):
    keys: tuple[type[Model], ...]  # as written
    is_meant: Callable[[Mapping[str, Any]], bool]  # by the keys of a workload
    variants: Variants


#: In the order in which they are asked whether a workload is theirs.
KINDS: Mapping[str, Kind] = {
    "replay": Kind((ReplayKeys,), is_replay, of_replay),
    "jobs": Kind((SeveralJobs,), has_jobs, of_jobs),
    "sync": Kind((axes_of(SyncKeys),), is_rebuild, of_sync),
    "pts": Kind((axes_of(PtsKeys),), is_pts, of_pts),
    "fio": Kind((axes_of(WorkloadKeys), axes_of(Program)), lambda _: True, of_fio),
}


def kind_of(axes: Mapping[str, Any]) -> str:
    return next(name for name, kind in KINDS.items() if kind.is_meant(axes))
