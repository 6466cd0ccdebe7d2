"""Templates in which a value cannot break out of its place.

In a shell template everything that is put in is quoted by the environment, not by whoever wrote the template; in a fio
job nothing with a line break gets in. A name that nobody defined is an error in both.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, Undefined
from jinja2.meta import find_referenced_templates

from runner.base.errors import BadInput
from runner.base.shipped import shipped

SHIPPED = shipped("templates")


def quoted(value: object) -> str:
    """A value as one shell word, a sequence as several."""
    if isinstance(value, Undefined):
        return str(value)  # which says what is not defined
    if isinstance(value, bool) or value is None:
        raise TypeError(f"{value!r} has no place in a script")
    if isinstance(value, tuple | list):
        return " ".join(quoted(one) for one in value)
    return shlex.quote(str(value))


def one_line(value: object) -> str:
    """A value as it stands in a fio job."""
    if value is None:
        raise TypeError(f"{value!r} has no place in a fio job")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if any(ord(char) < 32 for char in text):
        raise ValueError(f"{text!r} would not stay on its line of a fio job")
    return text


def _environment(own: Path | None, finalize: Any) -> Environment:
    # A relative path means another folder once the working directory changes.
    return _cached_environment(own and own.absolute(), finalize)


@cache
def _cached_environment(own: Path | None, finalize: Any) -> Environment:
    folders = [str(own)] if own else []
    return Environment(
        loader=FileSystemLoader([*folders, str(SHIPPED)]),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=False,  # noqa: S701 - shell and fio, not HTML: `finalize` does the quoting
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def in_effect(own: Path | None) -> dict[str, str]:
    """Every template by its path: the shipped ones, and those of the user's that stand in for them or beside them."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace")
        for folder in (SHIPPED, own)
        if folder
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def unread(own: Path) -> list[str]:
    """Templates of the user's that nothing reads: no shipped one is called so, and none of the others includes them."""
    texts = {
        str(path.relative_to(own)): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(own.rglob("*"))
        if path.is_file() and path.suffix in {".sh", ".fio"}
    }
    shipped = in_effect(None).keys()
    included = set[str | None]()
    for text in texts.values():
        with suppress(TemplateError):  # told where it is rendered
            included.update(find_referenced_templates(_environment(own, quoted).parse(text)))
    # What it includes by a name that is computed may be any.
    return [] if None in included else [name for name in texts if name not in shipped and name not in included]


def render(template: str, own: Path | None, *, title: str, **values: Any) -> str:
    """One template, the user's own if there is one of that name. The title stands in comments, so it is one line."""
    environment = _environment(own, one_line if template.endswith(".fio") else quoted)
    values["title"] = "".join(char if char.isprintable() else "_" for char in title)
    try:
        return environment.get_template(template).render(values)
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        if own is None and not isinstance(error, TemplateError):
            raise  # nothing a user could have written
        raise BadInput(
            f"template {template}: {error}",
            details=f"line {getattr(error, 'lineno', '?')} of {getattr(error, 'filename', None) or template}",
            resolution="fix the template, or leave --templates away to use the shipped ones",
        ) from error
