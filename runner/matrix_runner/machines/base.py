"""The interface of machines (their registry is in __init__.py), which start rigs. A rig runs bash scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, runtime_checkable

from matrix_runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from matrix_runner.hosts.agent.client import AgentClient
    from matrix_runner.hosts.exclusive import LeasedDisk
    from matrix_runner.simdisks.clib import Report
    from matrix_runner.simdisks.disk import Disk, Fault


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    #: May run in the shell of the step before it. A new shell costs as much as most steps.
    continues_shell: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step. `output` has standard output and standard error in the order of writing."""

    name: str
    status: int
    output: str
    seconds: float
    began: float = 0.0  # on the clock of the machine


@dataclass(frozen=True, slots=True)
class RigSpec:
    disks: tuple[Disk, ...]
    kernel: str | None = None
    cpus: int = 2
    memory: int = 512 * 1024 * 1024
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    #: Rights beyond reading and writing the disks: `caches` (drop caches), `host` (set tunables of the whole host),
    #: `faults` (make disks fail on demand).
    powers: tuple[str, ...] = ()
    cmdline: str = ""  # more parameters of the kernel
    options: tuple[str, ...] = ()  # of the kernel's configuration


#: How a step of building an appliance begins, in texts of progress.
APPLIANCE = "appliance: "


class Progress(Protocol):
    def __call__(self, brief: str, fraction: float | None = None) -> None:
        """Report the progress of some work; `fraction` is 1.0 at its end, and None if unknown."""


def _silent(brief: str, fraction: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class MachineOptions:
    cold: bool = False
    progress: Progress = _silent
    notice: Callable[[str], None] = _silent
    disks: tuple[str, ...] = ()
    #: The leases of these disks in this process, for a machine that passes descriptors on or checks identities.
    held: tuple[LeasedDisk, ...] = ()
    where: str = ""
    agent: AgentClient | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    #: Provides the folder of a kernel that is a version of a search; None: the name says where it is.
    folder_of: Callable[[str], Awaitable[Path | None]] | None = None


NO_OPTIONS = MachineOptions()


@dataclass(frozen=True, slots=True)
class Refusal:
    brief: str
    resolution: str = ""
    program: str = ""  # the one that is missing
    of_layers: bool = False  # only some layers need it; cells of other stacks can run

    @property
    def message(self) -> str:
        # Messages of other programs may end in a colon.
        return ": ".join(filter(None, (self.brief.removesuffix(":"), self.resolution)))


@dataclass(frozen=True, slots=True)
class Leftover:
    message: str
    remains: bool = False


class RigLost(HarnessBroken):
    """Raised if the rig is gone or does not answer. `tail` is its last console output."""

    def __init__(self, brief: str, *, tail: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=tail, resolution=resolution)
        self.tail = tail


class NoRig(HarnessBroken):
    """Raised if a rig can never come up, as its version does not build."""


class Rig(Protocol):
    @property
    def disks(self) -> tuple[str, ...]:
        """Return the path of each disk inside the machine, in declared order."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Return facts for the manifest, such as `kernel`.

        It lacks the modules `without`, the kernel's options `unset` and the programs `absent`.
        """

    def disk_reports(self) -> tuple[Report, ...]:
        """Return the work of each disk since the rig came up; empty if no disk is simulated."""

    def arm(self, faults: Sequence[Fault]) -> None:
        """Plan faults of the disks. Their clock starts when fio writes to $MATRIX_BELL."""

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        """Run the steps until one fails, which may take `expected` seconds. Raise RigLost after `deadline`."""


@runtime_checkable
class SlowsDisks(Protocol):
    """A rig whose disks are simulated."""

    def slow_down(self, slow: int) -> None:
        """Let its disks work so many times slower than real time from now on."""


@runtime_checkable
class HasHost(Protocol):
    """A rig that programs of its host make: a virtual machine."""

    def host_seconds(self) -> float | None:
        """Return the processor time that the host has spent on it; None if one of its programs has ended."""


class Machine(Protocol):
    """A kind of rig. By default it uses physical disks, one rig at a time."""

    name: ClassVar[str]
    disposable: ClassVar[bool] = False  # each stack gets a new rig, so no state leaks into the next
    zeroed: ClassVar[bool] = False  # the disks read as zeros when a rig comes up
    #: The machine creates its disks, which end with the rig; otherwise it uses physical disks.
    brings_disks: ClassVar[bool] = False
    synthetic: ClassVar[bool] = False  # the results are synthetic, and every report must show that
    shares_kernel: ClassVar[bool] = False  # its rigs are only a part of a running system
    takes_folders: ClassVar[bool] = False  # it can use the kernel, modules and programs of a folder
    keeps_kernel: ClassVar[bool] = False  # its rigs run the kernel of their host, which only a reboot changes

    options: MachineOptions
    _notices: set[str]  # messages that the user has seen. Those about the host are the same for every rig.

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        self.options, self._notices = options, set()

    @classmethod
    def from_options(cls, options: MachineOptions) -> Self:
        return cls(options)

    def notice_once(self, message: str) -> None:
        if message and message not in self._notices:
            self._notices.add(message)
            self.options.notice(message)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """Return all reasons why the rig cannot start, without starting anything."""

    def known(self, spec: RigSpec) -> Mapping[str, str]:  # noqa: ARG002
        """Return facts of a rig that are known before it starts, as `Rig.facts`: what has its modules and programs."""
        return {}

    def kernel_refusal(self, kernel: str) -> str:
        """Return why a kernel cannot run here; empty if it can."""

    def find_kernel(self, release: str, appliance: str, names: Collection[str]) -> tuple[str, str]:  # noqa: ARG002
        """Return how to name the kernel of an earlier rig here, with its content if only the cache has it.

        `appliance` is that fact of the rig; `names`: kernels that its user named. Empty: it is gone.
        """
        return "", ""

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        """Return how many such rigs may be up at a time (at least 1), without starting anything."""
        return 1

    def rig(self, spec: RigSpec, scratch: Path) -> AbstractAsyncContextManager[Rig]:
        """Bring a rig up, and stop it at the end. `scratch` is the folder for disk files."""


#: The processor of a rig; `none`: it runs no programs, and its results are synthetic.
Processor = Literal["emulated", "virtual", "native", "none"]


@dataclass(frozen=True, slots=True)
class Preparation:
    once: float = 0.0
    each: float = 0.0


@runtime_checkable
class ForecastsCost(Protocol):
    """A machine that predicts its costs. Others run programs natively and without preparation."""

    def processor(self) -> Processor: ...

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        """Return the time beyond cloning an existing machine."""


@runtime_checkable
class KeepsRig(Protocol):
    async def shut_down(self) -> None:
        """Stop all rigs that are still up. No trial follows."""
