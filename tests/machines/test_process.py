"""Programs that must not outlive whoever started them."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

from runner.process import dies_with_parent, spawn

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import asyncio
from runner.process import spawn

async def hold():
    child = await spawn(["sleep", "infinity"])
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(hold())
"""


def test_a_child_gets_its_words_as_they_are_and_its_status_back() -> None:
    words = ["printf", "<%s>", "a b", "$1", "'", ""]
    done = subprocess.run(dies_with_parent(words), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "<a b><$1><'><>")
    assert subprocess.run(dies_with_parent(["sh", "-c", "exit 7"])).returncode == 7


def test_a_child_whose_parent_died_before_it_could_notice_does_not_begin(tmp_path: Path) -> None:
    """To it that looks as here: its parent is another process than the one that wanted it."""
    touched = tmp_path / "touched"
    subprocess.run(["sh", "-c", '"$@"; exit 0', "sh", *dies_with_parent(["touch", str(touched)])], check=True)
    assert not touched.exists()


async def test_killing_us_kills_our_children() -> None:
    holder = await spawn([sys.executable, "-c", HOLDER], output=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    child = os.pidfd_open(int(await holder.stdout.readline()))
    try:
        holder.kill()
        await holder.wait()
        gone, _, _ = await asyncio.to_thread(select.select, [child], [], [], 30)
        assert gone
    finally:
        os.close(child)
