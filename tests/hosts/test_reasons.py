"""What a killed run left on a disk, known again by its UUIDs: that goes, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts import operations as here
from matrix_runner.hosts.checks import check_disk
from matrix_runner.hosts.disk_ledger import LeaseRecord, lease_records, read_ledger, write_record
from matrix_runner.hosts.inventory import Signature
from matrix_runner.hosts.lease import Lease, lease_disks
from matrix_runner.hosts.reasons import OwnMarks, is_marked, plain_mark
from matrix_runner.hosts.recovery import clean
from matrix_runner.records.files import STANDING
from matrix_runner.scripts.stack import view_stack
from tests.hosts.loops import Bay, bay, why_not
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_loops = pytest.mark.skipif(bool(why_not()), reason=why_not())
needs_tables = pytest.mark.skipif(shutil.which("sfdisk") is None, reason="without sfdisk on this host")
#: Nobody else's who tests on this machine at the same time.
RUN = f"marks-{os.getpid()}"
MARK = "8b5a2f0c-1111-4222-8333-444455556666"
NOW = datetime(2026, 2, 1, 3, tzinfo=UTC)
NIGHT = date(2026, 1, 31)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


def left(empty: Bay, build: str, **changes: object) -> LeaseRecord:
    """As a kill leaves it: with the run by record and label, and this on it."""
    root = empty.work.parent
    lease = Lease(
        *(RUN, "study", root / "run", root / "state", frozenset({"disk-a"})),
        marks=lambda _: (MARK,),
        operations=empty.operations,
    )
    with lease_disks([empty.declared], empty.ask, lease, lambda: NOW, lambda _: None):
        (record,) = lease_records(lease.state)
    write_record(lease.state, record.model_copy(update=changes))
    empty.bash(build)
    return record


def test_a_uuid_is_the_same_however_it_is_written() -> None:
    ours = OwnMarks(marks=frozenset({"8B5A2F0C:11114222:83334444:55556666", "matrix-abc"}))
    assert is_marked(Signature("linux_raid_member", uuid=MARK), ours)
    assert is_marked(Signature("f2fs", uuid="another", label="matrix-abc"), ours)
    assert not is_marked(Signature("ext4", uuid="another"), ours)
    assert not is_marked(Signature("swap"), OwnMarks(marks=frozenset({""})))
    assert plain_mark(MARK) == "8b5a2f0c111142228333444455556666"


def test_layers_declare_their_marks() -> None:
    text = "md: {level: 1}, partition: {count: 2}, crypt: {}, pick: {number: 1}, fs: {type: f2fs}"
    found = space(
        f"name: m\ndisks: {{count: 2, size: 256MiB}}\nlayouts: {{all: [{text}]}}\nworkloads: {{w: {{rw: read}}}}\n"
    )
    (array,) = found.stacks
    stack = view_stack(array.layers.value, ("/dev/a", "/dev/b"), array.disks, zeroed=False)
    by_kind = {layer.kind: layer.marks for layer in stack.layers if layer.marks}
    assert {kind: len(marks) for kind, marks in by_kind.items()} == {"md": 1, "partition": 1, "crypt": 2, "fs": 1}
    assert by_kind["fs"][0].startswith("matrix-")
    assert stack.marks == {mark for marks in by_kind.values() for mark in marks}


FORMS = {
    "file system": f'mkfs.ext4 -q -F -U {MARK} "$DISK"',
    "partition table": f"printf 'label: gpt\\nlabel-id: {MARK}\\n,16M\\n' | sfdisk --quiet --no-reread \"$DISK\"",
}
EACH = ["file system", pytest.param("partition table", marks=needs_tables)]


@needs_loops
@pytest.mark.parametrize("what", EACH)
def test_content_with_the_mark_of_a_run_is_removed(empty: Bay, what: str) -> None:
    left(empty, FORMS[what])
    assert check_disk(empty.ask(), empty.declared).refusals
    assert [one.refusal for one in clean(empty.work.parent / "state", empty.ask, empty.operations, only=RUN)] == [""]
    found = check_disk(empty.ask(), empty.declared)
    assert found.usable
    assert found.node is not None
    assert found.node.signatures == ()


@needs_loops
@pytest.mark.parametrize("what", EACH)
def test_content_with_another_mark_stays(empty: Bay, what: str) -> None:
    left(empty, FORMS[what].replace(MARK, MARK.replace("8", "9")))
    before = empty.digest()
    (found,) = clean(empty.work.parent / "state", empty.ask, empty.operations, only=RUN)
    assert what in found.refusal
    assert empty.digest() == before


@needs_loops
@needs_tables
def test_marked_content_beside_foreign_content_stays(empty: Bay) -> None:
    left(empty, f"{FORMS['partition table']}; printf 'LUKS\\xba\\xbe' | dd of=\"$DISK\" bs=1 conv=notrunc status=none")
    before = empty.digest()
    (found,) = clean(empty.work.parent / "state", empty.ask, empty.operations, only=RUN)
    assert found.refusal
    assert empty.digest() == before


@needs_loops
def test_writes_since_the_last_count_are_counted(empty: Bay) -> None:
    left(empty, 'dd if=/dev/urandom of="$DISK" bs=1M count=4 oflag=direct status=none', boot="b")
    state = empty.work.parent / "state"
    before = read_ledger(state).written_in(str(empty.file), NIGHT)
    assert [one.refusal for one in clean(state, empty.ask, empty.operations, only=RUN, counted=("b", NIGHT))] == [""]
    assert read_ledger(state).written_in(str(empty.file), NIGHT) - before >= 4 << 20


@needs_loops
def test_scripts_of_a_machine_see_only_its_disks(empty: Bay) -> None:
    """What this very host has under the same names is out of their sight."""
    root = empty.work.parent
    standing = root / "run" / STANDING
    standing.mkdir(parents=True)
    (standing / "a.sh").write_text(
        f"""\
