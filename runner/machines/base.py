"""The interface between what is to be done and where it is done.

A machine brings up rigs; a rig runs steps. A step is a bash script with the files it needs, so a machine knows no RAID,
fio or matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, runtime_checkable

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.exclusive import LeasedDisk
    from runner.simdisks.clib import Report
    from runner.simdisks.disk import Disk
    from runner.simdisks.faults import Fault


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    #: May run in the shell of the step before it. Another shell costs as much as most steps.
    continues_shell: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step. `output` has standard output and standard error interleaved as they were written."""

    name: str
    status: int
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RigSpec:
    disks: tuple[Disk, ...]
    kernel: str | None = None
    cpus: int = 2
    memory: int = 512 * 1024 * 1024
    modules: tuple[str, ...] = ()
    #: Programs that a host must have, where the machine does not bring them.
    programs: tuple[str, ...] = ()
    #: Rights beyond reading and writing the disks: `caches` (drop caches), `host` (change tunables of the whole host),
    #: `faults` (make disks fail on demand). For machines that grant few rights or lack the means.
    powers: tuple[str, ...] = ()


class Progress(Protocol):
    def __call__(self, brief: str, fraction: float | None = None) -> None:
        """Report that work is under way (fraction None: unknown) or done (1.0)."""


def _silent(brief: str, fraction: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """Options of the command line for a machine, and where it reports its progress."""

    cold: bool = False
    progress: Progress = _silent
    notice: Callable[[str], None] = _silent
    #: Paths of the physical disks that may be used, for a machine without disks of its own.
    disks: tuple[str, ...] = ()
    #: The same disks as open leases of this process, for a machine that passes descriptors on or checks identities.
    held: tuple[LeasedDisk, ...] = ()
    #: The host, for a machine of which there are many: its name for ssh.
    where: str = ""
    #: The lease of these disks on the other host.
    agent: AgentClient | None = None
    #: Hashes of kernel images when the run began, by the paths in the matrix.
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a machine cannot start: what is missing, and what to do."""

    brief: str
    resolution: str = ""

    @property
    def message(self) -> str:
        # Text of other programs may end in a colon.
        return ": ".join(filter(None, (self.brief.removesuffix(":"), self.resolution)))


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of a machine that a dead run left behind."""

    message: str
    #: It could not be removed.
    remains: bool = False


class RigLost(HarnessBroken):
    """Raised when the rig is gone or does not answer; its work has no result. `tail` is its last console output."""

    def __init__(self, brief: str, *, tail: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=tail, resolution=resolution)
        self.tail = tail


class Rig(Protocol):
    @property
    def disks(self) -> tuple[str, ...]:
        """Path of each disk inside the machine, in declared order."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Versions and settings of the machine, for the manifest; `kernel` is the running kernel.

        `without` lists the wanted modules that the kernel neither has built in nor can load, separated by blanks.
        """

    def disk_reports(self) -> tuple[Report, ...]:
        """Work of each disk since the rig came up; empty if no disk is simulated."""

    def arm(self, faults: Sequence[Fault]) -> None:
        """Plan faults of the disks. Their clock starts when fio rings $MATRIX_BELL."""

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        """Run the steps in order and stop after the first that fails.

        `expected` (seconds): a machine may wait that long before it asks for results. After `deadline` seconds the rig
        counts as hung. Raise RigLost if no answer can be had.
        """


class Machine(Protocol):
    @classmethod
    def from_options(cls, options: MachineOptions) -> Self: ...

    name: ClassVar[str]
    #: Each rig serves one stack and is thrown away, so no state leaks into the next.
    disposable: ClassVar[bool]
    #: Disks are known to read as zeros when a rig comes up.
    zeroed: ClassVar[bool]
    #: The machine makes its disks and they end with the rig; otherwise it uses physical disks.
    brings_disks: ClassVar[bool]
    #: Results are synthetic. Every report must show that.
    synthetic: ClassVar[bool]

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """Return all reasons why such a rig cannot be brought up, without starting anything."""

    def kernel_refusal(self, kernel: str) -> str:
        """Return why a kernel cannot run here; empty if it can."""

    def max_rigs(self, spec: RigSpec) -> int:
        """Return how many such rigs may be up at once (at least 1), without starting anything."""

    def rig(self, spec: RigSpec, scratch: Path) -> AbstractAsyncContextManager[Rig]:
        """Bring a rig up, and stop everything on every way out. `scratch` is the folder for disk files."""


#: How a rig runs programs; `none`: it does not, and its results are synthetic.
Processor = Literal["emulated", "virtual", "native", "none"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Seconds of preparation: once in a run, and for each rig."""

    once: float = 0.0
    each: float = 0.0


@runtime_checkable
class ForecastsCost(Protocol):
    """A machine that predicts its costs. Without this a machine runs programs natively and at once."""

    def processor(self) -> Processor: ...

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        """Return the time beyond cloning a machine that exists."""


@runtime_checkable
class KeepsRig(Protocol):
    """A machine that keeps an expensive rig up between trials."""

    async def shut_down(self) -> None:
        """End what was kept; no trial follows."""
