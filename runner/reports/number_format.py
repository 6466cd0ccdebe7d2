"""Numbers for people: three digits, and a suitable unit."""

from __future__ import annotations

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def figure(value: float | None, unit: str) -> str:
    """Format a value with its unit; empty for None."""
    if value is None:
        return ""
    if unit == "bytes/s":
        return f"{digits(value / 1e6)} MB/s"
    if unit == "1/s":
        return f"{digits(value)} IOPS"
    if unit == "ns":
        size, name = next(((size, name) for size, name in _TIMES if value >= size), _TIMES[-1])
        return f"{digits(value / size)} {name}"
    if unit == "share":
        return f"{digits(value * 100)} %"
    if unit == "bytes":
        return f"{digits(value / 1e6)} MB"
    return f"{digits(value)} {unit}".strip()


def digits(value: float) -> str:
    """Format a number with at least three significant digits and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(ratio: float) -> str:
    """Format a ratio; close to 1, with three decimals."""
    return (f"{ratio:.3f}" if 0.9 < ratio < 1.1 else digits(ratio)) + "\u00d7"


def duration(seconds: float) -> str:
    """Format seconds as `1 h 02 min`, `3 min 20 s` or `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


def about(seconds: float) -> str:
    """Format an estimate, rounded: `about 4 min`."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    text = duration(max(1, round(seconds / step)) * step)
    return f"about {text.removesuffix(' 00 s')}"
