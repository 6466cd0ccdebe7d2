"""Podman or Docker, and the image of the machine, built on first use."""

import asyncio
import hashlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from matrix_runner.base.cache import cache_dir, exclusive_lock
from matrix_runner.base.children import kill, send, spawn_with_pipes
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.machines.base import Progress, Refusal, RigSpec
from matrix_runner.machines.qemu import recipe
from matrix_runner.machines.qemu.appliance import BUILD_TOOLS, Shares, make_half

RUN = "org.matrix.run"
#: Label: the process that owns the container; see `leftovers`.
OWNER = "org.matrix.owner"
#: Folder of the scripts: in memory, so that only the workload reaches a disk.
FOLDER = "/rig"
#: The host's memory of tunables and volumes, which outlives rigs and killed runs.
MEMORY = "/run/matrix"
#: Major numbers: of md, and of partitions whose disk has no minor numbers left for them.
MD_MAJOR, PARTITIONS_MAJOR = 9, 259
#: Tunables of the whole host, beside /proc/sys.
HOST_FOLDERS = ("/sys/kernel/mm/transparent_hugepage", "/sys/devices/system/cpu")
#: Newer versions of mdadm look here for an array by its name.
MD_FOLDERS = ("/sys/module/md_mod",)
MAPPINGS = "/sys/devices/virtual/block"
MAPPER_CONTROL = "/dev/mapper/control"

#: The first process of a container. Each argument is a disk: its node, its numbers and its name; the name becomes a
#: link if it differs. It rejects a node that is not the leased disk, or no block device: fio would create a file of
#: that name and measure the memory of the host. It ends with its standard input; then the container ends.
FIRST = Path(__file__).with_name("first.sh").read_text(encoding="utf-8")
#: Kills all that a script left running, except the first process and this one.
SWEEP = ("bash", "-c", '"$@"; status=$?; kill -KILL -- -1; exit "$status"', "swept")


@dataclass(frozen=True, slots=True)
class Workaround:
    engine: tuple[str, ...] = ()
    container: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([*self.engine, *self.container])


@dataclass(frozen=True, slots=True)
class Engine:
    path: str
    kind: str
    workaround: Workaround = field(default_factory=Workaround)

    def argv(self, *words: str) -> list[str]:
        return [self.path, *self.workaround.engine, *words]


@dataclass(frozen=True, slots=True)
class DiskNode:
    name: str  # the name in the matrix or hosts file, mostly a stable one
    node: str
    major: int
    minor: int
    sysfs: str  # its sysfs folder: of the whole drive, where there is one

    @property
    def argument(self) -> str:
        """Return the argument for `FIRST`. No path of a disk has a blank: udev writes it as \\x20."""
        return f"{self.node} {self.major}:{self.minor} {self.name}"


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    image: str
    disks: tuple[DiskNode, ...]
    spec: RigSpec
    run: str
    owner: str
    memory: str = MEMORY
    mapper: int | None = None
    #: Those of `HOST_FOLDERS` and `MD_FOLDERS` that the host has.
    host_paths: tuple[str, ...] = (*HOST_FOLDERS, *MD_FOLDERS)


def workarounds(engine: str, limits: Mapping[str, int], runtimes: tuple[str, ...]) -> list[Workaround]:
    """Return sets of options with which an engine may work: with its defaults, lower limits, or another OCI runtime."""
    lower_limits = tuple(f"--ulimit={name}={limit}:{limit}" for name, limit in limits.items())
    others = [("--runtime", runtime) for runtime in runtimes] if engine == "podman" else []
    return [Workaround(runtime, options) for runtime in [(), *others] for options in [(), lower_limits]]


def probe_command(engine: Engine, image: str) -> list[str]:
    return engine.argv("run", "--rm", "--pull=never", "--network=none", *engine.workaround.container, image, "true")


def start_command(engine: Engine, box: Box) -> list[str]:
    return engine.argv(
        "run",
        *("--rm", "--interactive", f"--name={box.name}", f"--label={RUN}={box.run}", f"--label={OWNER}={box.owner}"),
        *("--pull=never", "--network=none", "--log-driver=none", "--stop-signal=KILL", f"--tmpfs={FOLDER}"),
        *engine.workaround.container,
        *_rights(engine, box.spec),
        *_devices(box),
        *_files(box),
        box.image,
        *("bash", "-c", FIRST, "first", *(disk.argument for disk in box.disks)),
    )


