"""What holds and works on a host behind ssh, over a real sshd: while the line is up, drops, stays down, and for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import client as holders
from matrix_runner.hosts.agent import connection as lines
from matrix_runner.hosts.agent.client import AgentClient, AgentLost, ScriptResult
from matrix_runner.hosts.agent.connection import Connection
from matrix_runner.hosts.operations import RemoteOperations
from matrix_runner.machines.shell import guard
from tests.hosts.agent.far import NAME, Shelf, signal_server, why_no_namespace
from tests.hosts.loops import bay
from tests.hosts.loops import why_not as why_no_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
REASON = why_no_namespace()
needs_loops = pytest.mark.skipif(bool(why_no_loops()), reason=why_no_loops())
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "ssh")
    monkeypatch.setenv("PATH", made.path)
    yield made
    made.close()


@pytest.fixture
def line(shelf: Shelf) -> Iterator[Connection]:
    found = Connection(NAME)
    yield found
    found.disconnect()


def test_it_runs_a_script(line: Connection, shelf: Shelf) -> None:
    said: list[str] = []
    with AgentClient(line, "r1", guard(), said.append) as holder:
        done = holder.run_script("a", b"echo hello; echo oh >&2; exit 3", 60)
        assert (done.status, done.timed_out, done.output, done.error_output) == (3, False, b"hello\n", b"oh\n")
        assert shelf.there("ls /run/matrix/far/*") == "line\n"
    assert said == []
    assert len(shelf.connections) == 1
    assert shelf.there("ls /run/matrix/far") == ""


def test_a_closed_pipe_ends_a_remote_script_like_a_local_one(line: Connection) -> None:
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        done = holder.run_script("a", b"grep SigIgn /proc/self/status; yes | true; echo ${PIPESTATUS[0]}", 60)
    _, ignored, status = done.output.split()
    assert not int(ignored, 16) & 1 << signal.SIGPIPE - 1
    assert int(status) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("mkdir /run/theirs && ln -s theirs /run/matrix-locks", "it is no folder"),
        ("touch /run/matrix-locks", "it is no folder"),
        ("mkdir -m 700 /run/matrix-locks && chown 1234 /run/matrix-locks", "it belongs to the user 1234"),
        ("mkdir -m 1777 /run/matrix-locks", "all users may write in it"),
    ],
)
def test_no_lock_is_taken_where_others_could_take_it_away(line: Connection, shelf: Shelf, made: str, why: str) -> None:
    shelf.there(made)
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        with pytest.raises(HarnessBroken, match=rf"in /run/matrix-locks on shelf cannot be trusted: {why}") as caught:
            RemoteOperations(holder).lock("disk", "r1")
        assert "`rm -r /run/matrix-locks`" in caught.value.resolution
        assert shelf.there("find /run/theirs /run/matrix-locks -name 'disk-*' || :") == ""
        shelf.there("rm -r /run/matrix-locks")
        lock, holding = RemoteOperations(holder).lock("disk", "r1")
    assert (lock is not None, holding) == (True, "")


def gate(folder: Path) -> tuple[Path, Path]:
    """Two pipes: by one a script says that it is there, by the other it is told to go on."""
    pair = (folder / "there", folder / "on")
    for one in pair:
        os.mkfifo(one)
    return pair


def waiting(folder: Path) -> tuple[bytes, Path, Path]:
    there, on = gate(folder)
    return f"echo first; echo here >{there}; read -r word <{on}; echo $word".encode(), there, on


class Working(Thread):
    """Somebody who waits for a script to end."""

    def __init__(self, holder: AgentClient, script: bytes, deadline: float = 60, job: str = "a") -> None:
        super().__init__()
        self.agent, self.query_command, self.deadline, self.job = holder, script, deadline, job
        self.done: ScriptResult | None = None
        self.lost: AgentLost | None = None
        self.start()

    def run(self) -> None:
        try:
            self.done = self.agent.run_script(self.job, self.query_command, self.deadline)
        except AgentLost as gone:
            self.lost = gone


@pytest.mark.parametrize("what", ["the server", "our ssh", "the session", "nobody, but it is silent"])
def test_a_script_survives_a_lost_connection_with_its_output(
    line: Connection, shelf: Shelf, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(lines, "KEEPALIVE_OPTIONS", ("-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1"))
    script, there, on = waiting(tmp_path)
    with AgentClient(line, "r1", guard(), said.append) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        work = Working(holder, script)
        assert there.read_text() == "here\n"
        shelf.cut()
        server = shelf.connections[-1]
        drop(what, line, holder, shelf)
        while not said:  # it was noticed, and the first tries to connect again fail
            work.join(0.01)
        on.write_text("last\n")
        assert shelf.there("flock -n /run/matrix-locks/disk-disk echo free || echo locked") == "locked\n"
        shelf.mend()
        work.join()
        if what.startswith("nobody"):
            signal_server(server, signal.SIGKILL)  # it hears of nothing else
        assert work.done is not None
        assert (work.done.status, work.done.output) == (0, b"first\nlast\n")
        assert said[-1] == f"connected to {NAME} again"
        assert holder.ask("lock", "disk", "me") == [b"had"]
    assert shelf.there("ls /run/matrix/far") == ""
    assert shelf.there("flock -n /run/matrix-locks/disk-disk echo free || echo locked") == "free\n"


def drop(what: str, line: Connection, holder: AgentClient, shelf: Shelf) -> None:
    if what == "the server":
        shelf.drop()
    elif what == "our ssh":
        assert line._master is not None
        line._master.kill()
    elif what.startswith("nobody"):
        signal_server(shelf.connections[-1], signal.SIGSTOP)
    else:
        assert holder._session is not None
        holder._session._child.kill()


def test_a_connection_that_stays_down_leaves_no_process(line: Connection, shelf: Shelf, tmp_path: Path) -> None:
    script, there, on = waiting(tmp_path)
    with AgentClient(line, "r1", guard(), lambda _: None, lease=1) as holder:
        work = Working(holder, script)
        assert there.read_text() == "here\n"
        shelf.cut()
        shelf.drop()
        work.join()
        assert work.lost is not None
        assert str(work.lost) == f"{NAME} could not be reached again"
        with pytest.raises(AgentLost):
            holder.ask("on")
        assert holder.lost is not None
    gone_by_itself(shelf)
    assert not lives(on)


def lives(on: Path) -> bool:
    """Whether anybody still reads that pipe."""
    try:
        os.close(os.open(on, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def gone_by_itself(shelf: Shelf) -> None:
    while shelf.there("ls /run/matrix/far"):
        time.sleep(0.05)


RUNNER = """\
import sys
from matrix_runner.machines.shell import guard
from matrix_runner.hosts.agent.client import AgentClient
from matrix_runner.hosts.agent.connection import Connection
with AgentClient(Connection("shelf"), "r1", guard(), print) as agent:
    agent.ask("lock", "disk", "me")
    agent.run_script("a", sys.argv[1].encode(), 600)
