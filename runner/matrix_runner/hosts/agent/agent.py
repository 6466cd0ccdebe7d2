#!/usr/bin/python3 -I
"""The disk agent: locks, opens and writes disks, and runs scripts, for a runner whose connection may drop.

    agent begin|again|dismiss FOLDER/RUN.TOKEN LEASE LOCKS GUARD...
    agent ask                                       run the script on standard input, which only asks

Over ssh it is sent as text (`python3 -c`); for sudo it is a file of root. So it is one long module, and
needs only the standard library of Python 3.9, and few modules of that: they delay the start of each session.

One process holds locks, open disks and scripts, and sessions reach it by a socket in its folder. It releases everything
when no request came for LEASE seconds. Scripts, started by GUARD, inherit the locks, however the agent ends.

Requests and answers are "NUMBER LENGTH\\n" and LENGTH bytes: words, separated by null bytes.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as in `typing`, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

BLKGETSIZE64, BLKGETDISKSEQ, BLKRRPART = 0x80081272, 0x80081280, 0x125F
BLOCK_DEVICES = "/sys/class/block"
#: NVMe targets of the kernel: they have devices open without a process.
TARGETS = "/sys/kernel/config/nvmet/subsystems"
#: Runs a script that only asks. No caller waits longer, and one without root's rights cannot kill it.
ASK = ("timeout", "--signal=KILL", "330", "bash", "-c", 'eval "$(cat)"')
#: Signals that Python ignores, and programs that it starts would ignore, too.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
#: The status of a killed script, and the most bytes to read at a time.
KILLED, CHUNK = 137, 65536
#: The most bytes of the head of a request, and of its words.
HEAD, MOST = 64, 1 << 26
#: The bytes of the owner in a lock: a padded line, so that no file is truncated.
OWNER = 512


def read_bytes(path: str) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def read_text(path: str) -> str:
    return read_bytes(path).decode(errors="replace").strip()


def initial_environment() -> dict[bytes, bytes]:
    return dict(entry.split(b"=", 1) for entry in read_bytes("/proc/self/environ").split(b"\0") if b"=" in entry)


def list_folder(path: str) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(path))
    return []


def lock_disk(folder: str, name: str, owner: str) -> int | tuple[str, str]:
    """Return the lock, which processes inherit; or ("taken", its owner), or ("distrusted", the flaw of the folder)."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        with suppress(KeyError, PermissionError):  # members of this group may write to any disk
            os.chown(folder, -1, grp.getgrnam("disk").gr_gid)
        os.chmod(folder, 0o3770)
    if flaw := find_folder_flaw(folder):
        return "distrusted", flaw
    path = f"{folder}/disk-{name}"
    # Not created where it exists: kernels refuse that for other users' files in such a folder.
    with suppress(FileExistsError):
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.fchmod(made, 0o660)
        os.close(made)
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # the owner would be written into another file
        os.close(lock)
        return "distrusted", f"disk-{name} is not a regular file with one name"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, OWNER, 0).decode(errors="replace").partition("\n")[0].strip()
        os.close(lock)
        return "taken", holder
    with suppress(OSError):  # the lock holds even if the file system has no room for the owner
        line = f"{owner}{', ' if owner else ''}process {os.getpid()}".encode()
        os.pwrite(lock, line[-OWNER + 1 :].ljust(OWNER - 1) + b"\n", 0)
    return lock


def process_of(holder: str) -> int | None:
    """Return the process in the signature of `lock_disk`."""
    number = holder.rpartition("process ")[2]
    return int(number) if number.isdecimal() else None


