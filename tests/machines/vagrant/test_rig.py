"""A machine of Vagrant: its start, its disks and its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from matrix_runner.base import process
from matrix_runner.base.files import open_lock_file, try_lock
from matrix_runner.machines.base import RigSpec
from matrix_runner.machines.vagrant import libvirt
from matrix_runner.machines.vagrant.box import (
    Box,
    read_lines,
)
from matrix_runner.machines.vagrant.libvirt import Record
from matrix_runner.machines.vagrant.rig import (
    Order,
    command,
    enter_command,
    report_progress,
    serve_disks,
    ssh_config,
    start_machine,
)
from matrix_runner.simdisks.disk import Disk, Physics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


MIB = 2**20


SPEC = RigSpec((Disk(64 * MIB, "scsi"), Disk(64 * MIB, "virtio")), cpus=3, memory=512 * MIB)


RECORD = Record("matrix-1a2b3c4d-", "matrix 00ff", "/r/run", "/tmp/matrix-1a2b3c4d-x")


def test_vagrant_knows_one_machine_and_checks_no_updates() -> None:
    argv = command(Path("/m/1a2b"), "up")
    assert argv[-2:] == ["vagrant", "up"]
    assert {"MATRIX_VAGRANT=/m/1a2b/machines.json", "VAGRANT_CHECKPOINT_DISABLE=1"} <= set(argv)


async def test_progress_lines_of_vagrant_are_left_out() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(
        b"\r\x1b[KProgress: 1%\r\x1b[KProgress: 2%\r==> node: Starting domain.\n==> node:  -- Cpus: 2\nend"
    )
    stream.feed_eof()
    said = [line async for line in read_lines(stream)]
    assert said == ["==> node: Starting domain.", "==> node:  -- Cpus: 2", "end"]
    heard: list[str] = []
    for one in said:
        report_progress(one, lambda brief, _=None: heard.append(brief))
    assert heard == ["vagrant: Starting domain"]


def test_warnings_of_ruby_are_no_ssh_configuration() -> None:
    said = "/usr/lib/x.rb:1: warning: old\nHost node\n  HostName 192.168.131.7\n  User vagrant\n"
    assert ssh_config(said) == "Host node\n  HostName 192.168.131.7\n  User vagrant\n"


def test_words_reach_the_machine_as_they_were(tmp_path: Path) -> None:
    """Through ssh, which joins them, and the shell there, which takes them apart."""
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/bash\nfor last do :; done\nexec bash -c "$last"\n')
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/bash\nshift\nexec "$@"\n')
    for one in (fake, sudo):
        one.chmod(0o755)
    odd = ["a b", "", "it's", "$HOME `x`", "two\nlines", "*", "ä"]
    enter = enter_command(Path("/c/ssh config"), Path("/l"))
    done = process.run([*enter, "printf", "%s|", *odd], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout == "".join(f"{word}|" for word in odd)


@pytest.mark.skipif(
    not (shutil.which("nbdkit") and shutil.which("qemu-nbd")), reason="without nbdkit or qemu-utils on this host"
)
async def test_simulated_disks_report_their_work(tmp_path: Path) -> None:
    disks = (Disk(MIB, "scsi", Physics("ideal")), Disk(MIB), Disk(MIB, "sata", Physics("ideal")))
    async with serve_disks(disks, tmp_path, tmp_path) as made:
        uri = f"nbd+unix:///?socket={made.sockets[2]}"
        write = await asyncio.to_thread(process.run, ["qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", uri])
        assert write.returncode == 0, write.stderr
        assert [report.written_bytes for report in made.reports()] == [0, 0, 64 << 10]
        made.empty()
        read = await asyncio.to_thread(process.run, ["qemu-io", "-f", "raw", "-c", "read -P 0 0 1M", uri])
        assert "verification failed" not in read.stdout


@pytest.mark.skipif(shutil.which("qemu-nbd") is None, reason="without qemu-nbd on this host")
async def test_disks_answer_at_their_sockets_and_are_emptied_from_outside(tmp_path: Path) -> None:
    async with serve_disks((Disk(MIB), Disk(MIB, "scsi")), tmp_path, tmp_path) as made:
        assert await made.find_ended_server() is None
        assert made.reports() == ()
        uri = f"nbd+unix:///?socket={made.sockets[0]}"
        write = process.run(["qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", uri])
        assert write.returncode == 0, write.stderr
        made.empty()
        read = process.run(["qemu-io", "-f", "raw", "-c", "read -P 0 0 1M", uri])
        assert "verification failed" not in read.stdout
        assert read.returncode == 0
        made.servers[0].kill()
        await made.servers[0].wait()
        assert await made.find_ended_server()


@pytest.mark.skipif(shutil.which("nbdkit") is None, reason="without nbdkit on this host")
async def test_an_ended_server_has_a_reason(tmp_path: Path) -> None:
    disk = Disk(MIB, "scsi", Physics("ideal"))
    async with serve_disks((disk, disk), tmp_path, tmp_path) as made:
        assert await made.find_ended_server() is None
        made.servers[1].kill()
        await made.servers[1].wait()
        assert await made.find_ended_server() == ("the server of disk 1 was killed by signal 9", "")


def test_a_cancelled_run_still_removes_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def nothing(*_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(plan_entries=())

    @contextmanager
    def recorded(_: Path) -> Iterator[tuple[Record, Path]]:
        yield RECORD, tmp_path

    async def made(*_: object) -> None:
        pass

    async def vagrant(_folder: Path, *words: str, deadline: float) -> None:
        assert deadline
        next(one for one in asyncio.all_tasks() if one.get_name() == "run").cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        said.append(words[0])

    fakes = {"record_machine": recorded, "ssh_connection": nothing, "_create": made, "vagrant": vagrant}
    for name, fake in {**fakes, "facts_of": lambda _: {}}.items():
        monkeypatch.setattr(sys.modules["matrix_runner.machines.vagrant.rig"], name, fake)
    monkeypatch.setattr(libvirt, "remove_domain", said.append)

    async def run() -> None:
        async with start_machine(Order(SPEC, Box(name="b"), "qemu", tmp_path, cast("Any", nothing)), lambda *_: None):
            pass

    async def whole() -> None:
        await asyncio.create_task(run(), name="run")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(whole())
    assert said == ["destroy", RECORD.domain]


@pytest.mark.parametrize(
    ("made_of", "there", "waits"),
    [
        (Box(name="matrix/ours", catalogue="/c/box.json"), True, False),
        (Box(name="matrix/ours", catalogue="/c/box.json"), False, True),
        (Box(name="generic/debian12"), True, True),
    ],
)
async def test_only_one_process_uploads_a_box(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made_of: Box, *, there: bool, waits: bool
) -> None:
    """Of a box of ours that is there no other can be brought; of one of the user's own a newer version may be."""
    held, admitted = list[bool](), list[Path]()

    async def vagrant(*_: object, **__: object) -> None:
        with open_lock_file(tmp_path / "cache/vagrant/up.lock") as lock:
            held.append(not try_lock(lock, fcntl.LOCK_EX))

    coming_up = sys.modules["matrix_runner.machines.vagrant.rig"]
    monkeypatch.setattr(coming_up, "vagrant", vagrant)
    monkeypatch.setattr(libvirt, "prepare", lambda: "192.168.131.0/24")
    monkeypatch.setattr(libvirt, "security_models", tuple)
    monkeypatch.setattr(libvirt, "admit_qemu", admitted.append)
    monkeypatch.setattr(libvirt, "box_volumes", lambda name: [name] if there else [])
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("MATRIX_BOX", "" if made_of.catalogue else made_of.name)
    theirs = tmp_path / "me/uploading"
    theirs.parent.mkdir()
    theirs.write_text("photos")
    order = Order(SPEC, made_of, "qemu", tmp_path, serve_disks)
    await coming_up._create(order, RECORD, tmp_path, [], lambda *_: None)
    assert held == [waits]
    assert admitted == [Path(RECORD.sockets)]
    assert [(one.name, one.read_text()) for one in theirs.parent.iterdir()] == [("uploading", "photos")]
