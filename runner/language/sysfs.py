"""Knobs that nobody has a key for: a path inside a device's own folder of sysfs, and a text.

A path can only go down, in letters, digits, dashes and underscores: nothing in it leads out of the folder by name. What
leads out by being a link is refused by name where such links are known, and once more where the script runs.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

SYSFS_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$"
#: Links to other devices, and what is not about the device's work.
LEADING_OUT = frozenset({"bdi", "block", "device", "driver", "holders", "power", "slaves", "subsystem"})
#: Files that a key of `tune` sets, with what it knows about units and about what is read back.
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
#: Two keys may come to the same file without being the same knob everywhere; both spellings are taken.
ALSO_TYPED = {"queue/wbt_lat_usec": "wbt_lat_usec", "queue/write_cache": "write_cache"}
#: What the array is, which its layer decides and reads back.
OF_THE_LAYOUT = frozenset(
    f"md/{name}"
    for name in (
        *("array_size", "array_state", "bitmap/location", "bitmap_set_bits", "chunk_size", "component_size"),
        *("consistency_policy", "fail_last_dev", "layout", "level", "metadata_version", "new_dev", "new_level"),
        *("raid_disks", "reshape_direction", "reshape_position", "resync_start", "sync_action", "uuid"),
    )
)


def path_in_sysfs(value: object) -> object:
    """A path that stays inside a device's folder, of a file that is no other key's business."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(SYSFS_PATH, value, re.ASCII):
        raise ValueError(
            "no path of a knob: it is relative to the device's folder in sysfs and goes down only, in letters, digits, "
            "dashes and underscores, like queue/wbt_lat_usec"
        )
    first, *rest = value.split("/")
    for step in (first, *rest):
        if step in LEADING_OUT:
            raise ValueError(f"`{step}` leads out of the device's own folder")
    if value.startswith("queue/iosched/"):
        raise ValueError(f"there is a key for it: write `iosched: {{{rest[-1]}: …}}`")
    if value in TYPED:
        raise ValueError(f"there is a key for it: write `{TYPED[value]}:`")
    if value in OF_THE_LAYOUT or re.match(r"md/(dev-|rd\d)", value):
        raise ValueError("the layout decides that; write it there")
    if value == "md/bitmap/backlog":
        raise ValueError("where no device is write-mostly, Linux 6.12 refuses it and leaves the array hanging")
    if rest[-1:] == ["uevent"] or value == "uevent":
        raise ValueError("that is no knob: it makes up an event")
    return value


def text_for_sysfs(value: object) -> object:
    """What is written into such a file, and read back from it."""
    if isinstance(value, bool):
        return str(int(value))
    text = str(value) if isinstance(value, int | float | str) else ""
    if not text or text != text.strip() or len(text) > 200 or not text.isprintable():
        raise ValueError("one line that can be printed is needed here, as the kernel shows it; or default")
    return text


SysfsPath = Annotated[str, BeforeValidator(path_in_sysfs), WithJsonSchema({"type": "string", "pattern": SYSFS_PATH})]
SysfsText = Annotated[str, BeforeValidator(text_for_sysfs), WithJsonSchema({"type": ["string", "number", "boolean"]})]
