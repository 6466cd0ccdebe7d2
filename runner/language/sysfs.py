"""Tunables without a key: a path in a device's folder in sysfs, and a text.

A path can only go down, so no name leads out of the folder. Known links that lead out are refused here; the script
refuses all others.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

SYSFS_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$"
#: Links to other devices, and folders that do not affect I/O.
LEADING_OUT = frozenset({"bdi", "block", "device", "driver", "holders", "power", "slaves", "subsystem"})
#: Files that a key of `tune` sets. The key knows the unit and how to compare the value read back.
TYPED = {
    "queue/read_ahead_kb": "readahead",
    "cache_type": "write_cache",
    **{
        f"queue/{key}": key
        for key in ("scheduler", "nr_requests", "max_sectors_kb", "rotational", "rq_affinity", "nomerges")
    },
    **{
        f"md/{key}": key
        for key in (
            *("stripe_cache_size", "group_thread_cnt", "preread_bypass_threshold"),
            *("sync_speed_min", "sync_speed_max"),
        )
    },
}
#: Files with a key that is another tunable on some devices; both spellings are allowed.
ALSO_TYPED = {"queue/wbt_lat_usec": "wbt_lat_usec", "queue/write_cache": "write_cache"}
#: Files that the md layer sets and reads back.
OF_THE_LAYOUT = frozenset(
    f"md/{name}"
    for name in (
        *("array_size", "array_state", "bitmap/location", "bitmap_set_bits", "chunk_size", "component_size"),
        *("consistency_policy", "fail_last_dev", "layout", "level", "metadata_version", "new_dev", "new_level"),
        *("raid_disks", "reshape_direction", "reshape_position", "resync_start", "sync_action", "uuid"),
    )
)


def path_in_sysfs(value: object) -> object:
    """Refuse a path that leaves the folder of the device, or that another key sets."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(SYSFS_PATH, value, re.ASCII):
        raise ValueError(
            "not a path in the device's folder in sysfs; write a relative path of letters, digits, dashes and "
            "underscores, like queue/wbt_lat_usec"
        )
    first, *rest = value.split("/")
    for step in (first, *rest):
        if step in LEADING_OUT:
            raise ValueError(f"`{step}` leads out of the device's own folder")
    if value.startswith("queue/iosched/"):
        raise ValueError(f"this file has a key; write `iosched: {{{rest[-1]}: …}}`")
    if value in TYPED:
        raise ValueError(f"this file has a key; write `{TYPED[value]}:`")
    if value in OF_THE_LAYOUT or re.match(r"md/(dev-|rd\d)", value):
        raise ValueError("this is set by the layout; write it there")
    if value == "md/bitmap/backlog":
        raise ValueError("without a write-mostly device, Linux 6.12 refuses this value and the array hangs")
    if rest[-1:] == ["uevent"] or value == "uevent":
        raise ValueError("this is not a tunable: writing to it sends an event")
    return value


def text_for_sysfs(value: object) -> object:
    """Return the text to write to the file and to compare after reading it back."""
    if isinstance(value, bool):
        return str(int(value))
    text = str(value) if isinstance(value, int | float | str) else ""
    if not text or text != text.strip() or len(text) > 200 or not text.isprintable():
        raise ValueError("write one printable line, as the kernel shows it, or default")
    return text


SysfsPath = Annotated[str, BeforeValidator(path_in_sysfs), WithJsonSchema({"type": "string", "pattern": SYSFS_PATH})]
SysfsText = Annotated[str, BeforeValidator(text_for_sysfs), WithJsonSchema({"type": ["string", "number", "boolean"]})]
