"""A disk that is soon full."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    done = subprocess.run(
        [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True
    )
    if done.returncode:
        pytest.skip("this place allows no mounts")
    try:
        yield path
    finally:
        subprocess.run([shutil.which("umount") or "umount", path], check=True)