def find_folder_flaw(folder: str) -> str:
    """Return how another user could hold a lock for ever, or delete its file, so that two runs lock two files."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid not in {0, os.geteuid()}:
        return f"it belongs to the user {found.st_uid}"
    if found.st_mode & 0o002:
        return "all users may write in it"
    return "" if not found.st_mode & 0o020 or found.st_mode & stat.S_ISVTX else "its group may delete what is in it"


def identify_disk(disk: int) -> tuple[str, str, str]:
    def ask(request: int) -> str:
        return str(int.from_bytes(fcntl.ioctl(disk, request, bytes(8)), sys.byteorder))

    device, size, sequence = os.fstat(disk).st_rdev, ask(BLKGETSIZE64), ""
    with suppress(OSError):
        sequence = ask(BLKGETDISKSEQ)
    return f"{os.major(device)}:{os.minor(device)}", size, sequence


def reopen_for_writing(disk: int) -> int:
    """Return another descriptor of the same device, even if its name leads to another device now."""
    return os.open(f"/proc/self/fd/{disk}", os.O_RDWR)


def write_block(disk: int, at: int, block: bytes) -> None:
    with open(reopen_for_writing(disk), "wb") as file:
        file.seek(at)
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def reread_partitions(disk: int) -> None:
    try:
        fcntl.ioctl(disk, BLKRRPART)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the device cannot have partitions
            raise


def find_paths(name: str, names: Iterable[str]) -> list[str]:
    """Return the hidden devices for the paths to an NVMe disk, if the kernel expects several: nvme0c1n2 of nvme0n2."""
    disk, _, space = name.rpartition("n")
    return [one for one in names if disk and one.startswith(f"{disk}c") and one.endswith(f"n{space}")]


def count_sectors_written(name: str, devices: str = BLOCK_DEVICES) -> int:
    """Return the kernel's counter, or -1 without one. Kernels such as 6.1 count only on the paths to a disk."""
    fields = read_bytes(f"{devices}/{name}/stat").split()
    own = int(fields[6]) if len(fields) > 6 else -1
    if own:
        return own
    paths = find_paths(name, list_folder(devices))
    return sum(max(0, count_sectors_written(path, devices)) for path in paths)


def find_users(number: int, *, writing: bool = False) -> str:
    """Return other processes, and NVMe targets, that have a block device open (for writing)."""
    processes = find_processes(number, stat.S_ISBLK, writing=writing, but=os.getpid())
    return ", ".join((*processes, *find_nvme_targets(number)))


def find_processes(number: int, is_kind: Callable[[int], bool], *, writing: bool = False, but: int = 0) -> list[str]:
    """Return the visible processes that have a device open, under any name: containers make their own device nodes."""
    found = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != but):
        for descriptor in list_folder(f"/proc/{pid}/fd"):
            with suppress(OSError):  # it was closed meanwhile
                opened = os.stat(f"/proc/{pid}/fd/{descriptor}")
                if opened.st_rdev == number and is_kind(opened.st_mode):
                    flags = read_text(f"/proc/{pid}/fdinfo/{descriptor}").partition("flags:")[2].split() or ["0"]
                    if not writing or int(flags[0], 8) & os.O_ACCMODE:
                        found[pid] = read_text(f"/proc/{pid}/comm") or "which has ended"
    return [f"process {pid} ({name})" for pid, name in found.items()]


def find_nvme_targets(number: int) -> Iterator[str]:
    """Yield NVMe targets that export the device. They do not open it exclusively and have no visible descriptor."""
    for target in list_folder(TARGETS):
        for space in list_folder(f"{TARGETS}/{target}/namespaces"):
            folder = f"{TARGETS}/{target}/namespaces/{space}"
            with suppress(OSError):  # its device is gone
                found = os.stat(read_bytes(f"{folder}/device_path").strip())
                is_enabled = read_text(f"{folder}/enable") == "1"
                if is_enabled and stat.S_ISBLK(found.st_mode) and found.st_rdev == number:
                    yield f"the NVMe target {target}"


