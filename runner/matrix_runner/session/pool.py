"""The pool: physical disks of a worker's host, leased for one batch at a time.

The hosts.yaml of the worker alone decides which disks may be used and destroyed. A coordinator can only ask for disks.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Self

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import write_atomically
from matrix_runner.hosts import HOSTS_FILE
from matrix_runner.hosts.disk_ledger import lease_records, state_dir
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines import Where
from matrix_runner.records.databases import translate_errors
from matrix_runner.records.files import InUse, Standing, locked
from matrix_runner.session.disk_lease import DiskUse, RunDisks, lease_run_disks, match_disks, precheck
from matrix_runner.space.declared_files import Match
from matrix_runner.space.space import Stack

PAUSE = 0.5  # seconds between two looks whether the disks are free


@dataclass(frozen=True, slots=True)
class Pool:
    match: Match
    matrix: Matrix
    machine: str

    @classmethod
    def of(cls, matrix: Matrix, place: Where, hosts: Path | None) -> Self:
        """Choose the disks of a batch. Raise BadInput if none fit, or if hosts.yaml does not allow to destroy them."""
        found = match_disks(matrix, hosts, place, prefer_standing=True)
        if missing := [disk.id for disk in found.disks if disk.id not in found.standing]:
            raise BadInput(
                f"{hosts or HOSTS_FILE} of this worker does not allow runs to destroy what is on {', '.join(missing)}",
                resolution=f"if it is not needed, list the disk in `destroy:` of the host {found.host} there",
            )
        return cls(found, matrix, place.machine)

    @property
    def folder(self) -> Path:
        """Return the folder of this user for all batches on these disks. It outlives a killed batch."""
        return state_dir() / "batches" / re.sub(r"[^A-Za-z0-9_-]+", "_", self.match.reach)

    @property
    def standing(self) -> Standing:
        return Standing(self.folder)

    def check(self) -> None:
        """Refuse disks that cannot be used. If a batch has them, or was killed with them, the lease checks them."""
        with suppress(InUse), self._locked() as run:
            if not self._unreturned(run):
                precheck(self.match, self.matrix, self.machine, ())

    @asynccontextmanager
    async def leased(self, stack: Stack, notice: Callable[[str], None]) -> AsyncIterator[RunDisks]:
        """Wait until no other batch has the disks, and lease them. Take apart what a killed batch left on them."""
        with ExitStack() as exits:
            run = ""
            while not run:
                try:
                    run = exits.enter_context(self._locked())
                except InUse:
                    await asyncio.sleep(PAUSE)
            use = DiskUse(self.match, self.matrix, (stack,), self.machine, run, self.folder)
            disks = exits.enter_context(lease_run_disks(use, notice, notice))
            if self._unreturned(run) == {one.node.identity for one in disks.leased}:
                self.standing.clear()
            yield disks

    @contextmanager
    def _locked(self) -> Iterator[str]:
        """Yield the name by which batches lease these disks, if no other batch has them. Raise InUse otherwise."""
        file = self.folder / "id"
        with translate_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if not (file.exists() and file.read_bytes()):
                write_atomically(file, f"worker-{token_hex(4)}".encode())
            yield file.read_text(encoding="ascii")

    def _unreturned(self, run: str) -> set[str]:
        return {one.identity for one in lease_records(state_dir(), self.match.reach) if one.run == run}
