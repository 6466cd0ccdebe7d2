"""The result of a trial, from the output of its steps. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.engine.error_line import evidence
from runner.machines.base import StepResult
from runner.results.counters import NODE, split_counters
from runner.results.fio_output import (
    Figures,
    FioFailed,
    figures_of,
    find_json,
    jobs_of,
    mark_synthetic,
    missed_steady_states,
    table_by_position,
    table_by_sample,
    table_by_time,
)
from runner.results.record import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.language.workload import Workload
    from runner.results.counters import CounterSnapshot

#: Folder of the kernel's memory tunables.
MEMORY = "/proc/sys/vm/"
_WHAT = {"set-up": "set-up failed", "tune": "tuning failed", "verify": "read-back failed", "measure": "fio failed"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a trial and its reason, its figures and its readings."""

    outcome: Outcome
    reason: str = ""
    figures: Figures | None = None
    #: The steady state that was not reached; else empty.
    unsettled: str = ""
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialOutput:
    """The output of a trial, separated into steps, counters, files and notes."""

    steps: tuple[StepResult, ...]
    before: CounterSnapshot | None
    after: CounterSnapshot | None
    #: Files of the trial with details of the measurement.
    files: Mapping[str, str]
    notes: Mapping[str, str]


def split_outputs(results: Sequence[StepResult], work: Workload, *, invented: bool = False) -> TrialOutput:
    """Split the output of the steps; `invented`: the dry machine made it."""
    steps, files, notes, before, after = list[StepResult](), dict[str, str](), dict[str, str](), None, None
    for result in results:
        if result.name == "measure":
            output, before, after = split_counters(result.output)
            other_readings, output = split_other_settings(output)
            # The measurement reads more settings, which belong to the read-back.
            steps = [replace(one, output=one.output + other_readings) if one.name == "verify" else one for one in steps]
            steps.append(replace(result, output=output))
        elif result.name == "samples":
            files |= {"samples.json": result.output} if result.output.strip() else {}
        elif result.name == "profile" and result.status:
            notes["profile"] = f"not kept: {evidence(result.output)}"
        elif result.name == "profile":
            files |= {"profile.csv": _profile(result.output, work, invented=invented)} if result.output.strip() else {}
        else:
            steps.append(result)
    return TrialOutput(tuple(steps), before, after, files, notes)


def _profile(table_text: str, work: Workload, *, invented: bool) -> str:
    if work.profile == "time":
        table = table_by_time(table_text, work.course)
    else:
        table = table_by_sample(table_text, work.bs) if work.each else table_by_position(table_text)
    return mark_synthetic(table) if invented else table


def readings_of(output: str) -> tuple[Reading, ...]:
    found = []
    for line in output.splitlines():
        if line.startswith("reading\t") and line.count("\t") >= 3:
            _, setting, wanted, got = line.split("\t", 3)
            found.append(Reading(setting, None if wanted == "-" else wanted, got))
    return tuple(found)


def split_other_settings(output: str) -> tuple[str, str]:
    """Split a measurement's output into readings of undeclared settings, and the rest.

    Lines `path:content` come before fio's JSON; only the first line of each file counts.
    """
    before, json = _at_json(output)
    of = {f"/sys/class/block/{one.got}/": one.setting for one in readings_of(before) if one.setting.endswith(NODE)}
    readings, rest, seen = [], [], set[str]()
    for line in before.splitlines(keepends=True):
        path, colon, content = line.partition(":")
        folder = next((folder for folder in (*of, MEMORY) if path.startswith(folder)), "")
        if line.startswith("reading\t"):
            readings.append(line)
        elif not (colon and folder):
            rest.append(line)
        elif path not in seen and (got := _value_of(content)):
            seen.add(path)
            name = of[folder].removesuffix(NODE) if folder in of else "vm"
            readings.append(f"reading\t{name}.{path.removeprefix(folder)}\t-\t{got}\n")
    return "".join(readings), "".join((*rest, json))


def _at_json(output: str) -> tuple[str, str]:
    """Split at fio's JSON, the largest part of the output."""
    at = output.find("\n{") + 1 or len(output)
    return output[:at], output[at:]


def _value_of(content: str) -> str:
    """Return the value in a sysfs file; from a list of choices, the one in brackets."""
    choice = re.search(r"\[(.*?)\]", content)
    return choice[1] if choice else content.strip()


def notes_of(output: str) -> dict[str, str]:
    """Parse the `note` lines (name and text) of a set-up."""
    notes: dict[str, str] = {}
    for line in output.splitlines():
        if line.startswith("note\t") and line.count("\t") >= 2:
            _, name, text = line.split("\t", 2)
            notes[name] = f"{notes[name]}; {text}" if name in notes else text
    return notes


def mismatch(readings: Sequence[Reading]) -> str:
    """List the settings whose value differs from the declared one; empty if there are none."""
    wrong = list(dict.fromkeys(one for one in readings if one.wanted is not None and one.wanted != one.got))
    if not wrong:
        return ""
    differences = "; ".join(f"{one.setting} wanted {one.wanted}, kernel says {one.got}" for one in wrong[:3])
    return f"not as declared: {differences}" + (f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else "")


def _beside_json(output: str) -> str:
    """Return the lines before and after the JSON."""
    lines = output.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("{")), len(lines))
    last = max((at for at, line in enumerate(lines) if line.rstrip() == "}"), default=len(lines))
    return "\n".join(lines[:first] + lines[last + 1 :])


def _fio_failed(failed: FioFailed, result: StepResult) -> str:
    """Return why there are no figures, with fio's own message, if any."""
    beside = _beside_json(result.output)
    message = evidence(beside).removeprefix("fio: ") if beside.strip() else ""
    if failed.silent:
        return f"fio failed: {message or f'{failed.brief} (exit status {result.status})'}"
    return f"fio failed: {failed.brief}" + (f": {message}" if message else "")


def finding(results: Sequence[StepResult]) -> Finding:
    by_name = {result.name: result for result in results}
    readings = readings_of(by_name["verify"].output) if "verify" in by_name else ()
    if wrong := mismatch(readings):
        return Finding(Outcome.BROKEN, wrong, readings=readings)
    last = results[-1]
    if last.name != "measure":
        return Finding(Outcome.BROKEN, f"{_WHAT[last.name]}: {evidence(last.output)}", readings=readings)
    try:
        jobs = jobs_of(find_json(last.output), last.output)
        figures = figures_of(jobs, last.output)
    except FioFailed as failed:
        return Finding(Outcome.BROKEN, _fio_failed(failed, last), readings=readings)
    if last.status != 0:
        message = evidence(_beside_json(last.output))
        reason = (
            message if message.startswith("not as declared") else f"fio failed: exit status {last.status}: {message}"
        )
        return Finding(Outcome.BROKEN, reason, readings=readings)
    return Finding(Outcome.MEASURED, figures=figures, unsettled=missed_steady_states(jobs), readings=readings)
