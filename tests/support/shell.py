"""What shellcheck says of scripts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.support.amounts import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


#: A text in quotes, a number or an id, and an argument that is a plain word, a path or a long option.
QUOTED = re.compile(r"""(?:'[^'\n]*'|"'")+""")
NUMBER = re.compile(r"\b[0-9a-f]*[0-9]\w*|[0-9]+")
WORD = re.compile(
    r"""(?<=[\w"}])(?<!\bif|\bdo)(?<!then|else)(?<!while) (?:--|/|(?!\w+=))\w[\w./:=,+%@^-]*(?=[ ;)\n])"""
)


def complaints(scripts: Iterable[str]) -> str:
    """Return the complaints about scripts; empty if they are clean. By day, a line of each form is checked."""
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
    with TemporaryDirectory() as folder:
        paths = []
        for number, text in enumerate(dict.fromkeys(scripts) if TIMES > 1 else chosen(scripts)):
            paths.append(Path(folder, f"{number}.sh"))
            paths[-1].write_text(text)
        assert paths
        return subprocess.run([program, *map(str, paths)], capture_output=True, text=True).stdout[:4000]


def chosen(scripts: Iterable[str]) -> Iterator[str]:
    """Yield short scripts with many new forms of lines until each form was there."""
    left = {script: forms(script) for script in scripts}
    while left := {script: new for script, new in left.items() if new}:
        best = max(left, key=lambda script: len(left[script]) / len(script))
        yield best
        known = left[best]
        left = {script: new - known for script, new in left.items()}


def forms(script: str) -> set[str]:
    """Return what is left of the lines of a script without comments, and without values, which shellcheck takes as they are."""
    text = re.sub(r"(?m)(^|\s)#.*", "", script)
    for pattern, form in (
        (r"\\\n\s*", ""),
        (QUOTED, "w"),
        (NUMBER, "0"),
        (WORD, " w"),
        (r"( [^ \n]+)\1+(?=[ \n])", r"\1"),
    ):
        text = re.sub(pattern, form, text)
    return {line.strip() for line in text.splitlines()}
