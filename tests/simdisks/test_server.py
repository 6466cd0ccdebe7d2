"""The server of a disk, with fio at its socket."""

import asyncio
import ctypes
import errno
import os
import re
import signal
import socket
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from matrix_runner.base.children import kill, spawn
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.carry.trial_result import finding
from matrix_runner.machines.base import StepResult
from matrix_runner.records.record import Outcome
from matrix_runner.simdisks import check
from matrix_runner.simdisks.check import serve_disk
from matrix_runner.simdisks.clib import Board, Report, build_library, load_library
from matrix_runner.simdisks.disk import Disk, Fault, Link, Physics
from matrix_runner.simdisks.server import (
    HOST_FAILED,
    ROOM,
    Overload,
    counters_between,
    explain_exit,
    is_listening,
    overload_of,
    socket_command,
    stdio_command,
    wait_for_socket,
)
from matrix_runner.space.load import disk_model
from matrix_runner.work.fio.workload import FioWorkload

VERIFIED = FioWorkload.model_validate({"rw": "write", "fio": {"verify": "crc32c"}})

IDEAL = Disk(64 * 2**20, "virtio", Physics("ideal"))
VOLUME = Disk(64 * 2**20, "virtio", disk_model("cloud-80iops").physics(1))
FIO = ("fio", "--name=x", "--ioengine=nbd", "--size=4m", "--bs=64k")


def asked(disk: Disk, *options: str, faults: tuple[Fault, ...] = ()) -> tuple[int, str, Report]:
    """What fio and the board say of some work."""

    async def ask() -> tuple[int, str, Report]:
        async with serve_disk(disk) as alone:
            for fault in faults:
                alone.board.add_fault(fault)
            before = alone.board.report(0)
            done = await asyncio.to_thread(run, [*FIO, f"--uri={alone.uri}", *options])
            return done.returncode, done.stdout + done.stderr, counters_between([before], [alone.board.report(0)])[0]

    return asyncio.run(ask())


@pytest.mark.parametrize("disk", [IDEAL, Disk(64 * 2**20, "sata", disk_model("st3320620as").physics(1))])
def test_written_data_is_read_back(disk: Disk) -> None:
    status, said, done = asked(
        disk, "--rw=randwrite", "--bs=4k-64k", "--iodepth=16", "--verify=crc32c", "--verify_state_save=0", "--fsync=20"
    )
    assert status == 0, said
    assert done.written_bytes == done.read_bytes > 2**20
    assert done.flushes > 0
    assert done.failed == 0


def test_a_dead_disk_answers_with_errors() -> None:
    status, said, done = asked(IDEAL, "--rw=read", faults=(Fault(0, "dies", at=0.0),))
    assert status != 0
    assert "Input/output error" in said
    assert done.failed > 0
    assert done.reads == 0


def test_only_what_lies_on_bad_places_cannot_be_read() -> None:
    bad = (Fault(0, "medium", at=0.0, where=(1 << 20, (1 << 20) + 4096)),)
    assert asked(IDEAL, "--rw=read", "--size=1m", faults=bad)[0] == 0
    status, said, done = asked(IDEAL, "--rw=read", "--offset=1m", "--size=1m", faults=bad)
    assert status != 0
    assert "Input/output error" in said
    assert done.failed == 1
    assert asked(IDEAL, "--rw=write", faults=bad)[0] == 0


@pytest.mark.parametrize(
    ("offset", "length", "outcome"),
    [
        (1 << 20, 4096, Outcome.CORRUPT),
        ((1 << 20) + 100, 1, Outcome.CORRUPT),
        (32 << 20, 4096, Outcome.MEASURED),  # fio does not read there
    ],
)
def test_wrong_data_is_found_by_fio_only(offset: int, length: int, outcome: Outcome) -> None:
    wrong = (Fault(0, "corrupt", at=0.0, where=(offset, offset + length)),)
    work = ("--rw=write", "--verify=crc32c", "--verify_state_save=0", "--output-format=json+")
    status, output, done = asked(IDEAL, *work, faults=wrong)
    assert (done.failed, done.written_bytes) == (0, 4 << 20)
    assert finding([StepResult("measure", status, output, 0.0)], VERIFIED).outcome is outcome


