"""Disks that exist, for a run on a machine that makes none: which, whether they may be had, and for how long."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from runner.cli.inputs import WITH_HOSTS
from runner.cli.listing import USUAL
from runner.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.cli.inputs import Where
    from runner.expand.lab import Match
    from runner.model.hosts import Lab, LabHost
    from runner.model.matrix import Matrix
    from runner.ssh.holder import Holder
    from runner.store.run import RunFolder

hosts = click.option(
    "--hosts", type=click.Path(path_type=Path, dir_okay=False), help="Disks that exist.  [default: hosts.yaml]"
)
_destroy = click.option(
    "--destroy",
    multiple=True,
    metavar="DISK-ID",
    help="This disk of hosts.yaml may lose everything that is on it. Once for each disk.",
)


def lending(command: Callable[..., Any]) -> Callable[..., Any]:
    """Both options."""
    return hosts(_destroy(command))


class Borrowed(NamedTuple):
    """Disks that exist, and what holds them if they are on another host."""

    disks: tuple[str, ...] = ()
    where: str = ""
    holder: Holder | None = None


@contextmanager
def borrowed(
    found: Match, matrix: Matrix, folder: RunFolder, destroy: tuple[str, ...], tell: Callable[[str], None]
) -> Iterator[Borrowed]:
    """These disks of this host, for as long as the run is at it."""
    from runner.cli.reaching import reached
    from runner.execute.leftovers import clean
    from runner.execute.lending import Loan, lent
    from runner.store.lab import state_dir

    run, state = folder.manifest.identity, state_dir()
    with reached(found.reach, run, tell) as host:
        # An earlier process of this very run may have been killed: what it left is in the way of this one.
        for found_there in clean(state, host.ask, host.hands, reach=found.reach, only=run):
            what = found_there.left or "what an earlier process of this run left on it is gone"
            tell(f"{found_there.disk}: {what}")
        asked_for = frozenset({*destroy, *found.standing})
        loan = Loan(run, matrix.name, folder.path, state, asked_for, hands=host.hands, reach=found.reach)
        claims = [disk.claim for disk in found.disks]
        with lent(claims, host.ask, loan, lambda: datetime.now(UTC), tell) as held:
            for one in held:
                one.let_go()
            paths = tuple(host.path(one.claim.id, one.node.path) for one in held)
            yield Borrowed(paths, found.ssh, host.holder)


def wanted(matrix: Matrix, file: Path | None, place: Where) -> Match:
    """Disks of such a host that are what a matrix needs; what it declares, if it says nothing of needs."""
    from runner.expand.lab import load_lab, matched
    from runner.model.needs import Needs

    path = file or USUAL
    if not path.exists():
        raise BadInput(
            f"there is no {path}, so no disk that exists may be used",
            resolution="say in it which may: docs/disks.md has one to begin with; `matrix disks` shows them all",
        )
    declared = matrix.every_disk()
    needs = matrix.needs or Needs.model_validate({"disks": {"count": len(declared)}})
    if needs.disks.count != len(declared):
        raise BadInput(f"{matrix.name} declares {len(declared)} disks, but `needs:` asks for {needs.disks.count}")
    found = matched(meant(load_lab(path), path, place), needs, matrix.name)
    wrong = [
        f"  disk {number} is declared with {disk.size}B, {real.id} has {real.size}B"
        for number, (disk, real) in enumerate(zip(declared, found.disks, strict=True))
        if disk.size != real.size
    ]
    if wrong:
        raise BadInput(
            "disks that exist have the size that they have, and work goes over all of it",
            details="\n".join(wrong),
            resolution="write that size into `disks:` of the matrix, or choose others by `needs:`",
        )
    return found


def precheck(found: Match, matrix: Matrix, destroy: tuple[str, ...]) -> None:
    """Judge the disks before there is a run that would be left behind. All of it is done again when it has them."""
    from runner.disks.real.ask import asked
    from runner.disks.real.hold import DisksRefused
    from runner.disks.real.intent import asked_for
    from runner.disks.real.refusals import judged_all
    from runner.render.census import census_script
    from runner.store.lab import ours, state_dir

    claims = tuple(disk.claim for disk in found.disks)
    known = ours(state_dir(), reach=found.reach)
    judged = judged_all(asked(found.reach, census_script()), claims, known, matrix.name)
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)
    asked_for(judged, destroy, found.standing)


def meant(lab: Lab, path: Path, place: Where) -> Lab:
    """Those hosts of a lab that a machine is about: this one, those behind ssh, or the one that was named."""
    is_here = place.machine not in WITH_HOSTS
    hosts: dict[str, LabHost] = {name: one for name, one in lab.hosts.items() if (one.reach == "local") == is_here}
    if not hosts:
        what = "is this one" if is_here else "is reached by ssh"
        how = "local" if is_here else "ssh:NAME"
        raise BadInput(f"none of the hosts of {path} {what}", resolution=f"one with `reach: {how}` is")
    if place.host and place.host not in hosts:
        raise BadInput(f"no host of {path} that is reached by ssh is called {place.host}", resolution=_known(hosts))
    return lab.model_copy(update={"hosts": {place.host: hosts[place.host]} if place.host else hosts})


def _known(hosts: Iterable[str]) -> str:
    return f"known are {', '.join(hosts)}"
