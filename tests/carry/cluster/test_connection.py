"""The reason why a scheduler cannot be reached."""

from __future__ import annotations

import asyncio
import shutil
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from matrix_runner.carry.cluster.connection import Certificates

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.cluster import connection
from matrix_runner.carry.cluster.connection import (
    ClusterLost,
    Misdirected,
    connect,
    connect_soon,
    load_certificates,
    make_certificates,
)
from matrix_runner.carry.cluster.members import Membership, listens_everywhere, scheduler, stay_member
from matrix_runner.carry.cluster.relayed import query


def unknown_name(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@asynccontextmanager
async def mismatch(tmp_path: Path) -> AsyncIterator[tuple[str, Certificates]]:
    """Yield the address of a scheduler, and certificates that are not its own."""
    for name in ("ours", "others"):
        make_certificates(tmp_path / name)
    async with scheduler("tls://127.0.0.1:0", load_certificates(tmp_path / "ours")) as address:
        await (await connect(address, load_certificates(tmp_path / "ours"))).close()
        yield address, load_certificates(tmp_path / "others")


async def first_report(address: str, security: Certificates | None) -> str:
    reports = asyncio.Queue[str]()
    joining = asyncio.create_task(stay_member(address, Membership("one", 1), security, reports.put_nowait))
    try:
        return await reports.get()
    finally:
        joining.cancel()
        await asyncio.wait([joining])


async def test_certificates_of_another_folder_are_named_by_worker_and_status(tmp_path: Path) -> None:
    async with mismatch(tmp_path) as (address, others):
        said = await first_report(address, others)
        assert said.startswith(f"{address}: the certificates do not match; trying again\n→ copy the folder")
        with pytest.raises(Misdirected, match="the certificates do not match") as refused:
            await query(address, others)
        assert "copy the folder" in refused.value.resolution


async def test_an_unknown_name_is_named_by_worker_and_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unknown_name)
    said = await first_report("tcp://r7:8786", None)
    assert said.startswith("tcp://r7:8786: the name r7 is not known; trying again\n→ correct the name")
    with pytest.raises(Misdirected, match="the name r7 is not known"):
        await query("tcp://r7:8786", None)


async def test_an_address_where_nothing_listens_needs_a_scheduler() -> None:
    address = free_address()
    with pytest.raises(ClusterLost, match=f"no scheduler answers at {address}") as refused:
        await connect_soon(address, None, 0.0, again=False)
    assert "refused" in refused.value.details
    assert refused.value.resolution.startswith("start it with `matrix cluster scheduler`")


async def test_a_host_that_does_not_answer_may_have_a_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_ANSWER", 0.0)
    with pytest.raises(ClusterLost, match="no scheduler answers") as refused:
        await connect(free_address(), None)
    assert refused.value.details == "no answer within 0 s"
    assert "firewall" in refused.value.resolution


@pytest.mark.parametrize("known", [False, True])
async def test_only_a_scheduler_that_answered_before_is_awaited_without_its_name(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    attempts = iter([Misdirected("the name lab is not known"), None])

    async def attempt(*_: object) -> None:
        if problem := next(attempts):
            raise problem

    monkeypatch.setattr(connection, "connect", attempt)
    monkeypatch.setattr(connection, "_PAUSE", 0.0)
    if known:
        await connect_soon("tcp://lab:1", None, 60.0, again=True)
    else:
        with pytest.raises(Misdirected):
            await connect_soon("tcp://lab:1", None, 60.0, again=False)
    assert len(list(attempts)) == (0 if known else 1)


async def test_an_address_with_the_other_scheme_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificates(tmp_path)
    security = load_certificates(tmp_path)
    async with scheduler("tls://127.0.0.1:0", security) as address:
        with monkeypatch.context() as briefly:
            briefly.setattr(connection, "_ANSWER", 0.5)
            with pytest.raises(ClusterLost, match="does not answer as a scheduler") as refused:
                await connect(address.replace("tls", "tcp"), None)
        assert "tls://" in refused.value.resolution
    async with scheduler("tcp://127.0.0.1:0", None) as address:
        await (await connect(address, None)).close()
        with pytest.raises(Misdirected, match="does not use TLS"):
            await connect(address.replace("tcp", "tls"), security)


async def test_a_certificate_that_the_scheduler_does_not_accept_is_named(tmp_path: Path) -> None:
    for name in ("ours", "others"):
        make_certificates(tmp_path / name)
    (tmp_path / "mixed").mkdir()
    for file in (tmp_path / "others").iterdir():
        source = tmp_path / "ours" / file.name if file.name == "ca.pem" else file
        shutil.copy(source, tmp_path / "mixed" / file.name)
    async with scheduler("tls://127.0.0.1:0", load_certificates(tmp_path / "ours")) as address:
        with pytest.raises(Misdirected, match="does not accept our certificate") as refused:
            await connect(address, load_certificates(tmp_path / "mixed"))
        assert "copy the folder" in refused.value.resolution


@pytest.mark.parametrize(
    ("address", "several"),
    [("tls://0.0.0.0:8786", True), ("tcp://[::]:8786", True), ("tcp://:0", True), ("tls://10.77.0.1:8786", False)],
)
def test_a_scheduler_without_an_address_listens_at_all(address: str, several: bool) -> None:
    assert listens_everywhere(address) is several


def test_certificates_are_not_made_where_others_can_write(tmp_path: Path) -> None:
    """Another user could have made the file of the key before, and would read the key in it."""
    tmp_path.chmod(0o777)
    with pytest.raises(BadInput, match="other users can write in"):
        make_certificates(tmp_path)
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o755)
    make_certificates(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
