"""How often to look at the machine while fio works, beside what is counted before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.quantities import parse_time

if TYPE_CHECKING:
    from runner.language.workload import Workload

#: Work that is over sooner has no course worth the time it takes to look at.
WORTH_IT = 10.0
AUTO, OFF = "auto", "off"


def _interval(value: Any) -> Any:
    """Whole seconds, which is what sysstat's sampler counts in."""
    if isinstance(value, str) and value in {AUTO, OFF}:
        return value
    try:
        seconds = parse_time(value)
    except ValueError:
        raise ValueError("neither a time, like 1s or 5s, nor auto or off") from None
    if seconds < 1 or seconds != int(seconds):
        raise ValueError("the sampler counts in whole seconds; write 1s, 5s, or auto, or off")
    return int(seconds)


Monitor = Annotated[
    int | str,
    BeforeValidator(_interval),
    WithJsonSchema({"type": "string", "pattern": r"^(auto|off|[0-9]+ ?(s|m|h))$"}),
    Field(description="how often sysstat samples the machine beside fio; auto: each second of work that takes ten"),
]


def interval(monitor: int | str, work: Workload) -> int:
    """Seconds between two samples beside this work; 0: none are taken."""
    if isinstance(monitor, int):
        return monitor
    if monitor == OFF or (work.runtime is not None and work.ramp + work.runtime < WORTH_IT):
        return 0
    return 1
