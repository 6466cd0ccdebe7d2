"""Tunables as files of sysfs: which file, on which devices, which text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.render.layers import Expectation
from runner.render.layers.md import MdView

if TYPE_CHECKING:
    from runner.model.tune import Tune
    from runner.render.stack import Built

#: Read from every disk with every trial, whether anybody set it or not: these explain surprises later.
ALWAYS_OF_DISKS = (
    "queue/scheduler",
    "queue/nr_requests",
    "queue/max_sectors_kb",
    "queue/rotational",
    "queue/write_cache",
    "device/queue_depth",
)
STRIPE_CACHED = frozenset({"raid4", "raid5", "raid6"})
ALWAYS_OF_TOP = ("queue/read_ahead_kb", "queue/logical_block_size", "size")


@dataclass(frozen=True, slots=True)
class Knob:
    """One file to be set on one device; `value` None means: back to what it was before anybody set it."""

    setting: str
    device: str
    file: str
    value: str | None


def knobs(tune: Tune, stack: Built) -> tuple[Knob, ...]:
    """What a tune comes to on a stack. Only what is declared is touched."""
    found: list[Knob] = []
    if tune.readahead is not None:
        value = str(tune.readahead // 1024) if isinstance(tune.readahead, int) else None
        found += [Knob("readahead", top, "queue/read_ahead_kb", value) for top in stack.tops]
    if tune.stripe_cache_size is not None:
        arrays = [layer for layer in stack.layers if isinstance(layer, MdView) and layer.level in STRIPE_CACHED]
        found += [
            Knob("stripe_cache_size", one.device, "md/stripe_cache_size", _text(tune.stripe_cache_size))
            for one in arrays
        ]
    if tune.ncq_depth is not None:
        found += [Knob("ncq_depth", disk, "device/queue_depth", _text(tune.ncq_depth)) for disk in stack.disks]
    if tune.scheduler is not None:
        found += [Knob("scheduler", disk, "queue/scheduler", _text(tune.scheduler)) for disk in stack.disks]
    return tuple(found)


def _text(value: int | str) -> str | None:
    return None if value == "default" else str(value)


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that is read from one block device."""

    device: str
    expects: tuple[Expectation, ...]


def inspections(stack: Built, tuned: tuple[Knob, ...]) -> tuple[Inspection, ...]:
    """What is read back before a measurement: layers, what was tuned, and what is always worth knowing."""
    found: list[Inspection] = []
    for layer in stack.layers:
        for number, device in enumerate(layer.tops):
            if device not in stack.disks:
                of = layer.kind if len(layer.tops) == 1 else f"{layer.kind}{number + 1}"
                always = ALWAYS_OF_TOP if device in stack.tops else ()
                found.append(_inspection(device, of, layer.expects, tuned, always))
    for number, disk in enumerate(stack.disks):
        always = (*(ALWAYS_OF_TOP if disk in stack.tops else ()), *ALWAYS_OF_DISKS)
        found.append(_inspection(disk, f"disk{number}", (), tuned, always))
    return tuple(found)


def _inspection(
    device: str, of: str, expects: tuple[Expectation, ...], tuned: tuple[Knob, ...], always: tuple[str, ...]
) -> Inspection:
    set_here = tuple(Expectation(knob.setting, knob.file, knob.value) for knob in tuned if knob.device == device)
    known = {one.file for one in (*expects, *set_here)}
    recorded = tuple(Expectation(f"{of}.{file}", file, None) for file in always if file not in known)
    return Inspection(device, (*expects, *set_here, *recorded))
