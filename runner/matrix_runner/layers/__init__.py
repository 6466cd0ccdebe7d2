"""The registry of layers. Each layer is a class in a module here, a line in LAYERS and a folder in `templates/`."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from matrix_runner.layers.base import Layer, Problem


class _Kinds(Mapping[str, type[Layer]]):
    """The classes of layers by kind. One is imported when it is looked up: a matrix uses few of them."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, kind: str) -> type[Layer]:
        module, _, name = self._homes[kind].rpartition(".")
        found: type[Layer] = getattr(import_module(f"{__name__}.{module}"), name)
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


LAYERS = _Kinds(
    {
        "disk": "bare.OneDisk",
        "disks": "bare.SomeDisks",
        "memory": "memory.Memory",
        "pick": "bare.Pick",
        "partition": "partition.Partition",
        "md": "md.Md",
        "lvm": "lvm.Lvm",
        "writecache": "dm.Writecache",
        "bcache": "bcache.Bcache",
        "nvme-tcp": "nvme_tcp.NvmeTcp",
        "crypt": "dm.Crypt",
        "integrity": "dm.Integrity",
        "precondition": "bare.Precondition",
        "fs": "fs.Fs",
        "zfs": "zfs.Zfs",
    }
)
#: Kinds that `tune` cannot name: their devices have the tunables of what is below.
NOT_TUNED = frozenset({"disks", "pick"})

__all__ = ["LAYERS", "NOT_TUNED", "Layer", "Problem"]
