"""A container engine for tests: with a storage of its own, so that nothing of whoever runs them is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from matrix_runner.machines.container.engines import ENGINE_VARIABLE, IMAGE_VARIABLE, find_engine
from tests.hosts import loops

if TYPE_CHECKING:
    from collections.abc import Iterator

STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
ENGINE = '[engine]\ntmp_dir = "{folder}/tmp"\n'


def why_not() -> str:
    """Why there can be no containers here; empty if there may. Whether one starts is known once there is an image."""
    if reason := loops.why_not():
        return reason
    if not (os.environ.get(ENGINE_VARIABLE) or shutil.which("podman")):
        return f"without podman on this host (and {ENGINE_VARIABLE} names no other engine)"
    return "; ".join(one.brief for one in find_engine().refusals)


@contextmanager
def storage() -> Iterator[dict[str, str]]:
    """What podman has to be told, by its environment. Another engine that was chosen is taken as it is."""
    if ENGINE_VARIABLE in os.environ or IMAGE_VARIABLE in os.environ:
        yield {}
        return
    # In a folder with a long name, podman misses the end of each container and waits for 20 seconds.
    with TemporaryDirectory(prefix="podman-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield from _storage_in(Path(folder))


def _storage_in(folder: Path) -> Iterator[dict[str, str]]:
    for name, text in (("storage.conf", STORAGE), ("containers.conf", ENGINE)):
        (folder / name).write_text(text.format(folder=folder))
    told = {
        ENGINE_VARIABLE: "podman",
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
    }
    try:
        yield told
    finally:
        subprocess.run(["podman", "rm", "--all", "--force"], env={**os.environ, **told}, capture_output=True)
        # podman keeps its own mount of this folder to itself.
        subprocess.run(["umount", folder / "graph/overlay"], capture_output=True)