def test_a_bad_place_that_was_written_is_good_again() -> None:
    bad = (Fault(0, "medium", at=0.0, where=(1 << 20, 2 << 20)),)
    status, said, done = asked(
        IDEAL, "--rw=write", "--offset=1m", "--size=1m", "--verify=crc32c", "--verify_state_save=0", faults=bad
    )
    assert status == 0, said
    assert done.failed == 0
    half = ("--rw=write", "--offset=1m", "--size=512k")
    beyond = ("--name=y", "--ioengine=nbd", "--stonewall", "--rw=read", "--bs=64k", "--offset=1m", "--size=1m")

    async def ask() -> tuple[int, Report]:
        async with serve_disk(IDEAL) as alone:
            alone.board.add_fault(bad[0])
            done = await asyncio.to_thread(run, [*FIO, f"--uri={alone.uri}", *half, *beyond, f"--uri={alone.uri}"])
            return done.returncode, alone.board.report(0)

    status, report = asyncio.run(ask())
    assert status != 0
    assert report.read_bytes == (512 + 64) * 1024
    assert report.failed == 1


def test_a_container_has_no_more_memory_than_it_may_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(check, "CGROUP_LIMIT", limit)
    assert 2**20 < check.spare_memory() < 2**50
    limit.write_text("max\n")
    assert check.spare_memory() > 2**20
    limit.write_text("4096\n")
    assert check.spare_memory() == 4096


def test_images_of_checks_are_in_memory_if_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for spare, in_memory in ((3 * 2**20, True), (2 * 2**20, False)):
        monkeypatch.setattr(check, "spare_memory", lambda spare=spare: spare)
        with check.blank_image(2**40, 2**20) as file:  # far larger than any memory, and hardly written
            told = os.fstat(file.fileno())
            assert (told.st_size, told.st_blocks) == (2**40, 0)
            assert ("memfd" in str(Path(f"/proc/self/fd/{file.fileno()}").readlink())) == in_memory


@asynccontextmanager
async def behind_a_file(folder: Path) -> AsyncIterator[tuple[Path, str]]:
    """A disk on a file that has holes: zeros, 8 KiB of sevens behind 1 MiB and 4 KiB, zeros."""
    image, code = folder / "image", load_library(await build_library())
    with image.open("w+b") as file, (folder / "board").open("w+b") as sheet:
        file.truncate(IDEAL.size)
        os.pwrite(file.fileno(), b"\7" * 8192, 2**20 + 4096)
        Board(code, sheet.fileno()).close()
        socket = folder / "socket"
        argv = socket_command(code.plugin, (IDEAL,), 0, socket, file.fileno(), sheet.fileno())
        server = await spawn(argv, pass_fds=(file.fileno(), sheet.fileno()))
        try:
            await wait_for_socket(socket, server, check.DEADLINE)
            yield image, f"nbd+unix:///?socket={socket}"
        finally:
            await kill(server)


async def _end_of_a_server(image: int, folder: Path, what: str) -> tuple[int, int]:
    """Of fio and of a server that cannot use its own file."""
    code = load_library(await build_library())
    with (folder / "board").open("w+b") as sheet:
        Board(code, sheet.fileno()).close()
        socket = folder / "socket"
        argv = socket_command(code.plugin, (IDEAL,), 0, socket, image, sheet.fileno())
        server = await spawn(argv, pass_fds=(image, sheet.fileno()))
        try:
            await wait_for_socket(socket, server, check.DEADLINE)
            uri = f"--uri=nbd+unix:///?socket={socket}"
            done = await asyncio.to_thread(run, [*FIO, uri, f"--rw={what}"])
            return done.returncode, await asyncio.wait_for(server.wait(), 10)
        finally:
            await kill(server)


