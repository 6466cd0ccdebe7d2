"""The options `--budget` and `--bytes-budget`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _time(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    from runner.base.quantities import parse_time

    return _parse(text, parse_time)


def _size(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    from runner.base.quantities import parse_size

    return _parse(text, parse_size)


def _parse(text: str | None, parse: Callable[[object], float]) -> float:
    if text is None:
        return inf
    try:
        found = parse(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is {error}") from None
    if found <= 0:
        raise click.BadParameter(f"{text!r} must be larger than 0")
    return found


def budget(command: Callable[..., Any]) -> Callable[..., Any]:
    seconds = click.option(
        "--budget",
        metavar="TIME",
        callback=_time,
        help="Finish within this time, e.g. 2h: the minimum of every cell first, then the cells with the widest "
        "intervals.",
    )
    written = click.option(
        "--bytes-budget",
        metavar="SIZE",
        callback=_size,
        help="Write at most this much to the stacks in the whole run, e.g. 500GB (parity and mirrors write more).",
    )
    return seconds(written(command))
