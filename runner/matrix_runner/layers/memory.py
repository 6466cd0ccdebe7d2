"""Disks in the memory of the rig (null_blk, brd), instead of the declared ones: for the cost of software alone."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from matrix_runner.base.model import Size, Time
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, Expectation, Layer, Problem, View
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.needs import Need

MIB = 2**20


def _sector(value: int) -> int:
    if value not in {512, 4096}:
        raise ValueError("write 512B or 4KiB")
    return value


class Memory(Layer):
    """Disks in the memory of the rig, by null_blk or brd. The declared disks stay unused, and memory has to suffice."""

    kind: ClassVar[str] = "memory"
    noun: ClassVar[str] = "disks in memory"
    lvm_type: ClassVar[str] = "nullb"
    needs: ClassVar[tuple[Need, ...]] = (
        Need(own_kernel=True),
        Need("driver", ("null_blk",), modules=("configfs", "null_blk")),
        Need("driver", ("brd",), modules=("brd",)),
    )
    count: int = Field(ge=1, le=64, description="number of disks")
    size: Size = Field(ge=MIB, description="size of each disk, in whole MiB")
    driver: Literal["null_blk", "brd"] = Field(
        "null_blk", description="driver of the kernel; brd has no queues, and one of its stacks at a time"
    )
    queues: int = Field(1, ge=1, le=64, description="hardware queues of each disk, at most one for each processor")
    depth: int = Field(64, ge=1, le=1024, description="requests in flight of each hardware queue")
    latency: Time = Field(0.0, ge=0, le=1, description="time until a request completes; 0: at once")
    rotational: bool = Field(False, description="whether the kernel takes them for rotating disks")
    sector_size: Annotated[Size, AfterValidator(_sector), WithJsonSchema({"enum": ["512B", "4KiB"]})] = Field(
        512, description="the smallest request"
    )

    @property
    def needed(self) -> tuple[Need, ...]:
        return (*super().needed, Need("queues", (self.queues,), processors=self.queues))

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun != "disks":
            yield Problem("", f"it replaces the declared disks, so it is the lowest layer, not on {below.noun}")
        if self.size % MIB:
            yield Problem("size", f"{format_size(self.size)} are not whole MiB")
        if self.driver == "brd":
            for key in self.model_fields_set & {"queues", "depth", "latency", "rotational", "sector_size"}:
                yield Problem(key, "a key of null_blk; leave it out for brd")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:  # noqa: ARG002
        return (Shape(self.size, sector=self.sector_size, queued=False),) * self.count

    def views(self, context: BuildContext) -> tuple[View, ...]:
        names = tuple(f"{context.prefix}-{context.depth}-{number}" for number in range(self.count))
        by_null_blk = self.driver == "null_blk"
        view = View(
            kind=self.kind,
            members=context.devices,
            tops=tuple(f"/dev/{name}" for name in names),
            holds=False,
            remains=tuple(f"/sys/kernel/config/nullb/{name}" if by_null_blk else f"/dev/{name}" for name in names),
            expects=(
                Expectation("size", "size", str(self.size // 512)),
                Expectation("rotational", "queue/rotational", str(int(self.rotational))),
                Expectation("sector_size", "queue/logical_block_size", str(self.sector_size)),
            ),
            values={
                "driver": self.driver,
                "devices": names,
                "kib": str(self.size // 1024),
                "rotational": str(int(self.rotational)),
                "files": self._files() if by_null_blk else {},
            },
        )
        return (view,)

    def _files(self) -> dict[str, str]:
        """Return the attributes of a disk in configfs, in the order of writing."""
        nanoseconds = round(self.latency * 1e9)
        return {
            "memory_backed": "1",
            "size": str(self.size // MIB),
            "blocksize": str(self.sector_size),
            "submit_queues": str(self.queues),
            "hw_queue_depth": str(self.depth),
            "discard": "1",
            "irqmode": "2" if nanoseconds else "0",  # completed by a timer, or at once
            "completion_nsec": str(nanoseconds),
        }
