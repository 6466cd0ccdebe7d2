"""Templates with safe values: every value of a script is quoted, every value of a fio job is checked."""

import resource
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError, Undefined
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.meta import find_referenced_templates
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import read_input, shipped
from matrix_runner.base.text import shorten
from matrix_runner.hosts import LABEL_BLOCK, LABEL_BYTES, LABEL_MAGIC

SHIPPED = shipped("templates")
MOST_FILES, MOST_BYTES = 1_000, 16 << 20
MOST_SECONDS, MOST_MEMORY = 10, 256 << 20  # of a processor, and in addition: of one template of the user
_MOST_POWER = 64


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


class _Sandbox(ImmutableSandboxedEnvironment):
    # A large power is one step of the interpreter, which no signal ends.
    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if not abs(right) <= _MOST_POWER:
            raise SecurityError(f"a power above {_MOST_POWER} is not allowed")
        return super().call_binop(context, operator, left, right)


def _environment(own: Path | None, finalize: Any) -> Environment:
    # A relative path means another folder once the working directory changes.
    return _cached_environment(own and own.absolute(), finalize)


@cache
def _cached_environment(own: Path | None, finalize: Any) -> Environment:
    return _Sandbox(
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
            return _read(path, folder), str(path), None
    return None


def _read(path: Path, folder: Path) -> str:
    # Scripts, results and errors may quote its lines. An installer may link shipped files.
    if folder != SHIPPED and not path.resolve().is_relative_to(folder.resolve()):
        raise BadInput(
            f"template {path}: this link leads out of {folder}", resolution="copy the file in place of the link"
        )
    try:
        return read_input(path).decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"template {path}: cannot be read", details=str(error)) from None


def effective_templates(own: Path | None) -> dict[str, str]:
    """Return the text of every template by its path. The user's own templates replace shipped ones or are added."""
    return _texts(SHIPPED) | (_texts(own) if own else {})


def user_templates(own: Path) -> dict[str, str]:
    return _texts(own)


def _texts(folder: Path) -> dict[str, str]:
    """Read all files of a folder. It may be a wrong one, such as a home folder."""
    paths = list(islice((path for path in folder.rglob("*") if not path.is_dir()), MOST_FILES + 1))
    texts, left = dict[str, str](), MOST_BYTES
    for path in sorted(paths) if len(paths) <= MOST_FILES else ():
        texts[str(path.relative_to(folder))] = text = _read(path, folder)
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


_OF_USER = (
    *(TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    MemoryError,
)


def check_syntax(own: Path) -> None:
    """Parse the user's templates. Nothing of them runs, not even an expression of constants."""
    for name, text in _own_texts(own).items():
        with _explain(name, _OF_USER):
            _environment(own, shell_words).parse(text, name, str(own / name))


def one_line(title: str) -> str:
    if title.isprintable():  # true for most, and much faster
        return title
    return "".join(char if char.isprintable() else "_" for char in title)


def render(template: str, own: Path | None, *, title: str, **values: Any) -> str:
    """Render a template. The title goes into comments, so it is made one line."""
    environment = _environment(own, fio_value if template.endswith(".fio") else shell_words)
    values["title"] = one_line(title)
    # Other errors in a shipped template are defects of this program.
    if own is None:
        with _explain(template, (TemplateError,)):
            return environment.get_template(template).render(values)
    with _explain(template, _OF_USER), _bounded():
        return environment.get_template(template).render(values)


@contextmanager
def _bounded() -> Iterator[None]:
    """Bound the time and the memory of a template that this program did not write. Signals need the main thread."""

    def end(*_: object) -> None:
        raise SecurityError(f"takes more than {MOST_SECONDS} s")

    memory = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    handler = signal.getsignal(signal.SIGVTALRM)
    try:
        with suppress(ValueError):
            signal.signal(signal.SIGVTALRM, end)
            signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        resource.setrlimit(resource.RLIMIT_DATA, (used + MOST_MEMORY, memory[1]))
        yield
    except MemoryError:
        raise MemoryError(f"takes more than {MOST_MEMORY >> 20} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, memory)
        with suppress(ValueError):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, handler)


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


def smart_script(disks: Sequence[str]) -> str:
    return render("disks/smart.sh", None, title="The health of disks", disks=tuple(disks))


def census_script(*, by_id: str = BY_ID) -> str:
    """Return the script that lists all facts to check before a disk is used. `by_id`: the folder of stable names."""
    marks = {"label_bytes": LABEL_BYTES, "label_block": LABEL_BLOCK, "label_magic": LABEL_MAGIC}
    return render("disks/census.sh", None, title="The disks of a machine", by_id=by_id, **marks)
