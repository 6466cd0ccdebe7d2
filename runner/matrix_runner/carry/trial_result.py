"""The outcome of a trial, from the output of its steps: measured, corrupt or broken, with evidence. It does no I/O.

Other broken trials: executor.py decides and recorder.py records a stack that could not be set up, scheduler.py a cell
that lost its rig too often, trial.py trims on a simulated disk without a model of them. The outcome of a cell, from
those of its trials: records/record.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from matrix_runner.base.text import lines_of
from matrix_runner.machines.base import StepResult
from matrix_runner.records.counters import NODE, CounterSnapshot, split_counters
from matrix_runner.records.record import Outcome, Reading
from matrix_runner.work.fio.output import (
    FioFailed,
    mark_synthetic,
    table_by_position,
    table_by_sample,
    table_by_time,
)
from matrix_runner.work.workload import NotReported, Result, Workload, notes_of, split_report

_PREFIX = "matrix: "
#: Lines that only refer to help or logs.
_POINTER = re.compile(
    r"dmesg\(1\)|\bfor more (information|details)|--help\b|^(See|Check|Consult) |^(Try|Run) [`'\"]|^btrfs-progs v",
    re.IGNORECASE,
)
_WARNING = re.compile(r"^(\S+: )?(warning|note)\b", re.IGNORECASE)
#: Lines that only report the failure of an earlier step.
_AFTERMATH = re.compile(
    r"Error during parsing of command line|^Failed to activate new LV|^Command failed|^Aborting"
    r"|^fio: (failed to load engine|pid=\d+, err=)",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(
    r"error|fail|invalid|illegal|unknown|unrecogni[sz]ed|unable|refus|denied|insufficient|unsupported|mismatch|exceed"
    r"|\b(can ?not|can't|couldn't|won't|not|no|nor|bad|wrong|must|busy|missing|already|too|unusual|out of)\b",
    re.IGNORECASE,
)
_USAGE = re.compile(r"usage:", re.IGNORECASE)
_SYNOPSIS = re.compile(r"\s|\[|/\*|<")  # lines of a usage summary
_CONTINUED = re.compile(r"\t| {4}")  # indentation of a continuation line; LVM indents all its lines by two blanks


def evidence(output: str) -> str:
    """Return the script's own message, else that of the program that failed; both, if the first ends in a colon."""
    # A reason is one line of text, so each separator of lines ends it.
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    own = [line.strip().removeprefix(_PREFIX) for line in lines if line.strip().startswith(_PREFIX)]
    if own and not own[-1].endswith(":"):
        return own[-1][:300]
    message = complaint([line for line in lines if not line.strip().startswith(_PREFIX)]) or "no message"
    return " ".join((*own[-1:], message))[:300]


def complaint(lines: list[str]) -> str:
    useful = _join_lines(_without_usage([line for line in lines if not _POINTER.search(line.strip())]))
    messages = [one for one in useful if not _WARNING.match(one)]
    complaints = [one for one in messages if _COMPLAINT.search(one)]
    causes = [one for one in complaints if not _AFTERMATH.search(one)]
    return (causes or complaints or messages or useful or [line.strip() for line in lines] or [""])[-1]


def _without_usage(lines: list[str]) -> list[str]:
    """Remove usage summaries, which come before or after the error message."""
    at = next((at for at, line in enumerate(lines) if _USAGE.match(line)), None)
    if at is None:
        return lines
    if any(_COMPLAINT.search(line) for line in lines[:at]):
        return lines[:at]
    after = next((end for end in range(at + 1, len(lines)) if not _SYNOPSIS.match(lines[end])), len(lines))
    return lines[:at] + lines[after:]


def _join_lines(lines: list[str]) -> list[str]:
    joined: list[str] = []
    for line in lines:
        if joined and _CONTINUED.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line.strip())
    return joined


MEMORY = "/proc/sys/vm/"  # folder of the kernel's memory tunables
#: A list of choices in sysfs, the chosen one in brackets.
_CHOICE = re.compile(r".*?\[(.*?)\].*", re.DOTALL)
_WHAT = {"set-up": "set-up failed", "tune": "tuning failed", "verify": "read-back failed", "measure": "fio failed"}


@dataclass(frozen=True, slots=True)
class Finding:
    outcome: Outcome
    reason: str = ""
    readings: tuple[Reading, ...] = ()
    result: Result = field(default_factory=Result)


@dataclass(frozen=True, slots=True)
class TrialOutput:
    steps: tuple[StepResult, ...]
    before: CounterSnapshot | None
    after: CounterSnapshot | None
    files: Mapping[str, str]  # files of the trial with details of the measurement
    notes: Mapping[str, str]
    report: str = ""  # that of the script, as JSON


def split_outputs(
    results: Sequence[StepResult], work: Workload, *, invented: bool = False, slow: int = 1
) -> TrialOutput:
    """Split the output of the steps; `invented`: the dry machine made it."""
    steps, files, notes, before, after = list[StepResult](), dict[str, str](), dict[str, str](), None, None
    report = ""
    for result in results:
        if result.name == "measure":
            output, before, after = split_counters(result.output)
            output, report = split_report(output, work.kind)
            files |= {work.report_file: f"{report}\n"} if report and work.report_file else {}
            other_readings, output = split_other_settings(output)
            # The measurement reads more settings, which belong to the read-back.
            steps = [replace(one, output=one.output + other_readings) if one.name == "verify" else one for one in steps]
            steps.append(replace(result, output=output))
            notes |= notes_of(output)
        elif result.name == "samples":
            files |= {"samples.json": result.output} if result.output.strip() else {}
        elif result.name.startswith("profile") and result.status:
            notes[result.name.removesuffix(".txt")] = f"not kept: {evidence(result.output)}"
        elif result.name.startswith("profile-"):
            files |= {result.name: result.output} if result.output.strip() else {}
        elif result.name == "profile":
            if result.output.strip():
                files |= {"profile.csv": _profile(result.output, work, slow, invented=invented)}
        else:
            steps.append(result)
    return TrialOutput(tuple(steps), before, after, files, notes, report)


