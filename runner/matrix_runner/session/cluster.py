"""A run on a cluster: the order for its batches, and the connection.

What a cluster can do is in carry/batch_messages.py; the command `matrix cluster` is in cli/cluster.py.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection

from matrix_runner.base.version import matrix_version
from matrix_runner.carry.batch_messages import Cluster, Order
from matrix_runner.carry.events import PoolUsed
from matrix_runner.carry.members import Members
from matrix_runner.decide.concurrency import why_one_at_a_time
from matrix_runner.machines import machine
from matrix_runner.machines.base import MachineOptions
from matrix_runner.records.environment import keep_first_health
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.scripts.jinja import user_templates
from matrix_runner.session.disk_lease import RunDisks
from matrix_runner.session.run_request import ClusterOptions, RunRequest


def connect(wanted: ClusterOptions) -> Cluster:
    from matrix_runner.carry.cluster.relayed import RelayedCluster

    return RelayedCluster(wanted.address.text, wanted.security())


def slots_of_hosts(wanted: ClusterOptions, tags: Collection[str]) -> list[int]:
    """Return the batches at a time of each host that is a member now and has all tags."""
    from matrix_runner.carry.cluster.relayed import query

    found = Counter[str]()
    for one in asyncio.run(query(wanted.address.text, wanted.security())).workers:
        if one.version == matrix_version() and set(tags) <= set(one.tags):
            found[one.host] += one.slots
    return list(found.values())


def check_hosts(wanted: ClusterOptions, request: RunRequest, tags: Collection[str]) -> None:
    """Ask the members what they can run, before the run exists. Raise BadInput if no member can run a stack."""
    cluster, order = connect(wanted), order_for_batches(request)
    stacks = {one.key: one.label for one in request.selected.stacks()}
    whole = stacks if request.bisection else ()
    members = Members(cluster, order, lambda _: None, time.monotonic, frozenset(tags), whole)

    async def ask() -> None:
        async with cluster.open(lambda: None):
            while found := members.newcomers():
                await asyncio.gather(*map(members.check, found))
                if members.can_run(stacks):
                    return
            if cluster.workers:
                members.can_run(stacks)

    asyncio.run(ask())


def note_pool(folder: RunFolder, used: PoolUsed, trouble: Callable[[str], None]) -> RunFolder:
    """Record the disks of a host and their health. Show what changed, each problem once."""
    manifest = folder.manifest
    found = {f"{used.host}: {one.disk}": one.after or one.before for one in used.health}
    others = tuple(one for one in manifest.health if one.disk not in found)
    health = keep_first_health(manifest.health, found)
    alarms = {one.alarm for one in manifest.health}
    for warning in RunDisks(facts=used.disks, health=health).warnings(manifest.pools.get(used.host, ())):
        if warning not in alarms:
            trouble(warning)
    return folder.update_manifest(pools={**manifest.pools, used.host: used.disks}, health=(*others, *health))


def order_for_batches(request: RunRequest) -> Order:
    source, place = request.selected.declared.source, machine(request.machine, MachineOptions())
    return Order(
        digest=request.fingerprint(),
        version=matrix_version(),
        name=source.name,
        text=source.text,
        used=dict(source.used),
        templates=user_templates(request.templates) if request.templates else None,
        machine=request.machine,
        host=request.host,
        kernel=request.kernel,
        cold=request.cold,
        versions=request.versions.as_sent(),
        one_at_a_time="a search measures one version at a time"
        if request.bisection
        else why_one_at_a_time(place, request.specs(), request.selected.stacks()),
    )
