"""Kill members of a cluster at random while a run goes on, and check that each trial is recorded once.

    python -m bench.cluster_kills --kills 200

It starts a scheduler and three workers (one behind a link that breaks), starts each again when it dies, and repeats
`matrix run` until it succeeds. At the end no trial may be lost, doubled or broken, and no process or folder left; and
no process may have ended otherwise than by these kills. The program ends with 1 if one of these does not hold.
One side: counts of trials against the plan.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.waiting import COMMAND, SECONDS
from matrix_runner.carry.cluster.connection import make_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

MATRIX = """\
name: kills
disks: {{count: 4, size: 64MiB}}
layouts:
  raid5: [md: {{level: [0, 5, 10], chunk: [16KiB, 32KiB, 64KiB, 128KiB, 256KiB]}}]
workloads:
  work: {{rw: [read, randwrite], bs: [4KiB, 16KiB], runtime: 1s}}
repeat: {rounds}
"""
#: How often each is killed, relative to the others.
VICTIMS = {"batch": 4, "worker": 1, "scheduler": 1, "coordinator": 1, "link": 1}
MATRIX_COMMAND = (sys.executable, "-m", "matrix_runner.cli")
#: The statuses beside those of the kills: a run ends with 3 without its scheduler, and at the end members are stopped.
STATUSES = {"coordinator": {0, 3}, "scheduler": {0, -signal.SIGTERM}, "worker": {0, -signal.SIGTERM}}
_PATIENCE = 120.0  # seconds for a worker to join
ROOT = Path(__file__).parents[1]  # members work in another folder, and find `bench` there


class Link:
    """Passes connections to the scheduler on, until it breaks them."""

    def __init__(self, port: int) -> None:
        self._to, self._pairs = port, list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            self._pairs += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()

    def cut(self) -> None:
        pairs, self._pairs = self._pairs, []
        for one in pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(1 << 16):
            sink.sendall(content)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


class Lab:
    def __init__(self, folder: Path, rounds: int, seconds: float) -> None:
        self.folder, self.seconds, self.port = folder, seconds, free_port()
        self.link = Link(self.port)
        (folder / "tmp").mkdir()
        make_certificates(folder / "certificates")
        (folder / "kills.yaml").write_text(MATRIX.format(rounds=rounds))
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        self.logged: dict[str, int] = {}  # by member, the bytes of its log when it was started
        self.exits = {kind: Counter[int]() for kind in STATUSES}
        for name in ("scheduler", "worker-a", "worker-b", "worker-c"):
            self.start(name)

    def start(self, name: str) -> None:
        direct, linked = (f"tls://127.0.0.1:{port}" for port in (self.port, self.link.port))
        words = {
            "scheduler": ("cluster", "scheduler", "--cluster", direct),
            "worker-a": ("worker", "--cluster", direct, "--host", "a"),
            "worker-b": ("worker", "--cluster", direct, "--host", "b"),
            "worker-c": ("worker", "--cluster", linked, "--host", "c"),
            "coordinator": ("run", "--on", "dry", "--quiet", "--cluster", direct, "kills.yaml"),
        }[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.logged[name] = log.tell()
            own = {"TMPDIR": str(self.folder / "tmp"), SECONDS: str(self.seconds), "PYTHONPATH": str(ROOT)}
            own["MATRIX_CERTIFICATES"] = str(self.folder / "certificates")
            environment = os.environ | own
            program = COMMAND if name.startswith("worker") else MATRIX_COMMAND
            self.members[name] = subprocess.Popen(
                (*program, *words), cwd=self.folder, env=environment, stdout=log, stderr=log
            )

    def keep_up(self) -> bool:
        """Start again what ended. Return whether the run succeeded."""
        for name, member in list(self.members.items()):
            if (status := member.poll()) is not None:
                self.exits[kind_of(name)][status] += 1
                if name == "coordinator" and status == 0:
                    return True
                self.start(name)
        return False

    def kill(self, victim: str, draw: random.Random) -> bool:
        """Return whether there was one to kill."""
        if victim == "link":
            self.link.cut()
            return True
        names = [name for name in self.members if name.startswith("worker" if victim == "batch" else victim)]
        pid = self.members[draw.choice(names)].pid
        if victim == "batch":
            children = batch_processes(pid)
            if not children:
                return False
            pid = draw.choice(children)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def wait_for_workers(self) -> None:
        """A worker that was started just now first removes what the killed one before it left."""
        until = time.monotonic() + _PATIENCE
        for name in (one for one in self.members if kind_of(one) == "worker"):
            log = self.folder / f"{name}.log"
            while b"joined" not in log.read_bytes()[self.logged[name] :] and time.monotonic() < until:
                time.sleep(0.2)

    def stop(self) -> None:
        for member in self.members.values():
            if member.poll() is None:
                member.terminate()
        for name, member in self.members.items():
            if name != "coordinator":
                self.exits[kind_of(name)][member.wait(60)] += 1


def kind_of(member: str) -> str:
    return member.partition("-")[0]


def batch_processes(parent: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(parent), "-f", "bench.waiting batch"], capture_output=True, text=True)  # noqa: S607, PLW1510
    return [int(pid) for pid in found.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--every", type=int, default=3, help="trials between two kills, on average")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=60.0, help="after these, the run ends without more kills")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a trial")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    draw, kills = random.Random(wanted.seed), Counter[str]()  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="cluster-kills-") as name:
        lab = Lab(Path(name), wanted.rounds, wanted.seconds)
        began = time.monotonic()
        lab.start("coordinator")
        following = 1
        while not lab.keep_up():
            time.sleep(0.2)
            minutes = (time.monotonic() - began) / 60
            if kills.total() == wanted.kills or minutes > wanted.minutes or recorded(Path(name)) < following:
                continue
            (victim,) = draw.choices(list(VICTIMS), list(VICTIMS.values()))
            time.sleep(draw.uniform(0, wanted.seconds))
            if lab.kill(victim, draw):
                kills[victim] += 1
                following = recorded(Path(name)) + draw.randint(1, 2 * wanted.every - 1)
        seconds = time.monotonic() - began
        lab.wait_for_workers()
        lab.stop()
        found = verdict(Path(name), wanted.rounds) | {"kills": kills, "exits": lab.exits, "seconds": round(seconds)}
        print(json.dumps(found))
        log = "".join(one.read_text(errors="replace") for one in Path(name).glob("*.log"))
        sys.exit("\n".join([*failures(found), *unexpected_ends(lab.exits, kills, log)]) or None)


def failures(found: Mapping[str, object]) -> list[str]:
    """Return what a verdict shows that must not be."""
    wrong = [f"{found[what]} {what}" for what in ("lost", "doubled", "processes_left", "folders_left") if found[what]]
    if found["outcomes"].keys() != {"measured"}:  # type: ignore[attr-defined]
        wrong.append(f"outcomes: {found['outcomes']}")
    return wrong if found["runs"] == 1 else [*wrong, f"{found['runs']} runs"]


def unexpected_ends(exits: Mapping[str, Counter[int]], kills: Counter[str], log: str) -> list[str]:
    """Return how processes ended that nobody killed, such as by a signal of the kernel, or with another code."""
    killed = -signal.SIGKILL
    wrong = [
        f"{count} × {kind} ended with {status}"
        for kind, ends in exits.items()
        for status, count in ends.items()
        if status not in STATUSES[kind] | {killed} or (status == killed and count > kills[kind])
    ]
    return wrong + sorted(set(re.findall(r"the batch process (?:was killed by signal (?!9\b)|ended with).*", log)))


def recorded(folder: Path) -> int:
    """Return the number of recorded trials. A kill is due when the run has gone on since the last one."""
    for found in (folder / "results").glob("kills-*/journal.sqlite"):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(found)) as journal:
            return int(journal.execute("SELECT count(*) FROM trials").fetchone()[0])
    return 0


def processes_with(variable: str) -> list[int]:
    """Return the processes with this in their environment, which all members of a run inherit."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def verdict(folder: Path, rounds: int) -> dict[str, object]:
    runs = list((folder / "results").glob("kills-*"))
    with sqlite3.connect(runs[0] / "journal.sqlite") as journal:
        trials = journal.execute("SELECT cell, round, outcome, notes FROM trials").fetchall()
        cells = journal.execute("SELECT count(*) FROM cells").fetchone()[0]
    counts = Counter(trial[:2] for trial in trials)
    return {
        "runs": len(runs),
        "lost": cells * rounds - len(counts),
        "doubled": len(trials) - len(counts),
        "outcomes": Counter(trial[2] for trial in trials),
        "hosts": Counter(json.loads(trial[3])["host"] for trial in trials),
        "processes_left": processes_with(f"TMPDIR={folder}"),
        "folders_left": sorted(str(path.name) for path in (folder / "tmp").iterdir()),
    }


if __name__ == "__main__":
    main()
