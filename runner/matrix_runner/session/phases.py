"""A search in two phases: Debian's kernels, then the commits of Linux between the two that it found."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from matrix_runner.base.errors import BadInput
from matrix_runner.base.process import run
from matrix_runner.decide.bisect import State
from matrix_runner.decide.steering import BisectSteering
from matrix_runner.session.versions import BisectOptions, Versions, find_commit, git, matching_names, version_key


def check_first_phase(wanted: BisectOptions, versions: Versions) -> None:
    """Refuse before the first phase what would end the second one: a wrong order, or what the repository lacks."""
    good, bad = versions.names[0], versions.names[-1]
    if version_key(good) > version_key(bad):
        raise BadInput(
            f"--good {good} is newer than --bad {bad}, and a search of commits begins at the older one",
            resolution="leave --git out to search Debian's kernels only",
        )
    tags = [("--good", _tag(versions, good)), ("--bad", _tag(versions, bad))]
    for option, word in (*tags, *(("--skip", word) for word in _skipped_commits(wanted, versions))):
        find_commit(_repository(wanted), option, word)


def second_phase(
    found: BisectSteering, versions: Versions, wanted: BisectOptions, notice: Callable[[str], None]
) -> BisectOptions | None:
    """Return the search of the commits between the kernels that the first phase found; None: it found none."""
    if found.standing.state is not State.FOUND:
        return None
    best, names = found.standing.best, found.bisection.names
    good, bad = (_tag(versions, names[at]) for at in (best.first - 1, best.last))
    if good == bad:
        raise BadInput(
            f"{names[best.first - 1]} and {names[best.last]} are both Linux {good}, so no commit of Linux changed it",
            resolution="compare the patches and the configurations of both packages of Debian",
        )
    notice(f"the change is between Debian's kernels {names[best.first - 1]} and {names[best.last]}: searching commits")
    at = _repository(wanted)
    first, last = find_commit(at, "--good", good), find_commit(at, "--bad", bad)
    if (base := git(at, "merge-base", first, last).strip()) != first:
        name = run(["git", "-C", str(at), "describe", "--tags", "--exact-match", base]).stdout.strip() or base[:12]
        notice(f"{good} is on another branch than {bad}: the search begins at {name}, which both have, as good")
        good = name
    skip = _skipped_commits(wanted, versions)
    return replace(wanted, good=good, bad=bad, skip=skip, versions=replace(wanted.versions, fetch=False))


def _skipped_commits(wanted: BisectOptions, versions: Versions) -> tuple[str, ...]:
    """Return the words of `--skip` that name no kernel of the first phase."""
    return tuple(word for word in wanted.skip if not matching_names(versions.names, word))


def _repository(wanted: BisectOptions) -> Path:
    return (wanted.versions.git or Path()).expanduser().absolute()


def _tag(versions: Versions, name: str) -> str:
    """Return the tag of Linux that a kernel of Debian is made of, by the version of its package."""
    source = unquote(versions.builder.sources[name]) if versions.builder else ""
    found = re.search(r"_(\d+(?:\.\d+)+)(?:~(rc\d+))?[^/]*\.deb", source)
    if not found:
        raise BadInput(f"{name}: its package has no version of Linux", details=source, resolution="leave --git out")
    return f"v{'-'.join(filter(None, found.groups()))}"
