"""Fetch and unpack Debian packages without root, dpkg or a chroot.

A private apt state makes apt believe that no package is installed, so it resolves all dependencies and checks every
signature as always. No user namespace is needed, so this works in containers and chroots as well. All files belong to
the user, who can remove what a killed build leaves.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.process import dies_with_parent, open_output, run
from runner.machines.qemu import recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.machines.base import Progress

ARCHIVE_TIMEOUT = 1800


def mirror_from(indextargets: str) -> str:
    """Return the first Debian archive in `apt-get indextargets` (URI|ORIGIN|CODENAME per line), or the default."""
    for line in indextargets.splitlines():
        uri, origin, codename = [*line.split("|"), "", ""][:3]
        if origin == "Debian" and re.fullmatch(r"[a-z]+", codename) and uri.startswith(("http", "file")):
            return uri.rstrip("/")
    return recipe.DEFAULT_MIRROR


def host_mirror() -> str:
    """Return where this host gets its Debian packages; `MATRIX_MIRROR` overrides it."""
    if chosen := os.environ.get("MATRIX_MIRROR"):
        return chosen.rstrip("/")
    return mirror_from(run(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(CODENAME)"]).stdout)


def configuration(folder: Path, host_dump: str) -> str:
    """Return an apt.conf for a private state, with the host's fetch options (proxies, certificates)."""
    fetching = [
        line for line in host_dump.splitlines() if re.match(r"Acquire::(https?|ftp|Retries|Proxy)", line, re.IGNORECASE)
    ]
    return "\n".join(
        [
            f'Dir::State "{folder}"; Dir::State::status "{folder}/status"; Dir::State::lists "{folder}/lists";',
            f'Dir::Cache "{folder}/cache"; Dir::Etc::main "{folder}/none"; Dir::Etc::parts "{folder}/empty";',
            f'Dir::Etc::sourcelist "{folder}/sources.list"; Dir::Etc::sourceparts "{folder}/empty";',
            f'Dir::Etc::preferences "{folder}/none"; Dir::Etc::preferencesparts "{folder}/empty";',
            'APT::Architecture "amd64"; APT::Architectures { "amd64"; }; APT::Install-Recommends "false";',
            'APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "3"; Debug::NoLocking "true";',
            *fetching,
            "",
        ]
    )


def copied(mirror: str) -> str:
    """With `file:` apt would leave packages in the archive; with `copy:` it copies them."""
    return re.sub(r"^file:", "copy:", mirror)


def prepare(folder: Path, suite: str, mirror: str) -> dict[str, str]:
    """Make the private apt state; return the environment for apt."""
    for part in ("lists/partial", "cache/archives/partial", "empty"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    signed = f"[signed-by={recipe.KEYRING}] " if Path(recipe.KEYRING).exists() else ""
    (folder / "sources.list").write_text(f"deb {signed}{copied(mirror)} {suite} main\n")
    (folder / "apt.conf").write_text(configuration(folder, run(["apt-config", "dump"]).stdout))
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}


def fetch(folder: Path, suite: str, packages: Iterable[str], progress: Progress) -> list[Path]:
    mirror = host_mirror()
    env = prepare(folder, suite, mirror)
    progress(f"reading the package lists of {suite}", 0.02)
    apt(["update"], env, mirror)
    progress(f"fetching packages of {suite}", 0.1)
    apt(["install", "--yes", "--download-only", *packages], env, mirror)
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def apt(arguments: list[str], env: dict[str, str], mirror: str) -> None:
    """Run apt-get. An error shows its last lines."""
    done = run(dies_with_parent(["apt-get", "-q", *arguments]), env=env, timeout=ARCHIVE_TIMEOUT)
    # `update` exits with 0 although downloads failed, and prints warnings only.
    failed = done.returncode != 0 or "W: Failed to fetch" in done.stderr
    if failed:
        raise HarnessBroken(
            f"cannot get Debian packages from {mirror}",
            details="\n".join((done.stdout + done.stderr).splitlines()[-12:]),
            resolution=hint(done.stderr),
        )


def hint(words: str) -> str:
    if "No space left" in words or "enough free space" in words:
        return "free some disk space, or point MATRIX_CACHE to a larger disk"
    if "NO_PUBKEY" in words or "not signed" in words:
        return "install the package debian-archive-keyring"
    return "check the network, or name another archive in MATRIX_MIRROR"


def package_version(archive: Path) -> tuple[str, str]:
    """Parse name and version from the archive's file name."""
    name, version, _ = archive.name.split("_", 2)
    return name, version.replace("%3a", ":")


def unpack(archive: Path, tree: Path, keep: Callable[[str], bool]) -> None:
    """Unpack the files that `keep` accepts below `tree`, with /usr merged."""
    with (
        open_output(["dpkg-deb", "--fsys-tarfile", str(archive)]) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            path = recipe.merge_usr(member.name)
            if keep(path):
                extract(tar, member, tree / path, tree)


def extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, tree: Path) -> None:
    """Write one file, folder or link. Owners are left out: the image builder makes everything root's."""
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        os.link(tree / recipe.merge_usr(member.linkname), target)
    elif (content := tar.extractfile(member)) is not None:
        with target.open("wb") as out:
            shutil.copyfileobj(content, out)
        target.chmod(member.mode & 0o755 | 0o400)
