"""The open map of fio's own options: what may stand in it, and why the rest may not."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

_COLLECTED = "results are collected by matrix"
_ENDS = "`runtime:` or `size:` says when a workload ends"
_TOP = "the top of the layout is what fio works on"
#: fio options that `matrix` writes itself, and what to use instead.
OWNED = {
    "filename": _TOP,
    **dict.fromkeys(("directory", "opendir", "read_iolog", "replay_redirect"), _TOP),
    **dict.fromkeys(("write_iolog", "merge_blktrace_file"), "fio must write nowhere but on the top of the layout"),
    "allow_mounted_write": "fio must never write on a device that is mounted",
    "include": "all of a job stands in the matrix",
    **dict.fromkeys(("nrfiles", "nr_files"), "write `files:`"),
    "filesize": "write `file_size:`",
    **dict.fromkeys(("name", "filename_format"), "files of cells of one shape are used again under their own names"),
    "create_only": "files are laid out before anything is measured",
    **dict.fromkeys(
        ("overwrite", "file_append", "fallocate"),
        "files are laid out before anything is measured, so writes overwrite; `new: true` has them made by writes",
    ),
    "readwrite": "write `rw:`",
    "rwmixwrite": "write `rwmixread:`",
    "blocksize": "write `bs:`",
    **dict.fromkeys(("bsrange", "blocksize_range", "bssplit"), "`bs:` is the size of all requests; a list is an axis"),
    "buffered": "write `direct: false`",
    "ramp_time": "write `ramp:`",
    "time_based": "a workload with `runtime:` is time based",
    "fileoffset": "write `offset:`",
    **dict.fromkeys(("timeout", "io_size", "io_limit", "loops", "fill_device", "fill_fs"), _ENDS),
    "ioscheduler": "write `scheduler:` below `tune:`, so that it is read back",
    "randseed": "`seed:` at the top of the matrix decides it, another one for every trial",
    **dict.fromkeys(("output", "group_reporting", "unified_rw_reporting", "stats", "per_job_logs"), _COLLECTED),
    **dict.fromkeys(("lat_percentiles", "clat_percentiles"), _COLLECTED),
    **dict.fromkeys(("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log"), _COLLECTED),
    "allow_file_create": "fio must never make a file where a device should be",
    **dict.fromkeys(("unlink", "unlink_each_loop"), "fio must never remove what it works on"),
    "exec_prerun": "commands do not belong in a workload",
    "exec_postrun": "commands do not belong in a workload",
}

#: fio cuts longer lines of a job, and takes the rest of one for the next: another option, of whoever wrote it.
_LONGEST = 1000


def _open_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a fio option has one value: a text, a number, true or false")  # noqa: TRY004 - pydantic's way
    if isinstance(value, str) and any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("control characters and line breaks cannot be written into a fio job")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"more than the {_LONGEST} characters that surely stay on one line of a fio job")
    return value


OpenValue = Annotated[bool | int | float | str, BeforeValidator(_open_value)]


def refused(option: str, value: object) -> str | None:
    """Why an option is none of a user's; None if it is."""
    if option in {"mem", "iomem"} and ":" in str(value):
        # It would be cut to the size of the buffers, and written over with what they hold.
        return f"`{option}` is memory here: fio must have its buffers in no file"
    why = OWNED.get(option)
    if option.startswith("log_"):
        why = f"{_COLLECTED}, logs with `profile:`"  # the course of a rate is read from them
    return f"`{option}` is not for the fio: map: {why}" if why else None
