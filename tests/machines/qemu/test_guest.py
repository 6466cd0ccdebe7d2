"""The conversations with a machine: what is asked, how long we wait, and what is left when they break off."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import shell
from matrix_runner.machines.base import RigLost, Step
from matrix_runner.machines.qemu import argv, guest
from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.machines.qemu.rig import QemuRig
from matrix_runner.machines.shell import OUTPUT_LOST, OutputChannel
from tests.machines.talk import talking

if TYPE_CHECKING:
    from collections.abc import Callable

NO_DISKS = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
IT = [Step("it", ":")]


async def test_old_output_and_bells_are_discarded() -> None:
    begun: list[int] = []
    async with talking(b"it\nis so") as (up, inside):
        inside.bell.send(guest.BEGINS)
        inside.words.send(b"too late")
        assert await up.evaluate("it", on_start=lambda: begun.append(1)) == b"it\nis so"
        assert not begun


async def test_orders_run_in_sequence_without_the_agent() -> None:
    async with talking() as (up, inside):
        for script in ("one", "größer"):
            await up.shell(script)
        assert [told.split("\n")[1] for told in inside.told] == ["one", "größer"]
        assert inside.asked == []


async def test_foreign_commands_run_in_their_own_shell() -> None:
    async with talking() as (up, inside):
        await up.shell("exit 3")
        assert inside.told[0].startswith("(\nexit 3\n) 3>&-\n")


async def test_a_shell_that_ends_early_gives_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking(b"bash: syntax error") as (up, inside):
        inside.is_through = False
        assert await up.shell("it") == b"bash: syntax error"
        assert inside.asked == []


async def test_lost_output_is_fetched_by_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking() as (up, inside):
        inside.is_through, inside.status = False, OUTPUT_LOST
        inside.gathered = {"out-data": "aGk=", "err-data": "b2g="}
        assert await up.shell("it") == b"hioh"
        assert inside.asked.count("guest-exec") == 1


async def test_a_busy_shell_is_replaced_by_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking() as (up, inside):
        inside.gathered = {"out-data": "aGk="}

        async def for_ever(script: str) -> None:
            await asyncio.Event().wait()

        inside.work = for_ever  # type: ignore[method-assign]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await up.evaluate("it")
        assert await up.shell("after it") == b"hi"


async def test_a_machine_whose_shell_was_killed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking(b"kill -9 $$") as (up, inside):
        inside.is_through, inside.status = False, -9
        with pytest.raises(RigLost, match="the guest's shell was killed"):
            await up.shell("it")


async def test_a_machine_whose_shell_was_killed_while_it_stood_by_is_lost_at_once() -> None:
    async with talking() as (up, inside):
        inside.status = -9  # behind its last words
        await up.shell("it")
        with pytest.raises(RigLost, match="the guest's shell was killed"):
            await up.shell("another", deadline=5)


async def test_a_reset_forgets_commands_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking() as (up, _):

        async def for_ever() -> bytes:
            await asyncio.Event().wait()
            return b""

        monkeypatch.setattr(up.orders, "_line", for_ever)
        await up.shell("reboot")
        assert not await up.orders.is_free(0.01)
        monkeypatch.undo()
        await up.orders.forget()
        assert await up.orders.is_free(0)
        assert await up.shell("it") == b""


async def test_a_new_shell_gets_what_the_other_could_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DOUBT", 0.01)
    async with talking() as (up, inside):
        inside.is_through, inside.status = False, OUTPUT_LOST
        rig = QemuRig(up, NO_DISKS, {})
        given: list[str] = []

        async def gathered(script: str, **_how: float) -> bytes:
            given.append(script)
            return b""

        monkeypatch.setattr(up, "run_in_new_shell", gathered)
        with pytest.raises(RigLost, match="cut short"):
            await rig.run([Step("it", "echo whole")], expected=0, deadline=60)
        assert "echo whole" in inside.told[0]
        assert "echo whole" in given[0]


@pytest.mark.parametrize("cut", range(1, 30))
async def test_the_last_words_may_come_in_pieces(cut: int) -> None:
    last, says = b"\n0123456789abcdef\n", b"all\nof it\n"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        heard = asyncio.create_task(OutputChannel(ours).read_until(last))
        for part in ((says + last)[:cut], (says + last)[cut:]):
            await asyncio.sleep(0)
            theirs.send(part)
        assert await heard == says


async def test_the_bell_signals_the_start_of_work() -> None:
    begun: list[int] = []
    async with talking() as (up, inside):
        work = inside.work

        async def ringing(script: str) -> None:
            inside.bell.send(guest.BEGINS)
            await work(script)
            inside.bell.send(guest.BEGINS)

        inside.work = ringing  # type: ignore[method-assign]
        await up.evaluate("it", on_start=lambda: begun.append(len(inside.told)))
    assert begun == [1, 1]


@pytest.mark.parametrize(("says", "brief"), [(b"no frame", "step it was cut short"), (b"x" * 2000, "16 MiB")])
async def test_an_answer_that_is_garbled_costs_the_rig_and_not_the_run(
    says: bytes, brief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "MOST", 1000)
    async with talking(says[:1001]) as (up, _):
        up.console.write(b"last line of the console\n")
        up.console.flush()
        with pytest.raises(RigLost, match=brief) as caught:
            await QemuRig(up, NO_DISKS, {}).run(IT, expected=0, deadline=60)
    assert caught.value.tail.endswith("last line of the console")
    assert ("no frame" in caught.value.tail) == ("cut short" in brief)


async def test_a_step_that_no_shell_can_take_is_no_fault_of_the_rig() -> None:
    async with talking() as (up, inside):
        with pytest.raises(HarnessBroken, match="null byte") as caught:
            await QemuRig(up, NO_DISKS, {}).run([Step("it", "\0")], expected=0, deadline=60)
        assert inside.told == inside.asked == []
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


async def test_a_silent_qemu_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sleep", "infinity"))
    monkeypatch.setattr(guest, "ANSWER_DEADLINE", 0.05)
    before = children()
    with pytest.raises(RigLost, match="QEMU did not answer within"):
        async with guest.run_guest(NO_DISKS, tmp_path):
            pytest.fail("it never answered")
    assert children() == before


async def test_the_last_output_of_an_ended_qemu_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sh", "-c", "echo no such board >&2; exit 3"))
    with pytest.raises(RigLost, match="QEMU ended with status 3") as caught:
        async with guest.run_guest(NO_DISKS, tmp_path):
            pytest.fail("it never answered")
    assert "no such board" in caught.value.tail
    assert {one.name for one in caplog.records} <= {"matrix"}, "asyncio reports a task that was left alone"


async def test_a_channel_that_breaks_at_once_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as (up, _):
        await up.hang_up()

        async def connect(_end: object) -> None:
            raise AssertionError

        monkeypatch.setattr(up.agent, "connect", connect)
        monkeypatch.setattr(guest, "LAST_BREATH", 0.01)
        with pytest.raises(RigLost, match="QEMU closed its channels"):
            await up.answer(up.connect(cast("Any", None), cast("Any", None)))


class Ended:
    """A QEMU that is no more."""

    def __init__(self, status: int) -> None:
        self.status = status

    async def wait(self) -> int:
        return self.status


@pytest.mark.parametrize(
    ("status", "console", "again"),
    [
        (-signal.SIGSEGV, b"", True),
        (0, b"int3: 0000 [#1] PREEMPT SMP\nKernel panic - not syncing: Fatal exception", True),
        (0, b"Kernel panic - not syncing: sysrq", False),
        (-signal.SIGKILL, b"", False),
        (11, b"", False),
    ],
)
async def test_only_a_mistake_of_the_emulators_has_a_test_done_again(
    status: int, console: bytes, again: bool, pytestconfig: pytest.Config
) -> None:
    async with talking() as (up, _):
        up.process = cast("Any", Ended(status))
        up.console.write(console)
        up.console.flush()
        await up.watch_process()
        told = up.lost.result().brief
    assert any(re.search(pattern, told) for pattern in pytestconfig.getoption("only_rerun")) is again, told


async def test_a_missing_program_leaves_no_socket_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("no-such-program"))
    before = sockets()
    with pytest.raises(HarnessBroken, match="not installed"):
        async with guest.run_guest(NO_DISKS, tmp_path):
            pytest.fail("it cannot run")
    assert sockets() == before


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def sockets() -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(str(link.readlink()).startswith("socket:") for link in links)


async def test_a_start_can_be_cancelled_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argv, "command", instead_of_qemu("sleep", "infinity"))

    async def start() -> None:
        async with guest.run_guest(NO_DISKS, tmp_path):
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


def test_no_file_of_the_monitor_under_gpl_2_is_imported() -> None:
    """See decision 27."""
    code = (
        "import sys, matrix_runner.machines.qemu.guest; print(*(one for one in sys.modules if one.startswith('qemu')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "qemu.qmp.qmp_client" in done.stdout.split()
    assert "qemu.qmp.legacy" not in done.stdout.split()
