"""Scripts that are run with our rights: only those that nobody else could have written or put there, on any way there."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.hosts import recovery as trusted
from matrix_runner.hosts.disk_ledger import LeaseRecord, write_record
from matrix_runner.hosts.recovery import Script, UntrustedScript, clean, read_scripts, trusted_users
from matrix_runner.records.files import STANDING
from tests.hosts.loops import Bay, bay, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOMEBODY = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
needs_loops = pytest.mark.skipif(bool(why_not()), reason=why_not())
OURS = trusted_users()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`…/above/run/standing`, with a script in it."""
    made = tmp_path / "above" / "run" / STANDING
    made.mkdir(parents=True)
    for one in (made, made.parent, made.parent.parent):
        one.chmod(0o755)
    (made / "b.sh").write_text("echo b")
    (made / "a.sh").write_text("echo a")
    (made / "note").write_text("no script")
    return made


def test_trusted_scripts_are_read_in_order(folder: Path) -> None:
    assert read_scripts(folder, OURS) == (Script(folder / "a.sh", "echo a"), Script(folder / "b.sh", "echo b"))


def test_missing_folders_have_no_scripts(folder: Path) -> None:
    assert read_scripts(folder / "gone", OURS) == ()
    assert read_scripts(folder / "note" / "below", OURS) == ()
    (folder / "note").chmod(0o755)
    assert read_scripts(folder / "note", OURS) == ()


@pytest.fixture
def in_a_group(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the system says of the group that all files here belong to."""

    def told(
        name: str, *, members: tuple[str, ...] = (), primary: tuple[str, ...] = (), uid: int | None = None
    ) -> None:
        number = os.getegid()
        users = [user(one, os.geteuid() if uid is None else uid, number) for one in primary]
        group = grp.struct_group((name, "x", number, [*members]))
        monkeypatch.setattr("grp.getgrgid", lambda _: group)
        monkeypatch.setattr("pwd.getpwall", lambda: users)
        monkeypatch.setattr("pwd.getpwnam", lambda name: {one.pw_name: one for one in users}[name])

    return told


def user(name: str, number: int, group: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", number, group, "", "/", "/bin/sh"))


def test_a_group_of_one_is_that_one(folder: Path, in_a_group: Callable[..., None]) -> None:
    folder.parent.chmod(0o775)
    (folder / "a.sh").chmod(0o664)
    in_a_group("me", primary=("me",))
    assert len(read_scripts(folder, OURS)) == 2
    in_a_group("me", primary=("me",), members=("me",))
    assert len(read_scripts(folder, OURS)) == 2
    folder.parent.chmod(0o777)
    with pytest.raises(UntrustedScript):
        read_scripts(folder, OURS)


def test_rights_of_an_access_list_are_no_rights_of_the_group(folder: Path, in_a_group: Callable[..., None]) -> None:
    """The mode shows it as one: 775, and the group has one member."""
    nobody = 2**32 - 1
    entries = [(1, 7, nobody), (2, 7, SOMEBODY), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    try:
        os.setxattr(folder.parent, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"no access control lists in {folder}: {error.strerror}")
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o775
    in_a_group("me", primary=("me",))
    with pytest.raises(UntrustedScript, match=f"{folder.parent} can be written by others"):
        read_scripts(folder, OURS)


@pytest.mark.parametrize(
    "group",
    [
        {"name": "me", "primary": ("me",), "members": ("you",)},
        {"name": "me", "primary": ("me", "you")},
        {"name": "me", "primary": ("me",), "uid": SOMEBODY},
        {"name": "staff", "members": ("me",)},
        {"name": "domain users", "primary": ("me",)},
        {"name": "me"},
    ],
)
def test_any_other_group_is_others(folder: Path, in_a_group: Callable[..., None], group: dict[str, Any]) -> None:
    in_a_group(**group)
    assert len(read_scripts(folder, OURS)) == 2, "it is only asked about where it may write"
    folder.parent.chmod(0o775)
    with pytest.raises(UntrustedScript, match="can be written by others"):
        read_scripts(folder, OURS)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_folder_that_others_may_write_to_is_refused_however_far_up(
    folder: Path, in_a_group: Callable[..., None], mode: int, up: int
) -> None:
    in_a_group("staff")
    place = [folder, *folder.parents][up]
    place.chmod(mode)
    with pytest.raises(UntrustedScript) as caught:
        read_scripts(folder, OURS)
    assert str(caught.value).startswith(f"{place} can be written by others (its mode is {mode:04o})")
    assert str(caught.value).endswith(f"chmod go-w {place}")


def test_sticky_folders_are_trusted_above_the_scripts_only(folder: Path) -> None:
    folder.parent.parent.chmod(0o1777)
    assert len(read_scripts(folder, OURS)) == 2
    folder.chmod(0o1777)
    with pytest.raises(UntrustedScript, match=r"its mode is 1777"):
        read_scripts(folder, OURS)


@needs_root
@pytest.mark.parametrize("up", [0, 1, 2])
def test_folders_of_other_users_are_refused_at_each_level(folder: Path, up: int) -> None:
    place = [folder, *folder.parents][up]
    os.chown(place, SOMEBODY, SOMEBODY)
    with pytest.raises(UntrustedScript, match=f"{place} belongs to user {SOMEBODY}"):
        read_scripts(folder, OURS)
    assert len(read_scripts(folder, OURS | {SOMEBODY})) == 2


@needs_root
def test_a_folder_of_another_user_in_a_sticky_one_is_refused(folder: Path) -> None:
    folder.parent.parent.chmod(0o1777)
    os.chown(folder.parent, SOMEBODY, SOMEBODY)
    with pytest.raises(UntrustedScript, match=f"{folder.parent} belongs to"):
        read_scripts(folder, OURS)


def made_a_pipe(path: Path) -> None:
    """Who opens it waits for somebody at its other end."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.chmod(0o666), id="mode"),
        pytest.param(lambda path: path.chmod(0o664), id="group"),
        pytest.param(lambda path: os.chown(path, SOMEBODY, -1), id="owner", marks=needs_root),
        pytest.param(made_a_pipe, id="pipe"),
        pytest.param(lambda path: path.unlink() or path.mkdir(), id="folder"),
        pytest.param(lambda path: path.unlink() or path.symlink_to("b.sh"), id="link"),
    ],
)
def test_one_untrusted_script_refuses_all(
    folder: Path, in_a_group: Callable[..., None], spoil: Callable[[Path], object]
) -> None:
    in_a_group("staff")
    spoil(folder / "a.sh")
    with pytest.raises(UntrustedScript, match=r"a\.sh|standing"):
        read_scripts(folder, OURS)


