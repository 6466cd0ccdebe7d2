"""Import of fio's JSON from other sources: foreign jobs, perhaps no histograms, several groups of jobs in a file.

The JSON of other versions of fio, of its clients and of its other reports gets the shape of today's.

| version | difference |
| --- | --- |
| up to 2.1 | no time of the measurement |
| up to 2.99 | latencies in µs, as `lat` and `clat`; `io_bytes` in KiB |
| up to 3.1 | `bw` in KiB/s and no `bw_bytes` |
| up to 3.12 | percentiles of the whole latency (`lat_percentiles=1`) below `clat_ns` |
| up to 3.18 | no count `N` of latencies |
"""

import codecs
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Any

import orjson

from matrix_runner.answers.axes import grouped
from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import MIB
from matrix_runner.base.quantities import format_size
from matrix_runner.base.text import shorten
from matrix_runner.records.record import LONGEST
from matrix_runner.records.tables import DIRECTION
from matrix_runner.work.fio import output as fio_output
from matrix_runner.work.fio.output import Figures, FioFailed
from matrix_runner.work.metrics import FLUSH, SIDES

_SIZE = re.compile(r"([0-9]{1,18})([kmgt]?)(i?b)?", re.IGNORECASE)
_LONGEST_LINE = 120
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZES = {"bs", "size", "io_size", "filesize", "offset"}
_SYNONYMS = {"readwrite": "rw", "blocksize": "bs"}
#: Options about places and output, not about the workload.
_NO_WORKLOAD = frozenset(
    {
        *("name", "description", "randseed", "group_reporting", "stonewall", "new_group"),
        *("lat_percentiles", "clat_percentiles", "slat_percentiles", "percentile_list", "log_avg_msec", "disk_util"),
        *("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "allow_file_create", "log_hist_msec"),
    }
)
#: Places. They distinguish jobs of one file, but files from different places have the same workload.
_WHERE = ("filename", "directory")
_MOST_OPTIONS = 1000  # each is a column of tables; fio has some 300
#: Bounds of time and memory. A file of 64 MiB that fio wrote for 1,000 jobs has less of each.
_MOST_VALUES, _MOST_OBJECTS, _MOST_GROUPS = 3_000_000, 200_000, 10_000
_MOST_TEXTS = 4 * MIB  # characters of all names and options
_EVIDENCE = 8000  # bytes of a file for messages
_UNKNOWN = datetime.fromtimestamp(0, UTC)
_END = re.compile(rb"\n\}[ \t\r]*$", re.MULTILINE)  # a line that ends a document
_MOST_TRIES = 100  # documents; fio leaves at most the last one unfinished
#: bytes/s, requests/s, ns (a month): above any real value, and below the limits of databases.
_MOST = {"bw": 1e14, "iops": 1e12, "bytes": 1e18, "ios": 1e18, "lat": 3e15}


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that ran side by side and form one figure: `figures`, or the reason for their absence."""

    name: str
    options: Mapping[str, str]
    figures: Figures | None
    failure: str
    version: str
    started: datetime
    lacks: tuple[str, ...]  # figures that our own runs have and these lack
    where: str = ""  # files or devices, if they are named
    unsettled: str = ""  # the steady state that was requested and not reached
    #: Latencies in ns by per cent of the requests, of each direction: a mean over jobs. Empty with histograms.
    percentiles: Mapping[str, Mapping[float, float]] = field(default_factory=dict)


def parse_groups(content: bytes, file: str, written: datetime = _UNKNOWN) -> list[Group]:
    """Return the groups of jobs of a file; `written`: when, for versions of fio that do not say it."""
    text = content[-_EVIDENCE:].decode("utf-8", "replace")
    try:
        whole = find_last_json(content, text, file)
    except FioFailed as failed:
        head = content[:_EVIDENCE].decode("utf-8", "replace")
        other = other_report(head) if isinstance(failed, fio_output.NoJson) else ""
        raise BadInput(
            f"{file} is {other}, which does not have all figures" if other else f"{file}: {failed.brief}",
            details=_last_line(failed.evidence),
            resolution="it reads the output of `fio --output-format=json+` (or json)",
        ) from failed
    jobs = jobs_in(whole)
    if not jobs:
        raise BadInput(
            f"{file}: fio's JSON has no job, neither in `jobs` nor in `client_stats`",
            resolution="it reads the output of `fio --output-format=json+` (or json)",
        )
    if str(whole.get("fio version")) in {fio_output.SYNTHETIC, fio_output.FORMERLY_SYNTHETIC}:
        raise BadInput(
            f"{file} is synthetic, from the dry machine, so it has no measured figures",
            resolution="import the output of fio; runs of `--on dry` are in the store already, marked as synthetic",
        )
    ended = _ended(whole)
    common = _options(whole.get("global options"))
    if (count := len({_number(job) for job in jobs})) > _MOST_GROUPS:
        raise _too_large(file, f"{count:,} groups of jobs", f"{_MOST_GROUPS:,}")
    by_group = groupby(sorted(jobs, key=_number), key=_number)
    version = str(whole.get("fio version", ""))
    found = [_group(list(several), common, version, ended or written, text) for _, several in by_group]
    if not ended:
        found = [replace(group, lacks=(*group.lacks, _TIME)) for group in found]
    for group in found:
        _refuse_impossible(group, file)
    if (count := len({name for group in found for name in group.options})) > _MOST_OPTIONS:
        raise BadInput(
            f"{file}: its jobs have {count:,} different options, more than fio knows",
            resolution="another program wrote or changed that file; leave it out",
        )
    _refuse_long(found, file)
    apart = {name for name in _WHERE if len({group.options.get(name) for group in found}) > 1}
    return [_placed(group, apart) for group in found]


def count_documents(content: bytes) -> int:
    return content.startswith(b"{") + content.count(b"\n{")


def find_last_json(content: bytes, evidence: str, file: str) -> Any:
    """Return the last whole document: with `--status-interval`, fio writes one after the other."""
    problem: orjson.JSONDecodeError | None = None
    for start, end in islice(_documents(content), _MOST_TRIES):
        if large := _excess(content, start, end):
            raise _too_large(file, *large)
        try:
            return _loads(content, start, end)
        except orjson.JSONDecodeError as found:
            problem = problem or found
    if problem is None:
        raise fio_output.NoJson("fio printed no JSON", evidence=evidence)
    raise FioFailed(f"fio's JSON is cut short or damaged: {problem}", evidence=evidence) from problem


def _documents(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the places of documents from the last to the first. Each begins a line, and none overlaps another."""
    limit = len(content)
    while limit > 0:
        start = content.rfind(b"\n{", 0, limit) + 1
        if start or content.startswith(b"{"):
            end = _END.search(content, start, limit)
            yield start, end.end() if end else limit
        limit = start - 1


def _loads(content: bytes, start: int, end: int) -> Any:
    part = memoryview(content)[start:end]
    try:
        return orjson.loads(part)
    except orjson.JSONDecodeError as problem:
        if "UTF-8" not in str(problem):
            raise
        several = (bytes(part[at : at + MIB]) for at in range(0, len(part), MIB))
        return orjson.loads(b"".join(one.encode() for one in codecs.iterdecode(several, "utf-8", "replace")))


def _excess(content: bytes, start: int, end: int) -> tuple[str, str] | None:
    """Return what would take much memory once it is parsed, and its bound."""
    counts = (
        ("values", content.count(b",", start, end), _MOST_VALUES),
        ("objects", content.count(b"{", start, end) + content.count(b"[", start, end), _MOST_OBJECTS),
    )
    return next(((f"{count:,} {what}", f"{most:,}") for what, count, most in counts if count > most), None)


def _refuse_long(groups: Sequence[Group], file: str) -> None:
    sizes = [len(text) for group in groups for text in (group.name, *group.options, *group.options.values())]
    if (longest := max(sizes)) > LONGEST:
        raise _too_large(file, f"a name or an option of {longest:,} characters", f"{LONGEST:,}")
    if sum(sizes) > _MOST_TEXTS:
        raise _too_large(file, f"{sum(sizes):,} characters of names and options", f"{_MOST_TEXTS:,}")


def _too_large(file: str, found: str, most: str) -> BadInput:
    return BadInput(
        f"{file} has {found}; at most {most}", resolution="split it, or have fio report by groups (`group_reporting`)"
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shorten(lines[-1], _LONGEST_LINE) if lines else ""


def _placed(group: Group, apart: Collection[str]) -> Group:
    kept = {name: value for name, value in group.options.items() if name not in _WHERE or name in apart}
    where = [group.options[name] for name in _WHERE if name in group.options]
    return replace(group, options=kept, where=" in ".join(where))


def _refuse_impossible(group: Group, file: str) -> None:
    for side in group.figures.sides.values() if group.figures else ():
        for name in DIRECTION:
            value, most = getattr(side, name), _MOST["lat" if name.startswith("lat") else name]
            if value is not None and not 0 <= value <= most:
                raise BadInput(
                    f"{file}: {name}={value:g} of '{group.name}' is beyond any real measurement",
                    resolution="another program wrote or changed that file; leave it out",
                )


def _group(
    jobs: Sequence[Mapping[str, Any]], common: Mapping[str, str], version: str, ended: datetime, text: str
) -> Group:
    figures, failure = None, ""
    try:
        figures = fio_output.figures_of(jobs, text)
    except FioFailed as failed:
        failure = failed.brief
    name = "+".join(dict.fromkeys(str(job.get("jobname") or "job") for job in jobs))
    # If values differ, list all.
    values = grouped(item for job in jobs for item in {**common, **_options(job.get("job options"))}.items())
    options = {name: "|".join(dict.fromkeys(several)) for name, several in sorted(values.items())}
    started = ended
    with suppress(OverflowError):  # the file names a time before the year 1
        started -= timedelta(seconds=figures.runtime if figures else 0)
    lacks = _lacking(figures) if figures else ()
    if figures and any(map(has_percentiles_of_completions, jobs)):
        lacks = (*lacks, _SUBMISSION)
    sides = figures.sides if figures else ()  # their shape is checked
    own = {side: merged for side in sides if (merged := _merged_percentiles(jobs, side))}
    unsettled = fio_output.missed_steady_states(jobs)
    return Group(name, options, figures, failure, version, started, lacks, unsettled=unsettled, percentiles=own)


def _merged_percentiles(jobs: Sequence[Mapping[str, Any]], side: str) -> dict[float, float]:
    found = [job[side].get("lat_ns", {}).get("percentile", {}) for job in jobs if side in job]
    common = set.intersection(*map(set, found)) if found else set()
    values = {name: [one[name] for one in found] for name in common}
    return {float(name): sum(several) / len(several) for name, several in values.items() if None not in several}


_TIME = "the time of the measurement (that of the file is used)"
_SUBMISSION = "the time of submission in percentiles, which are those of `clat` (lat_percentiles=1 includes it)"


def _lacking(figures: Figures) -> tuple[str, ...]:
    sides = figures.sides.values()
    if all(side.lat_mean is None for side in sides):
        return ("latencies: the file has none of the whole time (`lat_ns`)",)
    if any(side.lat_p99 is None for side in sides):
        return ("percentiles: fio merges those of several jobs with group_reporting or json+ only",)
    return ()


def _options(written: Any) -> dict[str, str]:
    if not isinstance(written, dict):
        return {}
    named = {_SYNONYMS.get(str(key), str(key)): str(value) for key, value in written.items()}
    return {
        name: _size(value) if name in _SIZES else value for name, value in named.items() if name not in _NO_WORKLOAD
    }


def _size(text: str) -> str:
    found = _SIZE.fullmatch(text.strip())
    return format_size(int(found[1]) * 1024 ** _POWERS[found[2].lower()]) if found else text


def _number(job: Mapping[str, Any]) -> int:
    number = job.get("groupid", 0)
    return number if isinstance(number, int) else 0


def _ended(whole: Mapping[str, Any]) -> datetime | None:
    with suppress(TypeError, ValueError, OverflowError, OSError):
        if seconds := float(whole.get("timestamp_ms", 0)) / 1000 or float(whole.get("timestamp", 0)):
            return datetime.fromtimestamp(seconds, UTC)
    return None


_ALL = "All clients"  # the entry of fio's client that sums up those of its servers
_OF_COMPLETIONS = "of completions"  # a key of latencies with percentiles of `clat`
_SET = ("1", "")  # the values of an option that is switched on
_KIB, _MICROSECOND = 1024, 1000
_TIMES = ("min", "max", "mean", "stddev")
#: What else fio writes, by the first line that is not empty.
_OTHER_REPORTS = (
    (re.compile(r"[2345];fio-[\d.]"), "fio's terse output"),
    (re.compile(r"\d+, -?\d+, [012](, \d+)*\s*$"), "a log of fio (`write_bw_log` and others)"),
    (re.compile(r".*\(g=\d+\): rw=|fio-\d"), "fio's output for people"),
)


def other_report(text: str) -> str:
    """Name a report of fio that is not JSON; empty if it is none."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return next((name for pattern, name in _OTHER_REPORTS if pattern.match(line)), "")


def jobs_in(whole: Any) -> list[dict[str, Any]]:
    """Return the jobs in today's shape; empty if there are none."""
    found = whole.get("jobs", whole.get("client_stats")) if isinstance(whole, dict) else None
    if not isinstance(found, list) or not all(isinstance(job, dict) for job in found):
        return []
    common = whole.get("global options")
    return [_modern(job, common if isinstance(common, dict) else {}) for job in _without_sum(found)]


def _without_sum(jobs: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return each request once. Of several servers with one job, fio's own sum has percentiles, too."""
    apart = [job for job in jobs if job.get("jobname") != _ALL]
    sums = [job for job in jobs if job.get("jobname") == _ALL]
    if not sums or not apart or len({(job.get("jobname"), job.get("groupid")) for job in apart}) > 1:
        return apart or jobs
    kept: dict[str, Any] = {name: apart[0][name] for name in ("jobname", "groupid", "job options") if name in apart[0]}
    return [{**sums[0], **kept}]


def _modern(job: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: _side(job[side]) for side in SIDES if isinstance(job.get(side), dict)}
    own = job.get("job options")
    if {**common, **(own if isinstance(own, dict) else {})}.get("lat_percentiles") in _SET:
        for latencies in (side["lat_ns"] for side in sides.values() if isinstance(side.get("lat_ns"), dict)):
            latencies.pop(_OF_COMPLETIONS, None)
    runtimes = [one.get("runtime") for one in sides.values()]
    longest = max((one for one in runtimes if isinstance(one, int | float)), default=0)
    sync = job.get(FLUSH)
    if isinstance(sync, dict):
        sides[FLUSH] = {**sync, **_latencies(sync, sync.get("total_ios"))}
    return {"job_runtime": longest, **job, **sides}


def _side(found: Mapping[str, Any]) -> dict[str, Any]:
    side = dict(found)
    bw, moved, runtime, iops = (_finite(side.get(name)) for name in ("bw", "io_bytes", "runtime", "iops"))
    if "bw_bytes" not in side and bw is not None:
        side["bw_bytes"] = round(bw * _KIB)
        if moved and runtime and "io_kbytes" not in side and moved * 1000 / runtime < bw * _KIB**0.5:
            side["io_bytes"] = int(moved * _KIB)
    if "total_ios" not in side and iops is not None and runtime is not None:
        side["total_ios"] = round(iops * runtime / 1000)
    return {**side, **_latencies(side, side.get("total_ios"))}


def _latencies(side: Mapping[str, Any], count: Any) -> dict[str, Any]:
    """Return the whole latencies; where only those of completions have percentiles, with these."""
    whole, completed = _in_ns(side, "lat"), _in_ns(side, "clat")
    if whole is None:
        return {}
    if _finite(whole.get("mean")):
        whole["N"] = count or whole.get("N", 0)
    if not (whole.get("percentile") or whole.get("bins")) and completed:
        whole |= {name: completed[name] for name in ("percentile", "bins") if completed.get(name)}
        whole[_OF_COMPLETIONS] = True
    return {"lat_ns": whole}


def has_percentiles_of_completions(job: Mapping[str, Any]) -> bool:
    """Return whether only the latencies without submission have percentiles."""
    found = (job[side].get("lat_ns", {}) for side in SIDES if side in job)
    return any(one.get("N") and one.get(_OF_COMPLETIONS) for one in found)


def _in_ns(side: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    for key, unit in ((f"{name}_ns", 1), (name, _MICROSECOND), (f"{name}_us", _MICROSECOND), (f"{name}_ms", 1_000_000)):
        if isinstance(found := side.get(key), dict):
            return {**found, **dict(_scaled(found, unit))}
    return None


def _scaled(found: Mapping[str, Any], unit: int) -> Iterator[tuple[str, Any]]:
    for name in _TIMES:
        if (value := _finite(found.get(name))) is not None:
            yield name, value * unit
    if isinstance(percentile := found.get("percentile"), dict):
        yield "percentile", dict(_percentiles(percentile, unit))


def _percentiles(found: Mapping[str, Any], unit: int) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        number = _finite(value)
        with suppress(ValueError):
            yield f"{float(name):.6f}", value if number is None else number * unit


def _finite(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
