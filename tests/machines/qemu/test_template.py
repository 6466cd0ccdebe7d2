"""Templates while others forget them."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from matrix_runner.base import cache, digests
from matrix_runner.base.cache import remove_unused
from matrix_runner.base.files import sha256
from matrix_runner.machines.base import MachineOptions, RigLost
from matrix_runner.machines.qemu import Qemu, argv, template
from matrix_runner.machines.qemu.appliance import Appliance
from tests.machines.talk import talking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from matrix_runner.machines.qemu.guest import Guest

VM = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())


@pytest.fixture(autouse=True)
def no_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates of a few bytes, and nothing that runs."""
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))

    async def make(_vm: argv.Vm, folder: Path, _scratch: Path) -> None:
        for name in ("memory", "state"):
            (folder / name).touch()
        (folder / "facts.json").write_text(json.dumps({"it": "is whole"}))

    @asynccontextmanager
    async def running(_vm: argv.Vm, _scratch: Path, start: argv.Start, _back: object) -> AsyncIterator[Any]:
        assert start.is_clone
        assert start.memory
        yield start.memory

    async def wake(_guest: Guest, state: Path) -> None:
        sha256(state)

    for name, fake in {"make": make, "run_guest": running, "resume": wake}.items():
        monkeypatch.setattr(template, name, fake)


def remembered(name: str) -> bool:
    return (template.home() / name).exists()


async def test_a_template_in_use_is_not_forgotten() -> None:
    async with template.restore(VM, "a", Path()) as (memory, facts):
        remove_unused(template.home() / "a")
        assert remembered("a")
        assert cast("Path", memory).exists()
        assert facts == {"it": "is whole"}
    remove_unused(template.home() / "a")
    assert not remembered("a")


async def test_a_template_found_whole_is_not_forgotten_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with template.restore(VM, "a", Path()):
        pass
    find_damage = digests.find_damage

    def then_another_process_prunes(folder: Path) -> list[str] | None:
        found = find_damage(folder)
        remove_unused(folder)
        return found

    monkeypatch.setattr(cache, "find_damage", then_another_process_prunes)
    async with template.restore(VM, "a", Path()) as (_, facts):
        assert facts == {"it": "is whole"}


async def test_a_template_whose_files_vanish_costs_no_more_than_a_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wake(_guest: Guest, state: Path) -> None:
        shutil.rmtree(state.parent)
        sha256(state)

    monkeypatch.setattr(template, "resume", wake)
    with pytest.raises(RigLost, match="cannot be used"):
        async with template.restore(VM, "a", Path()):
            pytest.fail("it is gone")
    told: list[str] = []
    async with AsyncExitStack() as stack:
        assert await Qemu(MachineOptions(notice=told.append))._clone(stack, VM, Path()) is None
    assert "the rig boots instead of cloning" in told[0]


async def test_a_machine_that_is_never_saved_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def migrate(*_: object) -> None: ...

    async def command(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(template, "migrate", migrate)
    monkeypatch.setattr(template, "SAVE_DEADLINE", 0.01)
    async with talking() as (up, _):
        monkeypatch.setattr(up, "command", command)
        with pytest.raises(RigLost, match="did not save its state within"):
            await template.save(up, tmp_path / "state")


async def test_only_those_unused_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MOST", 2)
    for number, name in enumerate("abc"):
        async with template.restore(VM, name, Path()):
            pass
        os.utime(template.home() / name, (number, number))
    async with template.restore(VM, "a", Path()):
        assert [remembered(name) for name in "abc"] == [True, False, True]


async def test_pruning_gets_over_a_template_that_another_process_forgets_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in "ab":
        async with template.restore(VM, name, Path()):
            pass
    seen = list(template.home().iterdir())
    shutil.rmtree(template.home() / "b")
    monkeypatch.setattr(Path, "iterdir", lambda path: iter(seen) if path == template.home() else os_iterdir(path))
    template.prune()
    assert remembered("a")


def os_iterdir(path: Path) -> Any:
    return (path / name for name in os.listdir(path))  # noqa: PTH208 - the method itself is replaced


async def test_a_partial_template_is_removed_with_the_next_one() -> None:
    left = template.home() / ".other.half"
    left.mkdir(parents=True)
    (left / "memory").touch()
    async with template.restore(VM, "a", Path()):
        assert not left.exists()
