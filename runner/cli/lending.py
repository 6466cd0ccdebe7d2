"""Disks that exist, for a run on a machine that makes none: which, whether they may be had, and for how long."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.listing import USUAL
from runner.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.disks.real.census import Node
    from runner.expand.lab import Match
    from runner.model.hosts import Lab, LabHost
    from runner.model.matrix import Matrix
    from runner.store.run import RunFolder

BY_ID = Path("/dev/disk/by-id")

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


@contextmanager
def borrowed(
    found: Match, matrix: Matrix, folder: RunFolder, destroy: tuple[str, ...], tell: Callable[[str], None]
) -> Iterator[tuple[str, ...]]:
    """The paths of these disks of this host, for as long as the run is at it."""
    from runner.disks.real.ask import here
    from runner.execute.leftovers import clean
    from runner.execute.lending import Loan, lent
    from runner.render.census import census_script
    from runner.store.lab import state_dir

    run, state, script = folder.manifest.identity, state_dir(), census_script()
    # An earlier process of this very run may have been killed: what it left is in the way of this one.
    for found_there in clean(state, lambda: here(script), only=run):
        what = found_there.left or "what an earlier process of this run left on it is gone"
        tell(f"{found_there.disk}: {what}")
    loan = Loan(run, matrix.name, folder.path, state, frozenset({*destroy, *found.standing}))
    claims = [disk.claim for disk in found.disks]
    with lent(claims, lambda: here(script), loan, lambda: datetime.now(UTC), tell) as held:
        for one in held:
            one.let_go()
        yield tuple(_path(one.node, one.claim.id) for one in held)


def wanted(matrix: Matrix, file: Path | None) -> Match:
    """Disks of this host that are what a matrix needs; what it declares, if it says nothing of needs."""
    from runner.expand.lab import load_lab, matched
    from runner.model.needs import Needs

    path = file or USUAL
    if not path.exists():
        raise BadInput(
            f"there is no {path}, so no disk of this host may be used",
            resolution="say in it which may: docs/disks.md has one to begin with; `matrix disks` shows them all",
        )
    declared = matrix.every_disk()
    needs = matrix.needs or Needs.model_validate({"disks": {"count": len(declared)}})
    if needs.disks.count != len(declared):
        raise BadInput(f"{matrix.name} declares {len(declared)} disks, but `needs:` asks for {needs.disks.count}")
    found = matched(here_only(load_lab(path), path), needs, matrix.name)
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
    from runner.disks.real.ask import here
    from runner.disks.real.hold import DisksRefused
    from runner.disks.real.intent import asked_for
    from runner.disks.real.refusals import judged_all
    from runner.render.census import census_script
    from runner.store.lab import ours, state_dir

    claims = tuple(disk.claim for disk in found.disks)
    judged = judged_all(here(census_script()), claims, ours(state_dir()), matrix.name)
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)
    asked_for(judged, destroy, found.standing)


def here_only(lab: Lab, path: Path) -> Lab:
    """Those hosts of a lab that are this one."""
    local: dict[str, LabHost] = {name: host for name, host in lab.hosts.items() if host.reach == "local"}
    if not local:
        raise BadInput(f"none of the hosts of {path} is this one", resolution="one with `reach: local` is")
    return lab.model_copy(update={"hosts": local})


def _path(node: Node, name: str) -> str:
    """Its stable name, or where there is no udev to give it one, what the kernel calls it."""
    link = BY_ID / name
    return str(link) if link.exists() and link.resolve() == Path(node.path) else node.path
