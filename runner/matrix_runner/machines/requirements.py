"""Requirements of a rig on its host (programs, modules, root), and facts of the host. Asked before any start."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from subprocess import CompletedProcess

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import PYTHON_CHECK
from matrix_runner.machines.base import Refusal, RigSpec


@cache
def processor_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"


#: In a template this also warms the page cache, so that clones start programs faster.
FACTS = Path(__file__).with_name("facts.sh").read_text(encoding="utf-8")


def parse_facts(output: str) -> dict[str, str]:
    lines = (line.partition(" ") for line in output.splitlines())
    return {name: text.strip() for name, _, text in lines if text.strip()}


ALWAYS = ("bash", "blkid", "blockdev", "chroot", "fio", "mount", "unshare", "wipefs")
#: Debian package of each program; other distributions mostly use the same names.
PACKAGES = {
    **{name: name for name in ("bash", "dmsetup", "fio", "mdadm", "mount", "python3")},
    **dict.fromkeys(("blkid", "blockdev", "unshare", "wipefs"), "util-linux"),
    "chroot": "coreutils",
    **dict.fromkeys(("bcache-super-show", "make-bcache"), "bcache-tools"),
    **dict.fromkeys(("btrfs", "mkfs.btrfs"), "btrfs-progs"),
    **dict.fromkeys(("cryptsetup", "integritysetup"), "cryptsetup-bin"),
    **dict.fromkeys(("dumpe2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4"), "e2fsprogs"),
    **dict.fromkeys(("mkfs.xfs", "xfs_spaceman"), "xfsprogs"),
    "lvm": "lvm2",
    "mkfs.f2fs": "f2fs-tools",
    "sfdisk": "fdisk",
    **dict.fromkeys(("zdb", "zfs", "zpool"), "zfsutils-linux"),
}


#: Programs that no stack needs: the package of each, and its use.
OPTIONAL = {
    "smartctl": ("smartmontools", "reads the health of disks before and after a run"),
    "perf": ("linux-perf", "`profile: cpu` and `profile: locks`"),
    "blktrace": ("blktrace", "`profile: blktrace`"),
}


def package_of(program: str) -> str:
    return OPTIONAL[program][0] if program in OPTIONAL else PACKAGES.get(program, program)


#: Programs of which the version is checked.
WITH_VERSION = {"python3": "python3 3.9 or later"}
PATIENCE = 60.0
THIS_HOST = "this host"
_INSTALL = re.compile(r"(on [^:]+: )?apt install ([a-z0-9+. -]+)")

#: $1: modules, $2: programs, $3: options of the kernel, separated by commas. A module counts as present if it is loaded
#: or loadable, or if its function is present: a personality of md, a file system, the device mapper and its targets.
ASK = f"""\
has() {{
  command -v -- "$1" >/dev/null && if [ "$1" = python3 ]; then python3 -I -c {quote(PYTHON_CHECK)} 2>/dev/null; fi
}}
"""
ASK += Path(__file__).with_name("ask.sh").read_text(encoding="utf-8")


def query_command(modules: Iterable[str], programs: Iterable[str], options: Iterable[str] = ()) -> list[str]:
    words = (",".join(modules), ",".join(sorted({*ALWAYS, *programs})), ",".join(options))
    return ["bash", "-c", ASK + FACTS, "ask", *words]


def query(enter: Sequence[str], spec: RigSpec, where: str) -> str:
    return check_answer(
        process.run([*enter, *query_command(spec.modules, spec.programs, spec.options)], timeout=PATIENCE), where
    )


def check_answer(answer: CompletedProcess[str], where: str) -> str:
    if answer.returncode and not answer.stdout:
        raise HarnessBroken(
            f"no shell on {where}: status {answer.returncode}",
            details=answer.stderr.strip()[-2000:],
            resolution="`matrix doctor` shows what is missing",
        )
    return answer.stdout


def refusals(answer: str, where: str) -> Iterator[Refusal]:
    kernel = facts(answer).get("kernel", "?")
    for line in answer.splitlines():
        what, _, name = line.partition(" ")
        if what == "no-program":
            program, package = WITH_VERSION.get(name, name), package_of(name)
            command = f"apt install {package}"
            yield Refusal(
                f"{where} has no {program}",
                command if where == THIS_HOST else f"on {where}: {command}",
                program=name,
                of_layers=name not in {*ALWAYS, *WITH_VERSION},
            )
        if what == "no-module":
            yield Refusal(
                f"the kernel of {where} ({kernel}) has no {name}, neither built in nor as a module",
                "install the modules of that kernel, or run this matrix on qemu, which brings its own",
                of_layers=True,
            )
        if what == "no-root":
            yield Refusal(
                f"{name} may not work on the disks of {where}",
                "log in as root: on this host by sudo, on others by `User root` in ~/.ssh/config",
            )


def describe(refusals: Iterable[Refusal], also: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return a line for each refusal, and one command for each host that installs all missing packages there.

    `also` are packages to add if some are missing on this host.
    """
    lines, packages = [], dict[str, list[str]]()
    for one in refusals:
        if found := _INSTALL.fullmatch(one.resolution):
            packages.setdefault(found[1] or "", []).extend(found[2].split())
        lines.append(one.brief.removesuffix(":") if found else one.message)
    if "" in packages:
        packages[""].extend(also)
    commands = [f"{host or _as_root()}apt install {' '.join(dict.fromkeys(names))}" for host, names in packages.items()]
    return list(dict.fromkeys(lines)), commands


def _as_root() -> str:
    if os.geteuid() == 0:
        return ""
    return "sudo " if shutil.which("sudo") else "as root: "


def missing(answer: str) -> list[str]:
    programs = (name for name in _named(answer, "no-program") if name not in OPTIONAL)
    found = [f"{WITH_VERSION.get(name, name)} (apt install {package_of(name)})" for name in programs]
    kernel = facts(answer).get("kernel", "?")
    return [*found, *(f"the module {name}, for its kernel {kernel}" for name in _named(answer, "no-module"))]


def missing_optional(answer: str) -> list[str]:
    found = [(name, *OPTIONAL[name]) for name in _named(answer, "no-program") if name in OPTIONAL]
    mount = "the right of root to mount (CAP_SYS_ADMIN): without it, fio is not confined to its trial and the stack"
    return [
        *(f"{name} (apt install {package}): {use}" for name, package, use in found),
        *[mount] * ("no-mount root" in answer),
    ]


def facts(answer: str) -> Mapping[str, str]:
    known = {name: text for name, text in parse_facts(answer).items() if not name.startswith("no-")}
    what = {"without": "no-module", "absent": "no-program", "unset": "no-option"}
    return known | {name: " ".join(found) for name, word in what.items() if (found := _named(answer, word))}


def _named(answer: str, what: str) -> list[str]:
    lines = (line.partition(" ") for line in answer.splitlines())
    return [name for word, _, name in lines if word == what]
