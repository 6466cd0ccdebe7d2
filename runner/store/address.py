"""Where the shared store is: a file, or a database by its URL."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from runner.errors import BadInput

#: Overruled by `--store`.
VARIABLE = "MATRIX_STORE"
_FILE = "store.db"


@dataclass(frozen=True, slots=True)
class Address:
    """One of the two, or none: a store that nobody else sees."""

    file: Path | None = None
    url: sa.URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return self.url.render_as_string(hide_password=True)
        return str(self.file) if self.file else "in memory"


#: Gone with the process: for answers where nothing can be written.
IN_MEMORY = Address()


def address_of(told: str | None, results: Path) -> Address:
    """What the command line says, else the environment, else a file beside the runs."""
    text = told if told is not None else os.environ.get(VARIABLE) or None
    if text is None:
        return Address(file=results / _FILE)
    if not text.strip():
        raise _unusable(text, "it is empty")
    return _url(text) if "://" in text else Address(file=Path(text))


def is_named(told: str | None) -> bool:
    """Whether somebody says where the store is."""
    return told is not None or bool(os.environ.get(VARIABLE))


def _url(text: str) -> Address:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError) as problem:
        raise _unusable(text, str(problem)) from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return Address(file=Path(url.database))
    if kind in {"postgresql", "postgres"}:
        return Address(url=url)
    raise _unusable(text, f"'{kind}' is no database that a store can be in")


def _unusable(text: str, why: str) -> BadInput:
    shown = text.partition("@")[2] or text  # what stands before it may be a password
    return BadInput(
        f"the store '{shown}' cannot be: {why}",
        resolution=f"`--store` (or {VARIABLE}) takes a file, or postgresql://USER@HOST/DATABASE",
    )
