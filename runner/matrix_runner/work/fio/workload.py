"""A fio workload on the top of a stack: what it does there, and whether it fits."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any, ClassVar, Self

from matrix_runner.base.quantities import format_in_unit, format_size, resolve_memory, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.work import slow as slow_motion
from matrix_runner.work.fio.bounds import MIXED, READS, TRIMS, option_name
from matrix_runner.work.fio.keys import COMMANDS, DEFAULT_SIZE, POINTS, FileSet, OpenValue, WorkloadKeys, refused
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
        passes = self.profile == "position" or any(option_name(option) in PASSES for option in self.fio)
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

    @property
    def nvme_key(self) -> str:
        polls = next((name for name in ("hipri", "hipri_percentage") if self.fio.get(name)), "")
        return "ioengine" if self.ioengine == COMMANDS else f"fio.{polls}" if polls else ""

    def trim_problem(self, why: str) -> Problem:
        return Problem("rw" if self.rw in TRIMS else "fio.trim_percentage", why or NO_MODEL_OF_TRIMS)

    def problems(self) -> Iterator[Problem]:
        return key_problems(self)

    def span(self, capacity: int, devices: int = 1) -> int:
        if self.size is not None:
            return resolve_share(self.size, capacity)
        return capacity - devices * resolve_share(self.offset, capacity // devices)  # the offset is that of each device

    def fixed_size(self, *, in_files: bool) -> int:
        if not isinstance(self.size, int):
            return 0
        return self.fileset(self.size * self.numjobs).total if in_files else self.size

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
        if (problem := misfit(self, self.touched(span))) is not None:
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
        return found or unaligned(self, sector)

    def _device_misfit(self, capacity: int, devices: int) -> Problem | None:
        room = capacity // devices
        for field, extent in (("size", self.size), ("offset", self.offset)):
            if isinstance(extent, str) and share(extent) * 100 % 1:
                what = f"fio rounds {extent} of a device down to whole percent"
                return Problem(field, f"{what}; write a whole percentage or a size")
        if self.profile == "position" and devices > 1:
            return Problem("profile", "a profile over positions needs one device; `pick` chooses one of several")
        if (problem := device_misfit(self)) is not None:
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


#: Options that end a workload by its bytes.
PASSES = frozenset({"io_size", "loops", "verify"})
_SIZES = ("bssplit", "bsrange")
#: Seconds of waiting, and bytes of one trial; more is a mistake.
_LONGEST, _MOST = 86400.0, 2**50
_MEANINGLESS = "that makes the figures meaningless"
_APART = "write one job, or a region for each with `offset_increment`"


def key_problems(work: WorkloadKeys) -> Iterator[Problem]:
    if (problem := unaligned(work, 512)) is not None:
        yield problem
    if work.direct and work.ioengine == "mmap":
        yield Problem("ioengine", "mmap always uses the page cache; add `direct: false`")
    if work.profile == "position":
        yield from _profile_problems(work)
    if work.steady:
        yield from work.steady.problems(work.runtime, work.profile, work.fio)
    if work.profile and work.rw in TRIMS:
        yield Problem("profile", "a profile has reads and writes only; remove it")
    yield from _option_problems(work)
    offset = share(work.offset) if isinstance(work.offset, str) else 0
    if offset == 1:
        yield Problem("offset", f"no space is left after {work.offset} of a device")
    elif offset and isinstance(work.size, str) and work.size.endswith("%") and offset + share(work.size) > 1:
        left = f"{float(1 - offset) * 100:g}%"
        yield Problem("size", f"{work.size} after an offset of {work.offset}: only {left} are left")


def unaligned(work: WorkloadKeys, sector: int) -> Problem | None:
    if not work.direct:
        return None
    of_sizes = next((f"fio.{option}" for option in work.fio if option_name(option) in _SIZES), "bs")
    of_requests = [(of_sizes, size) for size in work.bound.bs]
    for field, extent in (*of_requests, ("skip", work.skip), ("offset", work.offset)):
        if isinstance(extent, int) and extent % sector:
            rule = f"direct I/O needs whole sectors of {format_size(sector)}"
            return Problem(field, f"{rule}, and {format_size(extent)} is not")
    return None


def share(percent: str) -> Fraction:
    # Exact: 33.3% and 66.7% are the whole.
    return Fraction(percent.removesuffix("%")) / 100


def _profile_problems(work: WorkloadKeys) -> Iterator[Problem]:
    if work.rw not in {"read", "write"}:
        yield Problem("profile", f"a profile over positions needs sequential work; rw={work.rw} is not")
    if work.numjobs > 1:
        yield Problem("numjobs", "a profile over positions needs one job")
    if work.runtime is not None or work.ramp:
        field = "runtime" if work.runtime is not None else "ramp"
        yield Problem(field, "a profile over positions ends after one pass over the device")
    if work.each is not None and (work.each % work.bs or work.each < 2 * work.bs):
        yield Problem("each", f"must be a multiple of bs ({format_size(work.bs)}), at least twice")


def misplaced(option: str, value: object) -> str | None:
    why = refused(option, value)
    if option in WorkloadKeys.model_fields and why is None:
        return f"`{option}` is a key of the workload; write `{option}:` outside of `fio:`"
    return why


def _option_problems(work: WorkloadKeys) -> Iterator[Problem]:
    yield from (Problem(f"fio.{name}", why) for name, why in work.unknown)
    for option, value in work.fio.items():
        if (why := misplaced(option, value)) is not None:
            yield Problem(f"fio.{option}", why)
        elif work.each is not None and option.startswith("zone"):
            yield Problem(f"fio.{option}", f"`{option}` and `each:` both set places; write one of them")
    names = {option_name(option): option for option in work.fio}
    for name, option in names.items():
        if why := _why_not(name, names, work):
            yield Problem(f"fio.{option}", why)
    if work.verifies:
        yield from _verify_problems(work, names["verify"])


def _why_not(name: str, names: dict[str, str], work: WorkloadKeys) -> str:
    option = names[name]
    if name in {"io_size", "loops"} and work.runtime is not None:
        return f"`{option}` has no effect with `runtime:`, which ends the workload; remove one of them"
    if work.profile == "position" and name in {*PASSES, *_SIZES}:
        return f"a profile over positions is one pass with requests of one size; remove `{option}`"
    if name in _SIZES:
        return _why_not_these_sizes(name, names, work)
    if name == "rwmixwrite" and work.rw not in MIXED:
        return f"`{option}` has no effect: rw={work.rw} does not mix reads and writes"
    if name == "rwmixwrite" and work.rwmixread not in {50, round(100 * (1 - work.bound.write_share))}:
        return f"`rwmixread:` is {work.rwmixread}, and both do not add up to 100; write one of them"
    if name == "do_verify" and work.verifies and str(work.fio[option]).lower() in {"0", "false"}:
        return "nothing would be verified; remove `do_verify`, or `verify`"
    return ""


def _why_not_these_sizes(name: str, names: dict[str, str], work: WorkloadKeys) -> str:
    option = names[name]
    if work.bs != 4096:  # the default
        return f"`bs:` and `{option}` both set the size of requests; write one of them"
    if name == "bssplit" and "bsrange" in names:
        return f"`{option}` and `{names['bsrange']}` both set the size of requests; write one of them"
    return ""


def _verify_problems(work: WorkloadKeys, option: str) -> Iterator[Problem]:
    field = f"fio.{option}"
    if work.rw in READS:
        earlier = f"rw={work.rw} reads what earlier trials left, and fio cannot know it"
        yield Problem(field, f"{earlier}; write `rw: write` or `randwrite`: fio then reads back what it wrote")
    elif "write" not in work.rw:
        why = "the reads of the workload and those of the verification would be one figure"
        what = f"`verify` with rw={work.rw}: {why if work.rw in MIXED else 'trims have no data'}"
        yield Problem(field, f"{what}; {_MEANINGLESS}; write `rw: write` or `randwrite`")
    elif work.runtime is not None and "verify_backlog" not in work.fio:
        never = "with `runtime:`, fio never begins to verify"
        yield Problem(field, f"{never}; write `size:` instead, or `verify_backlog: 1024` to read back in between")
    if work.shared and work.numjobs > 1:
        yield Problem("shared", f"with `verify`, jobs would overwrite each other's data; {_MEANINGLESS}")
    if _overlaps(work):
        why = "two requests for one block at a time have no known order"
        yield Problem(field, f"{why}; {_MEANINGLESS}; add `serialize_overlap: 1`")


def _overlaps(work: WorkloadKeys) -> bool:
    if not work.rw.startswith("rand") or work.bound.depth == 1 or _is_set(work, "serialize_overlap"):
        return False
    uniform = str(work.fio.get("random_distribution", "random")).startswith("random")
    return _is_set(work, "norandommap") or not uniform


def _is_set(work: WorkloadKeys, option: str) -> bool:
    return str(work.fio.get(option, 0)).lower() not in {"0", "false"}


def misfit(work: WorkloadKeys, once: int) -> Problem | None:
    """Return the problem of a workload that would not end in a useful time. `once`: one pass of one job in bytes."""
    passes = next((one for one in work.fio if option_name(one) in {"loops", "io_size"}), "")
    if passes and work.bound.moved(once) > _MOST:
        return Problem(f"fio.{passes}", "one trial would move more than 1PiB; write less, or `runtime:`")
    if work.runtime is not None or (seconds := work.bound.seconds(once)) <= _LONGEST:
        return None
    option = next((one for one in work.fio if one.startswith(("rate", "thinktime"))), "rate")
    needed = f"with `{option}`, {format_size(work.bound.moved(once))} take {seconds / 3600:,.0f} hours"
    return Problem(f"fio.{option}", f"{needed}; write `runtime:`, or less `size:` or `io_size`")


def device_misfit(work: WorkloadKeys) -> Problem | None:
    """Return the problem of several jobs that write to one device and verify."""
    if not work.verifies or work.numjobs == 1 or work.bound.apart:
        return None
    return Problem("numjobs", f"with `verify`, jobs would overwrite each other's data; {_MEANINGLESS}; {_APART}")
