"""The container engine of this host, and the options with which it works."""

from __future__ import annotations

import json
import os
import resource
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.files import cache_dir
from runner.base.process import run
from runner.machines.base import Refusal
from runner.machines.container.argv import Engine, probe_command, workarounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from runner.machines.container.argv import Workaround

#: podman first: it needs no daemon.
KINDS = ("podman", "docker")
#: Environment variable with the user's engine: its name or path.
ENGINE_VARIABLE = "MATRIX_CONTAINER_ENGINE"
#: Seconds for a short engine command. docker's daemon may be just starting.
PATIENCE = 60.0
#: Formats that print `true` if the engine runs for an ordinary user, who cannot pass disks on.
ROOTLESS = {
    "podman": "{{.Host.Security.Rootless}}",
    "docker": '{{range .SecurityOptions}}{{if eq . "name=rootless"}}true{{end}}{{end}}',
}
#: Limits that engines raise, and sufficient values. podman lowers them before the container starts, so a container
#: cannot always have the limits of this process.
LIMITS = {"nofile": (resource.RLIMIT_NOFILE, 16384), "nproc": (resource.RLIMIT_NPROC, 4096)}
#: OCI runtimes that may work where the default one does not.
RUNTIMES = ("runc", "crun")
#: crun's error on a host with both kinds of cgroups: older systemd, or none.
BOTH_CGROUPS = "hybrid mode not supported"
EVIDENCE = 2000


@dataclass(frozen=True, slots=True)
class EngineSearch:
    engine: Engine | None
    refusals: tuple[Refusal, ...] = ()


def installed_engines(environ: Mapping[str, str] = os.environ) -> tuple[Engine, ...]:
    """Return the engines of this host in order of preference, or only the user's."""
    chosen = environ.get(ENGINE_VARIABLE)
    named = [chosen] if chosen else KINDS
    paths = [(name, shutil.which(name, path=environ.get("PATH"))) for name in named]
    return tuple(Engine(path, kind_of(name)) for name, path in paths if path)


def kind_of(name: str) -> str:
    """Return the kind of options that an engine takes: all except docker take podman's."""
    return "docker" if "docker" in Path(name).name else "podman"


def find_engine(environ: Mapping[str, str] = os.environ) -> EngineSearch:
    engines = installed_engines(environ)
    if not engines:
        chosen = environ.get(ENGINE_VARIABLE)
        brief = (
            f"there is no {chosen}, which {ENGINE_VARIABLE} names"
            if chosen
            else "neither podman nor docker is installed"
        )
        return EngineSearch(
            None, (Refusal(brief, "correct it" if chosen else "apt install podman crun, or docker.io"),)
        )
    refusals = []
    for engine in engines:
        why = _unfit(engine)
        if why is None:
            return EngineSearch(engine)
        refusals.append(why)
    return EngineSearch(None, tuple(refusals))


def _unfit(engine: Engine) -> Refusal | None:
    try:
        answer = run([engine.path, "info", "--format", ROOTLESS[engine.kind]], timeout=PATIENCE)
    except HarnessBroken as broken:
        return Refusal(broken.brief, "start it, or use the other engine")
    # docker's client ends with status 0 although its daemon does not answer.
    error = answer.stderr.strip()
    failed = engine.kind == "docker" and "ERROR:" in answer.stdout + error
    if answer.returncode or "Cannot connect" in error or failed:
        words = error or answer.stdout.strip() or f"status {answer.returncode}"
        return Refusal(f"{engine.kind} does not run: {words[-EVIDENCE:]}", "start its service, or install podman")
    if answer.stdout.strip() == "true":
        return Refusal(
            f"{engine.kind} runs without root here, so it cannot pass on disks or set their tunables",
            "run the command as root or with sudo; root's engine is separate, with its own images",
        )
    return None


def limits() -> dict[str, int]:
    return {name: lower_limit(enough, resource.getrlimit(which)[1]) for name, (which, enough) in LIMITS.items()}


def lower_limit(enough: int, hard: int) -> int:
    return enough if hard == resource.RLIM_INFINITY else min(enough, hard)


def with_workarounds(engine: Engine) -> list[Engine]:
    runtimes = tuple(name for name in RUNTIMES if shutil.which(name))
    return [replace(engine, workaround=way) for way in workarounds(engine.kind, limits(), runtimes)]


def find_working(engine: Engine, image: str, notice: Callable[[str], None]) -> Engine:
    """Return the engine with the first options that work, and remember them."""
    memory = cache_dir() / "containers" / f"{engine.kind}.json"
    known = _read_memory(memory)
    errors: list[str] = []
    # Try first what worked the last time.
    for one in sorted(with_workarounds(engine), key=lambda one: str(one.workaround) != known):
        error = _start_error(one, image)
        if error is None:
            if errors and str(one.workaround) != known:
                notice(f"{engine.kind} does not work with its defaults ({errors[0]}); it works with {one.workaround}")
            _remember(memory, one.workaround)
            return one
        errors.append(error)
    raise HarnessBroken(
        f"{engine.kind} cannot start a container here",
        details="\n".join(dict.fromkeys(errors)),
        resolution=_remedy(errors),
    )


def _remedy(errors: Iterable[str]) -> str:
    if any(BOTH_CGROUPS in error for error in errors) and not shutil.which("runc"):
        return "apt install runc, which works on hosts with both kinds of cgroups"
    return f"repair it, or name another engine in {ENGINE_VARIABLE}"


def _start_error(engine: Engine, image: str) -> str | None:
    """Return why an engine cannot start an empty container; None if it can."""
    done = run(probe_command(engine, image), timeout=PATIENCE)
    if done.returncode == 0:
        return None
    return next(iter(reversed(done.stderr.strip().splitlines())), f"status {done.returncode}")[-EVIDENCE:]


def _read_memory(memory: Path) -> str:
    with suppress(OSError, ValueError):
        return str(json.loads(memory.read_text()))
    return ""


def _remember(memory: Path, workaround: Workaround) -> None:
    if _read_memory(memory) == str(workaround):
        return
    with suppress(OSError):  # the next run searches again
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(str(workaround)))


def mapper_major(devices: str) -> int | None:
    """Return the device mapper's major number from /proc/devices, which changes with every boot."""
    return next(_mappers(devices), None)


def _mappers(devices: str) -> Iterator[int]:
    _, _, blocks = devices.partition("Block devices:")
    for line in blocks.splitlines():
        number, _, name = line.strip().partition(" ")
        if name == "device-mapper":
            yield int(number)
