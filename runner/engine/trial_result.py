"""Turn the output of a trial's steps into its record. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.engine.error_line import evidence
from runner.machines.base import StepResult
from runner.results.fio_json import Figures, FioFailed, figures_of, find_json, jobs_of, missed_steady_states
from runner.results.fio_profile import mark_synthetic, table_by_position, table_by_sample, table_by_time
from runner.results.monitor.counters import NODE, split_counters
from runner.results.record import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.language.workload import Workload
    from runner.results.monitor.counters import CounterSnapshot

#: Folder of the kernel's memory tunables.
MEMORY = "/proc/sys/vm/"
_WHAT = {"set-up": "set-up failed", "tune": "tuning failed", "verify": "read-back failed", "measure": "fio failed"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a trial and its reason, its figures and its readings."""

    outcome: Outcome
    reason: str = ""
    figures: Figures | None = None
    #: The steady state that was not reached; empty if it was, or if none was wanted.
    unsettled: str = ""
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialOutput:
    """The output of a trial's steps by kind: up to the measurement, and beside it."""

    steps: tuple[StepResult, ...]
    before: CounterSnapshot | None
    after: CounterSnapshot | None
    #: How the measurement went, as files of the trial.
    files: Mapping[str, str]
    notes: Mapping[str, str]


def split_outputs(results: Sequence[StepResult], work: Workload, *, invented: bool = False) -> TrialOutput:
    """Split the output of the steps; `invented`: of the dry machine."""
    steps, files, notes, before, after = list[StepResult](), dict[str, str](), dict[str, str](), None, None
    for result in results:
        if result.name == "measure":
            output, before, after = split_counters(result.output)
            unasked, output = split_other_settings(output)
            # This was read back later, so it belongs to those readings.
            steps = [replace(one, output=one.output + unasked) if one.name == "verify" else one for one in steps]
            steps.append(replace(result, output=output))
        elif result.name == "samples":
            files |= {"samples.json": result.output} if result.output.strip() else {}
        elif result.name == "profile" and result.status:
            notes["profile"] = f"not kept: {evidence(result.output)}"
        elif result.name == "profile":
            files |= {"profile.csv": _course(result.output, work, invented=invented)} if result.output.strip() else {}
        else:
            steps.append(result)
    return TrialOutput(tuple(steps), before, after, files, notes)


def _course(told: str, work: Workload, *, invented: bool) -> str:
    if work.profile == "time":
        table = table_by_time(told, work.course)
    else:
        table = table_by_sample(told, work.bs) if work.each else table_by_position(told)
    return mark_synthetic(table) if invented else table


def readings_of(output: str) -> tuple[Reading, ...]:
    found = []
    for line in output.splitlines():
        if line.startswith("reading\t") and line.count("\t") >= 3:
            _, setting, wanted, got = line.split("\t", 3)
            found.append(Reading(setting, None if wanted == "-" else wanted, got))
    return tuple(found)


def split_other_settings(output: str) -> tuple[str, str]:
    """Split a measurement's output into readings of settings that were not set, and the rest.

    Files follow their paths, before fio's JSON: the first line of each counts.
    """
    before, json = _at_json(output)
    of = {f"/sys/class/block/{one.got}/": one.setting for one in readings_of(before) if one.setting.endswith(NODE)}
    readings, rest, seen = [], [], set[str]()
    for line in before.splitlines(keepends=True):
        path, colon, said = line.partition(":")
        folder = next((folder for folder in (*of, MEMORY) if path.startswith(folder)), "")
        if line.startswith("reading\t"):
            readings.append(line)
        elif not (colon and folder):
            rest.append(line)
        elif path not in seen and (got := _chosen(said)):
            seen.add(path)
            name = of[folder].removesuffix(NODE) if folder in of else "vm"
            readings.append(f"reading\t{name}.{path.removeprefix(folder)}\t-\t{got}\n")
    return "".join(readings), "".join((*rest, json))


def _at_json(output: str) -> tuple[str, str]:
    """Split at fio's JSON, the largest part of the output."""
    at = output.find("\n{") + 1 or len(output)
    return output[:at], output[at:]


def _chosen(said: str) -> str:
    """Return the value in a file; of a list of choices, the chosen one."""
    chosen = re.search(r"\[(.*?)\]", said)
    return chosen[1] if chosen else said.strip()


def notes_of(output: str) -> dict[str, str]:
    """Parse the `note` lines of a set-up (name and text), which stay with every figure."""
    notes: dict[str, str] = {}
    for line in output.splitlines():
        if line.startswith("note\t") and line.count("\t") >= 2:
            _, name, text = line.split("\t", 2)
            notes[name] = f"{notes[name]}; {text}" if name in notes else text
    return notes


def mismatch(readings: Sequence[Reading]) -> str:
    """Return the settings that did not stick; empty if all did."""
    wrong = list(dict.fromkeys(one for one in readings if one.wanted is not None and one.wanted != one.got))
    if not wrong:
        return ""
    told = "; ".join(f"{one.setting} wanted {one.wanted}, kernel says {one.got}" for one in wrong[:3])
    return f"not as declared: {told}" + (f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else "")


def _beside_json(output: str) -> str:
    """Return what fio and the script printed beside the JSON."""
    lines = output.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("{")), len(lines))
    last = max((at for at, line in enumerate(lines) if line.rstrip() == "}"), default=len(lines))
    return "\n".join(lines[:first] + lines[last + 1 :])


def _fio_failed(failed: FioFailed, result: StepResult) -> str:
    """Return why there are no figures, with fio's own message where there is one."""
    beside = _beside_json(result.output)
    said = evidence(beside).removeprefix("fio: ") if beside.strip() else ""
    if failed.silent:
        return f"fio failed: {said or f'{failed.brief} (exit status {result.status})'}"
    return f"fio failed: {failed.brief}" + (f": {said}" if said else "")


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
        said = evidence(_beside_json(last.output))
        reason = said if said.startswith("not as declared") else f"fio failed: exit status {last.status}: {said}"
        return Finding(Outcome.BROKEN, reason, readings=readings)
    return Finding(Outcome.MEASURED, figures=figures, unsettled=missed_steady_states(jobs), readings=readings)
