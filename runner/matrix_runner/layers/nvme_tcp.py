"""NVMe over TCP: a target exports the devices below on the loopback of the rig, and an initiator connects to it."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from matrix_runner.layers.base import BuildContext, Layer, Problem, View, as_uuid, mark
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.needs import Need

_PORTS = 20_000, 30_000  # the first TCP port, and their number


class NvmeTcp(Layer):
    """The devices below as namespaces of an NVMe disk behind TCP. Target and initiator are in the same rig."""

    kind: ClassVar[str] = "nvme-tcp"
    noun: ClassVar[str] = "NVMe namespaces"
    needs: ClassVar[tuple[Need, ...]] = (Need(modules=("configfs", "nvmet_tcp", "nvme_tcp"), own_kernel=True),)
    queues: int = Field(1, ge=1, le=64, description="queues for requests, each a connection; at most one per processor")
    depth: int = Field(128, ge=16, le=1024, description="requests in flight of each queue")
    header_digest: bool = Field(False, description="a checksum (CRC32C) of each header; set, not read back")
    data_digest: bool = Field(False, description="a checksum (CRC32C) of all data; set, not read back")

    @property
    def needed(self) -> tuple[Need, ...]:
        return (*super().needed, Need("queues", (self.queues,), processors=self.queues))

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.count > 64:
            yield Problem("", f"at most 64 devices, and {below.description}")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return tuple(Shape(one.size, sector=one.sector, queued=False, losses=one.losses) for one in below.devices)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        digits, many = mark(self, context.devices), len(context.devices)
        first, count = _PORTS
        names = tuple(context.name(at, many) for at in range(many))
        digests = {"header_digest": self.header_digest, "data_digest": self.data_digest}
        nqn = f"nqn.2014-08.org.nvmexpress:uuid:{as_uuid(digits)}"
        port = str(first + int(digits[:8], 16) % count)
        options = ("transport=tcp", "traddr=127.0.0.1", f"trsvcid={port}", f"nqn={nqn}", f"nr_io_queues={self.queues}")
        asked = tuple(f"{'hdr' if name == 'header_digest' else 'data'}_digest" for name, on in digests.items() if on)
        values = {
            "nqn": nqn,  # the name of its subsystem, with our mark
            "port": port,  # of TCP, and the number of the target's port
            "uuids": tuple(
                as_uuid(mark(self, (path, name))) for path, name in zip(context.devices, names, strict=True)
            ),
            "options": ",".join((*options, f"queue_size={self.depth}", *asked)),
            "shown": {"transport": "tcp", "queue_count": str(self.queues + 1), "sqsize": str(self.depth - 1)},
            "unread": tuple(name for name, on in digests.items() if on),  # keys that the kernel does not show
        }
        tops = tuple(f"/dev/{name}" for name in names)
        remains = (f"/sys/kernel/config/nvmet/subsystems/{nqn}",)
        # The target opens its devices as any program does.
        return (View(kind=self.kind, members=context.devices, tops=tops, holds=False, remains=remains, values=values),)
