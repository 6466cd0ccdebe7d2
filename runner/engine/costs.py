"""Costs of work on each kind of machine: measured constants for the first estimate of a matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.machines.base import Processor

MB = 10**6


@dataclass(frozen=True, slots=True)
class Step:
    """The cost of building one layer: seconds of programs, and serial flushed writes to each member."""

    seconds: float
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    #: Seconds to start and stop a rig without disks; seconds more for each disk.
    rig: float
    disk: float
    #: Seconds to start the set-up; costs of one layer of each kind.
    set_up: float
    layers: Mapping[str, Step]
    #: Seconds of a trial besides the run time of fio; more for the first on a rig, for files, for laying files out.
    trial: float
    first: float
    files: float
    lay_out: float
    #: Limits of the machine: bytes and requests per second.
    bandwidth: float
    requests: float
    #: Limits of devices that compute parity, encryption or checksums, bytes per second.
    computed: Mapping[str, float]
    #: Seconds to start the program and to write the reports.
    program: float = 3.0
    #: Trials take real time.
    waits: bool = True

    def slowed(self, factor: float) -> Costs:
        """Scale the times of programs that get only a part of the processors. Times of fio and disks stay."""
        return replace(
            self,
            **{name: getattr(self, name) * factor for name in _OF_PROGRAMS},
            layers={kind: replace(step, seconds=step.seconds * factor) for kind, step in self.layers.items()},
            bandwidth=self.bandwidth / factor,
            requests=self.requests / factor,
            computed={kind: most / factor for kind, most in self.computed.items()},
        )


_OF_PROGRAMS = ("rig", "disk", "set_up", "trial", "first", "files", "lay_out", "program")

#: Measured on two processors of an AMD EPYC host without KVM, QEMU 7.2, beside no other work: 24 stacks on 1 to 6
#: disks, simulated and not.
EMULATED = Costs(
    rig=0.7,
    disk=0.02,
    set_up=0.44,
    layers=MappingProxyType(
        {
            "md": Step(0.8, 13),
            "lvm": Step(1.3, 25),
            "partition": Step(1.05, 12),
            "crypt": Step(1.5, 12),
            "integrity": Step(2.0, 20),
            "fs": Step(0.4, 18),
            "precondition": Step(1.8),
        }
    ),
    trial=0.66,
    first=0.45,
    files=0.15,
    lay_out=1.1,
    bandwidth=300 * MB,
    requests=12_000,
    computed=MappingProxyType({"parity": 120 * MB, "crypt": 60 * MB, "integrity": 60 * MB}),
)
#: Not measured: a tenth of the times under emulation.
VIRTUAL = Costs(
    rig=0.3,
    disk=0.02,
    set_up=0.05,
    layers=MappingProxyType({kind: replace(step, seconds=step.seconds / 10) for kind, step in EMULATED.layers.items()}),
    trial=0.15,
    first=0.05,
    files=0.05,
    lay_out=0.15,
    bandwidth=1500 * MB,
    requests=100_000,
    computed=MappingProxyType({"parity": 1500 * MB, "crypt": 1000 * MB, "integrity": 400 * MB}),
)
#: Not measured: as a virtual machine without its start.
NATIVE = replace(VIRTUAL, rig=0.0, disk=0.0, requests=300_000)
#: The dry machine invents figures without waiting.
SYNTHETIC = Costs(
    rig=0.01,
    disk=0.0,
    set_up=0.0,
    layers=MappingProxyType({}),
    trial=0.02,
    first=0.0,
    files=0.0,
    lay_out=0.0,
    bandwidth=200 * MB,
    requests=10_000,
    computed=MappingProxyType({}),
    program=1.0,
    waits=False,
)
COSTS: Mapping[Processor, Costs] = MappingProxyType(
    {"emulated": EMULATED, "virtual": VIRTUAL, "native": NATIVE, "none": SYNTHETIC}
)
