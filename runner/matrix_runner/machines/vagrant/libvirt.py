"""Calls of libvirt beside Vagrant, and the removal of machines whose process is gone."""

import fcntl
import ipaddress
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from struct import pack
from subprocess import CompletedProcess
from xml.sax.saxutils import escape

from matrix_runner.base import process
from matrix_runner.base.cache import cache_dir
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import open_lock_file, try_lock, write_whole
from matrix_runner.machines.base import Leftover, Refusal
from matrix_runner.machines.vagrant.box import NODE

USUAL = "qemu:///system"
VIRSH = "virsh"
POOL = "matrix"
NETWORK = "matrix"
POOL_FOLDER = "/var/lib/libvirt/images/matrix"
TUN = Path("/dev/net/tun")
#: Candidates for the network: the first one without a route on the host is used.
SUBNETS = tuple(ipaddress.IPv4Network(f"192.168.{third}.0/24") for third in range(131, 140))
PATIENCE = 60.0
BUSY = "asynchronous jobs running"
PAUSE, PAUSES = 0.2, 300


def uri() -> str:
    return os.environ.get("LIBVIRT_DEFAULT_URI", USUAL)


def virsh(*words: str, stdin: str = "") -> CompletedProcess[str]:
    plain = {**os.environ, "LC_ALL": "C"}
    return process.run([VIRSH, "--quiet", "--connect", uri(), *words], stdin=stdin, timeout=PATIENCE, env=plain)


def run_virsh(*words: str, stdin: str = "") -> str:
    """Run virsh and return its output. Retry while the start of another machine keeps the pool busy."""
    done = virsh(*words, stdin=stdin)
    for _ in range(PAUSES):
        if not done.returncode or BUSY not in done.stderr:
            break
        time.sleep(PAUSE)
        done = virsh(*words, stdin=stdin)
    if done.returncode:
        raise HarnessBroken(f"libvirt: virsh {' '.join(words)} failed", details=done.stderr.strip()[-2000:])
    return done.stdout


def refusals() -> Iterator[Refusal]:
    if not uri().endswith("/system"):
        yield Refusal(
            f"virtual machines of {uri()} have no network through which the host can reach them", f"use {USUAL}"
        )
        return
    done = virsh("version")
    if done.returncode:
        systemd = Path("/run/systemd/system").exists()
        yield Refusal(*explain_unreachable(done.stderr, systemd=systemd))
    if not TUN.exists():
        yield Refusal(f"there is no {TUN}, so virtual machines cannot have a network", "modprobe tun")


def explain_unreachable(complaint: str, *, systemd: bool) -> tuple[str, str]:
    why = complaint.strip().splitlines()[-1].removeprefix("error: ") if complaint.strip() else "no reason was given"
    if re.search("authenti|permission denied|polkit", complaint, re.IGNORECASE):
        return f"this user may not use libvirt: {why}", "sudo adduser $USER libvirt, then log in again"
    start = "sudo systemctl start libvirtd" if systemd else "virtlogd --daemon && libvirtd --daemon, as root"
    return f"libvirt does not answer at {uri()}: {why}", f"apt install libvirt-daemon-system, or start it: {start}"


def prepare() -> str:
    """Ensure that the pool and the network are active; return its address. Only one process may call it at a time."""
    if POOL not in _names(run_virsh("pool-list", "--all", "--name")):
        run_virsh("pool-define-as", POOL, "dir", "--target", POOL_FOLDER)
    if POOL not in _names(run_virsh("pool-list", "--name")):
        run_virsh("pool-build", POOL)
        run_virsh("pool-start", POOL)
    if NETWORK not in _names(run_virsh("net-list", "--all", "--name")):
        routes = process.run(["ip", "-4", "-o", "route", "show", "table", "all"]).stdout
        run_virsh("net-define", "/dev/stdin", stdin=network_xml(free_subnet(routes)))
    if NETWORK not in _names(run_virsh("net-list", "--name")):
        run_virsh("net-start", NETWORK)
    return parse_address(run_virsh("net-dumpxml", NETWORK))


def _names(listing: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, listing.splitlines())))


def free_subnet(routes: str) -> ipaddress.IPv4Network:
    taken = [
        ipaddress.IPv4Network(word, strict=False)
        for line in routes.splitlines()
        for word in line.split()[:2]
        if re.fullmatch(r"\d+(\.\d+){3}(/\d+)?", word)
    ]
    free = (subnet for subnet in SUBNETS if not any(map(subnet.overlaps, taken)))
    if subnet := next(free, None):
        return subnet
    raise HarnessBroken(
        "no subnet is free for the libvirt network of this program",
        details=f"{SUBNETS[0]} to {SUBNETS[-1]} all have routes",
        resolution=f"define a libvirt network called {NETWORK} yourself, with DHCP",
    )


