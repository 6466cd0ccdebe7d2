"""`--jobs`: how many rigs side by side, as it is written and as it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.session.run import AUTO

if TYPE_CHECKING:
    from runner.session.run import Jobs


def _understood(_context: click.Context, _option: click.Parameter, text: str) -> Jobs:
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