def _profile(table_text: str, work: Workload, slow: int, *, invented: bool) -> str:
    if work.profile == "time":
        table = table_by_time(table_text, work.course, slow)
    else:
        each = work.each
        table = table_by_sample(table_text, work.bs, slow) if each else table_by_position(table_text, slow)
    return mark_synthetic(table) if invented else table


@lru_cache(maxsize=256)
def readings_of(output: str) -> tuple[Reading, ...]:
    found = []
    for line in lines_of(output):
        if line.startswith("reading\t") and line.count("\t") >= 3:
            _, setting, wanted, got = line.split("\t", 3)
            found.append(Reading(setting, None if wanted == "-" else wanted, got))
    return tuple(found)


def split_other_settings(output: str) -> tuple[str, str]:
    """Split into readings of undeclared settings (the first line `path:content` of each file) and the rest."""
    at = output.find("\n{") + 1 or len(output)
    readings, rest = _split_settings(output[:at])
    return readings, rest + output[at:]


@lru_cache(maxsize=64)
def _split_settings(before: str) -> tuple[str, str]:
    of = {f"/sys/class/block/{one.got}/": one.setting for one in readings_of(before) if one.setting.endswith(NODE)}
    readings, rest, seen = [], [], set[str]()
    for line in lines_of(before, keepends=True):
        path, colon, content = line.partition(":")
        folder = next((folder for folder in (*of, MEMORY) if path.startswith(folder)), "")
        if line.startswith("reading\t"):
            readings.append(line)
        elif not (colon and folder):
            rest.append(line)
        elif path not in seen and (got := _CHOICE.sub(r"\1", content.strip())):
            seen.add(path)
            name = of[folder].removesuffix(NODE) if folder in of else "vm"
            readings.append(f"reading\t{name}.{path.removeprefix(folder)}\t-\t{got}\n")
    return "".join(readings), "".join(rest)


def mismatch(readings: Sequence[Reading]) -> str:
    wrong = list(dict.fromkeys(one for one in readings if one.wanted is not None and one.wanted != one.got))
    if not wrong:
        return ""
    differences = "; ".join(f"{one.setting} wanted {one.wanted}, kernel says {one.got}" for one in wrong[:3])
    return f"not as declared: {differences}" + (f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else "")


def _beside_json(output: str) -> str:
    lines = lines_of(output)
    first = next((at for at, line in enumerate(lines) if line.startswith("{")), len(lines))
    last = max((at for at, line in enumerate(lines) if line.rstrip() == "}"), default=len(lines))
    return "\n".join(lines[:first] + lines[last + 1 :])


def _fio_failed(failed: FioFailed, result: StepResult) -> str:
    beside = _beside_json(result.output)
    message = evidence(beside).removeprefix("fio: ") if beside.strip() else ""
    if failed.silent:
        return f"fio failed: {message or f'{failed.brief} (exit status {result.status})'}"
    return f"fio failed: {failed.brief}" + (f": {message}" if message else "")


#: Lines of fio about data that is not what it wrote.
_WRONG_DATA = re.compile(r"^(?:verify: bad |[^ :]+: verify failed at file )")


def wrong_data(output: str) -> str:
    found = [line for line in lines_of(_beside_json(output)) if _WRONG_DATA.match(line)]
    if not found:
        return ""
    more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
    first = found[0].partition(" (requested block: ")[0]
    return f"wrong data: {first[:300]}{more}"


def finding(results: Sequence[StepResult], work: Workload, slow: int = 1, report: str = "") -> Finding:
    """Return the outcome. `report`: that of the script, for work that fio does not measure alone."""
    readings = next((readings_of(result.output) for result in results if result.name == "verify"), ())
    broken = partial(Finding, Outcome.BROKEN, readings=readings)
    last = results[-1]
    if failed_before := _failed_before(last, readings):
        return failed_before
    if work.script_failed(last.status, report):
        return broken(evidence(_beside_json(last.output)))
    why, result = "", Result()
    try:
        result = work.read_output(last.output, report, slow)
    except FioFailed as failed:
        return broken(_fio_failed(failed, last))
    except NotReported as strange:
        why = strange.brief
    if last.status != 0:
        message = evidence(_beside_json(last.output))
        exit_status = "" if message.startswith("not as declared") else f"fio failed: exit status {last.status}: "
        why = f"{exit_status}{message}"
    return broken(why) if why else Finding(Outcome.MEASURED, readings=readings, result=result)


def _failed_before(last: StepResult, readings: tuple[Reading, ...]) -> Finding | None:
    """Return the outcome of a trial without a measurement that counts; None if it has one."""
    if last.name == "measure" and (wrong := wrong_data(last.output)):
        return Finding(Outcome.CORRUPT, wrong, readings=readings)
    if wrong := mismatch(readings):
        return Finding(Outcome.BROKEN, wrong, readings=readings)
    if last.name != "measure":
        return Finding(Outcome.BROKEN, f"{_WHAT[last.name]}: {evidence(last.output)}", readings=readings)
    return None