def test_own_links_are_followed_and_their_targets_checked(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "direct").symlink_to(folder.parent)
    (tmp_path / "round").symlink_to("above/../direct")
    assert len(read_scripts(tmp_path / "direct" / STANDING, OURS)) == 2
    assert len(read_scripts(tmp_path / "round" / STANDING, OURS)) == 2
    folder.parent.parent.chmod(0o777)
    for name in ("direct", "round"):
        with pytest.raises(UntrustedScript, match=f"{folder.parent.parent} can be written"):
            read_scripts(tmp_path / name / STANDING, OURS)


@needs_root
def test_a_link_of_another_user_to_own_files_is_refused(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "theirs"
    link.symlink_to(folder)
    os.lchown(link, SOMEBODY, SOMEBODY)
    with pytest.raises(UntrustedScript, match=f"{link} is a link that belongs to user {SOMEBODY}"):
        read_scripts(link, OURS)


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UntrustedScript, match="in circles"):
        read_scripts(tmp_path / "a" / STANDING, OURS)


def test_a_folder_swapped_during_the_check_is_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is swapped for another between the check and the reading; its content was never asked for."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.sh").write_text("echo evil")
    looked = trusted._check_folder

    def swapped(opened: int, place: Path, known: frozenset[int], *, passed: bool) -> None:
        looked(opened, place, known, passed=passed)
        if place == folder:
            folder.rename(tmp_path / "moved")
            other.rename(folder)

    monkeypatch.setattr(trusted, "_check_folder", swapped)
    assert [one.text for one in read_scripts(folder, OURS)] == ["echo a", "echo b"]
    assert (folder / "a.sh").read_text() == "echo evil"


def test_the_owner_of_the_program_is_trusted() -> None:
    owner = Path(trusted.__file__).stat().st_uid
    assert trusted_users() == {0, os.geteuid(), owner}


def test_no_file_descriptor_is_left_open(folder: Path) -> None:
    def count() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    read_scripts(folder, OURS)
    folder.chmod(0o777)
    with pytest.raises(UntrustedScript):
        read_scripts(folder, OURS)
    assert count() == before


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


@needs_loops
def test_clean_refuses_scripts_in_a_folder_that_others_write(empty: Bay) -> None:
    root = empty.work.parent
    standing = root / "run" / STANDING
    standing.mkdir(parents=True)
    (standing / "a.sh").write_text(f"touch {root}/ran")
    (root / "run").chmod(0o777)
    record = LeaseRecord(
        disk="disk-a", identity=str(empty.file), size=64 << 20, run="r", folder=str(root / "run"), since="x"
    )
    write_record(root / "state", record)
    (found,) = clean(root / "state", empty.ask, empty.operations)
    assert found.refusal.startswith(f"{root}/run can be written by others")
    assert not (root / "ran").exists()
    (root / "run").chmod(stat.S_IRWXU)
    (found,) = clean(root / "state", empty.ask, empty.operations)
    assert (found.refusal, found.scripts) == ("", 1)
    assert (root / "ran").exists()
