"""Versions that the matrix of a search does not name: kernels in folders or of Debian, or commits built on demand."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from matrix_runner.base.cache import cache_dir, make_once, prune
from matrix_runner.base.children import kill_group, run_to_end, spawn
from matrix_runner.base.digests import is_complete
from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import open_lock_file, try_lock
from matrix_runner.base.findings import few
from matrix_runner.base.model import digest
from matrix_runner.base.process import run
from matrix_runner.language.matrix import SUITES
from matrix_runner.machines.base import MachineOptions, NoRig, Progress
from matrix_runner.machines.qemu import explain_unusable_kernel
from matrix_runner.machines.qemu.build import list_kernels
from matrix_runner.machines.qemu.recipe import image_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matrix_runner.records.record import CellRow

#: In the working directory $1, with its output below $2.
_BUILD = 'cd -- "$1"; export OUT=$2 SOURCE=$4; eval "$3"'
#: Fetches and unpacks the packages of a kernel of Debian, without most modules that are not for storage.
_FETCH = (
    'while read -r uri sum; do /usr/lib/apt/apt-helper -q download-file "$uri" kernel.deb "$sum"; '
    'dpkg-deb --fsys-tarfile kernel.deb | tar x -C "$OUT" --exclude=kernel/{net,sound} '
    '--exclude=drivers/{gpu,infiniband,media,net,usb}; rm kernel.deb; done <<<"$SOURCE"'
)
_EVIDENCE_LINES = 12
#: Cached builds. A kernel with its modules takes some hundred MB.
MOST_BUILDS = 40
_LOG, _SECONDS = "build.log", "seconds"
#: How messages begin that a version is made.
BUILDS = ("building", "fetching")
#: The suites of Debian whose kernels are searched.


@dataclass(frozen=True)
class WantedVersions:
    """The options that say where versions come from."""

    git: Path | None = None
    build: str | None = None
    paths: tuple[str, ...] = ()
    kernels: Path | None = None
    fetch: bool = False

    @property
    def releases(self) -> tuple[str, ...]:
        """Return the kernels that `--kernels` lists; a single word may also be a folder."""
        return tuple(str(self.kernels).split(",")) if self.kernels else ()

    @property
    def in_phases(self) -> bool:
        """Return whether commits are searched after packages."""
        return self.fetch and self.git is not None

    def as_written(self) -> dict[str, str]:
        given = vars(self) | {"paths": " ".join(self.paths)}
        if self.in_phases:  # a correction of the build does not begin the first phase again
            given |= {"build": None, "paths": ""}
        return {name: str(value) for name, value in given.items() if value}


NOT_WANTED = WantedVersions()


@dataclass(frozen=True)
class Builder:
    """Makes the folder of a version when the search needs it. Without a repository, it fetches a kernel of Debian."""

    sources: Mapping[str, str]  # whole hashes of commits by name, or where kernels are and their checksums
    command: str
    repository: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # what versions took

    def folder(self, name: str) -> Path:
        return _home() / digest([self.sources[name], self.command]).hex()[:24]

    def cost(self, name: str) -> float:
        """Return the seconds that a version takes from now."""
        if is_complete(self.folder(name)):
            return 0.0
        for other in () if self.seconds else self.sources:
            with suppress(OSError, ValueError):
                self.seconds[other] = float((self.folder(other) / _SECONDS).read_text())
        return fmean(self.seconds.values()) if self.seconds else 0.0

    async def provide(self, name: str, progress: Progress, notice: Callable[[str], None] = lambda _: None) -> Path:
        """Return the folder of a version; make it if it is not cached."""
        folder = self.folder(name)
        if is_new := not is_complete(folder):
            progress(f"{BUILDS[not self.repository]} {name}")
        await make_once(folder, partial(self._make, name), f"{name} in the cache", notice)
        if is_new:
            progress(f"{name} is ready", 1.0)
        os.utime(folder)
        prune(_home(), filter(is_complete, _home().iterdir()), MOST_BUILDS)
        return folder

    async def _make(self, name: str, out: Path) -> None:
        work = _home() / f"work-{digest([str(self.repository), self.command]).hex()[:16]}"
        # The build inherits the lock: if it outlives this process, the next one waits for its end.
        with open_lock_file(work.with_suffix(".lock")) as lock:
            while not try_lock(lock, fcntl.LOCK_EX):  # noqa: ASYNC110 - no event reports its release
                await asyncio.sleep(0.2)
            begun = time.monotonic()
            await asyncio.to_thread(self._check_out, name, work)
            status = await self._run(name, work, out, lock)
            if status and self.repository:  # remains of the version before may be the reason
                git(work, "clean", "-fdxq")
                status = await self._run(name, work, out, lock)
            self._check(name, work, out, status)
            self.seconds[name] = time.monotonic() - begun
            (out / _SECONDS).write_text(f"{self.seconds[name]:.1f}")

    def _check_out(self, name: str, work: Path) -> None:
        if not self.repository:
            work.mkdir(exist_ok=True)
            return
        if not work.is_dir():
            new = work.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)  # of a killed clone
            git(None, "clone", "-q", "--shared", "--no-checkout", self.repository, new)
            new.rename(work)
        for left in (work / ".git").glob("*.lock"):  # of a killed git: we hold the lock of this folder
            left.unlink()
        git(work, "checkout", "-q", "--force", "--detach", self.sources[name])

    async def _run(self, name: str, work: Path, out: Path, lock: int) -> int:
        with (out / _LOG).open("wb") as log:
            words = ["bash", "-ec", _BUILD, "build", str(work), str(out), self.command, self.sources[name]]
            children: list[asyncio.subprocess.Process] = []

            async def start() -> None:
                children.append(await spawn(words, pass_fds=(lock,), output=log.fileno()))

            async def stop() -> None:
                for child in children:
                    kill_group(child)
                    await child.wait()

            try:
                await run_to_end(start())  # a build that is cancelled while it starts has to be killed as well
                return await children[0].wait()
            finally:
                await run_to_end(stop())

    def _check(self, name: str, work: Path, out: Path, status: int) -> None:
        why = f"the command ended with status {status}" if status else explain_unusable_kernel(str(out))
        if not why and not self.repository and not image_in(out):  # else, another kernel would be measured in its place
            why = "its packages have no kernel image"
        if why:
            last = (out / _LOG).read_text(errors="replace").splitlines()[-_EVIDENCE_LINES:]
            raise NoRig(
                f"{name} does not build: {why.replace(str(out), '$OUT')}",
                details="\n".join(last),
                resolution=f"try it in {work}: OUT=$(mktemp -d) bash -ec {self.command!r}",
            )


@dataclass(frozen=True)
class Versions:
    """Versions from good to bad."""

    names: tuple[str, ...]
    titles: Mapping[str, str] = field(default_factory=dict)
    #: Those that `--paths` names; they are tried first.
    likely: frozenset[str] = frozenset()
    folders: Mapping[str, Path] = field(default_factory=dict)
    builder: Builder | None = None
    #: The kernel that runs, on a host that boots its kernels itself.
    running: str = ""

    def cost(self, name: str) -> float:
        return self.builder.cost(name) if self.builder else 0.0

    def provided_to(self, options: MachineOptions) -> MachineOptions:
        """Return the options of a machine that starts them."""
        return replace(options, folder_of=partial(self._provide, options)) if self.names else options

    async def _provide(self, options: MachineOptions, name: str) -> Path | None:
        if self.builder and name in self.builder.sources:
            return await self.builder.provide(name, options.progress, options.notice)
        return self.folders.get(name)

    def as_sent(self) -> dict[str, Any]:
        """Return what a worker needs to know of them, as plain data. It has the same folders and repositories."""
        found: dict[str, Any] = _MODEL.dump_python(replace(self, titles={}), mode="json")
        return found if self.names else {}

    @classmethod
    def received(cls, sent: Mapping[str, Any]) -> Versions:
        return _MODEL.validate_python(sent) if sent else NO_VERSIONS

    def refusal(self, kernel: str | None) -> str:
        """Return why this host cannot make a version: its repository lacks the commit; empty: it can."""
        made = self.builder if self.builder and kernel in self.builder.sources else None
        if not (made and made.repository) or is_commit(made.repository, made.sources[kernel or ""]):
            return ""
        return f"{made.repository} has no commit {kernel}: clone the repository there, or update it"

    def source(self, kernel: str | None) -> str | None:
        """Return what is known of a kernel before the run: its path; None: it is built later, or its host boots it."""
        if self.running or (self.builder and kernel in self.builder.sources):
            return None
        return str(self.folders[kernel]) if kernel and kernel in self.folders else kernel

    def build_ends(self, begin: Callable[[str], None]) -> None:
        """Build or fetch good and bad: what fails for them fails before the run."""

        def show(brief: str, fraction: float | None = None) -> None:  # noqa: ARG001
            begin(brief)

        for option, name in (("--good", self.names[0]), ("--bad", self.names[-1])) if self.builder else ():
            try:
                asyncio.run(self.builder.provide(name, show))  # type: ignore[union-attr]
            except NoRig as problem:
                problem.brief = f"{option}: {problem.brief}"
                raise


NO_VERSIONS = Versions(())
_MODEL = TypeAdapter(Versions)


def find_versions(wanted: WantedVersions, good: str, bad: str, begin: Callable[[str], None]) -> Versions:
    if wanted.kernels and (wanted.git or wanted.fetch):
        raise BadInput("--kernels names versions, and so do --git and --fetch", resolution="leave --kernels out")
    if bool(wanted.git) != bool(wanted.build) or (wanted.paths and not wanted.git):
        raise BadInput(
            "--git, --build and --paths belong together",
            resolution="--git names the repository, --build the command that makes one version of it",
        )
    if wanted.git and wanted.build and not wanted.fetch:
        return _commits(wanted.git, wanted.build, wanted.paths, good, bad)
    if wanted.fetch:
        return _debian_kernels(good, bad, begin)
    return _folders(wanted.kernels, good, bad) if wanted.kernels else NO_VERSIONS


def _commits(repository: Path, command: str, paths: tuple[str, ...], good: str, bad: str) -> Versions:
    at = repository.expanduser().absolute()
    if run(["git", "-C", str(at), "rev-parse", "--git-dir"]).returncode:
        raise BadInput(f"--git {repository} is no git repository", resolution="name the folder of a clone")
    first, last = (find_commit(at, option, word) for option, word in (("--good", good), ("--bad", bad)))
    if run(["git", "-C", str(at), "merge-base", "--is-ancestor", first, last]).returncode or first == last:
        raise BadInput(
            f"--good {good} is not before --bad {bad} in {repository}",
            resolution=f"`git merge-base {good} {bad}` names a commit that both have; measure it first",
        )
    span = ("log", "--first-parent", "--reverse", "--abbrev=12")
    fields = "--format=%h%x09%H%x09%s"
    lines = git(at, "log", "-1", "--abbrev=12", fields, first) + git(at, *span, fields, f"{first}..{last}")
    # Titles may be empty, and may have any character except a line feed.
    rows = [line.split("\t", 2) for line in lines.removesuffix("\n").split("\n")]
    touched = git(at, *span, "--format=%h", f"{first}..{last}", "--", *paths).split() if paths else ()
    if paths and not touched:
        raise BadInput(
            f"--paths: no commit between {good} and {bad} changes {' or '.join(paths)}",
            resolution="paths begin at the top of the repository; leave --paths out to search all commits",
        )
    builder = Builder({name: whole for name, whole, _ in rows}, command, at)
    titles = {name: title for name, _, title in rows}
    return Versions(tuple(titles), titles, frozenset(touched), builder=builder)


def find_commit(at: Path, option: str, word: str) -> str:
    found = run(["git", "-C", str(at), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}"])
    if found.returncode:
        raise BadInput(f"{option} {word}: {at} has no such commit", resolution="name a tag, a branch or a hash")
    return found.stdout.strip()


def is_commit(at: Path, whole: str) -> bool:
    return run(["git", "-C", str(at), "cat-file", "-e", f"{whole}^{{commit}}"]).returncode == 0


def git(at: Path | None, *words: object) -> str:
    where = ["-C", str(at)] if at else []
    done = run(["git", *where, *map(str, words)], timeout=1800, takes_ctrl_c=False)
    if done.returncode:
        raise NoRig(f"git {words[0]} failed with status {done.returncode}", details=done.stderr.strip()[-2000:])
    return done.stdout


def _folders(home: Path, good: str, bad: str) -> Versions:
    try:
        found = {one.name: one.absolute() for one in home.expanduser().iterdir() if one.is_dir() and image_in(one)}
    except OSError as error:
        remedy = "name a folder; releases are for the machines local, ssh and container"
        raise BadInput(f"--kernels {home} cannot be read: {error.strerror}", resolution=remedy) from None
    between = _between(f"--kernels {home}", sorted(found, key=version_key), good, bad)
    return Versions(between, folders={name: found[name] for name in between})


def _debian_kernels(good: str, bad: str, begin: Callable[[str], None]) -> Versions:
    good, bad = (word.removesuffix("-amd64") for word in (good, bad))  # as `uname -r`, of two runs
    found = _kernels_of_mirror((good, bad), begin)
    between = _between("Debian's mirror", sorted(found, key=version_key), good, bad)
    return Versions(between, builder=Builder({name: found[name] for name in between}, _FETCH))


async def fetch_kernel(release: str, progress: Progress, notice: Callable[[str], None]) -> Path | None:
    """Return the folder of a kernel by its release (`uname -r`); None: Debian's mirror does not have it."""
    name = release.removesuffix("-amd64")
    found = await asyncio.to_thread(_kernels_of_mirror, (name,), progress) if name != release else {}
    return await Builder({name: found[name]}, _FETCH).provide(name, progress, notice) if name in found else None


