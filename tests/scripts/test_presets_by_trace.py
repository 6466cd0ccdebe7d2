"""The jobs of presets beside the programs that they are called after: what of either reaches the disk.

IOzone is not in Debian: what it does is held against its documentation in `tests/work/fio/test_variants.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.scripts.cell import Files, Place, workload_job
from tests.scripts import blocktrace
from tests.scripts.blocktrace import covered, forward, total, usual
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.space.space import Cell
    from tests.scripts.blocktrace import Disk, Seen

pytestmark = pytest.mark.skipif(bool(blocktrace.why_not()), reason=blocktrace.why_not())
MIB = 1 << 20
WHOLE = 32 * MIB
SEEKS = 512
FORM = """\
name: traced
disks: {{count: 1, size: 64MiB}}
layouts: {{it: [disk{}]}}
workloads: {{it: {{{}}}}}
"""
OF_BONNIE = "preset: bonnie, phase: {}, size: 32MiB"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with blocktrace.disk(tmp_path) as found:
        yield found


@pytest.fixture
def mounted(disk: Disk) -> Iterator[Disk]:
    with blocktrace.mounted(disk) as found:
        yield found


def cell(work: str, fs: str = "") -> Cell:
    (found,) = space(FORM.format(fs, work)).cells()
    return found


def run_fio(disk: Disk, text: str) -> None:
    subprocess.run(["fio", "--output=/dev/null", "-"], input=text, text=True, check=True, cwd=disk.directory)


def on_device(disk: Disk, work: str) -> Seen:
    """What a workload asks of the device itself."""
    found = cell(work)
    with disk.watched() as seen:
        run_fio(disk, workload_job(found.workload, Place((disk.path,), span=found.span), 1))
    return seen


def on_file(disk: Disk, work: str) -> Seen:
    """What a workload asks of the disk, on a file that is laid out already, unless it makes one."""
    found = cell(work, ", fs: {type: ext4}")
    assert found.files is not None
    files = Files(str(disk.directory), "", found.files.each, found.files.count, found.files.span, single_use=False)
    if not found.workload.value.new:
        (disk.directory / "trial.0.0").write_bytes(os.urandom(found.files.each))
    with disk.watched() as seen:
        run_fio(disk, workload_job(found.workload, Place(files=files, span=found.span), 1))
    return seen


def of_dd(disk: Disk, *words: str) -> Seen:
    with disk.watched() as seen:
        subprocess.run(["dd", "status=none", *words], check=True)
    return seen


class Bonnie:
    """A real bonnie++, that begins each of its phases when it is told to, so that each is traced by itself."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.words = ["bonnie++", "-d", str(disk.directory), "-s", f"{WHOLE // MIB}:8192:{SEEKS}:5", "-r", "0"]
        self.words += ["-n", "0", "-f", "-u", "root:root", "-z", "1", "-y", "p"]

    def phases(self) -> dict[str, Seen]:
        found: dict[str, Seen] = {}
        pipe = subprocess.PIPE
        with subprocess.Popen(self.words, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, bufsize=0) as bonnie:
            assert bonnie.stdin
            assert bonnie.stderr
            assert b"Using uid" in bonnie.stderr.readline()
            for phase in ("write", "rewrite", "read", "seeks"):
                with self.disk.watched() as found[phase]:
                    bonnie.stdin.write(b"\n")
                    assert b"done" in bonnie.stderr.readline()
            bonnie.stdin.close()
        assert bonnie.returncode == 0
        return found


@pytest.fixture(scope="module")
def bonnie(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    if not shutil.which("bonnie++"):
        pytest.skip("without bonnie++ on this host")
    with blocktrace.disk(tmp_path_factory.mktemp("bonnie")) as bare, blocktrace.mounted(bare) as found:
        return Bonnie(found).phases()


def test_reads_of_other_processes_are_left_out(disk: Disk, tmp_path: Path) -> None:
    go, gone = tmp_path / "go", tmp_path / "gone"
    for fifo in (go, gone):
        os.mkfifo(fifo)
    # Past the cache: a list of disks that another test asks for reads parts of this one, too.
    read = f"dd if={disk.path} of=/dev/null bs=64k iflag=direct status=none"
    # Of no family: who started it has ended.
    subprocess.run(["setsid", "--fork", "sh", "-c", f"cat {go}; {read}; echo >{gone}"], check=True)
    with disk.watched() as seen:
        go.write_text("")
        gone.read_text()
    assert not seen.reads
    with disk.watched() as seen:
        subprocess.run(["sh", "-c", read], check=True)
    assert total(seen.reads) == blocktrace.SIZE


def assert_all_in_order(requests: list[tuple[int, int]]) -> None:
    """All of it once, in order; the kernel reads ahead of the end, and file systems put a few blocks elsewhere."""
    assert covered(requests) == pytest.approx(WHOLE, rel=0.05)
    assert total(requests) == pytest.approx(WHOLE, rel=0.05)
    assert forward(requests) > 0.9


@pytest.mark.parametrize(("bs", "told"), [(MIB, ""), (8192, ", bs: 8KiB")])
def test_dd_read_is_what_dd_reads(disk: Disk, bs: int, told: str) -> None:
    theirs = of_dd(disk, f"if={disk.path}", "of=/dev/null", f"bs={bs}", f"count={WHOLE // bs}")
    ours = on_device(disk, f"preset: dd-read, size: 32MiB{told}")
    for seen in (theirs, ours):
        assert_all_in_order(seen.reads)
        assert not seen.writes
    assert usual(ours.reads) == pytest.approx(usual(theirs.reads), rel=0.1)


def test_dd_write_is_what_dd_writes(disk: Disk) -> None:
    theirs = of_dd(disk, "if=/dev/zero", f"of={disk.path}", "bs=1024K", "count=32")
    ours = on_device(disk, "preset: dd-write, size: 32MiB")
    for seen in (theirs, ours):
        assert_all_in_order(seen.writes)
        assert not seen.reads
    assert usual(ours.writes) == pytest.approx(usual(theirs.writes), rel=0.3)


def test_dd_to_a_device_ends_when_everything_is_on_it(disk: Disk) -> None:
    """Whatever closes a device last waits for it, so dd's seconds are those of the disk: the preset has to flush."""

    def left() -> int:
        """Bytes that are written once dd has ended."""
        disk.forget()
        words = ["dd", "if=/dev/zero", f"of={disk.path}", "bs=1024K", "count=32", "status=none"]
        subprocess.run(words, check=True)
        with disk.traced() as seen:
            disk.forget()
        return total(seen.writes)

    assert left() == 0
    with Path(disk.path).open("rb"):  # somebody else has it open
        assert left() > 0
    found = cell("preset: dd-write, size: 32MiB")
    assert "end_fsync=1\n" in workload_job(found.workload, Place((disk.path,), span=found.span), 1)


def test_fio_alone_would_read_other_requests_than_dd(disk: Disk) -> None:
    """So that the test of what dd reads could have failed: fio tells the kernel that it reads in order."""
    theirs = of_dd(disk, f"if={disk.path}", "of=/dev/null", "bs=8192", "count=4096")
    told = on_device(disk, "rw: read, bs: 8KiB, size: 32MiB, ioengine: psync, direct: false")
    assert usual(told.reads) > 1.5 * usual(theirs.reads)


def test_bonnie_writes_as_bonnie_does(mounted: Disk, bonnie: dict[str, Seen]) -> None:
    for seen in (on_file(mounted, OF_BONNIE.format("write")), bonnie["write"]):
        assert_all_in_order(seen.writes)
        assert total(seen.reads) < 0.01 * WHOLE


def test_bonnie_reads_as_bonnie_does(mounted: Disk, bonnie: dict[str, Seen]) -> None:
    ours = on_file(mounted, OF_BONNIE.format("read"))
    for seen in (ours, bonnie["read"]):
        assert_all_in_order(seen.reads)
        assert total(seen.writes) < 0.01 * WHOLE
    assert usual(ours.reads) == pytest.approx(usual(bonnie["read"].reads), rel=0.1)


def test_bonnie_rewrites_as_bonnie_does(mounted: Disk, bonnie: dict[str, Seen]) -> None:
    ours = on_file(mounted, OF_BONNIE.format("rewrite"))
    for seen in (ours, bonnie["rewrite"]):
        assert_all_in_order(seen.reads)
        assert_all_in_order(seen.writes)
    assert usual(ours.reads) == pytest.approx(usual(bonnie["rewrite"].reads), rel=0.1)


def test_a_mixture_would_be_no_rewriting(mounted: Disk) -> None:
    """So that the test before could have failed: what fio has for it by itself leaves half of the file alone."""
    seen = on_file(mounted, "rw: rw, bs: 8KiB, size: 32MiB, ioengine: psync, direct: false")
    assert covered(seen.writes) < 0.7 * WHOLE


def test_bonnie_seeks_as_bonnie_does(mounted: Disk, bonnie: dict[str, Seen]) -> None:
    requests = SEEKS * 11 // 10 // 5
    ours = on_file(mounted, f"{OF_BONNIE.format('seeks')}, fio: {{number_ios: {requests}}}")
    for seen in (ours, bonnie["seeks"]):
        # Some are sought twice, and found in memory.
        assert len(seen.reads) == pytest.approx(SEEKS, rel=0.15)
        assert 0.05 < total(seen.writes) / total(seen.reads) < 0.15
        assert forward(seen.reads) < 0.15
        # Without the outermost, among which is what the file system has of its own.
        places = sorted(at for at, _ in seen.reads)[10:-10]
        begin, end = places[0], places[-1]
        assert 0.9 * WHOLE < end - begin < 1.2 * WHOLE
        quarters = [4 * (at - begin) // (end - begin + 1) for at in places]
        assert all(0.15 < quarters.count(quarter) / len(quarters) < 0.35 for quarter in range(4))
    assert usual(ours.reads) == pytest.approx(usual(bonnie["seeks"].reads), rel=0.2)


def test_iozone_reads_every_record_once_in_random_order(mounted: Disk) -> None:
    """As IOzone, which shuffles the numbers of its records."""
    seen = on_file(mounted, "preset: iozone, phase: randread, bs: 64KiB, size: 32MiB")
    assert covered(seen.reads) == pytest.approx(WHOLE, rel=0.05)
    assert total(seen.reads) == pytest.approx(WHOLE, rel=0.05)
    assert forward(seen.reads) < 0.2


def test_only_writing_over_what_is_there_reads_the_rest_of_a_block(mounted: Disk) -> None:
    work = "preset: iozone, phase: write, bs: 1KiB, size: 32MiB"
    made = on_file(mounted, f"{work}, new: true")
    over = on_file(mounted, work)
    assert total(made.reads) < 0.01 * WHOLE
    assert covered(over.reads) == pytest.approx(WHOLE, rel=0.05)
    for seen in (made, over):
        assert covered(seen.writes) == pytest.approx(WHOLE, rel=0.05)