def network_xml(subnet: ipaddress.IPv4Network) -> str:
    """Return a network like that of vagrant-libvirt, which vagrant-libvirt removes with its last machine."""
    first, *_, last = subnet.hosts()
    return (
        f"<network><name>{NETWORK}</name><forward mode='nat'/><bridge stp='on' delay='0'/>"
        f"<ip address='{first}' netmask='{subnet.netmask}'><dhcp><range start='{first + 1}' end='{last}'/></dhcp></ip>"
        "</network>"
    )


def parse_address(xml: str) -> str:
    found = re.search(r"<ip [^>]*address='([\d.]+)'[^>]*(?:netmask='([\d.]+)'|prefix='(\d+)')", xml)
    if not found:
        raise HarnessBroken(f"the libvirt network {NETWORK} has no IPv4 address", details=xml)
    return str(ipaddress.ip_network(f"{found[1]}/{found[2] or found[3]}", strict=False))


def security_models() -> tuple[str, ...]:
    """Return the active security models, whose rules would block the sockets of disks."""
    return tuple(model for model in ("apparmor", "selinux") if f"<model>{model}</model>" in run_virsh("capabilities"))


def parse_qemu_user(capabilities: str) -> int:
    models = (secmodel.split("</secmodel>")[0] for secmodel in capabilities.split("<secmodel>")[1:])
    for model in models:
        found = re.search(r"<baselabel type='qemu'>\+(\d+):\+\d+</baselabel>", model)
        if "<model>dac</model>" in model and found:
            return int(found[1])
    raise HarnessBroken(
        "libvirt does not report the user of its virtual machines, who must get access to the disks",
        resolution="turn the security driver `dac` on; then `virsh capabilities` shows the user",
    )


#: An access list of POSIX in the kernel's form: all rights for the owner, and entry for one other user.
_ENTRIES = ((0x01, 7, -1), (0x02, 1, 0), (0x04, 0, -1), (0x10, 1, -1), (0x20, 0, -1))


def admit_qemu(folder: Path) -> None:
    """Let QEMU's user enter our private folder of sockets. /proc/net/unix shows their names to all users."""
    user = parse_qemu_user(run_virsh("capabilities"))
    entries = (pack("<HHi", tag, rights, user if tag == 0x02 else who) for tag, rights, who in _ENTRIES)
    try:
        os.setxattr(folder, "system.posix_acl_access", pack("<I", 2) + b"".join(entries))
    except OSError as error:
        raise HarnessBroken(
            f"{folder} cannot be opened to the user of libvirt's machines alone: {error.strerror}",
            resolution="set $TMPDIR to a folder of a file system with access lists, such as ext4, XFS or tmpfs",
        ) from None


@cache
def versions() -> dict[str, str]:
    found = dict(re.findall(r"^(Using library|Running hypervisor): \w+ (\S+)", run_virsh("version"), re.MULTILINE))
    vagrant = process.run(["vagrant", "--version"], timeout=PATIENCE).stdout.strip().removeprefix("Vagrant ")
    return {
        "libvirt": found.get("Using library", "?"),
        "qemu": found.get("Running hypervisor", "?"),
        "vagrant": vagrant,
    }


def describe_state(domain: str) -> str:
    return f"{domain}: {virsh('domstate', '--reason', domain).stdout.strip() or 'libvirt does not know it'}"


def carries_mark(domain: str, mark: str) -> bool | None:
    if domain not in _names(run_virsh("list", "--all", "--name")):
        return None
    return f"<description>{escape(mark)}</description>" in virsh("dumpxml", domain).stdout


def remove_domain(domain: str) -> None:
    """Remove a domain in any state. Its volumes go first: a later clean-up finds them only by the domain."""
    virsh("destroy", domain)
    for volume in volumes_of(domain, _list_volumes()):
        run_virsh("vol-delete", "--pool", POOL, volume)
    gone = virsh("undefine", "--managed-save", "--snapshots-metadata", "--nvram", domain)
    if domain in _names(run_virsh("list", "--all", "--name")):
        raise HarnessBroken(f"libvirt cannot remove {domain}", details=gone.stderr.strip())


def _list_volumes() -> list[str]:
    if POOL not in _names(run_virsh("pool-list", "--name")):
        return []
    run_virsh("pool-refresh", POOL)  # the list may contain a volume whose creation was interrupted
    return [line.split()[0] for line in run_virsh("vol-list", POOL).splitlines() if line.strip()]


def volumes_of(domain: str, volumes: Iterable[str]) -> list[str]:
    return [name for name in volumes if name.startswith((f"{domain}.", f"{domain}-", f"{domain}_"))]


def box_volumes(name: str) -> list[str]:
    prefix = f"{name.replace('/', '-VAGRANTSLASH-')}_vagrant_box_image_"
    return [volume for volume in _list_volumes() if volume.startswith(prefix)]


def forget_box(name: str, keep: Collection[str]) -> None:
    for volume in box_volumes(name):
        if volume not in keep:
            run_virsh("vol-delete", "--pool", POOL, volume)


RECORD, LOCK = "record.json", "lock"
#: The file with the name of the box whose upload to the pool has begun.
NOTE = "uploading"
PREFIX = "matrix-"


