"""The address of the shared store."""

import os
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import without_passwords

VARIABLE = "MATRIX_STORE"  # the option `--store` takes precedence
_FILE = "store.db"


@dataclass(frozen=True, slots=True)
class Address:
    """A file, a URL, or neither: a store in memory."""

    file: Path | None = None
    url: sa.URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return without_passwords(self.url.render_as_string(hide_password=True))
        return str(self.file) if self.file else "in memory"


IN_MEMORY = Address()  # in memory, for queries where no file can be written


def address_of(named: str | None, results: Path) -> Address:
    text = named if named is not None else os.environ.get(VARIABLE) or None
    if text is None:
        return Address(file=results / _FILE)
    if not text.strip():
        raise _unusable(text, "it is empty")
    return _url(text) if "://" in text else _file(text, text)


def _file(path: str, text: str) -> Address:
    if not Path(path).name:
        raise _unusable(text, "it is a folder")
    return Address(file=Path(path))


def is_named(store: str | None) -> bool:
    return store is not None or bool(os.environ.get(VARIABLE))


def _url(text: str) -> Address:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise _unusable(text, "it is not a valid URL") from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return _file(url.database, text)
    if kind in {"postgresql", "postgres"}:
        if "@" in (url.host or ""):
            raise _unusable(text, "a host name has no @; in a password, write %40 for @")
        if "plugin" in url.query:
            raise _unusable(text, "it names a plugin")
        return Address(url=url)
    raise _unusable(text, f"'{kind}' is not a supported database")


def _unusable(text: str, why: str) -> BadInput:
    return BadInput(
        f"the store '{without_passwords(text)}' is not valid: {why}",
        resolution=f"`--store` (or {VARIABLE}) takes a file, or postgresql://USER@HOST/DATABASE",
    )
