"""The answer of a calibration: its tables, how far to trust it, and the model file."""

import textwrap
from collections.abc import Iterator, Mapping
from statistics import median

from matrix_runner.base.quantities import format_size
from matrix_runner.pages.table import Sheet
from matrix_runner.simdisks.calibration import Calibration, Estimate, Residual
from matrix_runner.simdisks.fit import rate_text, time_text

#: Places of jobs are shares, so the size of a disk counts little. This one is far larger than any cache.
USUAL_SIZE = 10**12
#: Predictions that are farther off than this are no base for a choice.
FAR = 0.15


def sheets(found: Calibration) -> Iterator[tuple[str, Sheet]]:
    columns = ("key", "value", "interval", "from")
    yield "fitted", Sheet(columns, [_estimate(one) for one in found.estimates])
    unknown = [(one.name, one.jobs) for one in found.unknown]
    yield "not identified: the model has usual values", Sheet(("key", "these jobs would identify it"), unknown)
    rows = [
        (one.pattern.title, one.direction, f"{one.measured:,.0f}", f"{one.modelled:,.0f}", f"{one.off * 100:+.1f} %")
        for one in found.held_out
    ]
    yield "predicted: the fit did not see these jobs", Sheet(("job", "", "measured", "predicted", "off"), rows)


def trust(found: Calibration) -> str:
    """Say what the residuals mean for a stack of such disks."""
    if found.fitted > FAR:
        return (
            f"Do not trust this model: it is off by {_share(found.fitted)} for a job that the fit saw. The jobs "
            "contradict each other, or the disk does what no model has. Measure again, longer, and without other work."
        )
    if not found.held_out:
        return (
            f"The fit is within {_share(found.fitted)} of all its jobs. No job is left to test it: add other depths, "
            "blocks or mixtures before you trust a stack of such disks."
        )
    off = [abs(one.off) for one in found.held_out]
    words = f"Predicted rates are off by {_share(median(off))} (median) and {_share(max(off))} (worst)."
    kinds = sorted({_kind(one) for one in found.held_out if abs(one.off) > FAR})
    if kinds:
        words += f" Do not trust it for {' and '.join(kinds)}."
    else:
        covered = sorted({_kind(one) for one in found.held_out})
        words += f" A stack of such disks is as near, for work like these jobs: {', '.join(covered)}."
    if any(one.name in {"write_latency", "write_cache.ranges"} for one in found.unknown):
        words += " Writes were not measured: with parity, journals or mixed work it shows usual disks, not yours."
    return words


def _kind(one: Residual) -> str:
    mixed = one.pattern.reads not in {0, 1}
    return "mixed work" if mixed else f"{'random' if one.pattern.random else 'sequential'} {one.direction}s"


def _estimate(one: Estimate) -> tuple[str, ...]:
    bounds = (one.interval.low, one.interval.high)
    low, high = (None if bound is None else _value(bound, one.key.unit) for bound in bounds)
    interval = f"{low} or more" if high is None else f"up to {high}" if low is None else f"{low} to {high}"
    if low == high:
        interval = "only this"
    return one.key.name, _value(one.value, one.key.unit), interval, one.key.jobs


def _value(value: float, unit: str) -> str:
    if unit == "true or false":
        return str(bool(value)).lower()
    if unit == "B":
        return format_size(round(value / 1024) * 1024)
    return {"s": time_text, "B/s": rate_text}[unit](value) if unit else f"{value:g}"


def _share(value: float) -> str:
    return f"{value * 100:.1f} %"


def model_file(found: Calibration, name: str, disk: str, date: str) -> str:
    """Return a file of the language: what it is fitted to, how near it is, and its keys."""
    off = [abs(one.off) for one in found.held_out]
    near = f" Held-out rates: {_share(median(off))} off (median), {_share(max(off))} (worst)." if off else ""
    words = [f"Calibrated from fio.{near}"]
    if found.unknown:
        words.append(f"Not identified: {', '.join(one.name for one in found.unknown)}.")
    lines = [
        f"name: {name}",
        "source: >-",
        *textwrap.wrap(" ".join(words), 118, initial_indent="  ", subsequent_indent="  "),
    ]
    return "\n".join([*lines, f"fitted_to: {disk} on {date}", *key_lines(found.keys)]) + "\n"


def key_lines(keys: Mapping[str, object]) -> Iterator[str]:
    for key, value in keys.items():
        if isinstance(value, list):
            yield f"{key}:"
            yield from (f"  - {_inline(one)}" for one in value)
        else:
            yield f"{key}: {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(one)}" for key, one in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)
