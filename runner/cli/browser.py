"""The option `--open`: show a page in the browser of the user."""

import os
import sys
from pathlib import Path

import click

from runner.base.errors import HarnessBroken

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
opens = click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in the browser, or not.  [default: only from a terminal with a graphical screen]",
)


def open_page(page: Path, wanted: bool | None) -> None:
    """Open a page. If it is only the default, a missing browser is no error."""
    import webbrowser

    if wanted is None:
        wanted = sys.stdout.isatty() and any(map(os.environ.get, _SCREENS)) and not os.environ.get("CI")
        if not wanted:
            return
    elif not wanted:
        return
    if not webbrowser.open(page.resolve().as_uri()):
        raise HarnessBroken(f"no browser opened {page}", resolution="open the file yourself; $BROWSER names a browser")
