"""Options of `fio:` that do not go together with keys of the workload or with each other, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from matrix_runner.base.quantities import format_size
from matrix_runner.layers import Problem
from matrix_runner.work.fio.values import MIXED, READS, option_name

if TYPE_CHECKING:
    from matrix_runner.work.fio.workload import Workload

#: Options that end a workload by its bytes.
PASSES = frozenset({"io_size", "loops", "verify"})
_SIZES = ("bssplit", "bsrange")
#: Seconds of waiting, and bytes of one trial; more is a mistake.
_LONGEST, _MOST = 86400.0, 2**50
_MEANINGLESS = "that makes the figures meaningless"
_APART = "write one job, or a region for each with `offset_increment`"


def problems(work: Workload) -> Iterator[Problem]:
    names = {option_name(option): option for option in work.fio}
    for name, option in names.items():
        if why := _why_not(name, names, work):
            yield Problem(f"fio.{option}", why)
    if work.verifies:
        yield from _verify_problems(work, names["verify"])


def _why_not(name: str, names: dict[str, str], work: Workload) -> str:
    option = names[name]
    if name in {"io_size", "loops"} and work.runtime is not None:
        return f"`{option}` has no effect with `runtime:`, which ends the workload; remove one of them"
    if work.profile == "position" and name in {*PASSES, *_SIZES}:
        return f"a profile over positions is one pass with requests of one size; remove `{option}`"
    if name in _SIZES:
        return _why_not_these_sizes(name, names, work)
    if name == "rwmixwrite" and work.rw not in MIXED:
        return f"`{option}` has no effect: rw={work.rw} does not mix reads and writes"
    if name == "rwmixwrite" and work.rwmixread not in {50, round(100 * (1 - work.write_share))}:
        return f"`rwmixread:` is {work.rwmixread}, and both do not add up to 100; write one of them"
    if name == "do_verify" and work.verifies and str(work.fio[option]).lower() in {"0", "false"}:
        return "nothing would be verified; remove `do_verify`, or `verify`"
    return ""


def _why_not_these_sizes(name: str, names: dict[str, str], work: Workload) -> str:
    option = names[name]
    if work.bs != 4096:  # the default
        return f"`bs:` and `{option}` both set the size of requests; write one of them"
    if name == "bssplit" and "bsrange" in names:
        return f"`{option}` and `{names['bsrange']}` both set the size of requests; write one of them"
    return ""


def _verify_problems(work: Workload, option: str) -> Iterator[Problem]:
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


def _overlaps(work: Workload) -> bool:
    if not work.rw.startswith("rand") or work.bound.depth == 1 or _is_set(work, "serialize_overlap"):
        return False
    uniform = str(work.fio.get("random_distribution", "random")).startswith("random")
    return _is_set(work, "norandommap") or not uniform


def _is_set(work: Workload, option: str) -> bool:
    return str(work.fio.get(option, 0)).lower() not in {"0", "false"}


def misfit(work: Workload, once: int) -> Problem | None:
    """Return the problem of a workload that would not end in a useful time. `once`: one pass of one job in bytes."""
    passes = next((one for one in work.fio if option_name(one) in {"loops", "io_size"}), "")
    if passes and work.bound.moved(once) > _MOST:
        return Problem(f"fio.{passes}", "one trial would move more than 1PiB; write less, or `runtime:`")
    if work.runtime is not None or (seconds := work.bound.seconds(once)) <= _LONGEST:
        return None
    option = next((one for one in work.fio if one.startswith(("rate", "thinktime"))), "rate")
    needed = f"with `{option}`, {format_size(work.bound.moved(once))} take {seconds / 3600:,.0f} hours"
    return Problem(f"fio.{option}", f"{needed}; write `runtime:`, or less `size:` or `io_size`")


def device_misfit(work: Workload) -> Problem | None:
    """Return the problem of several jobs that write to one device and verify."""
    if not work.verifies or work.numjobs == 1 or work.bound.apart:
        return None
    return Problem("numjobs", f"with `verify`, jobs would overwrite each other's data; {_MEANINGLESS}; {_APART}")
