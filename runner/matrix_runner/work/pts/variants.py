"""The variants of workloads that are tests of SNIA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.findings import place_of
from matrix_runner.base.variants import Coords, Variant, choices, digest, label_of, texts
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.pts.workload import TESTS, PtsWorkload, problems_of

if TYPE_CHECKING:
    from matrix_runner.base.findings import Findings, Path


def is_pts(axes: Mapping[str, Any]) -> bool:
    return any(preset in TESTS for preset in axes.get("preset", ()))


class PtsVariants:
    def __init__(self, name: str, axes: Mapping[str, tuple[Any, ...]], findings: Findings, slow: int) -> None:
        self._name, self._axes, self._findings, self._slow = name, axes, findings, slow
        self._base: Path = ("workloads", name)

    def on(self) -> Iterator[Variant[Workload]]:
        if others := [preset for preset in self._axes["preset"] if preset not in TESTS]:
            what = f"{others[0]} is a program, and the others are tests of SNIA; write it in another workload"
            self._findings.flaw((*self._base, "preset"), what)
            return
        for preset in self._axes["preset"]:
            axes = {**self._axes, "preset": (preset,)}
            if TESTS[preset].each_size:
                axes = {"bs": TESTS[preset].sizes, **axes}
            yield from self._variants(preset, axes)

    def _variants(self, preset: str, axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Variant[Workload]]:
        several = [axis for axis, values in axes.items() if len(values) > 1]
        several += ["preset"] if len(self._axes["preset"]) > 1 else []
        for choice in choices(axes):
            fields = {key: one for key, one in choice.values.items() if key in Workload.model_fields}
            shown = texts(constructed(Workload, fields), fields)
            shown |= {key: str(one) for key, one in choice.values.items() if key in {"preset", "rounds"}}
            coords: Coords = (
                ("workload", self._name),
                *((f"workload.{key}", shown[key]) for key in ("preset", *choice.values) if key in shown),
            )
            coords = tuple(dict(coords).items())
            problems = problems_of(preset, choice.values)
            work = None if problems else PtsWorkload.made(preset, choice.values)
            problems += work.slow_problems(self._slow) if work else ()
            for problem in problems:
                place = place_of(self._base, choice, problem.field)
                self._findings.flaw_of(coords, place, problem.message)
            if work and not problems:
                label = "/".join(filter(None, (self._name, label_of(coords, [f"workload.{key}" for key in several]))))
                yield Variant(work, coords, label, digest(work.content()))
