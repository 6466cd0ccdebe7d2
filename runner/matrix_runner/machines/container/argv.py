"""Command lines of container engines, as pure functions. A container gets as little as the work takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matrix_runner.machines.base import RigSpec

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
FIRST = """\
for one; do
  IFS=' ' read -r node numbers name <<<"$one"
  if [ ! -b "$node" ]; then echo "$node is no block device in the container"; exit 1; fi
  IFS=' ' read -r major minor <<<"$(stat -c '0x%t 0x%T' -- "$node")"
  found=$((major)):$((minor))
  if [ "$found" != "$numbers" ]; then echo "$node is $found in the container, and $numbers was leased"; exit 1; fi
  if ! : <"$node"; then echo "$node cannot be opened in the container"; exit 1; fi
  if [ "$name" != "$node" ]; then mkdir -p -- "${name%/*}" && ln -s -- "$node" "$name" || exit; fi
done
echo up
while read -r _; do :; done
"""
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
    #: The name in the matrix or hosts file, mostly a stable one.
    name: str
    node: str
    major: int
    minor: int
    #: Its sysfs folder: of the whole drive, where there is one.
    sysfs: str

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
