"""Find the container engine of this host, and the options with which it works."""

from __future__ import annotations

import json
import os
import resource
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cache import cache_dir
from runner.base.errors import HarnessBroken
from runner.base.process import run
from runner.machines.base import Refusal
from runner.machines.container.argv import Engine, tried, ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from runner.machines.container.argv import Way

#: podman first: it needs no daemon.
KINDS = ("podman", "docker")
#: The engine that the user chose: its name or path.
CHOSEN = "MATRIX_CONTAINER_ENGINE"
#: Seconds for a short engine command. docker's daemon may be just starting.
PATIENCE = 60.0
#: Whether an ordinary user runs it, who cannot pass disks on. Both print `true` if so.
ROOTLESS = {
    "podman": "{{.Host.Security.Rootless}}",
    "docker": '{{range .SecurityOptions}}{{if eq . "name=rootless"}}true{{end}}{{end}}',
}
#: Limits that engines raise, and values that are enough. (podman lowers them before the container starts, so the limits
#: of this process cannot always be had there.)
LIMITS = {"nofile": (resource.RLIMIT_NOFILE, 16384), "nproc": (resource.RLIMIT_NPROC, 4096)}
#: OCI runtimes that may work where the default one does not.
RUNTIMES = ("runc", "crun")
#: crun's error on a host with both kinds of cgroups: older systemd, or none.
BOTH_CGROUPS = "hybrid mode not supported"
EVIDENCE = 2000


@dataclass(frozen=True, slots=True)
class Found:
    engine: Engine | None
    refusals: tuple[Refusal, ...] = ()


def installed(environ: Mapping[str, str] = os.environ) -> tuple[Engine, ...]:
    """Return the engines of this host in the order to try them, or only the chosen one."""
    chosen = environ.get(CHOSEN)
    named = [chosen] if chosen else KINDS
    paths = [(name, shutil.which(name, path=environ.get("PATH"))) for name in named]
    return tuple(Engine(path, kind_of(name)) for name, path in paths if path)


def kind_of(name: str) -> str:
    """Everything that is not docker takes podman's options."""
    return "docker" if "docker" in Path(name).name else "podman"


def found(environ: Mapping[str, str] = os.environ) -> Found:
    engines = installed(environ)
    if not engines:
        chosen = environ.get(CHOSEN)
        brief = f"there is no {chosen}, which {CHOSEN} names" if chosen else "neither podman nor docker is installed"
        return Found(None, (Refusal(brief, "correct it" if chosen else "apt install podman crun, or docker.io"),))
    refusals = []
    for engine in engines:
        why = _unfit(engine)
        if why is None:
            return Found(engine)
        refusals.append(why)
    return Found(None, tuple(refusals))


def _unfit(engine: Engine) -> Refusal | None:
    try:
        answer = run([engine.path, "info", "--format", ROOTLESS[engine.kind]], timeout=PATIENCE)
    except HarnessBroken as broken:
        return Refusal(broken.brief, "start it, or use the other engine")
    # docker's client ends with status 0 although its daemon does not answer.
    said = answer.stderr.strip()
    if answer.returncode or "Cannot connect" in said or (engine.kind == "docker" and "ERROR:" in answer.stdout + said):
        words = said or answer.stdout.strip() or f"status {answer.returncode}"
        return Refusal(f"{engine.kind} does not run: {words[-EVIDENCE:]}", "start its service, or install podman")
    if answer.stdout.strip() == "true":
        return Refusal(
            f"{engine.kind} runs for an ordinary user here, who cannot pass on disks or set their tunables",
            "run the command as root or by sudo: root's engine is separate, with its own images",
        )
    return None


def limits() -> dict[str, int]:
    return {name: lowered(enough, resource.getrlimit(which)[1]) for name, (which, enough) in LIMITS.items()}


def lowered(enough: int, hard: int) -> int:
    return enough if hard == resource.RLIM_INFINITY else min(enough, hard)


def as_told(engine: Engine) -> list[Engine]:
    runtimes = tuple(name for name in RUNTIMES if shutil.which(name))
    return [replace(engine, way=way) for way in ways(engine.kind, limits(), runtimes)]


def fitted(engine: Engine, image: str, tell: Callable[[str], None]) -> Engine:
    """Return the engine with the first options that work, and remember them."""
    memory = cache_dir() / "containers" / f"{engine.kind}.json"
    known = _remembered(memory)
    heard: list[str] = []
    # Try first what worked the last time.
    for one in sorted(as_told(engine), key=lambda one: str(one.way) != known):
        said = _complaint(one, image)
        if said is None:
            if heard and str(one.way) != known:
                tell(f"{engine.kind} does not work with its defaults ({heard[0]}); it works with {one.way}")
            _remember(memory, one.way)
            return one
        heard.append(said)
    raise HarnessBroken(
        f"{engine.kind} cannot start a container here",
        details="\n".join(dict.fromkeys(heard)),
        resolution=_remedy(heard),
    )


def _remedy(heard: Iterable[str]) -> str:
    if any(BOTH_CGROUPS in said for said in heard) and not shutil.which("runc"):
        return "apt install runc, which works where a host has both kinds of cgroups"
    return f"repair it, or name another engine in {CHOSEN}"


def _complaint(engine: Engine, image: str) -> str | None:
    """Return why an engine cannot start an empty container; None if it can."""
    done = run(tried(engine, image), timeout=PATIENCE)
    if done.returncode == 0:
        return None
    return next(iter(reversed(done.stderr.strip().splitlines())), f"status {done.returncode}")[-EVIDENCE:]


def _remembered(memory: Path) -> str:
    with suppress(OSError, ValueError):
        return str(json.loads(memory.read_text()))
    return ""


def _remember(memory: Path, way: Way) -> None:
    if _remembered(memory) == str(way):
        return
    with suppress(OSError):  # then it is found out again
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(str(way)))


def mapper_major(devices: str) -> int | None:
    """Return the device mapper's number in /proc/devices, which changes with every boot."""
    return next(_mappers(devices), None)


def _mappers(devices: str) -> Iterator[int]:
    _, _, blocks = devices.partition("Block devices:")
    for line in blocks.splitlines():
        number, _, name = line.strip().partition(" ")
        if name == "device-mapper":
            yield int(number)
