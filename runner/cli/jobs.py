"""The option `--jobs`: the number of parallel rigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.session.run import AUTO

if TYPE_CHECKING:
    from runner.session.run import Jobs


def _parse_jobs(_context: click.Context, _option: click.Parameter, text: str) -> Jobs:
    if text == AUTO:
        return AUTO
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r} is neither a number of rigs nor auto")
    return int(text)


jobs = click.option(
    "--jobs",
    metavar="N|auto",
    callback=_parse_jobs,
    default="1",
    show_default=True,
    help="Parallel rigs, on qemu or vagrant with simulated disks; auto: as many as the host can serve.",
)