@pytest.mark.parametrize(
    ("path", "flags", "what", "wrong"),
    [
        ("/dev/full", os.O_RDWR, "write", errno.ENOSPC),
        ("image", os.O_RDONLY, "write", errno.EBADF),
        ("image", os.O_WRONLY, "read", errno.EBADF),
    ],
)
def test_a_server_whose_own_file_fails_ends_and_is_no_dying_disk(
    tmp_path: Path, path: str, flags: int, what: str, wrong: int
) -> None:
    (tmp_path / "image").write_bytes(b"\7" * 2**20)
    image = os.open(tmp_path / path, flags)
    try:
        status, end = asyncio.run(_end_of_a_server(image, tmp_path, what))
    finally:
        os.close(image)
    assert status != 0
    assert end == HOST_FAILED + wrong


@pytest.mark.parametrize(
    ("program", "why"), [("false", "ended with status 1"), ("sleep 1000", "did not start within 0.1 s")]
)
async def test_a_server_that_does_not_start_is_reported(tmp_path: Path, program: str, why: str) -> None:
    server = await spawn(program.split())
    try:
        deadline = 60.0 if program == "false" else 0.1
        with pytest.raises(HarnessBroken, match=f"the disk's server {why}"):
            await wait_for_socket(tmp_path / "socket", server, deadline)
    finally:
        await kill(server)


def test_a_socket_that_is_only_there_does_not_listen_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a\u2028 socket \udcff"
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(os.fsencode(path))
        assert path.exists()
        assert not is_listening(path)
        line.listen()
        assert is_listening(path)
        monkeypatch.chdir(tmp_path)
        assert is_listening(Path(path.name))
    assert path.exists()
    assert not is_listening(path)
    with socket.socket(socket.AF_UNIX) as line:
        line.bind("near")
        line.listen()
        assert is_listening(Path("near"))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (HOST_FAILED + errno.ENOSPC, ("the host's disk is full: disk2 cannot grow", ROOM)),
        (HOST_FAILED + errno.EDQUOT, ("the host's disk is full: disk2 cannot grow", ROOM)),
        (
            HOST_FAILED + errno.EIO,
            ("the host's file behind disk 2 failed: Input/output error", "`dmesg` of the host may say why"),
        ),
        (-9, ("the server of disk 2 was killed by signal 9", "")),
        (1, ("the server of disk 2 ended with status 1", "")),
    ],
)
def test_the_exit_of_a_server_is_explained(status: int, said: tuple[str, str]) -> None:
    assert explain_exit(2, status) == said


def _resident(image: Path) -> int:
    """Bytes of it in the host's memory."""
    if not which("fincore"):
        pytest.skip("zeros they are; whether they were fetched is told by fincore (package util-linux-extra)")
    return int(run(["fincore", "--bytes", "--noheadings", "--output", "RES", str(image)]).stdout)


def test_unwritten_data_is_zeros_without_memory(tmp_path: Path) -> None:
    """Memory for zeros can take a host tens of milliseconds, in which requests pile up that a disk is fit to serve."""
    parts = [("0x00", 8 * 2**20, 32 * 2**20), ("0x07", 2**20 + 4096, 8192), ("0x00", 2**20, 4096)]

    async def ask() -> list[tuple[int, str]]:
        async with behind_a_file(tmp_path) as (_, uri):
            found = []
            for pattern, offset, size in parts:
                words = (f"--offset={offset}", f"--size={size}", f"--bs={min(size, 2**18)}", "--rw=read")
                verify = ("--verify=pattern", f"--verify_pattern={pattern}", "--verify_state_save=0")
                done = await asyncio.to_thread(run, [*FIO, f"--uri={uri}", *words, *verify])
                found.append((done.returncode, done.stdout + done.stderr))
            return found

    for status, said in asyncio.run(ask()):
        assert status == 0, said
    assert _resident(tmp_path / "image") < 2**20


