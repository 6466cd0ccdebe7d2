"""Facts of the host that the runner itself is on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from runner.processor import processor

if TYPE_CHECKING:
    from runner.store.run import Host


def boot_id() -> str:
    """Another one after every boot: tells a killed runner from a host that went down."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def host_facts() -> Host:
    """What the manifest says of the host."""
    from runner.store.run import Host

    return Host(
        kernel=platform.release(),
        cpu=processor(),
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        hostname=platform.node(),
    )
