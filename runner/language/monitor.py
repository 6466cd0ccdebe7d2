"""How often sysstat samples the machine during a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.quantities import parse_time

if TYPE_CHECKING:
    from runner.language.workload import Workload

#: Shorter trials are not sampled by `auto`: too few samples for their cost.
WORTH_IT = 10.0
AUTO, OFF = "auto", "off"


def _interval(value: Any) -> Any:
    # sysstat's sampler takes whole seconds only.
    if isinstance(value, str) and value in {AUTO, OFF}:
        return value
    try:
        seconds = parse_time(value)
    except ValueError:
        raise ValueError("neither a time, like 1s or 5s, nor auto or off") from None
    if seconds < 1 or seconds != int(seconds):
        raise ValueError("the sampler takes whole seconds; write 1s, 5s, auto or off")
    return int(seconds)


Monitor = Annotated[
    int | str,
    BeforeValidator(_interval),
    WithJsonSchema({"type": "string", "pattern": r"^(auto|off|[0-9]+ ?(s|m|h))$"}),
    Field(description="how often sysstat samples the machine; auto: each second, if the trial takes at least 10s"),
]


def interval(monitor: int | str, work: Workload) -> int:
    """Return the seconds between two samples; 0 if the monitor is off."""
    if isinstance(monitor, int):
        return monitor
    if monitor == OFF or (work.runtime is not None and work.ramp + work.runtime < WORTH_IT):
        return 0
    return 1
