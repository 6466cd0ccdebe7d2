"""`--budget` and `--bytes-budget`: what a run may cost."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _time(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    from runner.base.quantities import parse_time

    return _parsed(text, parse_time)


def _size(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    from runner.base.quantities import parse_size

    return _parsed(text, parse_size)


def _parsed(text: str | None, parse: Callable[[object], float]) -> float:
    """Without an end where nothing is given."""
    if text is None:
        return inf
    try:
        found = parse(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is {error}") from None
    if found <= 0:
        raise click.BadParameter(f"{text!r} buys nothing")
    return found


def budget(command: Callable[..., Any]) -> Callable[..., Any]:
    """Both options."""
    seconds = click.option(
        "--budget",
        metavar="TIME",
        callback=_time,
        help="Be done within so much time, as 2h: every cell at its minimum first, then where the doubt is largest.",
    )
    written = click.option(
        "--bytes-budget",
        metavar="SIZE",
        callback=_size,
        help="Write at most so much, as 500GB, in the whole run (to the stacks: parity and mirrors write more).",
    )
    return seconds(written(command))
