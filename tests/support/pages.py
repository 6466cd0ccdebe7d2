"""The pages of the documentation, and the examples on them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^( *)```(\w+)?([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    #: The words after the language, for example "real".
    info: str
    text: str

    @property
    def file_name(self) -> str:
        """The file that the first comment names, or empty."""
        found = re.match(r"# ([\w./-]+\.(?:ya?ml|fio))\s*$", self.text.partition("\n")[0])
        return found[1] if found else ""


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]
    status: int
    #: Expected output, in which `…` stands for anything.
    output: str


def pages() -> list[Path]:
    return sorted((ROOT / "README.md", *DOCS.rglob("*.md")))


def blocks(text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        margin, language, info, body = found.groups()
        body = re.sub(rf"^{margin}", "", body, flags=re.MULTILINE)
        yield Block(text.count("\n", 0, found.start()) + 1, language or "", info.strip(), body)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block, each with its exit code and output."""
    for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        status = re.search(r"# exit code (\d+)\s*$", line)
        yield Command(tuple(shlex.split(line, comments=True)), int(status[1]) if status else 0, output)


def matches(expected: str, printed: str) -> bool:
    """Return whether a text is as expected. `…` stands for any text, also of several lines."""

    def plain(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"

    wanted = re.sub(r"^[ ]*…\n", "…", plain(expected), flags=re.MULTILINE)
    return bool(re.fullmatch("(?s:.*)".join(map(re.escape, wanted.split("…"))), plain(printed)))
