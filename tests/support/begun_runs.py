"""Runs that have just begun."""

from __future__ import annotations

from zlib import crc32

from matrix_runner.records.environment import Host
from matrix_runner.records.run_folder import Manifest


def manifest(**changes: object) -> Manifest:
    values: dict[str, object] = {
        "matrix": "chunk-sweep",
        "fingerprint": "f1",
        "machine": "qemu",
        "synthetic": False,
        "seed": 7,
        "command": ("matrix", "run", "chunk-sweep.yaml"),
        "text": "name: chunk-sweep  # ä\n",
        "versions": {"6.1.0": {"fio": "3.33"}},
        "host": Host(kernel="6.1.0", cpu="some cpu", cores=2, memory=4 << 30),
        "started": "2026-03-04T05:06:07+00:00",
        "planned": 72,
    }
    values |= changes
    own = [values[name] for name in ("matrix", "machine", "fingerprint", "started", "command")]
    return Manifest.model_validate({"id": f"{crc32(repr(own).encode()):08x}"} | values)
