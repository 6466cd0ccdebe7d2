"""A matrix as written: one YAML file, parsed and frozen."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from matrix_runner.base.findings import Path
from matrix_runner.base.model import Condition, Model, Name, Percent, Size, as_tuple, axes_of, axis_type, conditions
from matrix_runner.base.quantities import parse_time
from matrix_runner.language.disks import UNNAMED, BusLimit, Disks, DiskSets, FaultSets
from matrix_runner.language.find import Find, Searched, resolved
from matrix_runner.language.guidelines import Guidelines
from matrix_runner.language.hosts import Needs
from matrix_runner.language.layouts import AnyLayout
from matrix_runner.language.period import expanded, version_of
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.tune import Tune
from matrix_runner.simdisks.disk import Disk, Fault, Link
from matrix_runner.statistics.ratios import PRACTICAL
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.kinds import KINDS
from matrix_runner.work.profilers import PROFILERS, ProfilerName
from matrix_runner.work.workload import Workload

#: The names of kernels and their Debian suites. With a kernel of backports, the programs are those of the release.
RELEASES = {"debian-12": "bookworm", "debian-13": "trixie"}
BACKPORTS = "-backports"
SUITES = {f"{name}{more}": f"{suite}{more}" for name, suite in RELEASES.items() for more in ("", BACKPORTS)}


def is_path(kernel: str) -> bool:
    return "/" in kernel or kernel.startswith(".")


def kernel_error(kernel: str) -> str:
    if kernel in SUITES or is_path(kernel):
        return ""
    near = sorted(get_close_matches(kernel.lower(), SUITES))
    meant = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(SUITES)}."
    return f"no such kernel; {meant} The path of a bzImage has a slash, like ./{kernel}"


WORTH_IT = 10.0  # shorter trials are not sampled by `auto`: too few samples for their cost
AUTO, OFF = "auto", "off"


def _interval(value: Any) -> Any:
    # sysstat's sampler takes whole seconds only.
    if isinstance(value, str) and value in {AUTO, OFF}:
        return value
    try:
        seconds = parse_time(value)
    except ValueError:
        raise ValueError("neither a time, like 1s or 5s, nor auto or off") from None
    if seconds < 1 or seconds != int(seconds):
        raise ValueError("the sampler takes whole seconds; write 1s, 5s, auto or off")
    return int(seconds)


Monitor = Annotated[
    int | str,
    BeforeValidator(_interval),
    WithJsonSchema({"type": "string", "pattern": r"^(auto|off|[0-9]+ ?(s|m|h))$"}),
    Field(
        description="how often sysstat samples the rig; auto: each second; "
        "off if `ramp` and `runtime` together are shorter than 10s"
    ),
]


def interval(monitor: int | str, work: Workload) -> int:
    if isinstance(monitor, int):
        return monitor
    if monitor == OFF or (work.runtime is not None and work.ramp + work.runtime < WORTH_IT):
        return 0
    return 1


def _kernel(name: str) -> str:
    if not (name.strip() and name.isprintable()):
        raise ValueError("neither the name of a kernel nor a path without control characters")
    if why := kernel_error(name):
        raise ValueError(why)
    return name


#: Parameters of the kernel that the virtual machine sets, because it would not come up without them.
OF_THE_MACHINE = ("console", "init", "rdinit", "root", "panic", "oops", "acpi", "pmtmr", "tsc", "lpj")


def _cmdline(text: str) -> str:
    names = [word.partition("=")[0] for word in text.split()]
    one = r"[A-Za-z0-9_][A-Za-z0-9_.,:=+/-]*"
    if not re.fullmatch(rf"{one}( {one})*", text, re.ASCII) or ("default" in names and len(names) > 1):
        raise ValueError("write parameters of the kernel, separated by one space, like mitigations=off, or default")
    if own := next((name for name in names if name in OF_THE_MACHINE or name.startswith("matrix.")), None):
        raise ValueError(f"the virtual machine sets {own} itself")
    return text


class MachineWish(Model):
    """Properties of the virtual machine, on qemu and vagrant."""

    kernel: Annotated[
        tuple[Annotated[str, AfterValidator(_kernel)], ...] | None,
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(None, description=f"{', '.join(SUITES)}, or the path of a bzImage; a list is an axis")
    cmdline: Annotated[
        tuple[Annotated[str, AfterValidator(_cmdline)], ...] | None,
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(None, description="more parameters of the kernel, only on qemu; a list is an axis; `default`: none")
    cpus: int = Field(2, ge=1, le=64)
    memory: Annotated[Size, Field(ge=256 * 1024 * 1024)] = 512 * 1024 * 1024
    strain: Annotated[
        Percent,
        Field(
            gt=0,
            le=1,
            description="a trial that lost more than this share of its I/O time to its host is host-limited",
        ),
    ] = 0.05


MOST_DISKS = 26
PATIENCE = 20  # the default of `max` with `until`


def _with_room(repeat: dict[Any, Any]) -> dict[Any, Any]:
    """Fill in bounds between which `until` can act. The values are not validated yet."""
    least, most = repeat.get("min", 3), repeat.get("max", PATIENCE)
    if not (isinstance(least, int) and isinstance(most, int)):
        return repeat
    bounds = {"min": max(1, min(least, most - 1)), "max": max(least, most)}
    return {**bounds, **repeat}


def _meant_by(repeat: Any) -> str:
    digits = re.match(r"\s*0*([1-9]\d{0,3})(?!\d)", repeat) if isinstance(repeat, str) else None
    near = f"; did you mean {digits[1]}?" if digits else ""
    return f"neither a whole number, like `repeat: 3`, nor a map, like `repeat: {{min: 3, max: 20, until: 5%}}`{near}"


class Repeat(Model):
    """How often each cell is measured, and when its interval is narrow enough."""

    min: int = Field(3, ge=1, le=10000)
    max: int = Field(
        3, ge=1, le=10000, description=f"largest number of trials of each cell; with `until`, {PATIENCE} if not given"
    )
    until: Percent | None = Field(
        None, description="wanted half width of the interval, relative to the mean; it assumes independent trials"
    )
    confidence: Annotated[Percent, Field(gt=0.5, lt=1)] = 0.95

    @property
    def of_race(self) -> Self:
        """Return the repeats of a race: two trials of all stacks show which are far behind, if the user names none."""
        return self if "min" in self.model_fields_set else self.model_copy(update={"min": 2, "max": 2})

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        return {"anyOf": [{"type": "integer", "minimum": 1}, handler(core)]}

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any) -> Any:
        """Fill in missing bounds. `repeat: 5` is five times; a single bound stands for both, except with `until`."""
        if isinstance(value, int) and not isinstance(value, bool):
            return {"min": value, "max": value}
        if not isinstance(value, dict):
            raise ValueError(_meant_by(value))  # noqa: TRY004 - pydantic handles ValueError only
        if value.get("until") is not None:
            return _with_room(value)
        given = [value[bound] for bound in ("min", "max") if isinstance(value.get(bound), int)]
        return {"min": given[0], "max": given[0], **value} if len(given) == 1 else value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is more than max ({self.max})")
        if self.until is None and self.min < self.max:
            what = f"without `until` it is open when {self.min} repeats are enough"
            raise ValueError(f"{what}: add `until: 5%`, or write one number")
        if self.until is not None and not 0 < self.until < 1:
            rule = "`until` is a share of the mean, more than 0 and less than 1, like 5%"
            raise ValueError(f"{rule}; {self.until:.0%} is not")
        if self.until is not None and self.max < 2:
            raise ValueError("`until` needs at least two repeats: a single value has no interval")
        if self.until is not None and self.min == self.max:
            raise ValueError(f"`until` has no effect because min and max are both {self.max}; write a larger max")
        return self


_INSTEAD_OF_RW = ("preset", "job", "jobs", "sync_action", "replay")


def _needed(value: Any, info: ValidationInfo) -> Any:
    # `rw` is required without a preset or jobs. An invalid one is absent from `data` and has its own error.
    if value is None and all(info.data.get(other, "") is None for other in _INSTEAD_OF_RW):
        raise PydanticCustomError("missing", "Field required")
    return value


if TYPE_CHECKING:
    WorkloadAxes = Searched
else:
    WorkloadAxes = create_model(
        "AnyWorkload",
        # The fields of the last base come first, so `preset` and `job` are validated before `rw`.
        __base__=(Searched, *(keys for kind in reversed(KINDS.values()) for keys in kind.keys)),
        __doc__=WorkloadKeys.__doc__,
        rw=(
            Annotated[axis_type(WorkloadKeys.model_fields["rw"]) | None, AfterValidator(_needed)],
            Field(default=None, validate_default=True),
        ),
    )
    WorkloadAxes.model_config = ConfigDict(
        **WorkloadAxes.model_config,
        json_schema_extra={"anyOf": [{"required": [key]} for key in ("rw", *_INSTEAD_OF_RW)]},
    )


if TYPE_CHECKING:
    TuneAxes = Model
else:
    TuneAxes = axes_of(Tune)


def _period(period: str) -> str:
    version_of(period)
    return period


class Matrix(Model):
    """One experiment."""

    name: Name
    description: str = ""
    seed: int = 1
    period: (
        Annotated[str, AfterValidator(_period), WithJsonSchema({"type": "string", "examples": ["linux-2.6.12"]})] | None
    ) = Field(None, description="an earlier kernel: tunables that are not given get the values that it had")
    machine: MachineWish = MachineWish()
    needs: Needs | None = Field(
        None, description="which physical disks of hosts.yaml it needs; simulated disks do not use it"
    )
    disks: DiskSets
    bus_limit: dict[Name, BusLimit] = Field(
        default_factory=dict, description="controllers, links and buses that simulated disks share"
    )
    faults: FaultSets = Field(
        default_factory=dict,
        description="faults of simulated disks in every trial: a list, or several lists by name, which are an axis",
    )
    layouts: dict[Name, AnyLayout] = Field(min_length=1)
    tune: TuneAxes = Field(default_factory=TuneAxes)
    workloads: dict[Name, WorkloadAxes] = Field(min_length=1)
    for_: dict[Name, Annotated[float, Field(gt=0, le=1e6)]] = Field(
        default_factory=dict,
        alias="for",
        description="the weights of workloads by name, such as `{photos: 2, vms: 1}`: the answer then names the stack "
        "that is best for all of them together",
    )
    practical: Annotated[Percent, Field(ge=0.001, le=1)] = Field(
        PRACTICAL,
        description="differences up to this size count as equal: in the answer, for `--race`, `find` and `recommend`",
    )
    repeat: Repeat = Repeat()
    monitor: Monitor = AUTO
    profile: Annotated[
        tuple[ProfilerName, ...],
        BeforeValidator(as_tuple),
        AfterValidator(lambda names: tuple(name for name in PROFILERS if name in names)),
        WithJsonSchema({"anyOf": [{"enum": [*PROFILERS]}, {"type": "array", "items": {"enum": [*PROFILERS]}}]}),
    ] = Field(
        (),
        description="programs that watch the machine beside each trial, and cost it time",
        examples=[["cpu", "locks"]],
    )
    exclude: Annotated[tuple[Condition, ...], BeforeValidator(conditions)] = ()
    only: Annotated[tuple[Condition, ...], BeforeValidator(conditions)] = ()
    guidelines: Guidelines = ()
    max_cells: int = Field(
        10_000_000,
        ge=1,
        le=1_000_000_000,
        description="a matrix with more cells, counted before `only` and `exclude`, is refused",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_period(cls, data: Any) -> Any:
        return expanded(data)

    @property
    def finds(self) -> dict[str, Find]:
        """Return `find` of each workload that has one, with the axis that it searches over."""
        return {name: resolved(work.find, work) for name, work in self.workloads.items() if work.find}

    @property
    def chooses_slow(self) -> bool:
        """Return whether each trial gets its own factor of slow motion. Stacks are built without it."""
        return all(several.model and several.slow == "auto" for several in self.disks)

    def every_disk(self) -> tuple[Disk, ...]:
        found: list[Disk] = []
        for several in self.disks:
            found += several.each(self.seed * 1000 + len(found))
        for name, limit in self.bus_limit.items():
            link = Link(name, float(limit.bandwidth))
            found = [replace(disk, link=link) if at in limit.disks else disk for at, disk in enumerate(found)]
        return tuple(found)

    def fault_sets(self) -> dict[str, tuple[Fault, ...]]:
        sizes = [disk.size for disk in self.every_disk()]
        sets = self.faults or {UNNAMED: ()}
        return {
            name: tuple(fault.of(sizes[fault.disk]) for fault in faults if fault.disk < len(sizes))
            for name, faults in sets.items()
        }

    def unknown_weights(self) -> Iterator[tuple[Path, str]]:
        for name in self.for_.keys() - self.workloads.keys():
            yield ("for", name), f"there is no workload {name}; {did_you_mean(name, self.workloads)}"

    def misplaced_disks(self) -> Iterator[tuple[Path, str]]:
        disks = [several for several in self.disks for _ in range(several.count)]
        if len(disks) > MOST_DISKS:
            yield ("disks",), f"{len(disks)} disks; a rig has at most {MOST_DISKS}"
        factors = {str(several.slow) for several in disks if several.model}
        if factors and factors != {"auto"} and not all(several.model for several in disks):
            factors.add("1")
        if len(factors) > 1:
            one = " and ".join(sorted(factors))
            yield ("disks",), f"`slow` is {one}; all disks have one clock, so write the same factor"
        seen: set[int] = set()
        for name, limit in self.bus_limit.items():
            for place, number in enumerate(limit.disks):
                path: Path = ("bus_limit", name, "disks", place)
                if number >= len(disks):
                    yield path, f"there is no disk {number}; they are numbered from 0 to {len(disks) - 1}"
                elif disks[number].model is None:
                    yield path, f"disk {number} has no model, so its rate cannot be limited"
                elif number in seen:
                    yield path, f"disk {number} is on another link already"
                seen.add(number)
        yield from self._misplaced_faults(disks)

    def _misplaced_faults(self, disks: Sequence[Disks]) -> Iterator[tuple[Path, str]]:
        for name, faults in self.faults.items():
            for at, fault in enumerate(faults):
                path = ("faults", *((name,) if name else ()), at)
                if fault.disk >= len(disks):
                    last = len(disks) - 1
                    yield (*path, "disk"), f"there is no disk {fault.disk}; they are numbered from 0 to {last}"
                elif disks[fault.disk].model is None:
                    yield (*path, "disk"), f"disk {fault.disk} has no model, so it cannot have faults"
                elif fault.of(disks[fault.disk].size).where[1] > disks[fault.disk].size:
                    yield (*path, "start"), "the region ends beyond the end of the disk"
