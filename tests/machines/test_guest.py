"""The conversations with a machine: what is asked, how long we wait, and what is left when they break off."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from runner.errors import HarnessBroken
from runner.machines.qemu import argv, guest, words
from runner.machines.qemu.appliance import Appliance
from runner.machines.qemu.rig import QemuRig
from runner.machines.qemu.words import Words
from runner.machines.seam import RigLost, Step
from tests.machines.talk import talking

if TYPE_CHECKING:
    from collections.abc import Callable

NO_DISKS = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
IT = [Step("it", ":")]


async def test_what_was_said_and_rung_for_an_earlier_command_is_not_heard() -> None:
    begun: list[int] = []
    async with talking(b"it\nis so") as (up, agent):
        agent.bell.send(guest.BEGINS)
        agent.words.send(b"too late")
        assert await up.shell("it", begun=lambda: begun.append(1)) == b"it\nis so"
        assert not begun


async def test_who_says_that_it_is_through_is_not_asked() -> None:
    async with talking() as (up, agent):
        for _ in range(2):
            await up.shell("it", expected=1000, deadline=2000)
        assert agent.asked == ["guest-exec"] * 2


async def test_who_ends_before_it_is_through_is_asked_and_heard_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking(b"bash: syntax error") as (up, agent):
        agent.is_through = False
        assert await up.shell("it") == b"bash: syntax error"
        assert agent.asked[:2] == ["guest-exec", "guest-exec-status"]


async def test_what_could_not_be_said_aloud_is_heard_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking() as (up, agent):
        agent.is_through = False
        agent.status = {"exitcode": guest.UNHEARD, "out-data": "aGk=", "err-data": "b2g="}
        assert await up.shell("it") == b"hioh"
        assert agent.asked.count("guest-exec") == 2


@pytest.mark.parametrize("cut", range(1, 30))
async def test_the_last_words_may_come_in_pieces(cut: int) -> None:
    last, says = b"\n0123456789abcdef\n", b"all\nof it\n"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        heard = asyncio.create_task(Words(ours).until(last))
        for part in ((says + last)[:cut], (says + last)[cut:]):
            await asyncio.sleep(0)
            theirs.send(part)
        assert await heard == says


async def test_the_bell_tells_that_work_begins() -> None:
    begun: list[list[str]] = []
    async with talking() as (up, agent):
        work = agent.work

        async def ringing(script: str) -> None:
            agent.bell.send(guest.BEGINS)
            await work(script)
            agent.bell.send(guest.BEGINS)

        agent.work = ringing  # type: ignore[method-assign]
        await up.shell("it", expected=7, begun=lambda: begun.append(list(agent.asked)))
    assert begun == [["guest-exec"]] * 2


@pytest.mark.parametrize(("says", "brief"), [(b"no frame", "step it was cut short"), (b"x" * 2000, "16 MiB")])
async def test_an_answer_that_is_garbled_costs_the_rig_and_not_the_run(
    says: bytes, brief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "MOST", 1000)
    async with talking(says[:1001]) as (up, _):
        up.console.write(b"last line of the console\n")
        up.console.flush()
        with pytest.raises(RigLost, match=brief) as caught:
            await QemuRig(up, NO_DISKS, {}).run(IT, expected=0, deadline=60)
    assert caught.value.tail.endswith("last line of the console")
    assert ("no frame" in caught.value.tail) == ("cut short" in brief)


async def test_a_step_that_no_shell_can_take_is_no_fault_of_the_rig() -> None:
    async with talking() as (up, agent):
        with pytest.raises(HarnessBroken, match="null byte") as caught:
            await QemuRig(up, NO_DISKS, {}).run([Step("it", "\0")], expected=0, deadline=60)
        assert agent.asked == []
    assert not isinstance(caught.value, RigLost)


async def test_a_qemu_that_stops_answering_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "ANSWER_DEADLINE", 0.01)
    async with talking() as (up, _):
        with pytest.raises(RigLost, match="QEMU did not answer to migrate-incoming within"):
            await up.command("migrate-incoming", uri="fd:state")


def instead_of_qemu(*words: str) -> Callable[..., list[str]]:
    return lambda *_: list(words)


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


async def test_a_qemu_that_never_says_a_word_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sleep", "infinity"))
    monkeypatch.setattr(guest, "ANSWER_DEADLINE", 0.05)
    before = children()
    with pytest.raises(RigLost, match="QEMU did not answer within"):
        async with guest.running(NO_DISKS, tmp_path):
            pytest.fail("it never answered")
    assert children() == before


async def test_a_qemu_that_ends_at_once_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sh", "-c", "echo no such board >&2; exit 3"))
    with pytest.raises(RigLost, match="QEMU ended with status 3") as caught:
        async with guest.running(NO_DISKS, tmp_path):
            pytest.fail("it never answered")
    assert "no such board" in caught.value.tail
    assert not caplog.records


async def test_a_channel_that_breaks_before_we_can_say_anything_is_no_riddle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as (up, _):
        await up.hang_up()

        async def connect(_end: object) -> None:
            raise AssertionError

        monkeypatch.setattr(up.agent, "connect", connect)
        monkeypatch.setattr(guest, "LAST_BREATH", 0.01)
        with pytest.raises(RigLost, match="QEMU closed its channels"):
            await up.answer(up.connect(cast("Any", None), cast("Any", None)))


async def test_a_program_that_is_not_there_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("no-such-program"))
    before = sockets()
    with pytest.raises(HarnessBroken, match="not installed"):
        async with guest.running(NO_DISKS, tmp_path):
            pytest.fail("it cannot run")
    assert sockets() == before


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def sockets() -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(str(link.readlink()).startswith("socket:") for link in links)


async def test_cancelling_is_clean_at_whatever_point_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sleep", "infinity"))

    async def start() -> None:
        async with guest.running(NO_DISKS, tmp_path):
            pytest.fail("it never answered")

    before = children(), sockets()
    for turns in range(40):
        task = asyncio.create_task(start())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)  # a transport closes its socket one turn later
        assert (children(), sockets()) == before, turns
    assert left_in(tmp_path) == []
