"""Kernel images and their configurations."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

from matrix_runner.machines.qemu.kernel_config import OPTIONS


def bzimage(release: bytes, payload: bytes) -> bytes:
    head = bytearray(2 * 512)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = struct.pack("<H", 0x100)
    head[0x248:0x250] = struct.pack("<II", 8, len(payload))
    head[0x300 : 0x300 + len(release)] = release
    return bytes(head) + b"\0" * 8 + payload


RELEASE = "6.9.1-mine"


BUILT_IN = "".join(f"CONFIG_{one.name}=y\n" for one in OPTIONS)


def ikconfig(config: str) -> bytes:
    return b"\x7fELF...IKCFG_ST" + gzip.compress(config.encode()) + b"IKCFG_ED..."


def image(folder: Path, payload: bytes = b"no kernel") -> Path:
    path = folder / "bzImage"
    path.write_bytes(bzimage(RELEASE.encode() + b" (me@here) #1\0", gzip.compress(payload)))
    return path
