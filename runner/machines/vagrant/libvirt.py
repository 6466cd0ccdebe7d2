"""What is asked of libvirt beside Vagrant: a pool and a network of our own, and what of ours is left.

In our pool there is nothing but what `--on vagrant` puts there, so no volume of anybody else's can be deleted with it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.machines.base import Refusal
from runner.machines.vagrant.vagrantfile_settings import Network

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from subprocess import CompletedProcess

USUAL = "qemu:///system"
VIRSH = "virsh"
POOL = "matrix"
NETWORK = "matrix"
#: The folder of the pool, which QEMU's own user can enter.
POOL_FOLDER = "/var/lib/libvirt/images/matrix"
TUN = Path("/dev/net/tun")
#: The network's candidates: the first one to which the host has no route is used.
SUBNETS = tuple(ipaddress.IPv4Network(f"192.168.{third}.0/24") for third in range(131, 140))
PATIENCE = 60.0
#: libvirt's error while a volume is being made in the pool; it is over in a moment.
BUSY = "asynchronous jobs running"
PAUSE, PAUSES = 0.2, 300


def uri() -> str:
    return os.environ.get("LIBVIRT_DEFAULT_URI", USUAL)


def virsh(*words: str, stdin: str = "") -> CompletedProcess[str]:
    plain = {**os.environ, "LC_ALL": "C"}
    return process.run([VIRSH, "--quiet", "--connect", uri(), *words], stdin=stdin, timeout=PATIENCE, env=plain)


def told(*words: str, stdin: str = "") -> str:
    """Run virsh and raise an error if it fails; retry while another machine is coming up."""
    done = virsh(*words, stdin=stdin)
    for _ in range(PAUSES):
        if not done.returncode or BUSY not in done.stderr:
            break
        time.sleep(PAUSE)
        done = virsh(*words, stdin=stdin)
    if done.returncode:
        raise HarnessBroken(f"libvirt: virsh {' '.join(words)} failed", details=done.stderr.strip()[-2000:])
    return done.stdout


def refusals() -> list[Refusal]:
    if not uri().endswith("/system"):
        return [Refusal(f"{uri()} gives its machines no network that they could be reached by", f"use {USUAL}")]
    done = virsh("version")
    refused = (
        [Refusal(*unreachable(done.stderr, systemd=Path("/run/systemd/system").exists()))] if done.returncode else []
    )
    if not TUN.exists():
        refused.append(Refusal(f"there is no {TUN}, so machines can have no network", "modprobe tun"))
    return refused


def unreachable(complaint: str, *, systemd: bool) -> tuple[str, str]:
    """Return why libvirt does not answer, and what to do."""
    why = complaint.strip().splitlines()[-1].removeprefix("error: ") if complaint.strip() else "no reason was given"
    if re.search("authenti|permission denied|polkit", complaint, re.IGNORECASE):
        return f"libvirt may not be used by this user: {why}", "sudo adduser $USER libvirt, and log in anew"
    start = "sudo systemctl start libvirtd" if systemd else "virtlogd --daemon && libvirtd --daemon, as root"
    return f"libvirt does not answer at {uri()}: {why}", f"apt install libvirt-daemon-system, or start it: {start}"


def prepared() -> Network:
    """Make sure that the pool and the network are active. Only one process may call it at a time."""
    if POOL not in _names(told("pool-list", "--all", "--name")):
        told("pool-define-as", POOL, "dir", "--target", POOL_FOLDER)
    if POOL not in _names(told("pool-list", "--name")):
        told("pool-build", POOL)
        told("pool-start", POOL)
    if NETWORK not in _names(told("net-list", "--all", "--name")):
        told("net-define", "/dev/stdin", stdin=network_xml(free(_routes())))
    if NETWORK not in _names(told("net-list", "--name")):
        told("net-start", NETWORK)
    return Network(name=NETWORK, address=address_in(told("net-dumpxml", NETWORK)))


def _names(listing: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, listing.splitlines())))


def _routes() -> str:
    return process.run(["ip", "-4", "-o", "route", "show", "table", "all"]).stdout


def free(routes: str) -> ipaddress.IPv4Network:
    """Return the first subnet that is not in use on the host."""
    taken = [
        ipaddress.IPv4Network(word, strict=False)
        for line in routes.splitlines()
        for word in line.split()[:2]
        if re.fullmatch(r"\d+(\.\d+){3}(/\d+)?", word)
    ]
    for subnet in SUBNETS:
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise HarnessBroken(
        "no subnet is free for a network of our own",
        details=f"{SUBNETS[0]} to {SUBNETS[-1]} all have routes",
        resolution=f"define a libvirt network called {NETWORK} yourself, with DHCP",
    )


def network_xml(subnet: ipaddress.IPv4Network) -> str:
    """Return a network like that of vagrant-libvirt under another name: theirs is removed with its last machine."""
    first, *_, last = subnet.hosts()
    return (
        f"<network><name>{NETWORK}</name><forward mode='nat'/><bridge stp='on' delay='0'/>"
        f"<ip address='{first}' netmask='{subnet.netmask}'><dhcp><range start='{first + 1}' end='{last}'/></dhcp></ip>"
        "</network>"
    )


def address_in(xml: str) -> str:
    found = re.search(r"<ip [^>]*address='([\d.]+)'[^>]*(?:netmask='([\d.]+)'|prefix='(\d+)')", xml)
    if not found:
        raise HarnessBroken(f"the libvirt network {NETWORK} has no IPv4 address", details=xml)
    return str(ipaddress.ip_network(f"{found[1]}/{found[2] or found[3]}", strict=False))


def security_models() -> tuple[str, ...]:
    """Return the security models whose rules would block the sockets of disks."""
    return tuple(model for model in ("apparmor", "selinux") if f"<model>{model}</model>" in told("capabilities"))


def qemu_user() -> int:
    return user_in(told("capabilities"))


def user_in(capabilities: str) -> int:
    models = (secmodel.split("</secmodel>")[0] for secmodel in capabilities.split("<secmodel>")[1:])
    for model in models:
        found = re.search(r"<baselabel type='qemu'>\+(\d+):\+\d+</baselabel>", model)
        if "<model>dac</model>" in model and found:
            return int(found[1])
    raise HarnessBroken(
        "libvirt does not say whom its machines run as, so nobody knows who may have the disks",
        resolution="`virsh capabilities` shows it where the security driver `dac` is on",
    )


@cache
def versions() -> dict[str, str]:
    said = dict(re.findall(r"^(Using library|Running hypervisor): \w+ (\S+)", told("version"), re.MULTILINE))
    vagrant = process.run(["vagrant", "--version"], timeout=PATIENCE).stdout.strip().removeprefix("Vagrant ")
    return {"libvirt": said.get("Using library", "?"), "qemu": said.get("Running hypervisor", "?"), "vagrant": vagrant}


def state_of(domain: str) -> str:
    return f"{domain}: {virsh('domstate', '--reason', domain).stdout.strip() or 'libvirt does not know it'}"


def ours(domain: str, mark: str) -> bool | None:
    """Return whether a domain has the mark of a machine made here; None: there is no such domain."""
    if domain not in _names(told("list", "--all", "--name")):
        return None
    return f"<description>{escape(mark)}</description>" in virsh("dumpxml", domain).stdout


def removed(domain: str) -> None:
    """Take a domain away, in whatever state it is, and its volumes in our pool.

    The volumes go first: as long as the domain is known, somebody will look for what is left of it.
    """
    virsh("destroy", domain)
    for volume in volumes_of(domain, _listed()):
        told("vol-delete", "--pool", POOL, volume)
    gone = virsh("undefine", "--managed-save", "--snapshots-metadata", "--nvram", domain)
    if domain in _names(told("list", "--all", "--name")):
        raise HarnessBroken(f"libvirt does not let go of {domain}", details=gone.stderr.strip())


def _listed() -> list[str]:
    if POOL not in _names(told("pool-list", "--name")):
        return []
    told("pool-refresh", POOL)  # it may list one whose maker was killed
    return [line.split()[0] for line in told("vol-list", POOL).splitlines() if line.strip()]


def volumes_of(domain: str, volumes: Iterable[str]) -> list[str]:
    return [name for name in volumes if name.startswith((f"{domain}.", f"{domain}-", f"{domain}_"))]


def box_volumes(name: str) -> list[str]:
    return [
        volume for volume in _listed() if volume.startswith(f"{name.replace('/', '-VAGRANTSLASH-')}_vagrant_box_image_")
    ]


def forget_box(name: str, but: Collection[str]) -> None:
    for volume in box_volumes(name):
        if volume not in but:
            told("vol-delete", "--pool", POOL, volume)