def test_written_zeros_take_no_room_and_erase(tmp_path: Path) -> None:
    """As above; and dd of /dev/zero writes nothing else."""

    async def ask() -> tuple[int, int]:
        async with behind_a_file(tmp_path) as (image, uri):
            before = image.stat().st_blocks
            words = ("--rw=write", "--zero_buffers=1", "--offset=0", "--size=16m")
            done = await asyncio.to_thread(run, [*FIO, f"--uri={uri}", *words])
            assert done.returncode == 0, done.stdout + done.stderr
            return before, image.stat().st_blocks

    before, after = asyncio.run(ask())
    assert (tmp_path / "image").read_bytes()[: 16 * 2**20].count(0) == 16 * 2**20
    assert 0 < before <= after <= 64 * 1024 // 512  # fio asks for 64 KiB at a time


@pytest.mark.skipif(not which("qemu-io"), reason="qemu-io is not installed (package qemu-utils)")
def test_holes_and_data_may_be_in_one_request(tmp_path: Path) -> None:
    asked = (
        f"read -P 7 -s 4096 -l 8192 {2**20} 256k",
        f"read -P 0 -l 4096 {2**20} 256k",
        f"read -P 0 -s 12k -l 200k {2**20} 256k",
        "write -P 9 3000k 4k",
        "read -P 9 -s 56k -l 4k 2944k 128k",
    )

    async def ask() -> str:
        async with behind_a_file(tmp_path) as (_, uri):
            words = [word for one in asked for word in ("-c", one)]
            done = await asyncio.to_thread(run, ["qemu-io", "-f", "raw", *words, uri])
            return done.stdout + done.stderr

    said = asyncio.run(ask())
    assert said.count("ops; ") == len(asked), said
    assert "failed" not in said


@pytest.mark.parametrize("fault", [Fault(0, "slow", at=0.0, factor=4.0), Fault(0, "stalls", at=0.0, seconds=3.0)])
def test_a_slow_or_stalled_disk_takes_its_time_and_is_no_overload(fault: Fault, tmp_path: Path) -> None:
    """Eight requests of an eightieth of a second each: the model owes more, and the host is not to blame for it."""
    work = ("--rw=read", "--size=512k")
    _, _, usual = asked(VOLUME, *work)
    gate = tmp_path / "gate"  # fio waits for it, so a slow start of fio does not use up the fault
    os.mkfifo(gate)

    async def ask() -> tuple[int, str, Report]:
        async with serve_disk(VOLUME) as alone:

            def begin() -> None:
                with gate.open("w"):
                    alone.board.add_fault(replace(fault, at=alone.board.clock()))

            opened = asyncio.create_task(asyncio.to_thread(begin))
            done = await asyncio.to_thread(run, [*FIO, f"--exec_prerun=cat {gate}", f"--uri={alone.uri}", *work])
            await opened
            return done.returncode, done.stdout + done.stderr, alone.board.report(0)

    status, said, done = asyncio.run(ask())
    assert status == 0, said
    assert done.owed > 2 * usual.owed


def test_faults_of_one_disk_at_once_make_it_as_slow_as_the_worst_of_them() -> None:
    """An eightieth of a second a request, but twenty times as long from the beginning on, and nothing for a second."""
    faults = (
        *(Fault(0, "slow", at=0.0, factor=factor) for factor in (2.0, 20.0, 2.0)),
        *(Fault(0, "stalls", at=0.1, seconds=seconds) for seconds in (0.5, 1.0)),
    )
    status, said, done = asked(VOLUME, "--rw=read", "--size=256k", faults=faults)
    assert status == 0, said
    # A quarter of a second from one request to the next, and what of the stalled second was left when the first came.
    assert 3 * 20 / 80 < done.owed < 4 * 20 / 80 + 1.0


QUIET = Report(
    reads=0, writes=0, flushes=0, read_bytes=0, written_bytes=0, seeks=0, hits=0, copied_bytes=0,
    busy=0.0, occupied=0.0, late=0.0, owed=0.0, failed=0, idle=5.0, starved=0.5,
)  # fmt: skip