def enter_command(engine: Engine, name: str) -> tuple[str, ...]:
    return tuple(engine.argv("exec", "--interactive", name))


def remove_command(engine: Engine, name: str) -> list[str]:
    return engine.argv("rm", "--force", name)


def is_stacked(spec: RigSpec) -> bool:
    return "mdadm" in spec.programs or is_mapped(spec)


def is_mapped(spec: RigSpec) -> bool:
    return any(name.startswith("dm_") for name in spec.modules)


def _capabilities(spec: RigSpec) -> list[str]:
    found = ["DAC_OVERRIDE"]  # nodes may belong to other users than root
    found += ["SYS_ADMIN", "SYS_CHROOT"]  # confine fio, which else could write below `MEMORY`; mount, drop caches
    if is_stacked(spec) or "sfdisk" in spec.programs:
        found.append("MKNOD")  # no udev makes the nodes
    if is_mapped(spec):
        found.append("IPC_LOCK")  # LVM and cryptsetup lock their memory
    return found


def _rights(engine: Engine, spec: RigSpec) -> list[str]:
    found = ["--cap-drop=ALL", *(f"--cap-add={name}" for name in _capabilities(spec))]
    # A seccomp filter costs time on every request, and some filters block io_uring or io_pgetevents, which newer
    # versions of fio use.
    found += ["--security-opt=seccomp=unconfined"]
    # SELinux and AppArmor profiles forbid what the work needs: disks, their tunables, and mounts.
    found += ["--security-opt=label=disable", "--security-opt=apparmor=unconfined"]
    whole = "host" in spec.powers
    if engine.kind == "podman":
        found.append(f"--security-opt=unmask=/sys/dev/block{':/proc/sys' if whole else ''}")
    elif whole:
        found.append("--security-opt=systempaths=unconfined")
    return found


def _devices(box: Box) -> list[str]:
    """Allow its disks, and the numbers of devices built on them. No other node exists in the container."""
    found = [f"--device={disk.node}:{disk.node}:rwm" for disk in box.disks]
    if "mdadm" in box.spec.programs:
        found.append(f"--device-cgroup-rule=b {MD_MAJOR}:* rwm")
    if is_mapped(box.spec) and box.mapper is not None:
        found += [f"--device={MAPPER_CONTROL}:{MAPPER_CONTROL}:rwm", f"--device-cgroup-rule=b {box.mapper}:* rwm"]
    if "sfdisk" in box.spec.programs:  # partitions have numbers after that of a SCSI disk, or from a common range
        scsi = [
            (disk.major, str(disk.minor + part)) for disk in box.disks if disk.major in SCSI for part in range(1, 16)
        ]
        for major, minors in [*scsi, (PARTITIONS_MAJOR, "*")]:
            found.append(f"--device-cgroup-rule=b {major}:{minors} rwm")
    return found


#: Major numbers of sd, which has 16 minor numbers for each disk.
SCSI = frozenset({8, *range(65, 72), *range(128, 136)})


def _files(box: Box) -> list[str]:
    """Mount sysfs folders writable only for these disks and what is built on them; the rest is read-only."""
    folders = [*dict.fromkeys(disk.sysfs for disk in box.disks)]
    if is_stacked(box.spec):
        folders = [*(one for one in folders if not one.startswith(f"{MAPPINGS}/")), MAPPINGS]
    folders += [one for one in MD_FOLDERS if "mdadm" in box.spec.programs and one in box.host_paths]
    folders += [one for one in HOST_FOLDERS if "host" in box.spec.powers and one in box.host_paths]
    # `--volume` cannot take the colons in paths of sysfs.
    pairs = [(box.memory, MEMORY), *zip(folders, folders, strict=True)]
    return [f"--mount=type=bind,source={source},target={target}" for source, target in pairs]


#: podman first: it needs no daemon.
KINDS = ("podman", "docker")
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
RUNTIMES = ("runc", "crun")
#: crun's error on a host with both kinds of cgroups: older systemd, or none.
BOTH_CGROUPS = "hybrid mode not supported"
EVIDENCE = 2000


@dataclass(frozen=True, slots=True)
class EngineSearch:
    engine: Engine | None
    refusals: tuple[Refusal, ...] = ()


