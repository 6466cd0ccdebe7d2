"""Run folders below a results folder, and whether one has changed, without the cost of loading them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.results.databases import translate_errors

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.json"
#: Suffix of a run folder under construction. Its name begins with a dot.
HALF = ".half"


def run_folders(results: Path) -> list[Path]:
    """Return the run folders, even those with an unreadable manifest."""
    if not results.is_dir():
        return []
    with translate_errors(results):
        return sorted(folder for folder in results.iterdir() if _is_run(folder))


def _is_run(folder: Path) -> bool:
    if folder.name.startswith(".") and folder.name.endswith(HALF):
        return False
    try:
        return (folder / MANIFEST).is_file()
    except OSError:
        return True  # permission denied: the error appears when someone opens it


def state_of(folder: Path) -> str:
    """Return a text that changes with the manifest of a run; empty if it is unreadable."""
    try:
        return blake2b((folder / MANIFEST).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
