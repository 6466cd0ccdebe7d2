"""The variants of workloads that are tests of SNIA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.variants import Coords, Variant, choices, texts
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.pts.specification import TESTS
from matrix_runner.work.pts.workload import PtsWorkload, problems_of

if TYPE_CHECKING:
    from matrix_runner.work.workload import Workload
    from matrix_runner.work.written import Written


def is_pts(axes: Mapping[str, Any]) -> bool:
    return "rounds" in axes or _has_tests(axes)


def _has_tests(axes: Mapping[str, Any]) -> bool:
    return any(preset in TESTS for preset in axes.get("preset", ()))


def variants(written: Written, *, in_files: bool) -> Iterator[Variant[Workload]]:  # noqa: ARG001
    if not _has_tests(written.axes):
        written.flaw("rounds", "'rounds' has no effect: it ends tests of SNIA (`preset`)")
        return
    if others := [preset for preset in written.axes["preset"] if preset not in TESTS]:
        what = f"{others[0]} is a program, and the others are tests of SNIA; write it in another workload"
        written.flaw("preset", what)
        return
    for preset in written.axes["preset"]:
        axes = {**written.axes, "preset": (preset,)}
        if TESTS[preset].each_size:
            axes = {"bs": TESTS[preset].sizes, **axes}
        yield from _variants(written, preset, axes)


def _variants(written: Written, preset: str, axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Variant[Workload]]:
    several = [f"workload.{axis}" for axis, values in axes.items() if len(values) > 1]
    several += ["workload.preset"] if len(written.axes["preset"]) > 1 else []
    for choice in choices(axes):
        fields = {key: one for key, one in choice.values.items() if key in WorkloadKeys.model_fields}
        shown = texts(constructed(WorkloadKeys, fields), fields)
        shown |= {key: str(one) for key, one in choice.values.items() if key in {"preset", "rounds"}}
        coords: Coords = (
            ("workload", written.name),
            *((f"workload.{key}", shown[key]) for key in ("preset", *choice.values) if key in shown),
        )
        coords = tuple(dict(coords).items())
        problems = problems_of(preset, choice.values)
        work = None if problems else PtsWorkload.made(preset, choice.values)
        problems += work.slow_problems(written.slow) if work else ()
        written.report(problems, coords, choice)
        if work and not problems:
            yield written.variant(work, coords, several)
