"""Slow motion of simulated disks: which times of fio and of the kernel take longer, and which rates fall."""

import re
from collections.abc import Callable

from matrix_runner.work.fio.bounds import option_name, option_text
from matrix_runner.work.fio.keys import OpenValue, Steady

#: The factors from which `slow: auto` chooses.
FACTORS = (1, 2, 4, 8, 16)
#: Options of fio that are a time, or several, in any unit.
FIO_TIMES = frozenset(
    {"runtime", "ramp_time", "startdelay", "start_delay", "flow_sleep", "rate_cycle", "ratecycle"}
    | {"thinktime", "thinktime_spin", "thinktime_iotime"}
    | {"latency_target", "latency_window", "max_latency", "bwavgtime", "iopsavgtime"}
    | {"steadystate_duration", "steadystate_ramp_time"}
    | {"steadystate_check_interval", "ss_interval"}
)
FIO_RATES = frozenset({"rate", "rate_min", "ratemin", "rate_iops", "rate_iops_min"})
#: Tunables of the kernel that are a time, and those that are a rate.
TIMES = frozenset(
    {"wbt_lat_usec", "sysfs.queue/io_timeout", "sysctl.fs/xfs/xfssyncd_centisecs"}
    | {f"sysfs.md/{name}" for name in ("safe_mode_delay", "bitmap/time_base")}
    | {f"sysfs.md/llbitmap/{name}" for name in ("daemon_sleep", "barrier_idle")}
    | {f"vm.{name}" for name in ("dirty_writeback_centisecs", "dirty_expire_centisecs")}
    | {f"iosched.{name}" for name in ("read_expire", "write_expire", "prio_aging_expire")}
    | {f"iosched.{name}" for name in ("read_lat_nsec", "write_lat_nsec", "slice_idle", "slice_idle_us")}
    | {f"iosched.{name}" for name in ("timeout_sync", "fifo_expire_sync", "fifo_expire_async")}
)
RATES = frozenset(
    {"sync_speed_min", "sync_speed_max", "sysctl.dev/raid/speed_limit_min", "sysctl.dev/raid/speed_limit_max"}
)

_NUMBER = re.compile(r"(\d+)([a-z]*)", re.ASCII | re.IGNORECASE)
_UNITS = {letter: power for power, letter in enumerate("kmgtp", start=1)}
_EXACT = 1e-3  # a rate that is rounded by more of itself is refused


def tunable(key: str, text: str, slow: int) -> str:
    """Return the value of a kernel setting in slow motion."""
    if slow == 1 or key not in TIMES | RATES:
        return text
    whole, point, part = text.partition(".")
    if not (whole + part).isdecimal():
        return text
    number = int(whole + part)
    found = str(number * slow if key in TIMES else max(1, number // slow)).rjust(len(part) + 1, "0")
    return f"{found[: -len(part)]}.{found[-len(part) :]}" if point and part else found


def section(name: str, lines: tuple[str, ...], thousand: bool, slow: int) -> tuple[str, tuple[str, ...]]:
    """Return a section of a job file in slow motion."""

    def changed(line: str) -> str:
        key, equals, value = line.partition("=")
        return f"{key}={option(key.strip(), value, slow, thousand=thousand)}" if equals else line

    return name, tuple(map(changed, lines))


def steady(limit: Steady, slow: int) -> Steady:
    # A slope is a change in each of the host's seconds.
    within = limit.within / slow if limit.slope else limit.within
    return limit.model_copy(update={"within": within, "over": limit.over * slow})


def option(name: str, value: OpenValue, slow: int, *, thousand: bool) -> OpenValue:
    if slow == 1:
        return value
    name, text = option_name(name), option_text(value)
    if name == "steadystate":
        return _steady_limit(text, slow)
    if name in FIO_TIMES:
        return _each(text, lambda number, unit: f"{number * slow}{unit}")
    if name in FIO_RATES:
        return _each(text, lambda number, unit: _rate(number * _multiple(unit, thousand=thousand), slow))
    return value


def _steady_limit(text: str, slow: int) -> str:
    kind, _, limit = text.partition(":")
    if not limit.endswith("%"):
        raise ValueError("write the limit of the steady state in percent")
    return f"{kind}:{float(limit[:-1]) / slow:g}%" if kind.endswith("_slope") else text


def _each(text: str, change: Callable[[int, str], str]) -> str:
    """Change every number of a list or range, like `1m,,500k` or `5-10`."""
    parts = re.split(r"([,:-])", text.strip())
    found = [(part, _NUMBER.fullmatch(part)) for part in parts]
    if wrong := next((part for part, match in found if not match and part not in {"", ",", ":", "-"}), None):
        raise ValueError(f"'{wrong}' is not a whole number with a unit")
    return "".join(change(int(match[1]), match[2]) if match else part for part, match in found)


def _multiple(unit: str, *, thousand: bool) -> int:
    """Return what fio's unit stands for: by default k is 1024 and Ki is 1000, as in its first versions."""
    letter, rest = unit[:1].lower(), unit[1:].lower()
    if unit and (letter not in _UNITS or rest not in {"", "b", "i", "ib"}):
        raise ValueError(f"'{unit}' is not a unit of a rate")
    base = 1000 if rest.startswith("i") != thousand else 1024
    return base ** _UNITS[letter] if unit else 1


def _rate(number: int, slow: int) -> str:
    found = round(number / slow)
    if number and abs(found * slow / number - 1) > _EXACT:
        raise ValueError(f"{number} is not a multiple of {slow}")
    return str(found)
