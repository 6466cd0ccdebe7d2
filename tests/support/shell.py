"""What shellcheck says of scripts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def complaints(scripts: Iterable[str]) -> str:
    """Return the complaints about each different script; empty if it is clean."""
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
    with TemporaryDirectory() as folder:
        paths = []
        for number, text in enumerate({_without_title(text): text for text in scripts}.values()):
            paths.append(Path(folder, f"{number}.sh"))
            paths[-1].write_text(text)
        assert paths
        return subprocess.run([program, *map(str, paths)], capture_output=True, text=True).stdout[:4000]


def _without_title(script: str) -> str:
    """Return a script without its first comment: often the scripts of two cells differ in it alone."""
    return re.sub("\n#.*", "", script, count=1)