def test_overload_is_what_a_trial_lost_of_the_time_in_which_it_wanted_something() -> None:
    assert overload_of(()) is None
    assert overload_of((QUIET,)) is None
    busy = replace(QUIET, occupied=2.0, late=0.2, owed=1.8)
    found = overload_of((busy, QUIET))
    assert found
    assert found.share == pytest.approx(0.28)
    assert found.causes == pytest.approx({"late": 0.08, "idle": 0.2})
    assert overload_of((replace(busy, starved=0.0, late=0.02, owed=1.98),)) == Overload(late=0.01, starved=0.0)
    assert Overload(late=0.03, starved=0.03).exceeds(0.05)
    assert not Overload(late=0.02, starved=0.03).exceeds(0.05)
    assert Overload(late=0.02, starved=0.03).exceeds(0.04)


def test_the_wait_of_a_single_disk_counts_while_others_work() -> None:
    async def gaps() -> list[float]:
        code = load_library(await build_library()).c
        code.board_begins.restype = ctypes.c_double
        moment, at = ctypes.c_double, ctypes.c_int
        with tempfile.TemporaryFile() as sheet:
            board = ctypes.c_void_p(code.board_made(sheet.fileno(), moment(1.0)))

            def begins(disk: int, now: float) -> float:
                return round(float(code.board_begins(board, at(disk), moment(now))), 6)

            def ends(disk: int, now: float) -> None:
                code.board_ended(board, at(disk), *(moment(now),) * 3, at(0))

            found = [begins(0, 1.0), begins(1, 1.0), begins(1, 1.0)]
            ends(0, 2.0)
            found.append(begins(0, 2.005))  # disk 1 is at work, and disk 0 had nothing to do
            ends(1, 3.0)
            ends(1, 3.002)
            ends(0, 3.004)
            found.append(begins(1, 3.010))  # disk 1 had nothing to do since its second answer
            found.append(begins(1, 3.011))  # it has a request already
            found.append(begins(0, 3.012))  # brought by the last answer
            ends(0, 4.0)
            found.append(begins(0, 4.5))  # after a pause
            return found

    assert asyncio.run(gaps()) == [0.0, 0.0, 0.0, 0.005, 0.008, 0.0, 0.008, 0.0]


def test_waits_count_by_the_work_of_each_disk() -> None:
    busy, rare = (
        replace(QUIET, occupied=9.0, starved=1.0, owed=9.0),
        replace(QUIET, occupied=1.0, starved=3.0, owed=1.0),
    )
    found = overload_of((busy, rare))
    assert found
    assert found.starved == pytest.approx((9.0 * 0.1 + 1.0 * 0.75) / 10.0)


def test_a_machine_that_waits_for_a_processor_is_host_limited_although_its_disks_had_work() -> None:
    busy = replace(QUIET, idle=0.0, starved=0.0, occupied=8.0, owed=24.0)
    loss = [overload_of((replace(busy, waited=waited),)) for waited in (0.5, 11.0, 13.0, 30.0)]
    shares = [one and one.share for one in loss]
    assert shares == [0, 0, pytest.approx(13 / 37), pytest.approx(30 / 54)]  # a little is usual
    assert loss[3]
    assert loss[3].causes == pytest.approx({"late": 0.0, "idle": 0.0, "crowded": 30 / 54})
    # Most of the waits were outside of the work of the disks.
    brief = overload_of((replace(busy, occupied=0.1, owed=0.1, idle=9.9, waited=2.0),))
    assert brief == Overload(late=0.0, starved=0.0, crowded=0.2)
    assert not brief.exceeds(0.05)


_HELLO = struct.Struct(">8s8sH")  # NBDMAGIC, IHAVEOPT, flags
_OPTION = struct.Struct(">8sII")
_REQUEST = struct.Struct(">IHHQQI")
_CHUNK = struct.Struct(">IHHQI")