def _kernels_of_mirror(wanted: tuple[str, ...], begin: Callable[[str], None]) -> dict[str, str]:
    """Find the kernels of the mirror. Their list is read again if it lacks one: else, a search would not continue."""
    found: dict[str, str] = {}
    file = _home() / "packages-of-kernels.json"
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text())
    if not all(matching_names(found, word) for word in wanted):
        begin(f"reading the package lists of {', '.join(SUITES.values())}")
        found = list_kernels(SUITES.values())
        file.write_text(json.dumps(found))  # if a kill damages it, it is read again
    return found


def kernels_of_host(wanted: BisectOptions, installed: Sequence[str]) -> Versions:
    """Return those of `--kernels` in their order, or all that a host has. Its running one is the last installed one."""
    words = wanted.versions.releases
    ordered = sorted(installed, key=version_key)
    chosen = [*dict.fromkeys(only_one(f"--kernels {word}", word, "the host", ordered) for word in words)]
    names = _between("--kernels" if chosen else "the host", chosen or ordered, wanted.good, wanted.bad)
    running = installed[-1]
    if running not in names:
        raise BadInput(
            f"the host runs {running}, and this search is about {few(names, 20)}",
            resolution="boot one of these, and type the same command again",
        )
    return Versions(names, running=running)


def _between(place: str, ordered: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    ends = (("--good", good), ("--bad", bad))
    first, last = (ordered.index(only_one(f"{option} {word}", word, place, ordered)) for option, word in ends)
    return tuple(ordered[first : last + 1] if first < last else ordered[last : first + 1][::-1])


def only_one(given: str, word: str, place: str, ordered: Sequence[str]) -> str:
    """Return the version that a word names, or the only one that begins with it."""
    found = matching_names(ordered, word)
    if len(found) != 1:
        raise BadInput(
            f"{given}: {place} has {f'{len(found)} kernels that begin so' if found else 'no such kernel'}",
            resolution=f"there are {few(found or ordered, 60) or 'none: each has a folder with its bzImage'}",
        )
    return found[0]


def matching_names(names: Iterable[str], word: str) -> list[str]:
    """Return the version that a word names, or those that begin with it."""
    found = [name for name in names if re.match(rf"{re.escape(word)}(?![0-9a-z])", name)]
    return [word] if word in found else found


def version_key(name: str) -> list[tuple[int, int, str]]:
    """Order versions as people do: 6.9 before 6.12, and 7.0-rc1 before 7.0."""
    parts = re.findall(r"\d+|~|-?rc|[a-z]+", name.lower())
    kinds = ((2 if part.isdigit() else 0 if part in {"~", "rc", "-rc"} else 3, part) for part in parts)
    return [*((kind, int(part) if kind == 2 else 0, part) for kind, part in kinds), (1, 0, "")]


def _home() -> Path:
    (home := cache_dir() / "builds").mkdir(parents=True, exist_ok=True)
    return home


@dataclass(frozen=True)
class BisectOptions:
    along: str
    good: str
    bad: str
    metric: str | None
    confidence: float
    smallest: float
    versions: WantedVersions = NOT_WANTED
    skip: tuple[str, ...] = ()

    def condition_of(self, cell: CellRow) -> str:
        """Return what selects a cell at all versions."""
        axes = (one for one in cell.axes.items() if not f".{one[0]}".endswith(f".{self.along}"))
        return ",".join(f"{axis}={value}" for axis, value in axes)
