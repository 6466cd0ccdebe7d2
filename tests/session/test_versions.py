"""Versions of a search: their order, folders of kernels, commits, and builds with their failures."""

from __future__ import annotations

import asyncio
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.machines.base import NoRig
from matrix_runner.machines.qemu.recipe import image_in
from matrix_runner.session import versions
from matrix_runner.session.versions import Versions, WantedVersions, find_versions, version_key
from tests.support.commits import commit, repository
from tests.support.kernels import bzimage

BUILD = "cat state && [ $(cat state) != fails ] && install -D state $OUT/usr/sbin/mdadm"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", ["one", "two", "fails", "four"])


def found_by(wanted: WantedVersions, good: str, bad: str) -> Versions:
    return find_versions(wanted, good, bad, lambda _: None)


def commits(repo: Path, command: str = BUILD, good: str = "HEAD~3", paths: tuple[str, ...] = ()) -> Versions:
    return found_by(WantedVersions(repo, command, paths), good, "HEAD")


def built(found: Versions, name: str) -> Path:
    assert found.builder
    return asyncio.run(found.builder.provide(name, lambda *_: None))


def test_versions_are_ordered_as_people_order_them() -> None:
    wanted = ["5.10", "6.1", "6.9", "6.12-rc1", "6.12", "6.12.4", "7.0~rc2", "7.0"]
    assert sorted(sorted(wanted), key=version_key) == wanted


def test_folders_of_kernels_from_good_to_bad(tmp_path: Path) -> None:
    for name in ("6.9", "6.12", "7.0", "6.1"):
        (tmp_path / "k" / name).mkdir(parents=True)
        (tmp_path / "k" / name / "bzImage").touch()
    (tmp_path / "k/empty").mkdir()
    wanted = WantedVersions(kernels=tmp_path / "k")
    found = found_by(wanted, "6.9", "7.0")
    assert found.names == ("6.9", "6.12", "7.0")
    assert found_by(wanted, "7.0", "6.12").names == ("7.0", "6.12")
    assert found.source("6.9") == str(tmp_path / "k/6.9")
    assert found.source("debian-12") == "debian-12"
    with pytest.raises(BadInput, match=r"--good empty: --kernels .* has no such kernel"):
        found_by(wanted, "empty", "7.0")


def test_debian_kernels_are_listed_once_until_one_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    on_mirror = ["6.12.90+deb12", "6.12.90+deb12.1", "6.12.117+deb13", "6.1.0-50"]
    read: list[int] = []

    def listed(_: object) -> dict[str, str]:
        read.append(1)
        return {name: f"http://mirror/{name} SHA256:0" for name in on_mirror}

    monkeypatch.setattr(versions, "list_kernels", listed)
    wanted = WantedVersions(fetch=True)
    found = found_by(wanted, "6.1.0", "6.12.117")
    assert found.names == ("6.1.0-50", "6.12.90+deb12", "6.12.90+deb12.1", "6.12.117+deb13")
    assert found.source("6.12.90+deb12") is None
    assert found_by(wanted, "6.12.90+deb12", "6.1.0-50").names == ("6.12.90+deb12", "6.1.0-50")
    with pytest.raises(BadInput, match=r"--good 6.12: .* 3 kernels that begin so"):
        found_by(wanted, "6.12", "6.1.0")
    assert len(read) == 1
    on_mirror.append("7.3.4+deb13")
    assert found_by(wanted, "6.12.117", "7.3").names == ("6.12.117+deb13", "7.3.4+deb13")
    with pytest.raises(BadInput, match=r"--bad 7.30: Debian's mirror has no such kernel"):
        found_by(wanted, "6.12.117", "7.30")
    assert len(read) == 3


def package(folder: Path, name: str, files: dict[str, str]) -> str:
    """Return where a package is, and its checksum."""
    for file, content in {"DEBIAN/control": f"{CONTROL}Package: {name}\n", **files}.items():
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(content, encoding="latin-1")
    subprocess.run(["dpkg-deb", "-b", folder / name, folder / f"{name}.deb"], check=True, capture_output=True)
    return f"copy:{folder / name}.deb SHA256:{sha256((folder / f'{name}.deb').read_bytes()).hexdigest()}"


CONTROL = "Version: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a kernel\n"


def test_a_kernel_of_debian_is_put_together_of_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = bzimage(b"7.3 ", b"").decode("latin-1")
    binary = package(tmp_path, "binary", {"usr/lib/modules/7.3/vmlinuz": image})
    modules = package(
        tmp_path, "modules", {f"usr/lib/modules/7.3/kernel/{one}/a.ko": "" for one in ("drivers/md", "net")}
    )
    mirror = {"6.1": binary, "7.3": f"{binary}\n{modules}", "7.4": modules}
    monkeypatch.setattr(versions, "list_kernels", lambda _: mirror)
    found = found_by(WantedVersions(fetch=True), "6.1", "7.4")
    folder = built(found, "7.3")
    assert image_in(folder) == folder / "usr/lib/modules/7.3/vmlinuz"
    assert (folder / "usr/lib/modules/7.3/kernel/drivers/md/a.ko").exists()
    assert not (folder / "usr/lib/modules/7.3/kernel/net").exists()
    with pytest.raises(NoRig, match="does not build: its packages have no kernel image"):
        built(found, "7.4")


