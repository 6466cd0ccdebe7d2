"""Writing devices over, as fio is told to do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.base.quantities import format_size, format_time
from runner.scripts.layers.base import Ground, View

if TYPE_CHECKING:
    from runner.language.layers import Precondition


@dataclass(frozen=True, slots=True)
class Pass:
    """One time that fio goes over all of the devices."""

    #: What is done, for the record.
    words: str
    options: tuple[str, ...]
    #: It goes on until it is steady, which fio then has to say.
    steady: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreconditionView(View):
    """What is done to devices before they are used."""

    discard: bool
    passes: tuple[Pass, ...]
    #: A job for each device, all at the same time.
    jobs: tuple[str, ...]


def precondition(layer: Precondition, ground: Ground) -> tuple[View, ...]:
    """All devices at once."""
    escaped = [path.replace(":", "\\:") for path in ground.devices]
    return (
        PreconditionView(
            kind="precondition",
            members=ground.devices,
            tops=ground.devices,
            holds=False,
            discard=layer.discard,
            passes=_passes(layer),
            jobs=tuple(
                option for at, path in enumerate(escaped) for option in (f"--name=device{at}", f"--filename={path}")
            ),
        ),
    )


def _passes(layer: Precondition) -> tuple[Pass, ...]:
    depth = f"--iodepth={layer.iodepth}"
    if layer.how == "none" or layer.block_size is None:
        return ()
    if layer.how == "until-steady":
        # Where nothing was written yet, the first writes are the fast ones and say nothing of a steady state.
        return (Pass("fill, blocks of 1MiB", ("--rw=write", "--bs=1048576", depth)), _until_steady(layer, depth))
    rw = "write" if layer.how == "fill" else "randwrite"
    words = f"{layer.how}, blocks of {format_size(layer.block_size)}"
    return (Pass(words, (f"--rw={rw}", f"--bs={layer.block_size}", depth)),)


def _until_steady(layer: Precondition, depth: str) -> Pass:
    size = layer.block_size or 0
    within = f"{layer.within * 100:g}%"
    words = (
        f"random writes of {format_size(size)} until {layer.criterion} is within {within} over "
        f"{format_time(layer.window)}, at most {format_time(layer.limit)}"
    )
    steady = (
        f"--steadystate={layer.criterion}:{within}",
        f"--steadystate_duration={layer.window:g}s",
        "--time_based",
        f"--runtime={layer.limit:g}s",
    )
    return Pass(words, ("--rw=randwrite", f"--bs={size}", depth, *steady), steady=True)
