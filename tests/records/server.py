"""A PostgreSQL server of one's own: private, in a folder of its own, reachable through a socket in it alone."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
#: Why there is none to test with; empty if there is.
MISSING = "" if _INSTALLED or shutil.which("postgres") else "no PostgreSQL server is installed (package postgresql)"


@dataclass(frozen=True)
class Server:
    folder: Path
    programs: Path

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://matrix@/{database}?host={self.folder}"

    def database(self, name: str) -> str:
        """The URL of a new, empty database."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'create database "{name}"')
        return self.url(name)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self) -> None:
        """At once, as when its host loses power."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-U", "matrix", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def _run(self, program: str, *arguments: str) -> None:
        """As somebody who may nothing: the server refuses to be run by root."""
        who = _unprivileged() if os.geteuid() == 0 else None
        with (self.folder / "said").open("ab") as said:  # no pipe: the server would keep it open
            done = subprocess.run(
                [self.programs / program, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                user=who.pw_uid if who else None,
                group=who.pw_gid if who else None,
                extra_groups=[] if who else None,
            )
        assert done.returncode == 0, (self.folder / "said").read_text()


@contextmanager
def private_server() -> Iterator[Server]:
    programs = _INSTALLED[-1].parent if _INSTALLED else Path(shutil.which("postgres") or "").resolve().parent
    # Not below pytest's own folders, which nobody else may enter, and whose names are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="matrix-pg-") as name:
        server = Server(Path(name), programs)
        if os.geteuid() == 0:
            who = _unprivileged()
            os.chown(name, who.pw_uid, who.pw_gid)
        server.make()
        server.start()
        try:
            yield server
        finally:
            if (server.folder / "data" / "postmaster.pid").exists():
                server.stop()


@contextmanager
def silent() -> Iterator[str]:
    """The URL of a server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(listening.accept()[0])

        thread = Thread(target=take, daemon=True)
        thread.start()
        # Nobody gives up by himself: as a server that falls silent in the middle of a question.
        try:
            yield f"postgresql://lab@127.0.0.1:{listening.getsockname()[1]}/matrix?connect_timeout=600"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in taken:
                one.close()


def _unprivileged() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")
