"""What a container engine is told: pure.

A container gets as little as the work takes: the nodes of its disks and what sysfs says of them, no network, and of the
rights of root only those that the layout cannot do without. podman and docker take the same words, but for a few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.machines.base import RigSpec

#: Whose it is. The value is the folder of the run.
RUN = "org.matrix.run"
#: The process that holds it: see `leftovers`.
OWNER = "org.matrix.owner"
#: Where scripts have their folder: in memory, so that nothing but the work itself reaches a disk.
FOLDER = "/rig"
#: The knobs and volumes that are remembered across rigs and kills: those are the host's.
MEMORY = "/run/matrix"
#: md's, always; and that of partitions whose disk has no numbers left for them.
MD_MAJOR, PARTITIONS_MAJOR = 9, 259
#: What is turned of the whole machine, beside /proc/sys.
OF_HOST = ("/sys/kernel/mm/transparent_hugepage", "/sys/devices/system/cpu")
#: Where newer kinds of mdadm ask for an array by its name.
OF_MD = ("/sys/module/md_mod",)
MAPPINGS = "/sys/devices/virtual/block"
MAPPER_CONTROL = "/dev/mapper/control"

#: The first process of a container. Each argument is a disk: its node, its numbers, and the name it goes by, which
#: becomes a link where it is another. What is not the very disk that was lent, and above all what is no disk at all,
#: ends it: fio would make a file of that name and measure the memory of the host. It ends with its standard input,
#: which the runner holds, and everything in the container ends with it.
FIRST = """\
for one; do
  IFS=' ' read -r node numbers name <<<"$one"
  if [ ! -b "$node" ]; then echo "$node is no block device in the container"; exit 1; fi
  IFS=' ' read -r major minor <<<"$(stat -c '0x%t 0x%T' -- "$node")"
  found=$((major)):$((minor))
  if [ "$found" != "$numbers" ]; then echo "$node is $found in the container, and $numbers was lent"; exit 1; fi
  if ! : <"$node"; then echo "$node cannot be opened in the container"; exit 1; fi
  if [ "$name" != "$node" ]; then mkdir -p -- "${name%/*}" && ln -s -- "$node" "$name" || exit; fi
done
echo up
while read -r _; do :; done
"""
#: Ends all that a script left running. What is spared is the first process, and whoever says it.
SWEPT = ("bash", "-c", '"$@"; status=$?; kill -KILL -- -1; exit "$status"', "swept")


@dataclass(frozen=True, slots=True)
class Way:
    """How an engine is to be told, where it does not work as it comes."""

    #: Before its command.
    engine: tuple[str, ...] = ()
    #: Of every container.
    container: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([*self.engine, *self.container])


@dataclass(frozen=True, slots=True)
class Engine:
    """A program that runs containers, and how it works here."""

    #: What to start.
    path: str
    #: podman or docker.
    kind: str
    way: Way = field(default_factory=Way)

    def argv(self, *words: str) -> list[str]:
        """A command of it."""
        return [self.path, *self.way.engine, *words]


@dataclass(frozen=True, slots=True)
class Lent:
    """A disk as the host knows it."""

    #: What it goes by, mostly a stable name.
    name: str
    #: The kernel's node, and its numbers.
    node: str
    major: int
    minor: int
    #: Where sysfs has it: all of the drive, where there is one.
    sysfs: str

    @property
    def word(self) -> str:
        """As `FIRST` takes it. No path of a disk has a blank: udev writes them as \\x20."""
        return f"{self.node} {self.major}:{self.minor} {self.name}"


@dataclass(frozen=True, slots=True)
class Box:
    """One container."""

    name: str
    image: str
    disks: tuple[Lent, ...]
    spec: RigSpec
    run: str
    owner: str
    #: Where the host remembers knobs.
    memory: str = MEMORY
    #: The device mapper's number here; None: it has none.
    mapper: int | None = None
    #: Those of `OF_HOST` and `OF_MD` that there are here.
    there: tuple[str, ...] = (*OF_HOST, *OF_MD)


def ways(engine: str, limits: Mapping[str, int], runtimes: tuple[str, ...]) -> list[Way]:
    """All ways in which an engine may work, the plain one first.

    An engine raises limits, for which a host may lack the right: then these have to do. podman's crun refuses hosts
    with both kinds of cgroups, where runc works.
    """
    kept = tuple(f"--ulimit={name}={limit}:{limit}" for name, limit in limits.items())
    others = [("--runtime", runtime) for runtime in runtimes] if engine == "podman" else []
    return [Way(runtime, options) for runtime in [(), *others] for options in [(), kept]]


def tried(engine: Engine, image: str) -> list[str]:
    """Whether it works at all."""
    return engine.argv("run", "--rm", "--pull=never", "--network=none", *engine.way.container, image, "true")


def started(engine: Engine, box: Box) -> list[str]:
    """Bring a container up: it says `up` and waits for the end of its standard input."""
    return engine.argv(
        "run",
        *("--rm", "--interactive", f"--name={box.name}", f"--label={RUN}={box.run}", f"--label={OWNER}={box.owner}"),
        *("--pull=never", "--network=none", "--log-driver=none", "--stop-signal=KILL", f"--tmpfs={FOLDER}"),
        *engine.way.container,
        *_rights(engine, box.spec),
        *_devices(box),
        *_files(box),
        box.image,
        *("bash", "-c", FIRST, "first", *(disk.word for disk in box.disks)),
    )


def entered(engine: Engine, name: str) -> tuple[str, ...]:
    """What leads into a container that is up."""
    return tuple(engine.argv("exec", "--interactive", name))


def removed(engine: Engine, name: str) -> list[str]:
    """Away with it, up or not."""
    return engine.argv("rm", "--force", name)


def is_built(spec: RigSpec) -> bool:
    """Whether anything is built on the disks."""
    return bool(spec.modules or spec.programs)


def is_stacked(spec: RigSpec) -> bool:
    """Whether there will be devices that are nobody's disk."""
    return "mdadm" in spec.programs or is_mapped(spec)


