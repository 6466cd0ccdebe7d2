"""The image of a disk with a layout of its own."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


#: What containers are made of where no registry is: the machine's own programs.
IMAGE = (
    "podman image exists localhost/lab || tar -C / --exclude=usr/lib/modules --exclude=usr/lib/python3* "
    "-c usr bin sbin lib lib64 etc | podman import - localhost/lab"
)
