"""Packages that are extras of this one: whether they are installed, what needs them, and how to install them."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from matrix_runner.base.errors import BadInput


class _Extra(NamedTuple):
    name: str
    needed_for: str


_EXTRAS = {
    "numpy": _Extra("statistics", "history, bisect, --design and plan --race"),
    "psycopg": _Extra("postgres", "stores in PostgreSQL"),
    "pyarrow": _Extra("parquet", "--format parquet"),
}


def has_statistics() -> bool:
    return _is_installed("numpy")


def require_statistics(what: str) -> None:
    """Refuse what needs statistics, before anything begins."""
    if not has_statistics():
        raise missing_package(what, "numpy")


def without_statistics(what: str) -> str:
    """Return why a page leaves something out; empty if statistics are installed."""
    if has_statistics():
        return ""
    error = missing_package(what, "numpy")
    return f"{error.brief}, which is not installed: {error.resolution}."


def missing_package(what: str, package: str, *, details: str = "", instead: str = "") -> BadInput:
    return BadInput(
        f"{what} needs the package {package}",
        details=details or f"{package} is not installed in {sys.prefix}",
        resolution=f"install it with `pip install 'matrix-runner[{_EXTRAS[package].name}]'`{instead}",
    )


def list_extras() -> Iterator[tuple[str, str, bool]]:
    """Yield the name of each extra, what needs it, and whether it is installed."""
    for package, extra in _EXTRAS.items():
        yield *extra, _is_installed(package)


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None
