"""The events of a run: a class each, with its fields, its words for people and for programs, and who sees it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from pydantic import Field

from matrix_runner.pages.terminal_text import BAD, DOUBT, spaced
from matrix_runner.records.environment import DiskFacts, Health
from matrix_runner.records.record import Trial
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.metrics import RATES

# No honest worker reaches these limits of a message.
Name = Annotated[str, Field(max_length=4096)]
Text = Annotated[str, Field(max_length=1 << 20)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Factor = Annotated[int, Field(ge=1, le=64)]


@dataclass(frozen=True, slots=True)
class Event:
    word: ClassVar[str] = ""  # its name in JSON lines and messages; empty: it is in neither
    in_json: ClassVar[bool] = True  # `run --json` prints it
    from_host: ClassVar[bool] = False  # a batch process sends it, because no record implies it
    is_trial: ClassVar[bool] = False  # it counts as a trial
    line: ClassVar[str | None] = None  # `style` of each

    @property
    def text(self) -> str:
        """Return its line for people; empty: it has none."""
        return ""

    @property
    def style(self) -> str | None:
        """Return the style of its line above the bar; None: no line there. With a style, `--quiet` shows it, too."""
        return self.line

    @property
    def activity(self) -> str:
        """Return what its rig does from now on; empty: as before."""
        return ""

    @property
    def values(self) -> dict[str, Any]:
        return {one.name: value for one in fields(self) if (one.name, value := getattr(self, one.name)) != ("host", "")}

    def advance(self, done: int, planned: int) -> tuple[int, int]:
        """Return the numbers of recorded and planned trials after it."""
        return done, planned


@dataclass(frozen=True, slots=True)
class RoundAdded(Event):
    """A round beyond the minimum, and the reason for it."""

    word, line = "notice", ""
    round: int
    trials: int
    reason: str
    ranking: Sequence[str] = ()  # of a race: its order so far

    @property
    def text(self) -> str:
        trials = f"{self.trials:,} trial{'s' if self.trials > 1 else ''}"
        return f"{self.reason}: round {self.round} adds {trials}"

    @property
    def values(self) -> dict[str, Any]:
        return {"text": self.text}

    def advance(self, done: int, planned: int) -> tuple[int, int]:
        return done, max(planned, done + self.trials)


@dataclass(frozen=True, slots=True)
class BatchStarted(Event):
    word = "batch"
    round: int
    stack: str
    cells: int
    host: str = ""  # of a cluster


@dataclass(frozen=True, slots=True)
class BatchDone(Event):
    word = "batch-done"
    round: int
    stack: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class RigUp(Event):
    word, from_host = "rig-up", True
    stack: Name
    seconds: Seconds
    facts: Annotated[Mapping[Name, Text], Field(max_length=200)]


@dataclass(frozen=True, slots=True)
class TrialStarted(Event):
    word, from_host, in_json = "started", True, False
    name: Name
    round: int
    stack: Name
    host: Name = ""

    @property
    def activity(self) -> str:
        return f"{self.name} round {self.round}"


@dataclass(frozen=True, slots=True)
class TrialHostLimited(Event):
    """The host could not keep up with a trial beside others; it is repeated alone."""

    word = "host-limited"
    name: str
    stack: str
    round: int
    host_limited: str
    beside: int

    @property
    def text(self) -> str:
        others = f"{self.beside} other{'s' if self.beside > 1 else ''}"
        why = f"host-limited beside {others}, {spaced(self.host_limited)}"
        return f"{self.name}: {why}; it is measured again alone"

    @property
    def activity(self) -> str:
        return f"{self.name} round {self.round}, again alone"


@dataclass(frozen=True, slots=True)
class TrialTooFast(Event):
    """The disks were too fast for the host in a trial; it is repeated in slow motion."""

    word, from_host = "too-fast", True
    name: Name
    round: int
    stack: Name
    host_limited: Text
    was: Factor
    slow: Factor

    @property
    def text(self) -> str:
        why = f"host-limited, {spaced(self.host_limited)}"
        return f"{self.name}: {why}; it is measured again in slow motion, {self.slow} times slower"

    @property
    def activity(self) -> str:
        return f"{self.name} round {self.round}, again in slow motion"


@dataclass(frozen=True, slots=True)
class TrialDone(Event):
    word, is_trial = "trial", True
    name: str
    trial: Trial
    stack: str

    @property
    def text(self) -> str:
        return f"{self.name}: {self.result}"

    @property
    def result(self) -> str:
        """Return the figures in a few words, or the reason why there are none."""
        figures = self.trial.figures
        if figures is None:
            return f"{self.trial.outcome}: {self.trial.reason}"
        sync = figures.rebuild
        found = [f"sync {sync.bw / 1e6:,.1f} MB/s in {sync.seconds:,.1f} s"] if sync else []
        found += [f"{name} {one.bw / 1e6:,.1f} MB/s {one.iops:,.0f} IOPS" for name, one in figures.sides.items()]
        if lost := self.trial.facts.lost:
            whose = "processor" if self.trial.facts.is_processor_limited else "host"
            found.append(spaced(f"{whose}-limited: {lost:.0%} of the time lost"))
        return ", ".join((*found, *(f"on {host}" for host in self._host.values())))

    @property
    def style(self) -> str | None:
        return None if self.trial.outcome.counts else BAD

    @property
    def values(self) -> dict[str, Any]:
        trial, figures = self.trial, self.trial.figures
        found = {"name": self.name, "stack": self.stack, "cell": trial.cell, "round": trial.round}
        found |= {"outcome": trial.outcome.value, "reason": trial.reason, **(_rates(figures) if figures else {})}
        if figures and figures.jobs:
            found["jobs"] = {name: _rates(one) for name, one in figures.jobs.items()}
        if sync := figures and figures.rebuild:
            found |= {"sync_bw": sync.bw, "sync_seconds": sync.seconds}
        return found | self._host

    @property
    def _host(self) -> dict[str, str]:
        return {"host": self.trial.facts.host} if self.trial.facts.host else {}

    def advance(self, done: int, planned: int) -> tuple[int, int]:
        return done + 1, max(planned, done + 1)


@dataclass(frozen=True, slots=True)
class RigWasLost(Event):
    """A rig died or hung; `next` is the consequence."""

    word, from_host, line = "rig-lost", True, DOUBT
    name: Name
    stack: Name
    reason: Text
    next: Text

    @property
    def text(self) -> str:
        return f"{self.name}: {self.reason}; {self.next}"


@dataclass(frozen=True, slots=True)
class TimeLeft(Event):
    """How long a run on a cluster still takes, by the speed of its hosts."""

    word = "time-left"
    seconds: float


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """What a run on a cluster waits for; empty: it goes on."""

    word = "waiting"
    what: str


@dataclass(frozen=True, slots=True)
class PoolUsed(Event):
    """Physical disks of a host of a cluster that a batch leased or returned, and why some were not returned."""

    host: str
    disks: tuple[DiskFacts, ...]
    health: tuple[Health, ...] = ()
    unreturned: tuple[str, ...] = ()


EVENTS = tuple(Event.__subclasses__())
Listener = Callable[[Event], None]


def _rates(figures: Figures) -> dict[str, float]:
    return {f"{name}_{rate}": getattr(side, rate) for name, side in figures.sides.items() for rate in RATES}
