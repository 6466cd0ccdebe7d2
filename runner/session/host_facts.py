"""Facts of the measured host: kernel, processor, memory, versions of programs."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner import __version__
from runner.base.errors import HarnessBroken
from runner.base.process import run
from runner.machines.requirements import processor_name

if TYPE_CHECKING:
    from runner.results.environment import Host, Revision

_CPU = Path("/sys/devices/system/cpu")
#: Programs that affect results.
_PROGRAMS = {"qemu": "qemu-system-x86_64", "nbdkit": "nbdkit", "fio": "fio"}
#: Seconds. A git that asks for a password, or a slow network file system, must not delay a run.
_TIMEOUT = 10


FACTS_SCRIPT = """\
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
    """Return an id that changes with every boot: it separates a killed runner from a host crash."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def kernel_release(ssh: str) -> str:
    return _query(ssh, "uname -r").split()[-1] if ssh else os.uname().release


def query_facts(ssh: str) -> Host:
    if not ssh:
        return host_facts()
    from runner.results.environment import Host

    facts = dict(line.partition(" ")[::2] for line in _query(ssh, FACTS_SCRIPT).splitlines())
    known = {name: text for name, text in facts.items() if name in Host.model_fields}
    mitigations = {name.removeprefix("mitigation/"): facts[name] for name in facts if name.startswith("mitigation/")}
    versions = {"matrix": __version__, "python": platform.python_version(), "fio": facts["fio"]}
    return Host.model_validate({**known, "mitigations": mitigations, "versions": versions})


def _query(ssh: str, script: str) -> str:
    from runner.hosts.agent.connection import connection_to

    result = connection_to(ssh).run(["bash", "-c", script])
    if result.returncode:
        raise HarnessBroken(f"no shell on {ssh}: status {result.returncode}", details=result.stderr.strip()[-2000:])
    return result.stdout


def program_versions() -> dict[str, str]:
    programs = {name: text for name, program in _PROGRAMS.items() if (text := _first_line(program, "--version"))}
    return {"python": platform.python_version(), **programs}


def host_facts() -> Host:
    from runner.results.environment import Host

    system = ""
    with suppress(OSError):
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    governors = {_read(file) for file in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return Host(
        kernel=platform.release(),
        cpu=processor_name(),
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        hostname=platform.node(),
        system=system,
        command_line=_read(Path("/proc/cmdline")),
        governor=", ".join(sorted(filter(None, governors))),
        turbo=_read(_CPU / "cpufreq/boost") or _read(_CPU / "intel_pstate/no_turbo").translate({48: "1", 49: "0"}),
        mitigations={file.name: _read(file) for file in sorted(_CPU.glob("vulnerabilities/*"))},
        versions={"matrix": __version__, **program_versions()},
    )


def revision(folder: Path) -> Revision | None:
    from runner.results.environment import Revision

    commit = _first_line("git", "-C", str(folder), "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _first_line("git", "-C", str(folder), "--no-optional-locks", "status", "--porcelain", "--", ".")
    branch = _first_line("git", "-C", str(folder), "rev-parse", "--abbrev-ref", "HEAD")
    return Revision(commit=commit, dirty=bool(changed), branch="" if branch == "HEAD" else branch)


def _first_line(*argv: str) -> str:
    try:
        result = run(argv, timeout=_TIMEOUT)
    except HarnessBroken:
        return ""
    return result.stdout.strip().partition("\n")[0] if result.returncode == 0 else ""


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""
