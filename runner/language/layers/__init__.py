"""The layers that layouts are stacked from, fully resolved: one value a field.

A layer is one file here (what may be declared), one in `render/layers/` (what templates see), one template a phase, and
one line below.
"""

from __future__ import annotations

from runner.language.layers.bare import OneDisk, Pick, SomeDisks
from runner.language.layers.base import Grouped, Layer, Problem
from runner.language.layers.crypt import Crypt
from runner.language.layers.fs import Fs
from runner.language.layers.integrity import Integrity
from runner.language.layers.lvm import Lvm
from runner.language.layers.md import Md
from runner.language.layers.partition import Partition
from runner.language.layers.precondition import Precondition

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
