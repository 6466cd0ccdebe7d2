"""Facts of the measured host: kernel, processor, memory, versions of programs."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.base.version import git, matrix_version
from matrix_runner.records.environment import Host, Revision

#: Programs that affect results.
_PROGRAMS = {"qemu": "qemu-system-x86_64", "nbdkit": "nbdkit", "fio": "fio"}


#: Each run waits for it, so it starts few programs.
FACTS_SCRIPT = """\
export LC_ALL=C
shopt -s nullglob
cpu=/sys/devices/system/cpu
echo "kernel $(</proc/sys/kernel/osrelease)"
echo "hostname $(</proc/sys/kernel/hostname)"
echo "cores $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)"
read -r _ kib _ </proc/meminfo
echo "memory $((kib * 1024))"
model=unknown
while IFS=: read -r name text; do
  case $name in "model name"*) model=${text# } && break ;; esac
done </proc/cpuinfo
echo "cpu $model"
for file in /etc/os-release /usr/lib/os-release; do
  [ ! -r $file ] || { echo "system $(PRETTY_NAME=; . $file; echo "$PRETTY_NAME")"; break; }
done
echo "command_line $(</proc/cmdline)"
echo "governor $(cat /dev/null $cpu/cpu[0-9]*/cpufreq/scaling_governor | sort -u | paste -s -d , | sed 's/,/, /g')"
[ ! -r $cpu/cpufreq/boost ] || echo "turbo $(cat $cpu/cpufreq/boost)"
[ ! -r $cpu/intel_pstate/no_turbo ] || echo "turbo $(tr 01 10 <$cpu/intel_pstate/no_turbo)"
for file in "$cpu"/vulnerabilities/*; do
  if read -r text <"$file"; then echo "mitigation/${file##*/} $text"; fi
done
echo "fio $(fio --version)"
"""


def boot_id() -> str:
    """Return an id that changes with every boot: it separates a killed runner from a host crash."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


#: Only those with an image, as removed kernels may leave modules. The running one is last: a shell may write something
#: before.
_KERNELS_SCRIPT = """\
shopt -s nullglob
for file in /boot/vmlinuz-* /lib/modules/*/vmlinuz; do
  file=${file%/vmlinuz}
  file=${file##*/}
  echo "${file#vmlinuz-}"
done
uname -r
"""


def query_kernels(ssh: str) -> tuple[str, ...]:
    """Return the releases of the installed kernels, the running one last."""
    *found, running = _query(ssh, _KERNELS_SCRIPT).split()
    return *sorted({one for one in found if one[0].isdigit()} - {running}), running


def kernel_release(ssh: str) -> str:
    return _query(ssh, "uname -r").split()[-1] if ssh else os.uname().release


def query_facts(ssh: str) -> Host:
    facts = dict(line.partition(" ")[::2] for line in _query(ssh, FACTS_SCRIPT).splitlines())
    known = {name: text for name, text in facts.items() if name in Host.model_fields}
    mitigations = {name.removeprefix("mitigation/"): facts[name] for name in facts if name.startswith("mitigation/")}
    fio = {"fio": facts["fio"]}
    programs = {"python": platform.python_version(), **fio} if ssh else program_versions(fio)
    versions = {"matrix": matrix_version(), **programs}
    return Host.model_validate({**known, "mitigations": mitigations, "versions": versions})


def _query(ssh: str, script: str) -> str:
    from matrix_runner.hosts.agent.connection import connection_to

    command = ["bash", "-c", script]
    result = connection_to(ssh).run(command) if ssh else run(command)
    if result.returncode:
        raise HarnessBroken(
            f"no shell on {ssh or 'this host'}: status {result.returncode}", details=result.stderr.strip()[-2000:]
        )
    return result.stdout


def program_versions(known: Mapping[str, str] = {}) -> dict[str, str]:
    asked = {name: known.get(name) or _first_line(program, "--version") for name, program in _PROGRAMS.items()}
    return {"python": platform.python_version(), **{name: text for name, text in asked.items() if text}}


def revision(folder: Path) -> Revision | None:
    commit = git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = git(folder, "--no-optional-locks", "status", "--porcelain", "--", ".")
    branch = git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return Revision(commit=commit, dirty=bool(changed), branch="" if branch == "HEAD" else branch)


def _first_line(*argv: str) -> str:
    try:
        result = run(argv, timeout=10)
    except HarnessBroken:
        return ""
    return result.stdout.strip().partition("\n")[0] if result.returncode == 0 else ""
