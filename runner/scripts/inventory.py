"""The scripts that query the disks of a machine, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.hosts import label
from runner.scripts.jinja import render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BY_ID = "/dev/disk/by-id"


def smart_script(disks: Sequence[str], own: Path | None = None) -> str:
    return render("disks/smart.sh", own, title="The health of disks", disks=tuple(disks))


def census_script(own: Path | None = None, *, by_id: str = BY_ID) -> str:
    """Return the script that lists all facts to check before a disk is used. `by_id`: the folder of stable names."""
    return render(
        "disks/census.sh",
        own,
        title="The disks of a machine",
        by_id=by_id,
        label_bytes=label.BYTES,
        label_block=label.BLOCK,
        label_magic=label.MAGIC,
    )