def read_clock() -> float:
    """Return seconds that no change of the clock moves, and that pass while the host sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Client:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection, self.incoming, self.outgoing = connection, b"", b""

    def answer(self, number: int, text: bytes) -> None:
        self.outgoing += b"%d %d\n%b" % (number, len(text), text)

    def next_request(self) -> tuple[int, bytes] | None:
        """Raise ValueError for what is no request: such a session ends, and the agent and its disks stay."""
        head, end, rest = self.incoming.partition(b"\n")
        if len(head) > HEAD:
            raise ValueError("it has no length")
        if not end:
            return None
        number, length = map(int, head.split())
        if not 0 <= length <= MOST:
            raise ValueError("it is too large")
        if len(rest) < length:
            return None
        self.incoming = rest[length:]
        return number, rest[:length]


class Job:
    """A script. It runs until every process that inherited its pipe has ended."""

    def __init__(self, base: str) -> None:
        self.base, self.is_running, self.status, self.deadline = base, False, KILLED, 0.0
        #: 1: it was killed at its deadline; 2: a disk reached its limit.
        self.late = 0
        self.waiting: list[tuple[Client, int]] = []

    def start(self, script: bytes, guard: tuple[str, ...], locks: Collection[int]) -> None:
        with open(f"{self.base}.script", "wb") as file:
            file.write(script)
        standard_input, self.lifeline = os.pipe()
        self.end, inherited = os.pipe()
        for descriptor in (inherited, *locks):
            os.set_inheritable(descriptor, True)
        command = (*guard, f"{self.base}.script")
        settings = {**initial_environment(), b"LVM_SUPPRESS_FD_WARNINGS": b"1"}
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        outputs = (
            (os.POSIX_SPAWN_OPEN, n, f"{self.base}.{kind}", *create) for n, kind in ((1, "output"), (2, "errors"))
        )
        files = ((os.POSIX_SPAWN_DUP2, standard_input, 0), *outputs)
        self.process = os.posix_spawnp(guard[0], command, settings, file_actions=files, setsid=True, setsigdef=IGNORED)
        os.close(standard_input)
        os.close(inherited)
        self.is_running = True

    def kill(self, late: int = 0) -> None:
        """Kill the guard and all of its group: a guard that is killed while it starts leaves the script behind."""
        if self.is_running:
            self.late = late or self.late
            with suppress(ProcessLookupError):
                os.killpg(self.process, signal.SIGKILL)

    def finish(self) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        self.status, self.is_running = code if code >= 0 else 128 - code, False
        os.close(self.end)
        os.close(self.lifeline)
        for client, number in self.waiting:
            client.answer(number, self.describe())

    def describe(self) -> bytes:
        output, errors = read_bytes(f"{self.base}.output"), read_bytes(f"{self.base}.errors")
        return b"done\0%d\0%d\0%d\0%b" % (self.status, self.late, len(output), output + errors)


class Agent:
    """Answers requests. A method `answer_VERB` takes the words of the request and returns those of the answer."""

    def __init__(self, folder: str, lease: float, locks: str, guard: tuple[str, ...]) -> None:
        self.folder, self.lease, self.lock_folder, self.guard = folder, lease, locks, guard
        self.locks: dict[bytes, int] = {}
        self.disks: dict[bytes, int] = {}
        self.jobs: dict[bytes, Job] = {}
        self.clients: dict[int, Client] = {}
        #: Counters of disks at which scripts end while the runner cannot watch them.
        self.limits: dict[str, int] = {}
        self.last_request, self.is_ending = read_clock(), False

    def answer(self, client: Client, number: int, request: bytes) -> None:
        verb, *words = request.split(b"\0", 1)
        subject = os.fsdecode(request.split(b"\0", 2)[1] if words else b"")
        result: str | Job | None
        try:
            method = vars(Agent)[f"answer_{verb.decode()}"]
            # The last word may contain null bytes. A method with `*words` takes any number of words.
            words = words[0].split(b"\0", method.__code__.co_argcount - 2) if words else []
            result = method(self, *words)
        except OSError as error:
            result = f"failed\0{error.errno}\0{error.strerror}\0{error.filename or subject}"
        except (LookupError, OverflowError, TypeError, ValueError):
            result = f"failed\0{0}\0no such request or open disk\0{subject}"
        if isinstance(result, Job) and result.is_running:
            result.waiting.append((client, number))
        elif result is not None:
            client.answer(number, result.describe() if isinstance(result, Job) else os.fsencode(result))

    def answer_on(self) -> str:
        return "yes"

    def answer_lock(self, name: bytes, owner: bytes) -> str:
        if name not in self.locks:
            lock = lock_disk(self.lock_folder, name.decode(), owner.decode())
            if isinstance(lock, tuple):
                return "\0".join(lock)
            self.locks[name] = lock
        return "had"

    def answer_unlock(self, name: bytes) -> str:
        return self.release(self.locks, name)

    def answer_close(self, path: bytes) -> str:
        return self.release(self.disks, path)

    def release(self, descriptors: dict[bytes, int], name: bytes) -> str:
        if name in descriptors:
            os.close(descriptors.pop(name))
        return "free"

    def answer_open(self, path: bytes) -> str:
        if path not in self.disks:
            self.disks[path] = os.open(os.fsdecode(path), os.O_RDONLY | os.O_EXCL)
        return "\0".join(("open", *identify_disk(self.disks[path])))

    def answer_write(self, path: bytes, at: bytes, block: bytes) -> str:
        write_block(self.disks[path], int(at), block)
        return "written"

    def answer_reread(self, path: bytes) -> str:
        reread_partitions(self.disks[path])
        return "read"

    def answer_who(self, major: bytes, minor: bytes, writing: bytes) -> str:
        return find_users(os.makedev(int(major), int(minor)), writing=writing == b"1")

    def answer_counted(self, *names: bytes) -> str:
        return "\n".join(str(count_sectors_written(name.decode())) for name in names)

    def answer_most(self, *words: bytes) -> str:
        self.limits = dict(zip(map(os.fsdecode, words[::2]), map(int, words[1::2])))
        return "known"

    def answer_job(self, name: bytes, seconds: bytes, script: bytes) -> Job:
        if name not in self.jobs:
            job = Job(f"{self.folder}/{name.decode()}")
            job.start(script, self.guard, self.locks.values())
            job.deadline = read_clock() + float(seconds)
            self.jobs[name] = job
        return self.jobs[name]

    def answer_stop(self, name: bytes) -> str:
        """Stop a script. One that has not started yet never starts."""
        self.jobs.setdefault(name, Job(f"{self.folder}/{name.decode()}")).kill()
        return "stopped"

    def answer_forget(self, name: bytes) -> str:
        if name in self.jobs and self.jobs[name].is_running:
            return "works"
        self.jobs.pop(name, None)
        for kind in ("script", "output", "errors"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.folder}/{name.decode()}.{kind}")
        return "forgotten"

    def answer_end(self) -> None:
        """End once all scripts have ended. The client notices the end of its connection."""
        self.is_ending = True

    def serve(self, listener: socket.socket) -> None:
        self.last_request = read_clock()
        while not self.is_ending or self.running_jobs():
            patience = self.enforce_limits()
            jobs, senders = self.running_jobs(), [one for one in self.clients if self.clients[one].outgoing]
            sources = [listener.fileno(), *(job.end for job in jobs), *self.clients]
            readable, writable, _ = select.select(sources, senders, [], patience)
            self.enforce_limits()
            if listener.fileno() in readable:
                connection, _ = listener.accept()
                self.clients[connection.fileno()] = Client(connection)
            for job in jobs:
                if job.end in readable:
                    job.finish()
            for number in (one for one in sources if one in self.clients):
                self.attend(number, self.clients[number], number in writable, number in readable)
        for descriptor in (*self.disks.values(), *self.locks.values()):
            os.close(descriptor)
        remove_folder(self.folder)  # connections end after this, with the process

    def attend(self, number: int, client: Client, writable: bool, readable: bool) -> None:
        try:
            if writable:
                client.outgoing = client.outgoing[client.connection.send(client.outgoing) :]
            received = client.connection.recv(CHUNK) if readable else b""
            client.incoming += received
            while request := client.next_request():
                self.answer(client, *request)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            received, readable = b"", True
        if readable and not received:
            self.clients.pop(number).connection.close()
            return
        if readable:  # after the answers: a dying disk can delay them for longer than the lease
            self.last_request = read_clock()

    def running_jobs(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.is_running]

    def enforce_limits(self) -> float:
        """Kill scripts that may not run any more; return the seconds until the next check."""
        jobs, now, end = self.running_jobs(), read_clock(), self.last_request + self.lease
        self.is_ending = self.is_ending or now > end
        # The runner watches how much is written to the disks, but cannot while its connection is down.
        unwatched = self.last_request + self.lease / 30
        is_over = now > unwatched and any(count_sectors_written(one) > most for one, most in self.limits.items())
        for job in jobs:
            if not job.late and now > job.deadline:
                job.kill(late=1)
            if self.is_ending or is_over:
                job.kill(late=2 if is_over else 0)
        times = [end, *(job.deadline for job in jobs if not job.late)]
        if self.limits and jobs:
            times.append(max(unwatched, now + self.lease / 150))
        return max(0.1, min(times) - now)


def connect(folder: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        connection.connect(f"{folder}/line")
        return connection
    connection.close()
    return None


def dismiss(folder: str) -> None:
    if connection := connect(folder):
        with connection, suppress(OSError):
            connection.sendall(b"1 3\nend")
            while connection.recv(CHUNK):
                pass


def dismiss_predecessors(folder: str) -> None:
    """End agents of the same run. Only one runner of a run is active at a time, so theirs is gone."""
    above, _, name = folder.rpartition("/")
    for other in list_folder(above):
        if other.rpartition(".")[0] == name.rpartition(".")[0]:
            dismiss(f"{above}/{other}")


def remove_folder(folder: str) -> None:
    os.spawnvp(os.P_WAIT, "rm", ["rm", "-rf", "--", folder])


def begin(agent: Agent) -> None:
    """Start the agent in its own process; it listens when this returns."""
    above = os.path.dirname(agent.folder)
    os.makedirs(above, exist_ok=True)
    dismiss_predecessors(agent.folder)
    for other in (f"{above}/{name}" for name in list_folder(above)):
        if os.path.exists(f"{other}/line") and not connect(other):  # the agent was killed
            remove_folder(other)
    os.mkdir(agent.folder)
    with socket.socket(socket.AF_UNIX) as listener:
        # Other sessions remove folders whose socket has no listener, so the socket gets its name once it listens.
        listener.bind(f"{agent.folder}/new")
        listener.listen(8)
        os.rename(f"{agent.folder}/new", f"{agent.folder}/line")
        if os.fork():
            return
        try:
            os.setsid()
            os.chdir("/")
            for number in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            agent.serve(listener)
        finally:
            os._exit(0)


def relay(connection: socket.socket, folder: str) -> None:
    """Pass bytes both ways. If the input ends while output still works, the runner is gone: dismiss the agent."""
    there = connection.fileno()
    while True:
        readable, _, _ = select.select([0, there], [], [])
        if there in readable and not copy_bytes(there, 1):
            return
        if 0 in readable and not copy_bytes(0, there):
            break
    time.sleep(1)
    with suppress(OSError):
        os.write(1, b"0 0\n")
        dismiss(folder)


def copy_bytes(source: int, target: int) -> bool:
    with suppress(OSError):
        received = block = os.read(source, CHUNK)
        while block:
            block = block[os.write(target, block) :]
        return bool(received)
    return False


def main(mode: str, folder: str = "", lease: str = "0", locks: str = "", *guard: str) -> None:
    if mode == "ask":
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(ASK[0], ASK, initial_environment())
    os.umask(0o077)
    boot, connection = read_text("/proc/sys/kernel/random/boot_id"), None
    try:
        if mode == "begin":
            begin(Agent(folder, float(lease), locks, guard))
        if mode == "dismiss":
            dismiss_predecessors(folder)
        else:
            connection = connect(folder)
    except OSError as error:
        os.write(1, f"matrix failed {error}\n".encode())
        sys.exit(1)
    os.write(1, f"matrix {'agent' if connection else 'gone'} {boot}\n".encode())
    if connection:
        relay(connection, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