def is_mapped(spec: RigSpec) -> bool:
    """Whether the device mapper has a part in it."""
    return any(name.startswith("dm_") for name in spec.modules)


def _capabilities(spec: RigSpec) -> list[str]:
    """DAC_OVERRIDE: nodes need not be root's."""
    found = ["DAC_OVERRIDE"]
    if is_built(spec) or "caches" in spec.powers:
        found.append("SYS_ADMIN")  # mount, assemble, empty caches
    if is_stacked(spec) or "sfdisk" in spec.programs:
        found.append("MKNOD")  # no udev makes them
    if is_mapped(spec):
        found.append("IPC_LOCK")  # LVM and cryptsetup keep themselves in memory
    return found


def _rights(engine: Engine, spec: RigSpec) -> list[str]:
    """Few capabilities, and no profiles."""
    found = ["--cap-drop=ALL", *(f"--cap-add={name}" for name in _capabilities(spec))]
    # A filter of system calls takes its time of every request, and some know nothing of io_uring or io_pgetevents, of
    # which newer kinds of fio make use.
    found += ["--security-opt=seccomp=unconfined"]
    # Profiles of SELinux and AppArmor forbid what is given here: disks, their knobs, and mounts.
    found += ["--security-opt=label=disable", "--security-opt=apparmor=unconfined"]
    whole = "host" in spec.powers
    if engine.kind == "podman":
        found.append(f"--security-opt=unmask=/sys/dev/block{':/proc/sys' if whole else ''}")
    elif whole:
        found.append("--security-opt=systempaths=unconfined")
    return found


def _devices(box: Box) -> list[str]:
    """Its disks, and numbers that what is built on them will have. No other node is there."""
    found = [f"--device={disk.node}:{disk.node}:rwm" for disk in box.disks]
    if "mdadm" in box.spec.programs:
        found.append(f"--device-cgroup-rule=b {MD_MAJOR}:* rwm")
    if is_mapped(box.spec) and box.mapper is not None:
        found += [f"--device={MAPPER_CONTROL}:{MAPPER_CONTROL}:rwm", f"--device-cgroup-rule=b {box.mapper}:* rwm"]
    if "sfdisk" in box.spec.programs:
        found += [f"--device-cgroup-rule=b {major}:{minors} rwm" for major, minors in _partitions(box.disks)]
    return found


def _partitions(disks: tuple[Lent, ...]) -> list[tuple[int, str]]:
    """Numbers that partitions get: of SCSI disks those behind their own, else whichever is next of a common range."""
    scsi = [(disk.major, str(disk.minor + part)) for disk in disks if disk.major in SCSI for part in range(1, 16)]
    return [*scsi, (PARTITIONS_MAJOR, "*")]


#: Of sd, which has sixteen numbers for each disk.
SCSI = frozenset({8, *range(65, 72), *range(128, 136)})


def _files(box: Box) -> list[str]:
    """The host's sysfs can be read; written only where it is about these disks, or what is built on them."""
    folders = [*dict.fromkeys(disk.sysfs for disk in box.disks)]
    if is_stacked(box.spec):
        folders = [*(one for one in folders if not one.startswith(f"{MAPPINGS}/")), MAPPINGS]
    folders += [one for one in OF_MD if "mdadm" in box.spec.programs and one in box.there]
    folders += [one for one in OF_HOST if "host" in box.spec.powers and one in box.there]
    return [_bound(box.memory, MEMORY), *(_bound(folder, folder) for folder in folders)]


def _bound(source: str, target: str) -> str:
    """Not `--volume`: there are colons in sysfs."""
    return f"--mount=type=bind,source={source},target={target}"
