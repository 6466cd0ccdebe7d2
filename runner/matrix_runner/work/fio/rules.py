"""Keys of a workload and options of `fio:` that do not go together, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from matrix_runner.base.quantities import format_size
from matrix_runner.layers import Problem
from matrix_runner.work.fio.bounds import MIXED, READS, TRIMS, option_name
from matrix_runner.work.fio.keys import WorkloadKeys, refused

#: Options that end a workload by its bytes.
PASSES = frozenset({"io_size", "loops", "verify"})
_SIZES = ("bssplit", "bsrange")
#: Seconds of waiting, and bytes of one trial; more is a mistake.
_LONGEST, _MOST = 86400.0, 2**50
_MEANINGLESS = "that makes the figures meaningless"
_APART = "write one job, or a region for each with `offset_increment`"


def problems(work: WorkloadKeys) -> Iterator[Problem]:
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