"""


def test_remote_scripts_end_with_a_killed_runner(shelf: Shelf, tmp_path: Path) -> None:
    there = tmp_path / "there"
    os.mkfifo(there)
    script = f"exec 9>{there}; setsid sleep 1000 9>&9 & sleep 1000"
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, script], cwd=ROOT)
    with there.open("rb") as reader:  # waits until the script has opened it
        runner.kill()
        runner.wait()
        assert reader.read() == b""  # and this until nobody has it open any more
    gone_by_itself(shelf)
    assert shelf.there("flock -n /run/matrix-locks/disk-disk echo free") == "free\n"


def test_scripts_of_a_dead_runner_end_when_its_run_resumes(line: Connection, shelf: Shelf, tmp_path: Path) -> None:
    """A runner that is killed while the line is down cannot say so."""
    script, there, on = waiting(tmp_path)
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, script.decode()], cwd=ROOT)
    assert there.read_text() == "here\n"
    shelf.drop()
    runner.kill()
    runner.wait()
    with AgentClient(line, "r2", guard(), lambda _: None) as other:
        assert other.ask("lock", "disk", "other")[0] == b"taken"
        other.dismiss("r1")
        assert other.ask("lock", "disk", "other") == [b"had"]
    assert not lives(on)
    with AgentClient(line, "r1", guard(), lambda _: None) as again:
        assert again.ask("lock", "disk", "me") == [b"had"]


def test_a_script_that_takes_too_long_is_ended_over_there(line: Connection, tmp_path: Path) -> None:
    script, there, on = waiting(tmp_path)
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        done = holder.run_script("b", b"sleep 1000", 0.1)
        assert done.timed_out
        work = Working(holder, script)
        assert there.read_text() == "here\n"
        holder.ask("stop", "a")
        work.join()
        assert work.done is not None
        assert not work.done.timed_out
    assert not lives(on)


def test_a_script_that_is_stopped_before_it_was_started_is_not(line: Connection, tmp_path: Path) -> None:
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        holder.ask("stop", "a")
        done = holder.run_script("a", f"touch {tmp_path}/it".encode(), 60)
        assert (done.status, done.output) == (137, b"")
    assert not (tmp_path / "it").exists()


def test_a_restarted_host_has_lost_the_agent(line: Connection, shelf: Shelf) -> None:
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        holder.ask("lock", "disk", "me")
        os.kill(int(shelf.there("cat /run/matrix-locks/disk-disk").split()[-1]), signal.SIGKILL)
        holder.boot_id = "another"
        with pytest.raises(AgentLost, match="shelf was rebooted during the run"):
            holder.run_script("a", b"true", 60)


def holding(shelf: Shelf) -> int:
    """The process over there; it has to hold the disk `disk`."""
    return int(shelf.there("cat /run/matrix-locks/disk-disk").split()[-1])


def test_scripts_end_when_what_started_them_is_killed(line: Connection, shelf: Shelf, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    with AgentClient(line, "r1", guard(), lambda _: None) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        work = Working(holder, f"exec 9>{alive}; sleep 1000".encode())
        with alive.open("rb") as reader:  # waits until the script has opened it
            os.kill(holding(shelf), signal.SIGKILL)
            assert reader.read() == b""  # and this until it has ended
        work.join()
        assert work.lost is not None


class Asking(Thread):
    """Somebody who waits for an answer."""

    def __init__(self, holder: AgentClient, *words: str) -> None:
        super().__init__()
        self.agent, self.words = holder, words
        self.said: list[bytes] = []
        self.lost: AgentLost | None = None
        self.start()

    def run(self) -> None:
        try:
            self.said = self.agent.ask(*self.words)
        except AgentLost as gone:
            self.lost = gone


def test_a_host_that_is_slow_is_waited_for_and_its_line_is_left_alone(
    line: Connection, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with AgentClient(line, "r1", guard(), said.append) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        monkeypatch.setattr(holders, "SLOW_AFTER", 0.1)
        os.kill(holding(shelf), signal.SIGSTOP)
        several = [Asking(holder, "lock", "disk", "me") for _ in range(3)]
        while not said:
            several[0].join(0.01)
        os.kill(holding(shelf), signal.SIGCONT)
        for one in several:
            one.join()
        assert [one.said for one in several] == [[b"had"]] * 3
        monkeypatch.setattr(holders, "SLOW_AFTER", 30.0)
    assert said[0] == "shelf has not answered for 0.1 s, but the connection is up: waiting up to 300 s more"
    assert said[1] == "shelf answers again"
    assert not any("dropped" in one for one in said)
    assert len(shelf.connections) == 1


def test_a_silent_host_is_distinguished_from_a_lost_connection(
    line: Connection, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with AgentClient(line, "r1", guard(), said.append, lease=1) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        stuck = holding(shelf)
        monkeypatch.setattr(holders, "SLOW_AFTER", 0.1)
        os.kill(stuck, signal.SIGSTOP)
        work = Working(holder, b"true")
        several = [Asking(holder, "lock", "disk", "me") for _ in range(3)]
        for one in (*several, work):
            one.join()
        for gone in (work.lost, *(one.lost for one in several)):
            assert str(gone).startswith("shelf did not answer within 1.1 s, though the connection to it is up")
        assert not any("dropped" in one for one in said)
        assert not any("again" in one for one in said)
        os.kill(stuck, signal.SIGCONT)
    gone_by_itself(shelf)


def test_an_agent_that_is_busy_beyond_its_lease_keeps_its_disks(line: Connection, shelf: Shelf, tmp_path: Path) -> None:
    """As with a disk that takes minutes to answer: nobody was silent, it was not listening."""
    said: list[str] = []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with AgentClient(line, "r1", guard(), said.append, lease=1) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        asking = Asking(holder, "open", str(pipe))  # which takes somebody at the other end
        begun = uptime()
        while uptime() < begun + 2:  # its lease is over, by its own clock
            asking.join(0.1)
        with pipe.open("w"):
            asking.join()
        assert asking.said[0] == b"failed"  # it is no disk
        assert holder.ask("lock", "disk", "me") == [b"had"]
    assert said == []


@needs_loops
def test_a_disk_that_the_kernel_over_there_exports_is_known_to_be_open(
    line: Connection, shelf: Shelf, tmp_path: Path
) -> None:
    space = "/sys/kernel/config/nvmet/subsystems/nqn.2026-01.test/namespaces/1"
    with bay(tmp_path) as disks, AgentClient(line, "r1", guard(), lambda _: None) as holder:
        (node,) = (node for node in disks.ask().disks if node.path == disks.disk)
        assert RemoteOperations(holder).find_users(node.dev, writing=True) == ""
        shelf.there(
            f"mount -t tmpfs none /sys/kernel; mkdir -p {space}; echo {disks.disk} >{space}/device_path; "
            f"echo 1 >{space}/enable"
        )
        assert RemoteOperations(holder).find_users(node.dev, writing=True) == "the NVMe target nqn.2026-01.test"
        shelf.there(f"echo 0 >{space}/enable")
        assert RemoteOperations(holder).find_users(node.dev, writing=True) == ""


@needs_loops
def test_the_agent_enforces_the_write_limit_without_a_connection(
    line: Connection, shelf: Shelf, tmp_path: Path
) -> None:
    """Scripts are ended over there, not when the line is up again; with it up, that is for others to do."""
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    with bay(tmp_path) as disks, AgentClient(line, "r1", guard(), lambda _: None, lease=6) as holder:
        name = disks.disk.removeprefix("/dev/")
        assert holder.limit_writes({name: counted(name) + 100})
        work = Working(holder, f"echo first; exec 9>{alive}; sleep 1000".encode())
        with alive.open("rb") as reader:  # waits until the script has opened it
            shelf.cut()
            shelf.drop()
            disks.bash('dd if=/dev/zero of="$DISK" bs=1M count=1 oflag=direct status=none')
            assert reader.read() == b""  # and this until it has ended
        assert work.is_alive(), "nobody has heard of it yet"
        shelf.mend()
        work.join()
        assert work.done is not None
        assert (work.done.over_budget, work.done.timed_out, work.done.output) == (True, False, b"first\n")
        assert holder.limit_writes({})
        script, there, on = waiting(tmp_path)
        other = Working(holder, script, job="b")
        assert there.read_text() == "here\n"
        on.write_text("last\n")
        other.join()
        assert other.done is not None
        assert (other.done.over_budget, other.done.status) == (False, 0)


def counted(name: str) -> int:
    return int(Path(f"/sys/class/block/{name}/stat").read_text().split()[6])


def uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def test_a_script_that_does_not_even_die_is_not_waited_for_forever(
    line: Connection, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that would kill it is stopped, which comes to the same as a process that no signal reaches."""
    monkeypatch.setattr(holders, "HEARTBEAT", 1000)
    with AgentClient(line, "r1", guard(), lambda _: None, lease=1) as holder:
        assert holder.ask("lock", "disk", "me") == [b"had"]
        stuck = holding(shelf)
        os.kill(stuck, signal.SIGSTOP)
        done = holder.run_script("a", b"sleep 1000", 0.1)
        assert (done.status, done.timed_out, done.output) == (137, True, b"")
        os.kill(stuck, signal.SIGCONT)
    gone_by_itself(shelf)


def test_a_silent_session_is_ended(line: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "SLOW_AFTER", 0.1)
    monkeypatch.setattr(holders, "agent_command", lambda *_: ["sleep", "1000"])
    with pytest.raises(HarnessBroken, match=r"shelf cannot start the disk agent: no answer within 0\.2 s"):
        AgentClient(line, "r1", guard(), lambda _: None).__enter__()
    assert line.is_connected
