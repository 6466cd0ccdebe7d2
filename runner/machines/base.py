"""The seam between what is to be done and where it is done.

A machine brings up rigs; a rig runs steps. A step is a bash script with the files it needs beside it, so a machine
needs to know nothing about RAID, fio or matrices, and a new machine is one file and one line in `MACHINES`.
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
    """One script of a trial: its name, its bash text, and the files that lie in its working directory."""

    name: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    #: It may run in the shell that the step before it leaves, as neither minds: one costs as much as most steps.
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of one step. `output` holds standard output and standard error as they were interleaved."""

    name: str
    status: int
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RigSpec:
    """All that must be known to bring a rig up."""

    disks: tuple[Disk, ...]
    kernel: str | None = None
    cpus: int = 2
    memory: int = 512 * 1024 * 1024
    modules: tuple[str, ...] = ()
    #: What a host must have that is not made for it.
    programs: tuple[str, ...] = ()
    #: What work on it takes beyond reading and writing its disks: `caches` are emptied, knobs of the whole `host` are
    #: turned, disks have `faults` on demand. For machines that give no more rights than asked for, or lack the means.
    powers: tuple[str, ...] = ()


class Progress(Protocol):
    """Shows how far something long is: a few words, and the part that is done if that is known."""

    def __call__(self, brief: str, fraction: float | None = None) -> None:
        """Something is under way (fraction None: no telling how long) or done (1.0)."""


def _silent(brief: str, fraction: float | None = None) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a user asked of the machine on the command line, and whom it tells what it is doing."""

    cold: bool = False
    progress: Progress = _silent
    notice: Callable[[str], None] = _silent
    #: Paths of disks that exist and may be used, for a machine that has no others.
    disks: tuple[str, ...] = ()
    #: The same disks as this process holds them, for a machine that hands them on instead of looking them up, or has to
    #: know them again.
    held: tuple[LeasedDisk, ...] = ()
    #: Which of them, for a machine of which there are many: by its name for ssh.
    where: str = ""
    #: What holds these disks over there.
    agent: AgentClient | None = None
    #: What was in the images of kernels when the run began, by the paths that rigs are asked for with.
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a machine will not even start: what is missing, and what would help."""

    brief: str
    resolution: str = ""

    @property
    def told(self) -> str:
        """Both in a line, as a user reads it. A brief that is another program's may end in a colon by itself."""
        return ": ".join(filter(None, (self.brief.removesuffix(":"), self.resolution)))


@dataclass(frozen=True, slots=True)
class Swept:
    """What a run that is gone has left behind of a machine, and what became of it."""

    told: str
    #: It is there still, though it was to be taken away.
    stays: bool = False


class RigLost(HarnessBroken):
    """The rig is gone or no longer answers; whatever ran on it has no result. `tail` is its last console output."""

    def __init__(self, brief: str, *, tail: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=tail, resolution=resolution)
        self.tail = tail


class Rig(Protocol):
    """One machine that is up, with its disks."""

    @property
    def disks(self) -> tuple[str, ...]:
        """Path of each disk inside the machine, in declared order."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What the machine is made of (tool versions, accelerator …), for the manifest; `kernel` is what runs on it.

        `without` lists, apart by blanks, the modules asked for that its kernel neither has built in nor can load.
        """

    def disk_reports(self) -> tuple[Report, ...]:
        """What each disk has done since it came up, if any of them is modelled; else nothing."""

    def arm(self, faults: Sequence[Fault]) -> None:
        """Let this go wrong with the disks from when fio next begins its work: it rings $MATRIX_BELL then."""

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        """Run the steps in order, in one go; stop after the first that fails.

        `expected` is how long they should take if all goes well (seconds): a machine may stay quiet until then.
        After `deadline` seconds the rig counts as hung. Raises RigLost when no answer can be had any more.
        """


class Machine(Protocol):
    """A place where rigs can be brought up."""

    @classmethod
    def wished(cls, wishes: Wishes) -> Self:
        """The machine as the user wants it."""

    name: ClassVar[str]
    #: A rig is made anew for every array and thrown away after it, so nothing can leak from one to the next.
    disposable: ClassVar[bool]
    #: Disks are known to read as zeros when a rig comes up.
    zeroed: ClassVar[bool]
    #: It makes the disks of its rigs, which end with them; else it is given some that exist, and are there once.
    brings_disks: ClassVar[bool]
    #: Results are made up. Whatever shows them must say so.
    made_up: ClassVar[bool]

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """All reasons why this machine cannot bring up such a rig, found without starting anything."""

    def lacks(self, kernel: str) -> str:
        """Why it cannot have the kernel that a matrix names so; empty if it can."""

    def room(self, spec: RigSpec) -> int:
        """How many such rigs may be up at a time, found without starting anything; at least one."""

    def rig(self, spec: RigSpec, scratch: Path) -> AbstractAsyncContextManager[Rig]:
        """Bring a rig up; whatever was started is stopped on every way out. `scratch` is where disk files may live."""


#: How the programs of a rig run; `none`: they do not, and what they answer is made up.
Processor = Literal["emulated", "virtual", "native", "none"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Seconds: once in a run, and for each rig."""

    once: float = 0.0
    each: float = 0.0


@runtime_checkable
class Foreseen(Protocol):
    """A machine that can tell what it costs before it starts anything; others run programs natively, at once."""

    def processor(self) -> Processor:
        """How programs will run."""

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        """What rigs of these kinds take beyond a clone of a machine that is there."""


@runtime_checkable
class Keeps(Protocol):
    """A machine that keeps something up between rigs, as making it is costly."""

    async def put_down(self) -> None:
        """Nothing more is to be run."""
