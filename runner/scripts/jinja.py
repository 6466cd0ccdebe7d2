"""Templates with safe values: every value of a script is quoted, every value of a fio job is checked."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError, Undefined
from jinja2.loaders import split_template_path
from jinja2.meta import find_referenced_templates
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.base.errors import BadInput
from runner.base.files import read_input, shipped
from runner.base.text import shorten
from runner.hosts import label

SHIPPED = shipped("templates")
MOST_FILES, MOST_BYTES = 1_000, 16 << 20


def shell_words(value: object) -> str:
    if isinstance(value, Undefined):
        return str(value)  # raises the error that names the undefined value
    if isinstance(value, bool) or value is None:
        raise TypeError(f"{value!r} has no form in a script")
    if isinstance(value, tuple | list):
        return " ".join(shell_words(one) for one in value)
    return shlex.quote(str(value))


def fio_value(value: object) -> str:
    """Format a value for a fio job. Reject line breaks, which would add options."""
    if value is None:
        raise TypeError(f"{value!r} has no form in a fio job")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if any(ord(char) < 32 for char in text):
        raise ValueError(f"{text!r} has a control character, which a fio job cannot contain")
    return text


def _environment(own: Path | None, finalize: Any) -> Environment:
    # A relative path means another folder once the working directory changes.
    return _cached_environment(own and own.absolute(), finalize)


@cache
def _cached_environment(own: Path | None, finalize: Any) -> Environment:
    return ImmutableSandboxedEnvironment(
        loader=FunctionLoader(partial(_find, (*([own] if own else []), SHIPPED))),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _find(folders: tuple[Path, ...], name: str) -> tuple[str, str, None] | None:
    parts = split_template_path(name)  # raises for a path with `..`
    for folder in folders:
        path = folder.joinpath(*parts)
        if path.exists():
            return _read(path), str(path), None
    return None


def _read(path: Path) -> str:
    try:
        return read_input(path).decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"template {path}: cannot be read", details=str(error)) from None


def effective_templates(own: Path | None) -> dict[str, str]:
    """Return the text of every template by its path. The user's own templates replace shipped ones or are added."""
    return _texts(SHIPPED) | (_texts(own) if own else {})


def _texts(folder: Path) -> dict[str, str]:
    """Read all files of a folder. It may be a wrong one, such as a home folder."""
    paths = list(islice((path for path in folder.rglob("*") if not path.is_dir()), MOST_FILES + 1))
    texts, left = dict[str, str](), MOST_BYTES
    for path in sorted(paths) if len(paths) <= MOST_FILES else ():
        texts[str(path.relative_to(folder))] = text = _read(path)
        left -= len(text)
        if left < 0:
            break
    if left < 0 or len(paths) > MOST_FILES:
        raise BadInput(
            f"{folder} is too large for a folder of templates",
            details=f"it has more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB",
            resolution="name a folder with only your templates",
        )
    return texts


def _own_texts(own: Path) -> dict[str, str]:
    return {name: text for name, text in _texts(own).items() if name.endswith((".sh", ".fio"))}


def unused_templates(own: Path) -> list[str]:
    """Return the user's templates that replace no shipped one and that no other template of the user includes."""
    texts = _own_texts(own)
    names = _texts(SHIPPED).keys()
    included = set[str | None]()
    for text in texts.values():
        with suppress(TemplateError, RecursionError):  # `render` reports it
            included.update(find_referenced_templates(_environment(own, shell_words).parse(text)))
    # None: an include with a computed name, which may be any template.
    return [] if None in included else [name for name in texts if name not in names and name not in included]


_OF_USER = (TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def check_syntax(own: Path) -> None:
    """Parse the user's templates. Nothing of them runs, not even an expression of constants."""
    for name, text in _own_texts(own).items():
        with _explain(name, _OF_USER):
            _environment(own, shell_words).parse(text, name, str(own / name))


def render(template: str, own: Path | None, *, title: str, **values: Any) -> str:
    """Render a template. The title goes into comments, so it is made one line."""
    environment = _environment(own, fio_value if template.endswith(".fio") else shell_words)
    values["title"] = "".join(char if char.isprintable() else "_" for char in title)
    # Other errors in a shipped template are defects of this program.
    with _explain(template, (TemplateError,) if own is None else _OF_USER):
        return environment.get_template(template).render(values)


@contextmanager
def _explain(template: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise BadInput(
            f"template {template}: {shorten(str(error), 400) or 'nested too deeply'}",
            details=f"line {getattr(error, 'lineno', '?')} of {getattr(error, 'filename', None) or template}",
            resolution="fix the template, or remove --templates to use the shipped ones",
        ) from error


BY_ID = "/dev/disk/by-id"


def smart_script(disks: Sequence[str], own: Path | None = None) -> str:
    return render("disks/smart.sh", own, title="The health of disks", disks=tuple(disks))


def census_script(own: Path | None = None, *, by_id: str = BY_ID) -> str:
    """Return the script that lists all facts to check before a disk is used. `by_id`: the folder of stable names."""
    marks = {"label_bytes": label.BYTES, "label_block": label.BLOCK, "label_magic": label.MAGIC}
    return render("disks/census.sh", own, title="The disks of a machine", by_id=by_id, **marks)
