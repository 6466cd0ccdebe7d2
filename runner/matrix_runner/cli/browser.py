"""The option `--open`: show a page in the browser of the user."""

import os
import sys
from pathlib import Path

import click

from matrix_runner.base.errors import HarnessBroken

opens = click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in the browser, or not.  [default: only from a terminal with a graphical screen]",
)


def open_page(page: Path, wanted: bool | None) -> None:
    """Open a page. None: only where a user sees it, and then a missing browser is no error."""
    import webbrowser

    if wanted is False or (wanted is None and not _is_seen()):
        return
    if not webbrowser.open(page.resolve().as_uri()) and wanted:
        raise HarnessBroken(f"no browser opened {page}", resolution="open the file yourself; $BROWSER names a browser")


def _is_seen() -> bool:
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(screen) and sys.stdout.isatty() and not os.environ.get("CI")