def installed_engines(environ: Mapping[str, str] = os.environ) -> tuple[Engine, ...]:
    chosen = environ.get(ENGINE_VARIABLE)
    named = [chosen] if chosen else KINDS
    paths = [(name, shutil.which(name, path=environ.get("PATH"))) for name in named]
    return tuple(Engine(path, kind_of(name)) for name, path in paths if path)


def kind_of(name: str) -> str:
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
    # Each first call of podman without root starts a process that stays, and keeps the mounts of all disks busy.
    if engine.kind == "podman" and os.geteuid() and "CONTAINER_HOST" not in os.environ:
        return _rootless(engine)
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
    return _rootless(engine) if answer.stdout.strip() == "true" else None


def _rootless(engine: Engine) -> Refusal:
    return Refusal(
        f"{engine.kind} runs without root here, so it cannot pass on disks or set their tunables",
        "run the command as root or with sudo; root's engine is separate, with its own images",
    )


def limits() -> dict[str, int]:
    return {name: lower_limit(enough, resource.getrlimit(which)[1]) for name, (which, enough) in LIMITS.items()}


def lower_limit(enough: int, hard: int) -> int:
    return enough if hard == resource.RLIM_INFINITY else min(enough, hard)


def with_workarounds(engine: Engine) -> list[Engine]:
    runtimes = tuple(name for name in RUNTIMES if shutil.which(name))
    return [replace(engine, workaround=way) for way in workarounds(engine.kind, limits(), runtimes)]


def find_working(engine: Engine, image: str, notice: Callable[[str], None]) -> Engine:
    memory = cache_dir() / "containers" / f"{engine.kind}.json"
    known, errors = "", list[str]()
    with suppress(OSError, ValueError):
        known = str(json.loads(memory.read_text()))
    # Try first what worked the last time.
    for one in sorted(with_workarounds(engine), key=lambda one: str(one.workaround) != known):
        done = run(probe_command(one, image), timeout=PATIENCE)
        if done.returncode:
            last = next(iter(reversed(done.stderr.strip().splitlines())), f"status {done.returncode}")
            errors.append(last[-EVIDENCE:])
            continue
        if str(one.workaround) != known:
            if errors:
                notice(f"{engine.kind} does not work with its defaults ({errors[0]}); it works with {one.workaround}")
            with suppress(OSError):  # the next run searches again
                memory.parent.mkdir(parents=True, exist_ok=True)
                memory.write_text(json.dumps(str(one.workaround)))
        return one
    remedy = f"repair it, or name another engine in {ENGINE_VARIABLE}"
    if any(BOTH_CGROUPS in error for error in errors) and not shutil.which("runc"):
        remedy = "apt install runc, which works on hosts with both kinds of cgroups"
    raise HarnessBroken(
        f"{engine.kind} cannot start a container here", details="\n".join(dict.fromkeys(errors)), resolution=remedy
    )


def mapper_major(devices: str) -> int | None:
    """Return the device mapper's major number from /proc/devices, which changes with every boot."""
    found = re.search(r"^ *(\d+) device-mapper$", devices.partition("Block devices:")[2], re.MULTILINE)
    return int(found[1]) if found else None


#: Environment variable with the user's own image, which is used unchanged.
IMAGE_VARIABLE = "MATRIX_CONTAINER_IMAGE"
NAME = "localhost/matrix"
LABEL = "org.matrix.image"
#: Raise it when the build changes and the recipe does not show it.
VERSION = 1
SUITE = "trixie"
CONTAINERFILE = Path(__file__).with_name("Containerfile")
BASE = "docker.io/library/debian:trixie-slim"
#: Programs that build a root file system, and unpack it again.
TOOLS = (*BUILD_TOOLS, "unsquashfs", "tar")
#: Packages of the appliance that a base image has or a container does not need.
NOT_IN_CONTAINERS = frozenset(
    {"base-files", "bash-static", "busybox-static", "libc-bin", "ncurses-base", "qemu-guest-agent"}
)
#: The file of an appliance that a container can use, and tar's options that make everything root's.
ROOT = "root.squashfs"
ROOTS_OWN = ("--owner=0", "--group=0", "--numeric-owner")


