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


def complaints(scripts: Iterable[str]) -> str:
    """Return the complaints about scripts; empty if they are clean. By day, each line is checked in one of them."""
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
    with TemporaryDirectory() as folder:
        paths = []
        for number, text in enumerate(dict.fromkeys(scripts) if TIMES > 1 else _with_new_lines(scripts)):
            paths.append(Path(folder, f"{number}.sh"))
            paths[-1].write_text(text)
        assert paths
        return subprocess.run([program, *map(str, paths)], capture_output=True, text=True).stdout[:4000]


def _with_new_lines(scripts: Iterable[str]) -> Iterator[str]:
    """Yield each script with a line of a form that no longer script has. Numbers and ids do not make a form."""
    known = set[str]()
    for script in sorted(scripts, key=len, reverse=True):
        forms = set(re.sub(r"\b[0-9a-f]*[0-9]+[0-9a-f]*", "0", re.sub("#.*", "", script)).splitlines())
        if forms - known:
            yield script
        known |= forms