@dataclass(frozen=True, slots=True)
class Record:
    prefix: str
    mark: str
    run: str
    sockets: str  # the folder with the sockets of its disks

    @property
    def domain(self) -> str:
        return f"{self.prefix}{NODE}"


def home() -> Path:
    return cache_dir() / "vagrant" / "machines"


@contextmanager
def record_machine(run: Path) -> Iterator[tuple[Record, Path]]:
    """Write and lock the record of a new machine. It is removed at the end unless the machine still exists."""
    token = secrets.token_hex(4)
    folder = home() / token
    with ExitStack() as stack:
        with _exclude_others():
            folder.mkdir(mode=0o700)
            try_lock(stack.enter_context(open_lock_file(folder / LOCK)), fcntl.LOCK_EX)
            sockets = tempfile.mkdtemp(prefix=f"{PREFIX}{token}-")  # paths of sockets must be short
            record = Record(f"{PREFIX}{token}-", f"matrix {secrets.token_hex(16)}", str(run.absolute()), sockets)
            # No fsync: the machines end with the host.
            write_whole(folder / RECORD, json.dumps(asdict(record)).encode())
        try:
            yield record, folder
        finally:
            with suppress(HarnessBroken):  # a later clean-up tries again
                if carries_mark(record.domain, record.mark) is None:
                    remove_record(record, folder)


@contextmanager
def _exclude_others() -> Iterator[None]:
    """Exclude other processes that make a record or check its lock."""
    home().mkdir(parents=True, exist_ok=True)
    with open_lock_file(home().with_name("records.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_record(record: Record, folder: Path) -> None:
    for path in (record.sockets, folder):
        shutil.rmtree(path, ignore_errors=True)


def sweep(*, dry: bool = False, everything: bool = False) -> Iterator[Leftover]:
    for folder in sorted(home().glob("*/")):
        with ExitStack() as stack:
            if record := _take_record(folder, stack):
                title = f"machine {record.domain} of {record.run}"
                yield Leftover(f"{title}: its process is gone") if dry else _remove(record, folder, title)
    if everything and shutil.which(VIRSH) and POOL in _names(virsh("pool-list", "--all", "--name").stdout):
        yield _remove_pool(dry=dry)


def _remove_pool(*, dry: bool) -> Leftover:
    """Remove the pool with its volumes, and the network, unless a machine has volumes in it."""
    title = f"libvirt's pool and network {POOL}"
    users = [name for name in sorted(_names(run_virsh("list", "--all", "--name"))) if name.startswith(PREFIX)]
    if users or dry:
        return Leftover(f"{title}{f' stay: {users[0]} uses them' if users else ''}", remains=bool(users) and not dry)
    try:
        for volume in _list_volumes():
            run_virsh("vol-delete", "--pool", POOL, volume)
        for command in ("pool-destroy", "net-destroy"):
            virsh(command, POOL)  # fails for one that is not active
        run_virsh("pool-undefine", POOL)
        if NETWORK in _names(run_virsh("net-list", "--all", "--name")):
            run_virsh("net-undefine", NETWORK)
    except HarnessBroken as error:
        return Leftover(f"{title} could not be removed: {error.brief}: {error.details}", remains=True)
    return Leftover(f"{title}: removed")


def _take_record(folder: Path, stack: ExitStack) -> Record | None:
    with _exclude_others():
        try:
            lock = stack.enter_context(open_lock_file(folder / LOCK))
        except FileNotFoundError:  # its owner has just removed it
            return None
        record = read_record(folder) if try_lock(lock, fcntl.LOCK_EX) else None
        if record is None and try_lock(lock, fcntl.LOCK_EX):  # its process was killed before it created the machine
            shutil.rmtree(folder, ignore_errors=True)
        return record


def _remove(record: Record, folder: Path, title: str) -> Leftover:
    try:
        if carries_mark(record.domain, record.mark) is False:
            return Leftover(f"{title} stays: the machine of this name does not have the recorded mark", remains=True)
        remove_domain(record.domain)
    except HarnessBroken as error:
        return Leftover(f"{title} could not be removed: {error.brief}: {error.details}", remains=True)
    remove_record(record, folder)
    return Leftover(f"{title}: removed")


def read_record(folder: Path) -> Record | None:
    with suppress(OSError, ValueError, TypeError):
        return Record(**json.loads((folder / RECORD).read_text()))
    return None


@contextmanager
def note_upload(box: str, folder: Path) -> Iterator[None]:
    """Note that the first machine of a box uploads it, beside other versions; remove what a killed one has uploaded."""
    note = folder / NOTE
    if note.exists():
        interrupted, *whole = note.read_text().splitlines()
        forget_box(interrupted, whole)
        note.unlink()
    whole = box_volumes(box)
    write_whole(note, "\n".join((box, *whole)).encode())
    try:
        yield
    except BaseException:
        forget_box(box, whole)
        raise
    finally:
        note.unlink()
