"""The registry of kinds of work: each is a folder or a module here, a subclass of Workload and a line in KINDS."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from matrix_runner.base.model import Model, Variant, axes_of
from matrix_runner.work import sync
from matrix_runner.work.fio import variants as fio
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.variants import Program
from matrix_runner.work.jobs import variants as jobs
from matrix_runner.work.pts import workload as pts
from matrix_runner.work.replay import workload as replay
from matrix_runner.work.workload import Workload, Written


class Kind(NamedTuple):
    keys: tuple[type[Model], ...]  # as written
    is_meant: Callable[[Mapping[str, Any]], bool]  # by the keys of a workload
    variants: Callable[[Written], Iterator[Variant[Workload]]]


#: In the order in which they are asked whether a workload is theirs.
KINDS: Mapping[str, Kind] = {
    "replay": Kind((replay.ReplayKeys,), replay.is_replay, replay.variants),
    "jobs": Kind((jobs.SeveralJobs,), jobs.has_jobs, jobs.variants),
    "sync": Kind((axes_of(sync.SyncKeys),), sync.is_rebuild, sync.variants),
    "pts": Kind((axes_of(pts.PtsKeys),), pts.is_pts, pts.variants),
    "fio": Kind((axes_of(WorkloadKeys), axes_of(Program)), lambda _: True, fio.variants),
}


def kind_of(axes: Mapping[str, Any]) -> str:
    return next(name for name, kind in KINDS.items() if kind.is_meant(axes))