set -e
ls /dev/disk/by-id /run/matrix >{root}/seen
echo "$MATRIX_MEMORY" >>{root}/seen
blockdev --getsize64 /dev/disk/by-id/matrix-0 >>{root}/seen
touch /run/matrix/trace
"""
    )
    left(empty, ":", inside="/dev/disk/by-id/matrix-0")
    (found,) = clean(root / "state", empty.ask, empty.operations, only=RUN)
    assert (found.refusal, found.scripts) == ("", 1)
    seen = (root / "seen").read_text().split()
    assert seen == ["/dev/disk/by-id:", "matrix-0", "/run/matrix:", "/run/matrix", str(64 << 20)]
    assert not os.path.lexists("/run/matrix/trace")
    assert not os.path.lexists("/dev/disk/by-id/matrix-0")


@needs_loops
def test_in_there_parts_of_disks_have_their_names_too(empty: Bay) -> None:
    """Arrays on them are known to their scripts by these alone."""
    root = empty.work.parent
    standing = root / "run" / STANDING
    standing.mkdir(parents=True)
    (standing / "a.sh").write_text(f"blockdev --getsize64 /dev/disk/by-id/matrix-0-part2 >{root}/seen\n")
    left(empty, 'addpart "$DISK" 2 2048 4096', inside="/dev/disk/by-id/matrix-0")
    try:
        (found,) = clean(root / "state", empty.ask, empty.operations, only=RUN)
        assert found.refusal == ""
        assert (root / "seen").read_text() == f"{4096 * 512}\n"
    finally:
        empty.bash('delpart "$DISK" 2')


HOLDER = """\
import os, subprocess, sys
from pathlib import Path
from matrix_runner.hosts.operations import LocalOperations
lock, _ = LocalOperations(Path(sys.argv[1])).lock("wwn", "a")
child = subprocess.Popen(["sleep", "infinity"], pass_fds=[lock.number], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(os.getpid(), child.pid, flush=True)
"""


def test_a_lock_lasts_as_long_as_inheriting_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which dies soon, as it is killed with it; whoever asks waits for that a moment."""
    monkeypatch.setattr(here, "OPEN_PAUSE", 0)
    done = subprocess.run([sys.executable, "-c", HOLDER, str(tmp_path)], capture_output=True, text=True, check=True)
    runner, heir = done.stdout.split()
    lock, holder = here.LocalOperations(tmp_path).lock("wwn", "b")
    assert lock is None
    assert holder == f"the run a, process {runner}"
    looked: list[float] = []

    def wait(seconds: float) -> None:
        if not looked:
            os.kill(int(heir), signal.SIGKILL)
        looked.append(seconds)

    monkeypatch.setattr("time.sleep", wait)
    monkeypatch.setattr(here, "OPEN_TRIES", 100_000)
    lock, _ = here.LocalOperations(tmp_path).lock("wwn", "b")
    assert lock is not None
    lock.close()
    assert looked
