"""The registry of layers. Each layer is a module here, an entry in LAYERS and a folder in `templates/`."""

from runner.layers.bare import OneDisk, Pick, SomeDisks
from runner.layers.base import Grouped, Layer, Problem
from runner.layers.crypt import Crypt
from runner.layers.fs import Fs
from runner.layers.integrity import Integrity
from runner.layers.lvm import Lvm
from runner.layers.md import Md
from runner.layers.partition import Partition
from runner.layers.precondition import Precondition

LAYERS: dict[str, type[Layer]] = {
    layer.kind: layer for layer in (OneDisk, SomeDisks, Pick, Partition, Md, Lvm, Crypt, Integrity, Precondition, Fs)
}

__all__ = [
    "LAYERS",
    "Crypt",
    "Fs",
    "Grouped",
    "Integrity",
    "Layer",
    "Lvm",
    "Md",
    "OneDisk",
    "Partition",
    "Pick",
    "Precondition",
    "Problem",
    "SomeDisks",
]