def test_a_kernel_of_debian_is_fetched_by_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = bzimage(b"7.3 ", b"").decode("latin-1")
    mirror = {"7.3.4+deb13": package(tmp_path, "binary", {"usr/lib/modules/7.3/vmlinuz": image})}
    monkeypatch.setattr(versions, "list_kernels", lambda _: mirror)

    def fetched(release: str) -> Path | None:
        return asyncio.run(versions.fetch_kernel(release, lambda *_: None, lambda _: None))

    folder = fetched("7.3.4+deb13-amd64")
    assert folder
    assert image_in(folder)
    assert fetched("7.3.4+deb13") is None, "such a release is no kernel of Debian"
    assert fetched("7.3-amd64") is None, "it is no beginning of a release"


def test_commits_are_versions_with_titles(repo: Path) -> None:
    found = commits(repo)
    assert list(found.titles.values()) == ["commit 0 one", "commit 1 two", "commit 2 fails", "commit 3 four"]
    assert found.source(found.names[1]) is None
    likely = commits(repo, paths=("other",)).likely
    assert likely == {found.names[2]}


def test_a_build_is_cached_by_its_commit_and_its_command(repo: Path, tmp_path: Path) -> None:
    found = commits(repo, f"echo x >>{tmp_path}/count; {BUILD}")
    for _ in range(2):
        assert (built(found, found.names[1]) / "usr/sbin/mdadm").read_text().strip() == "two"
    assert (tmp_path / "count").read_text() == "x\n"
    assert found.cost(found.names[1]) == 0
    assert found.cost(found.names[3]) > 0
    assert built(commits(repo), found.names[1]) != built(found, found.names[1])


@pytest.mark.parametrize("left", ["index.lock", "HEAD.lock"])
def test_a_killed_checkout_does_not_stop_later_ones(repo: Path, left: str) -> None:
    found = commits(repo)
    built(found, found.names[0])
    (work,) = (one for one in versions._home().glob("work-*") if one.is_dir())
    (work / ".git" / left).touch()
    assert (built(found, found.names[1]) / "usr/sbin/mdadm").read_text().strip() == "two"


def test_a_killed_clone_is_made_again(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = commits(repo)

    def killed(_: object, *words: object) -> str:
        Path(str(words[-1]), ".git").mkdir(parents=True)
        raise NoRig("killed")

    with monkeypatch.context() as broken:
        broken.setattr(versions, "git", killed)
        with pytest.raises(NoRig, match="killed"):
            built(found, found.names[0])
    assert (built(found, found.names[0]) / "usr/sbin/mdadm").read_text().strip() == "one"


def test_titles_may_be_empty_or_have_odd_characters(repo: Path) -> None:
    titles = ["", "a\tb", "c\x0cd\u2028e", ""]
    for title in titles:
        commit(repo, title)
    assert [*commits(repo, good="HEAD~4").titles.values()][1:] == titles
    assert [*commits(repo, good="HEAD~1").titles.values()] == titles[-2:]


def test_a_build_that_fails_says_where_and_why(repo: Path) -> None:
    found = commits(repo)
    with pytest.raises(NoRig, match=r"does not build: the command ended with status 1") as caught:
        built(found, found.names[2])
    assert caught.value.details == "fails"
    assert "OUT=$(mktemp -d) bash -ec" in caught.value.resolution
    found = commits(repo, "true")
    with pytest.raises(NoRig, match=r"\$OUT has no bzImage, no lib/modules and no programs"):
        found.build_ends(lambda _: None)


def test_a_build_that_is_stopped_leaves_no_process_and_no_folder(repo: Path, tmp_path: Path) -> None:
    found = commits(repo, f"(sleep 1000 & echo $! >{tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/begun; wait)")
    assert found.builder

    async def stopped() -> None:
        work = asyncio.create_task(found.builder.provide(found.names[0], lambda *_: None))  # type: ignore[union-attr]
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(stopped())
    pid = int((tmp_path / "begun").read_text())
    status = Path(f"/proc/{pid}/stat")
    while status.exists() and status.read_text().split()[2] != "Z":
        pass  # the kernel is killing it
    assert not found.builder.folder(found.names[0]).exists()


def test_old_builds_are_removed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MOST_BUILDS", 1)
    found = commits(repo)
    first, second = built(found, found.names[0]), built(found, found.names[1])
    assert not first.exists()
    assert second.exists()


@pytest.mark.parametrize(
    ("wanted", "good", "message"),
    [
        (WantedVersions(git=Path()), "HEAD", "belong together"),
        (WantedVersions(build="make"), "HEAD", "belong together"),
        (WantedVersions(git=Path(), build="make", kernels=Path()), "HEAD", "--kernels names versions"),
        (WantedVersions(git=Path("/proc"), build="make"), "HEAD", "is no git repository"),
        (WantedVersions(git=Path(), build="make"), "v9", "--good v9: .* has no such commit"),
        (WantedVersions(git=Path(), build="make"), "HEAD", "--good HEAD is not before --bad HEAD"),
        (WantedVersions(git=Path(), build="make", paths=("no",)), "HEAD~1", "no commit between HEAD~1 and HEAD"),
        (WantedVersions(kernels=Path("absent")), "1", "cannot be read"),
    ],
)
def test_wrong_input(
    repo: Path, wanted: WantedVersions, good: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    with pytest.raises(BadInput, match=message):
        found_by(wanted, good, "HEAD")
