"""Where runs lie, and whether anything about one is new; without reading what they are, which takes longer."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.results.database_errors import named

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.json"
#: How the name of a run ends that is being made; it begins with a dot.
HALF = ".half"


def folders_of_runs(results: Path) -> list[Path]:
    """Their folders, whatever is in their manifests."""
    if not results.is_dir():
        return []
    with named(results):
        return sorted(folder for folder in results.iterdir() if _is_run(folder))


def _is_run(folder: Path) -> bool:
    if folder.name.startswith(".") and folder.name.endswith(HALF):
        return False
    try:
        return (folder / MANIFEST).is_file()
    except OSError:
        return True  # nobody lets us look: whoever opens it is told why


def state_of(folder: Path) -> str:
    """Another one whenever the manifest of the run in a folder is; empty if it cannot be read."""
    try:
        return blake2b((folder / MANIFEST).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
