"""Options of fio that a workload may not have, and why. Also the size of its files, and `steady:`.

fio itself refuses unknown options: session/fio_check.py.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from matrix_runner.base.model import Model, Percent, Time
from matrix_runner.base.quantities import format_time
from matrix_runner.layers import Problem

_COLLECTED = "matrix collects the results"
_ENDS = "write `runtime:` or `size:` to end a workload"
_TOP = "fio uses the top of the layout"
_FILES = "fio must not read or write files beside the top of the layout"
_DANGER, _SENSELESS = "; this endangers other data", "; this would make the figures meaningless"
#: fio options that a workload cannot have, and why or what to use instead.
OWNED = {
    "filename": _TOP,
    **dict.fromkeys(("directory", "opendir", "replay_redirect"), _TOP),
    "read_iolog": "a trace is a workload of its own; write `replay:` with the path of the trace",
    **dict.fromkeys(("write_iolog", "merge_blktrace_file"), "fio must write only to the top of the layout"),
    "allow_mounted_write": "fio must never write to a mounted device",
    "include": "the matrix holds the whole job",
    **dict.fromkeys(("nrfiles", "nr_files"), "write `files:`"),
    "filesize": "write `file_size:`",
    **dict.fromkeys(("name", "filename_format"), "cells with files of the same shape share them by name"),
    "create_only": "files exist before the measurement",
    **dict.fromkeys(
        ("overwrite", "file_append", "fallocate"),
        "files exist before the measurement; write `new: true` to create them by writing",
    ),
    "readwrite": "write `rw:`",
    "blocksize": "write `bs:`",
    "buffered": "write `direct: false`",
    "ramp_time": "write `ramp:`",
    "time_based": "a workload with `runtime:` is time based",
    "fileoffset": "write `offset:`",
    **dict.fromkeys(("timeout", "fill_device", "fill_fs"), _ENDS),
    "ioscheduler": "write `scheduler:` below `tune:`, which is read back",
    "randseed": "write `seed:` at the top of the matrix; each trial derives its own from it",
    **dict.fromkeys(("output", "group_reporting", "unified_rw_reporting", "stats", "per_job_logs"), _COLLECTED),
    **dict.fromkeys(("lat_percentiles", "clat_percentiles"), _COLLECTED),
    **dict.fromkeys(("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log"), _COLLECTED),
    "allow_file_create": "fio must never create a file in place of a device",
    **dict.fromkeys(("unlink", "unlink_each_loop"), "fio must never remove its files"),
    **dict.fromkeys(("exec_prerun", "exec_postrun", "program", "arguments"), "commands do not belong in a workload"),
    **dict.fromkeys(("verify_dump", "verify_state_load", "verify_state_save"), _FILES),
    **dict.fromkeys(("merge_blktrace_scalars", "merge_blktrace_iters"), _FILES),
    **dict.fromkeys(
        ("cgroup", "cgroup_weight", "cgroup_nodelete"), "fio would write to the control groups of the host"
    ),
    "profile": "a profile of fio replaces the whole job, with files of its own",
    "donorname": _FILES,
    **dict.fromkeys(("hipri", "hipri_percentage"), "polled requests need poll queues, which few disks have; remove it"),
}

#: Options that are refused for the data or the host, not because a key does the same.
_DANGEROUS = frozenset(
    {
        *("filename", "directory", "opendir", "replay_redirect", "write_iolog", "merge_blktrace_file"),
        *("allow_mounted_write", "allow_file_create", "unlink", "unlink_each_loop", "donorname", "profile"),
        *("exec_prerun", "exec_postrun", "program", "arguments", "cgroup", "cgroup_weight", "cgroup_nodelete"),
        *("verify_dump", "verify_state_load", "verify_state_save", "merge_blktrace_scalars", "merge_blktrace_iters"),
    }
)


def reason(option: str) -> str:
    """Return why a workload cannot have an option, with the kind of the reason."""
    why = OWNED[option]
    return why + (_DANGER if option in _DANGEROUS else _SENSELESS if why == _COLLECTED else "")


#: fio cuts longer lines of a job and reads the rest as the next line, so a long value could add an option.
_LONGEST = 1000


def _open_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a fio option has one value: a text, a number, true or false")  # noqa: TRY004 - pydantic's way
    if isinstance(value, str) and any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("control characters and line breaks cannot be written into a fio job")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"too long for one line of a fio job; use at most {_LONGEST} characters")
    if isinstance(value, str) and "$" in value:
        # `$VAR` in braces: the environment. $pagesize, $mb_memory, $ncpus: the host, and then `bc` computes the value.
        raise ValueError("fio replaces `$` and a name by a value of its environment or host; write the value itself")
    return value


OpenValue = Annotated[bool | int | float | str, BeforeValidator(_open_value)]


def refused(option: str, value: object) -> str | None:
    if option in {"mem", "iomem"} and ":" in str(value):
        # fio would truncate the file to the size of its buffers and overwrite it with their content.
        return f"`{option}` cannot name a file: fio must not keep its buffers in files{_DANGER}"
    if option in {"buffer_pattern", "verify_pattern"} and "'" in str(value):
        # fio would write the content of that file, which may be a secret, to the disks.
        return f"`{option}` cannot name a file, as a text in single quotes does: {_FILES}{_DANGER}"
    why = reason(option) if option in OWNED else None
    if option.startswith("log_"):
        why = f"{_COLLECTED}, logs with `profile:`"  # the profile is read from these logs
    return f"`{option}` is not allowed in the fio: map: {why}" if why else None


#: Engines with one request at a time. They ignore `iodepth`.
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap"})
DEFAULT_SIZE = 2**30  # the default for all jobs together; half of the file system if that is less


@dataclass(frozen=True, slots=True)
class FileSet:
    """The number and size of the files of each job."""

    jobs: int
    count: int
    each: int

    @property
    def span(self) -> int:
        return self.count * self.each

    @property
    def total(self) -> int:
        return self.jobs * self.span

    @property
    def name(self) -> str:
        return f"{self.jobs}x{self.count}x{self.each}"


_OPTIONS = ("steadystate", "ss", "steadystate_duration", "ss_dur")  # fio's own options for this


class Steady(Model):
    """The workload ends when its rate is steady.

    Trials that never become steady are marked `unsettled`, and do not count.
    """

    within: Annotated[Percent, Field(gt=0, description="limit of slope or deviation, relative to the mean")]
    of: Literal["iops", "bw"] = Field("iops", description="the rate that has to be steady")
    over: Annotated[Time, Field(ge=2, description="how long it has to be steady, after `ramp`")] = 10.0
    slope: bool = Field(
        True, description="test the slope over that time; false: test the largest deviation from the mean"
    )

    @property
    def option(self) -> str:
        return f"{self.of}{'_slope' if self.slope else ''}:{self.within * 100:g}%"

    def problems(self, runtime: float | None, profile: str | None, options: Collection[str]) -> Iterator[Problem]:
        if runtime is not None and self.over >= runtime:
            excess = f"{format_time(self.over)} do not fit into a runtime of {format_time(runtime)}"
            yield Problem("steady.over", f"{excess}; write a longer `runtime`, which is the limit")
        if profile == "position":
            yield Problem("steady", "a profile over positions ends after one pass over the device")
        if twice := [option for option in _OPTIONS if option in options]:
            yield Problem("fio", f"`{twice[0]}` and `steady:` set the same; write one of them")
