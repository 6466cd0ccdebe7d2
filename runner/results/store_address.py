"""The address of the shared store: a file, or the URL of a database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from runner.base.errors import BadInput

#: The option `--store` takes precedence.
VARIABLE = "MATRIX_STORE"
_FILE = "store.db"
#: Places of passwords in a URL: in the query; between colon and last @; in place of the port if @ is missing.
_PASSWORDS = (
    re.compile(r"([?&][^=&?\s]*pass[^=&?\s]*=)[^&\s]*", re.IGNORECASE),
    re.compile(r"(://[^:/\s]*:)\S*(?=@)"),
    re.compile(r"(://[^:/@\s]*:)(?!\d*(?:[/?,]|$))[^/?@\s]+(?=[/?]|$)"),
)


@dataclass(frozen=True, slots=True)
class Address:
    """A file, a URL, or neither: a store in memory."""

    file: Path | None = None
    url: sa.URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return without_passwords(self.url.render_as_string(hide_password=True))
        return str(self.file) if self.file else "in memory"


#: In memory, for queries where no file can be written.
IN_MEMORY = Address()


def without_passwords(text: str) -> str:
    """Replace passwords of URLs in a text. This may hide harmless text, too."""
    for password in _PASSWORDS:
        text = password.sub(r"\1***", text)
    return text


def address_of(told: str | None, results: Path) -> Address:
    """Return the address from the command line, else from the environment, else a file beside the runs."""
    text = told if told is not None else os.environ.get(VARIABLE) or None
    if text is None:
        return Address(file=results / _FILE)
    if not text.strip():
        raise _unusable(text, "it is empty")
    return _url(text) if "://" in text else Address(file=Path(text))


def is_named(told: str | None) -> bool:
    """Return whether the user named a store."""
    return told is not None or bool(os.environ.get(VARIABLE))


def _url(text: str) -> Address:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise _unusable(text, "it is not a valid URL") from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return Address(file=Path(url.database))
    if kind in {"postgresql", "postgres"}:
        if "@" in (url.host or ""):
            raise _unusable(text, "a host name has no @; in a password, write %40 for @")
        return Address(url=url)
    raise _unusable(text, f"'{kind}' is not a supported database")


def _unusable(text: str, why: str) -> BadInput:
    return BadInput(
        f"the store '{without_passwords(text)}' is not valid: {why}",
        resolution=f"`--store` (or {VARIABLE}) takes a file, or postgresql://USER@HOST/DATABASE",
    )