def tag_of_packages(suite: str = SUITE) -> str:
    return f"{NAME}:{recipe.userland_key(suite)}-{VERSION}"


def tag_of_containerfile(text: str) -> str:
    content = "\0".join([text, SUITE, *packages()])
    return f"{NAME}:built-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def packages() -> tuple[str, ...]:
    return tuple(name for name in recipe.PACKAGES if name not in NOT_IN_CONTAINERS)


async def provide(engine: Engine, progress: Progress, notice: Callable[[str], None]) -> str:
    if own := os.environ.get(IMAGE_VARIABLE):
        if not await has_image(engine, own):
            progress(f"fetching {own}")
            await _run_checked(
                engine.argv("pull", own), f"{engine.kind} cannot fetch {own}, which {IMAGE_VARIABLE} names"
            )
            progress("done", 1.0)
        return own
    by_packages = all(map(shutil.which, TOOLS))
    tag = tag_of_packages() if by_packages else tag_of_containerfile(CONTAINERFILE.read_text())
    # Parallel runs build it once.
    async with exclusive_lock(cache_dir() / "containers" / f".{_key(engine, tag)}.lock"):
        if not await has_image(engine, tag):
            await (_import(engine, tag, progress, notice) if by_packages else _build(engine, tag, progress))
    return tag


async def has_image(engine: Engine, image: str) -> bool:
    return (await asyncio.to_thread(run, engine.argv("image", "inspect", image))).returncode == 0


def _key(engine: Engine, tag: str) -> str:
    return f"{engine.kind}-{tag.rpartition(':')[2]}"


async def _import(engine: Engine, tag: str, progress: Progress, notice: Callable[[str], None]) -> None:
    """Import the root file system: an engine names an import only when it is complete."""
    home = cache_dir() / "appliances" / recipe.userland_key(SUITE)
    userland = await make_half(home, ["userland", SUITE, ""], Shares(progress).of(0, 0.9), notice)
    progress(f"importing the root file system into {engine.kind}", 0.9)
    work = cache_dir() / "containers" / f".{_key(engine, tag)}"
    # This process has the lock, so an existing folder is from a killed one.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tree, tar = str(work / "tree"), str(work / "root.tar")
    try:
        squashfs = str(userland.joinpath(ROOT))
        await _run_checked(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", tree, squashfs])
        await _run_checked(["tar", *ROOTS_OWN, f"--directory={tree}", "--create", f"--file={tar}", "."])
        await _run_checked(engine.argv("import", f"--change=LABEL {LABEL}={tag}", tar, tag))
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    progress("done", 1.0)


async def _build(engine: Engine, tag: str, progress: Progress) -> None:
    """Build with the first options that work: builds need the same workarounds as containers."""
    progress(f"{engine.kind} builds the image from its Containerfile")
    lacking = ", ".join(name for name in TOOLS if not shutil.which(name))
    help_ = f"give it access to a registry, or name an image in {IMAGE_VARIABLE}; or install {lacking} to build without"
    failed: HarnessBroken | None = None
    for one in with_workarounds(engine):
        try:
            await _run_checked(build_command(one, tag), f"{engine.kind} cannot build the image", help_)
        except HarnessBroken as broken:
            failed = failed or broken
            if not await has_image(engine, BASE):
                break  # the base image cannot be fetched, so other options do not help
        else:
            progress("done", 1.0)
            return
    raise failed or HarnessBroken(f"{engine.kind} cannot build the image")


def build_command(engine: Engine, tag: str, *more: str) -> list[str]:
    names = (f"--file={CONTAINERFILE}", f"--tag={tag}", f"--label={LABEL}={tag}")
    arguments = f"--build-arg=PACKAGES={' '.join(packages())}"
    return engine.argv("build", *names, arguments, *engine.workaround.container, *more, str(CONTAINERFILE.parent))


async def _run_checked(argv: list[str], brief: str = "cannot build the container image", resolution: str = "") -> None:
    child = await spawn_with_pipes(argv)
    try:
        output, complaint = await send(child, b"")
    finally:
        await kill(child)
    if child.returncode:
        text = (output + complaint).decode(errors="replace").strip()
        if "No space left" in text and not resolution:
            resolution = "free some disk space, or move MATRIX_CACHE or the engine's storage to another disk"
        raise HarnessBroken(brief, details=text[-4000:], resolution=resolution)