def _chunks_of_a_read(path: str, size: int) -> list[tuple[int, int, int, int]]:
    """Return flags, type, cookie and length of each chunk of the answer."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        stream = line.makefile("rwb")
        stream.read(_HELLO.size)
        stream.write(struct.pack(">I", 3))  # the same flags of ours
        stream.write(_OPTION.pack(b"IHAVEOPT", 8, 0))  # structured replies
        stream.flush()
        stream.read(20)
        stream.write(_OPTION.pack(b"IHAVEOPT", 1, 0))  # the only export
        stream.flush()
        stream.read(10)
        stream.write(_REQUEST.pack(0x25609513, 0, 0, 7, 4096, size))
        stream.flush()
        found = list[tuple[int, int, int, int]]()
        while not found or not found[-1][0] & 1:
            magic, *words = _CHUNK.unpack(stream.read(_CHUNK.size))
            assert magic == 0x668E33EF
            found.append((words[0], words[1], words[2], words[3]))
            assert len(stream.read(words[3])) == words[3]
        return found


@pytest.mark.parametrize("size", [512, 1 << 20])
def test_the_answer_to_a_read_ends_with_an_empty_chunk(size: int) -> None:
    """Otherwise QEMU keeps the answer until the next one arrives."""

    async def ask() -> list[tuple[int, int, int, int]]:
        async with serve_disk(IDEAL) as alone:
            return await asyncio.to_thread(_chunks_of_a_read, alone.uri.rpartition("socket=")[2], size)

    assert asyncio.run(ask()) == [(0, 1, 7, 8 + size), (1, 0, 7, 0)]


def test_a_library_whose_name_would_be_cut_is_not_loaded() -> None:
    assert stdio_command(Path("/a/p.so"), [IDEAL], 0, 7, 8)[:3] == ["env", "LD_PRELOAD=/a/answers.so", "nbdkit"]
    assert stdio_command(Path("/a b/p.so"), [IDEAL], 0, 7, 8)[0] == "nbdkit"
    assert stdio_command(Path("/a:b/p.so"), [IDEAL], 0, 7, 8)[0] == "nbdkit"


def test_disks_of_one_link_share_it() -> None:
    pci, usb = Link("pci", 133e6), Link("usb", 40e6)
    disks = [Disk(2**30, "sata", Physics("ideal"), link) for link in (usb, pci, None, pci)]
    lines = [" ".join(stdio_command(Path("/p.so"), disks, at, 7, 8)) for at in range(4)]
    assert [re.findall(r"bus=(\d)", line) for line in lines] == [["0"], ["1"], [], ["1"]]
    assert lines[3].endswith("image=7 board=8 disk=3 kind=0.0 size=1073741824.0 bus=1")


def test_a_server_reports_time_lost_to_its_host() -> None:
    """Half of each tenth of a second the server may not run, whatever the host has to give."""

    async def ask() -> tuple[int, Report]:
        async with serve_disk(VOLUME) as alone:
            starved = asyncio.create_task(starve(alone.server.pid))
            before = alone.board.report(0)
            done = await asyncio.to_thread(run, [*FIO, f"--uri={alone.uri}", "--rw=randread", "--size=1m"])
            starved.cancel()
            return done.returncode, counters_between([before], [alone.board.report(0)])[0]

    async def starve(pid: int) -> None:
        try:
            while True:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(0.05)
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(0.05)
        finally:
            os.kill(pid, signal.SIGCONT)

    status, done = asyncio.run(ask())
    assert status == 0
    overload = overload_of((done,))
    assert overload is not None
    assert overload.exceeds(0.05)


@pytest.mark.parametrize("slow", [1, 2, 4, 8])
def test_a_slow_disk_takes_as_much_of_its_own_time_and_more_of_the_hosts(slow: int) -> None:
    status, said, done = asked(replace(VOLUME, slow=slow), "--rw=randread", "--bs=4k", "--number_ios=41")
    assert status == 0, said
    # The 41st request starts forty eightieths of a second after the first, and takes half a millisecond.
    assert done.occupied == pytest.approx(40 / 80 + 0.0005, rel=0.1)
    (milliseconds,) = re.findall(r"read: .*/(\d+)msec", said)
    assert int(milliseconds) >= 0.98 * slow * 40 / 80 * 1000
