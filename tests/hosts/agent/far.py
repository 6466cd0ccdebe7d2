"""A host behind ssh that is this one: a real sshd for each connection, without a port or a daemon, and a real ssh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hosts.loops import HIDE_OTHERS

if TYPE_CHECKING:
    from collections.abc import Sequence

SSHD = "/usr/sbin/sshd"
NAME = "shelf"


def why_not() -> str:
    """Why there can be none here; empty if there can."""
    for program, package in ((SSHD, "openssh-server"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")):
        if not shutil.which(program):
            return f"without {program} ({package}) on this host"
    return ""


def why_no_namespace() -> str:
    """Why nothing can be held or run over there."""
    return why_not() or ("a namespace of one's own takes root" if os.geteuid() else "")


def signal_server(server: int, number: signal.Signals) -> None:
    """Signal all processes of a server. OpenSSH 10 serves root, too, in a child, which survives its parent."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    of_sshd = [child for child in children if Path(f"/proc/{child}/comm").read_text().startswith("sshd")]
    for process in (server, *map(int, of_sshd)):
        os.kill(process, number)


class Far:
    """Keys, settings, and an `ssh` that knows them and comes first on the path. `enter` leads to where it is."""

    def __init__(self, folder: Path, enter: Sequence[str] = ()) -> None:
        folder.mkdir()
        self.folder, self.bin = folder, folder / "bin"
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nLogLevel ERROR\n"
        )
        key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"{NAME} {key}\n")
        # sshd does without a folder for its privileges if it is not root, and asks for /run/sshd if it is.
        self.reach = folder / "reach"
        self.reach.write_text(
            f'#!/bin/sh\necho "$$" >>{folder}/connections\n[ ! -e {folder}/cut ] || exit 1\n'
            f"exec {' '.join(enter)} {SSHD} -i -f {folder}/sshd_config\n"
        )
        self.reach.chmod(0o755)
        (folder / "config").write_text(
            f"Host {NAME}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n"
            f"  StrictHostKeyChecking yes\n  ProxyCommand {self.reach}\n  ControlMaster auto\n  LocalForward 1 x:1\n"
        )
        self.bin.mkdir()
        (self.bin / "ssh").write_text(
            f'#!/bin/sh\ncase $* in *ControlMaster=yes*) echo "$$" >>{folder}/masters ;; esac\n'
            f'exec {shutil.which("ssh")} -F {folder}/config "$@"\n'
        )
        (self.bin / "ssh").chmod(0o755)

    @property
    def path(self) -> str:
        """With this ssh before all others."""
        return f"{self.bin}:{os.environ['PATH']}"

    @property
    def connections(self) -> list[int]:
        """The server of each connection that there was."""
        with suppress(FileNotFoundError):
            return [int(line) for line in (self.folder / "connections").read_text().split()]
        return []

    def drop(self, whose: str = "connections") -> None:
        """Kill the server of the latest connection, as a net that is gone does, only faster; or our end (masters)."""
        if whose == "connections":
            signal_server(self.connections[-1], signal.SIGKILL)
        else:
            os.kill(int((self.folder / whose).read_text().split()[-1]), signal.SIGKILL)

    def cut(self) -> None:
        """No connection comes about any more."""
        (self.folder / "cut").touch()

    def mend(self) -> None:
        """They do again."""
        (self.folder / "cut").unlink()


#: The host's /run and /dev stay as they are: what is made in them here is seen here alone. What root's shell does when it
#: starts is nobody's business here, and it may not like to be killed at it.
ALONE = f"""\
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/sshd /run/lock /run/upper /run/work
mount -t overlay none -o lowerdir=/dev,upperdir=/run/upper,workdir=/run/work /dev
mkdir -p /dev/disk/by-id
[ -z "$1" ] || mount --bind "$1" /dev/disk/by-id
if [ -n "$1" ]; then
{HIDE_OTHERS}fi
[ ! -e ~/.bashrc ] || mount --bind /dev/null ~/.bashrc
echo up
exec sleep infinity
"""


class Shelf(Far):
    """Such a host with a /run of its own, and disks that have the names in a folder."""

    def __init__(self, folder: Path, names: str = "") -> None:
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "bash", "-c", ALONE, "bash", names], stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"
        super().__init__(folder, self.enter)

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "--mount", f"--target={self.holder.pid}"]

    def there(self, script: str) -> str:
        """What a script says over there; not by ssh."""
        done = subprocess.run([*self.enter, "bash", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout

    def close(self) -> None:
        """Whatever is left goes with it."""
        self.holder.kill()
        self.holder.communicate()
