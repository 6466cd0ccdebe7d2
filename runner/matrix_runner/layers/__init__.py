"""The registry of layers. Each layer is a module here, an entry in LAYERS and a folder in `templates/`."""

from matrix_runner.layers.bare import OneDisk, Pick, Precondition, SomeDisks
from matrix_runner.layers.base import Grouped, Layer, Problem
from matrix_runner.layers.bcache import Bcache
from matrix_runner.layers.dm import Crypt, Integrity, Writecache
from matrix_runner.layers.fs import Fs
from matrix_runner.layers.lvm import Lvm
from matrix_runner.layers.md import Md
from matrix_runner.layers.memory import Memory
from matrix_runner.layers.nvme_tcp import NvmeTcp
from matrix_runner.layers.partition import Partition
from matrix_runner.layers.zfs import Zfs

LAYERS: dict[str, type[Layer]] = {
    layer.kind: layer
    for layer in (
        *(
            OneDisk,
            SomeDisks,
            Memory,
            Pick,
            Partition,
            Md,
            Lvm,
            Writecache,
            Bcache,
            NvmeTcp,
            Crypt,
            Integrity,
            Precondition,
            Fs,
            Zfs,
        ),
    )
}

__all__ = [
    "LAYERS",
    "Bcache",
    "Crypt",
    "Fs",
    "Grouped",
    "Integrity",
    "Layer",
    "Lvm",
    "Md",
    "Memory",
    "NvmeTcp",
    "OneDisk",
    "Partition",
    "Pick",
    "Precondition",
    "Problem",
    "SomeDisks",
    "Writecache",
    "Zfs",
]
