"""`--jobs`: how many rigs side by side, as it is written and as it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from runner.base.errors import BadInput
from runner.engine.concurrency_policy import Found, Told, one_at_a_time_because

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.engine.concurrency_policy import Level
    from runner.machines.base import Machine, RigSpec
    from runner.space.space import Array

Asked = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"


def _understood(_context: click.Context, _option: click.Parameter, text: str) -> Asked:
    """A number of rigs, or `auto`."""
    if text == AUTO:
        return AUTO
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r} is neither a number of rigs nor auto")
    return int(text)


jobs = click.option(
    "--jobs",
    metavar="N|auto",
    callback=_understood,
    default="1",
    show_default=True,
    help="Rigs at work side by side, on qemu or vagrant with modelled disks; auto: as many as the host keeps up with.",
)


def level_of(asked: Asked, place: Machine, specs: Collection[RigSpec], arrays: Iterable[Array]) -> tuple[Level, str]:
    """The level to begin at, and what a user should know of it. What was told and cannot be is bad input."""
    if asked == 1:
        return Told(1), ""
    kinds = set(specs)
    why = one_at_a_time_because(place, kinds, arrays)
    room = min(map(place.room, kinds))
    if asked == AUTO:
        why = why or ("this host has no room for a second such machine" if room == 1 else "")
        return (Told(1), f"one rig at a time: {why}") if why else (Found.up_to(room), "")
    if why:
        raise BadInput(
            f"--jobs {asked}: {why}",
            resolution="leave --jobs out, or choose cells with --only for which that is not so",
        )
    if asked > room:
        one = next(iter(kinds))
        size = f"{one.memory // 2**20}MiB and {one.cpus} processors, and what each takes beside that"
        raise BadInput(
            f"--jobs {asked}: this host has room for {room} at a time of machines with {size}",
            resolution="`--jobs auto` takes as many as there is room for; their size is the matrix's `machine:`",
        )
    return Told(asked), ""
