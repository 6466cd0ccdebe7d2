"""The shape of fio's JSON: every value that is used has its type and range, or the output is refused.

It is parsed in output.py.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from matrix_runner.work.metrics import FLUSH, SIDES

_LEAST = 1e-30  # of numbers that are not 0


def _not_tiny(value: float) -> float:
    if 0 < value < _LEAST:
        raise ValueError("no figure is so small")
    return value


#: Above any real value; sums of them stay below the limits of databases.
_Number = Annotated[float, Field(ge=0, le=1e18), AfterValidator(_not_tiny)]
_Milliseconds = Annotated[float, Field(ge=0, le=1e12), AfterValidator(_not_tiny)]
_Count = Annotated[int, Field(ge=0, le=10**18)]
_Bins = Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,18}$")], _Count], Field(max_length=10_000)]  # fio: 1,856
_ABSENT: Any = None


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)


class _Latency(_Part):
    N: _Count = _ABSENT
    max: _Number = _ABSENT
    mean: _Number = _ABSENT
    bins: _Bins = _ABSENT
    percentile: dict[str, _Number] = _ABSENT


class _Flush(_Part):
    lat_ns: _Latency | None = None


class _Side(_Part):
    runtime: _Milliseconds
    bw_bytes: _Number
    io_bytes: _Count
    total_ios: _Count
    iops: _Number
    lat_ns: _Latency = _ABSENT


class _Job(_Part):
    usr_cpu: _Number
    sys_cpu: _Number
    error: Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)] = _ABSENT
    total_err: _Count = _ABSENT
    job_runtime: _Milliseconds = _ABSENT
    elapsed: _Milliseconds = _ABSENT
    options: dict[str, Any] = Field(_ABSENT, alias="job options")
    read: _Side = _ABSENT
    write: _Side = _ABSENT
    trim: _Side = _ABSENT
    sync: _Flush = _ABSENT


_JOBS = TypeAdapter(list[_Job], config=ConfigDict(defer_build=True))


def find_misfit(jobs: list[dict[str, Any]] | Any) -> str:
    """Return the first place of a value that fio does not write; empty if there is none."""
    try:
        _JOBS.validate_python(jobs)
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
        number, *steps = error["loc"]
        place = ".".join((f"jobs[{number}]", *map(str, steps)))
        return f"{place} is missing" if error["type"] == "missing" else f"{place} is {str(error['input'])[:60]}"
    for at, job in enumerate(jobs):
        if not any(side in job for side in SIDES):
            return f"jobs[{at}] has neither `read` nor `write`"
        for side in (*SIDES, FLUSH):
            latency = job.get(side, {}).get("lat_ns") or {}
            if latency.get("N") and (absent := {"max", "mean"} - latency.keys()):
                return f"jobs[{at}].{side}.lat_ns.{min(absent)} is missing"
    return ""
