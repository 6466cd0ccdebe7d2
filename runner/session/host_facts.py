"""Facts of the host that the runner itself is on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cpu import processor_name
from runner.base.errors import HarnessBroken
from runner.base.process import run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.results.environment import Host, Revision

_CPU = Path("/sys/devices/system/cpu")
#: Programs of the host that have a part in what is measured, and how they tell their version.
_PROGRAMS = {
    "qemu": ("qemu-system-x86_64", "--version"),
    "nbdkit": ("nbdkit", "--version"),
    "fio": ("fio", "--version"),
}
#: A git that asks for a password, or a slow network file system, must not hold up a run.
_PATIENCE = 10


#: Asks a host for what it is, a fact a line.
ABOUT = """\
export LC_ALL=C
shopt -s nullglob
cpu=/sys/devices/system/cpu
echo "kernel $(uname -r)"
echo "hostname $(uname -n)"
echo "cores $(nproc)"
read -r _ kib _ </proc/meminfo
echo "memory $((kib * 1024))"
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
echo "cpu ${model:-unknown}"
[ ! -r /etc/os-release ] || echo "system $(. /etc/os-release && echo "$PRETTY_NAME")"
echo "command_line $(cat /proc/cmdline)"
echo "governor $(cat /dev/null $cpu/cpu[0-9]*/cpufreq/scaling_governor | sort -u | paste -s -d ,)"
[ ! -r $cpu/cpufreq/boost ] || echo "turbo $(cat $cpu/cpufreq/boost)"
[ ! -r $cpu/intel_pstate/no_turbo ] || echo "turbo $(tr 01 10 <$cpu/intel_pstate/no_turbo)"
for file in "$cpu"/vulnerabilities/*; do echo "mitigation/${file##*/} $(cat "$file")"; done
echo "fio $(fio --version)"
"""


def boot_id() -> str:
    """Another one after every boot: tells a killed runner from a host that went down."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def release_of(ssh: str) -> str:
    """The kernel that runs on a host, by its name for ssh; on this one if it has none."""
    return _asked(ssh, "uname -r").split()[-1] if ssh else os.uname().release


def facts_of(ssh: str) -> Host:
    """What the manifest says of the host that is measured on."""
    if not ssh:
        return host_facts()
    from runner import __version__
    from runner.results.environment import Host

    told = dict(line.partition(" ")[::2] for line in _asked(ssh, ABOUT).splitlines())
    known = {name: text for name, text in told.items() if name in Host.model_fields}
    mitigations = {name.removeprefix("mitigation/"): told[name] for name in told if name.startswith("mitigation/")}
    versions = {"matrix": __version__, "python": platform.python_version(), "fio": told["fio"]}
    return Host.model_validate({**known, "mitigations": mitigations, "versions": versions})


def _asked(ssh: str, script: str) -> str:
    """What a host behind ssh answers."""
    from runner.hosts.agent.connection import connection_to

    said = connection_to(ssh).run(["bash", "-c", script])
    if said.returncode:
        raise HarnessBroken(f"no shell on {ssh}: status {said.returncode}", details=said.stderr.strip()[-2000:])
    return said.stdout


def program_versions() -> dict[str, str]:
    """Return the kernel and the programs of this host that have a part in what is measured."""
    versions = {name: told for name, argv in _PROGRAMS.items() if (told := _told(*argv))}
    return {"kernel": platform.release(), "python": platform.python_version(), **versions}


def host_facts() -> Host:
    """What the manifest says of the host."""
    from runner import __version__
    from runner.results.environment import Host

    versions = {name: told for name, argv in _PROGRAMS.items() if (told := _told(*argv))}
    return Host(
        kernel=platform.release(),
        cpu=processor_name(),
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        hostname=platform.node(),
        system=_system(),
        command_line=_read(Path("/proc/cmdline")),
        governor=_one_of(_CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")),
        turbo=_read(_CPU / "cpufreq/boost") or _read(_CPU / "intel_pstate/no_turbo").translate({48: "1", 49: "0"}),
        mitigations={file.name: _read(file) for file in sorted(_CPU.glob("vulnerabilities/*"))},
        versions={"matrix": __version__, "python": platform.python_version(), **versions},
    )


def revision(folder: Path) -> Revision | None:
    """Where a folder is in a git repository; None if it is in none, or git is not there to be asked."""
    from runner.results.environment import Revision

    commit = _told("git", "-C", str(folder), "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _told("git", "-C", str(folder), "--no-optional-locks", "status", "--porcelain", "--", ".")
    branch = _told("git", "-C", str(folder), "rev-parse", "--abbrev-ref", "HEAD")
    return Revision(commit=commit, dirty=bool(changed), branch="" if branch == "HEAD" else branch)


def _told(*argv: str) -> str:
    """The first line of what a program says; nothing if it is not there, fails, or takes its time."""
    try:
        said = run(argv, timeout=_PATIENCE)
    except HarnessBroken:
        return ""
    return said.stdout.strip().partition("\n")[0] if said.returncode == 0 else ""


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def _one_of(files: Iterable[Path]) -> str:
    return ", ".join(sorted({text for file in files if (text := _read(file))}))
