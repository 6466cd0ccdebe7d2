"""A fio workload on the top of a stack: what it does there, and whether it fits."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import ceil, floor
from typing import Any, ClassVar, Self

from matrix_runner.base.quantities import format_in_unit, format_size, resolve_memory, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.work import slow as slow_motion
from matrix_runner.work.fio import rules as fio_rules
from matrix_runner.work.fio.bounds import TRIMS, option_name
from matrix_runner.work.fio.keys import DEFAULT_SIZE, POINTS, FileSet, OpenValue, WorkloadKeys
from matrix_runner.work.metrics import FLUSH, sides_of_kind
from matrix_runner.work.workload import NO_MODEL_OF_TRIMS, Load, Result, Workload

DEFAULT_RUNTIME = 10.0
MOST_LOGGED = 1_000_000  # a profile logs every request, in fio's memory


class FioWorkload(WorkloadKeys, Workload):
    kind: ClassVar[str] = "fio"
    job_template: ClassVar[str] = "job.fio"

    def content(self) -> Any:
        """Leave out defaults, so that new fields change no id."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def on(self, memory: int) -> Self:
        sizes = {"size": self.size, "file_size": self.file_size}
        known = {name: resolve_memory(size, memory) for name, size in sizes.items() if size is not None}
        return self.model_copy(update=known) if known else self

    def settled(self) -> Self:
        """Fill in the default runtime. It stays None if a size ends the workload."""
        ends = (self.runtime, self.size, self.file_size)
        passes = self.profile == "position" or any(option_name(option) in fio_rules.PASSES for option in self.fio)
        open_ended = ends == (None, None, None) and not passes
        return self.model_copy(update={"runtime": DEFAULT_RUNTIME}) if open_ended else self

    @property
    def write_share(self) -> float:
        return self.bound.write_share

    @property
    def sizes(self) -> tuple[int, int]:
        return self.bound.bs

    @property
    def pauses(self) -> bool:
        return bool(self.bound.pace or self.bound.think)

    @property
    def trims(self) -> bool:
        return self.rw in TRIMS or "trim_percentage" in self.fio

    def trim_problem(self, why: str) -> Problem:
        return Problem("rw" if self.rw in TRIMS else "fio.trim_percentage", why or NO_MODEL_OF_TRIMS)

    def problems(self) -> Iterator[Problem]:
        return fio_rules.problems(self)

    def span(self, capacity: int, devices: int = 1) -> int:
        if self.size is not None:
            return resolve_share(self.size, capacity)
        return capacity - devices * resolve_share(self.offset, capacity // devices)  # the offset is that of each device

    def touched(self, span: int) -> int:
        if self.each is not None:
            return self.each * max(1, span // self.window(span))
        largest = self.sizes[1]
        return span * largest // (largest + self.skip)

    def load(self, span: int) -> Load:
        once, bound = self.touched(span), self.bound
        moved = bound.moved(once)
        passed = moved * span // once if once else 0
        timed = self.ramp + bound.delay + bound.seconds(once)
        return Load(moved, bound.written(once), passed, passed / self.sizes[0], timed)

    @property
    def is_timed(self) -> bool:
        return self.runtime is not None

    @property
    def under_way(self) -> int:
        return self.numjobs * (1 if self.rw in TRIMS else self.bound.depth)

    @property
    def directions(self) -> Mapping[str, Collection[str]]:
        return {"": (*sides_of_kind(self.rw), *(FLUSH,) * self.bound.syncs)}

    @property
    def has_whole_runtime(self) -> bool:
        return not self.verifies

    def read_fio(self, output: str, phases: Mapping[str, int] | None = None) -> Result:
        """Leave out the reads of a verification, which come after the writes or between them."""
        read = super().read_fio(output, phases)
        if not (self.verifies and read.figures and read.figures.write and read.figures.read):
            return read
        verified = f"{format_size(read.figures.read.bytes)} read back, without difference"
        return replace(read, figures=replace(read.figures, read=None), verified=verified)

    def slowed(self, slow: int) -> Self:
        if slow == 1:
            return self
        return self.model_copy(
            update={
                "runtime": None if self.runtime is None else self.runtime * slow,
                "ramp": self.ramp * slow,
                "steady": self.steady and slow_motion.steady(self.steady, slow),
                "fio": {name: self._slowed(name, value, slow) for name, value in self.fio.items()},
            }
        )

    def slow_problems(self, slow: int) -> Iterator[Problem]:
        for name, value in self.fio.items():
            try:
                self._slowed(name, value, slow)
            except ValueError as why:
                yield Problem(f"fio.{name}", f"`slow: {slow}` cannot be applied to `{name}`: {why}")

    def _slowed(self, name: str, value: OpenValue, slow: int) -> OpenValue:
        return slow_motion.option(name, value, slow, thousand=str(self.fio.get("kb_base")) == "1000")

    def window(self, span: int) -> int:
        return max(-(-span // (POINTS * self.bs)) * self.bs, self.each or 0)

    def _problem_over(self, span: int) -> Problem | None:
        count = self.touched(span) // self.bs
        if self.each is not None and self.each > span:
            return Problem("each", f"more than the whole region of {format_size(span)}")
        if (problem := fio_rules.misfit(self, self.touched(span))) is not None:
            return problem
        if self.profile == "position" and count > MOST_LOGGED:
            excess = f"{count:,} requests of {format_size(self.bs)} exceed the limit of the log, {MOST_LOGGED:,}"
            return Problem("profile", f"{excess}: write a larger `bs`, or a limit for each place with `each`")
        largest = self.sizes[1]
        if not self.skip or 2 * largest + self.skip <= span:
            return None
        step = f"{format_size(self.skip)} after requests of {format_size(largest)}"
        return Problem("skip", f"{step} lead beyond the region of {format_size(span)}")

    def fileset(self, capacity: int) -> FileSet:
        """Return the files in a file system. A share is a share of the whole, for all jobs together."""
        sets = 1 if self.shared else self.numjobs
        share = capacity // sets
        if self.size is None:
            size = _in_pages("50%", min(2 * DEFAULT_SIZE // sets, share))
        else:
            size = _in_pages(self.size, share)
        if self.file_size is None:
            count = self.files or 1
            return FileSet(sets, count, size // count)
        each = _in_pages(self.file_size, share)
        return FileSet(sets, self.files or (1 if self.size is None else -(-size // max(each, 1))), each)

    def _files_misfit(self, capacity: int) -> Problem | None:
        files = self.fileset(capacity)
        if self.trims:
            return Problem("rw", "fio cannot trim files; use a layout without a file system")
        if self.profile == "position" and files.count > 1:
            return Problem("profile", f"a profile over positions needs one file, and there are {files.count}")
        if self.shared and files.count > 1:
            return Problem("shared", f"jobs share one file, and there are {files.count}")
        field = "file_size" if self.file_size is not None else "files" if self.size is None and self.files else "size"
        if files.each < self.sizes[1]:
            request = f"one request of {format_size(self.sizes[1])}"
            return Problem(field, f"files of {format_size(files.each)} are less than {request}")
        if files.total <= capacity:
            return self._problem_over(files.each)
        count, each = files.jobs * files.count, format_size(files.each)
        # A size that was written in MB is shown in MB.
        unit = "MiB" if each.endswith("iB") or each[-2:-1].isdigit() else "MB"
        needed, free = format_in_unit(files.total, unit, ceil), format_in_unit(capacity, unit, floor)
        many = f"{count} files of {each}" if count > 1 else "it"
        return Problem(field, f"{many} would take {needed}; at least {free} are free")

    def misfit(self, capacity: int, devices: int | None, sector: int) -> Problem | None:
        found = self._files_misfit(capacity) if devices is None else self._device_misfit(capacity, devices)
        return found or fio_rules.unaligned(self, sector)

    def _device_misfit(self, capacity: int, devices: int) -> Problem | None:
        room = capacity // devices
        for field, extent in (("size", self.size), ("offset", self.offset)):
            if isinstance(extent, str) and fio_rules.share(extent) * 100 % 1:
                what = f"fio rounds {extent} of a device down to whole percent"
                return Problem(field, f"{what}; write a whole percentage or a size")
        if self.profile == "position" and devices > 1:
            return Problem("profile", "a profile over positions needs one device; `pick` chooses one of several")
        if (problem := fio_rules.device_misfit(self)) is not None:
            return problem
        largest = self.sizes[1]
        if self.size is not None and resolve_share(self.size, capacity) < largest:
            return Problem("size", f"{_shown(self.size)} are less than one request of {format_size(largest)}")
        each = "" if devices == 1 else f" on each of {devices} devices"
        offset = resolve_share(self.offset, room)
        size = largest if self.size is None else resolve_share(self.size, capacity) // devices
        if offset + size <= room:
            return self._problem_over(room - offset if self.size is None else size)
        field = "offset" if self.size is None else "size"
        needed = self.size if isinstance(self.size, str) else format_size(size)
        if not offset:
            return Problem(field, f"{needed} are needed{each}, and there are at most {format_size(room)}{each}")
        end, there = format_in_unit(offset + size, "MiB", ceil), format_in_unit(room, "MiB", floor)
        what = f"{needed} after an offset of {_shown(self.offset)} end at {end}"
        return Problem(field, f"{what}, and there are at most {there}{each}")


def _shown(extent: int | str) -> str:
    return extent if isinstance(extent, str) else format_size(extent)


def _in_pages(length: int | str, share: int) -> int:
    size = resolve_share(length, share)
    return size if isinstance(length, int) else size // 4096 * 4096
