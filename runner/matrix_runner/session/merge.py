"""Join the runs of all shards of a matrix into one run."""

import heapq
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from matrix_runner.base.errors import BadInput
from matrix_runner.base.model import digest
from matrix_runner.decide.plan import Plan
from matrix_runner.pages.stored import declared_by
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.environment import Requested
from matrix_runner.records.files import check_file_name
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, CellRow, Trial
from matrix_runner.records.run_folder import MOST_IN_FOLDERS, OLD_KERNEL, Manifest, RunFolder, create, load_old_kernel
from matrix_runner.records.tables import PLAIN
from matrix_runner.session.run_request import RunRequest, command_line
from matrix_runner.session.selected_matrix import SelectedMatrix
from matrix_runner.space.load import Declared
from matrix_runner.space.select import Selection, Shard, select, sharded

#: The parts that all shards have in common, as the user knows them.
_COMMON = {
    "matrix": "name of the matrix",
    "machine": "machine",
    "seed": "seed",
    "slow": "factor of `slow:`",
    "steered": "--until-decided",
}
_TEXTS = {"text": "text of the matrix", "used": "files that the matrix uses"}


@dataclass(frozen=True)
class Part:
    """A run of one shard."""

    run: RunFolder
    shard: Shard

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        try:
            part = cls(run, Shard.parsed(run.manifest.requested.shard))
        except ValueError:
            remedy = "`matrix run --shard 1/4` measures one"
            raise BadInput(f"{run.path} is not a run of a shard", resolution=remedy) from None
        if not run.manifest.finished:
            raise BadInput(f"{run.path} is not finished", resolution="continue it with the command that began it")
        return part

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    def common(self, declared: Declared) -> dict[str, str]:
        """Return what must be equal in all shards, by its name for the user."""
        manifest = self.manifest
        found = {label: str(getattr(manifest, name)) for name, label in _COMMON.items()}
        found |= {label: digest([getattr(manifest, name)]).hex()[:8] for name, label in _TEXTS.items()}
        found |= {
            "--only": str(Requested(only=manifest.requested.only)),
            "number of shards": str(self.shard.of),
            "templates": manifest.digests.templates[:8],
            "version of matrix": manifest.host.versions.get("matrix", ""),
        }
        if not declared.space.matrix.machine.kernel:
            found["kernel"] = ", ".join(sorted(manifest.versions))
        return found


@dataclass(frozen=True)
class Merger:
    """Joins the runs of all shards, in their order. Make it with `of`, which refuses runs that do not fit together."""

    parts: tuple[Part, ...]
    declared: Declared
    whole: Selection

    @classmethod
    def of(cls, runs: Sequence[RunFolder]) -> Self:
        parts = sorted(map(Part.of, runs), key=lambda part: part.shard.number)
        declared = declared_by(parts[0].manifest)
        for other in parts[1:]:
            _refuse_differences(parts[0], other, declared)
        _refuse_gaps(parts)
        return cls(tuple(parts), declared, select(declared.space, parts[0].manifest.requested.only))

    def write(self, results: Path, name: str) -> RunFolder:
        """Write the run as results/NAME. A kill leaves a hidden folder, which the same command replaces."""
        target, stage = results / check_file_name(name, "a run"), results / f".merging-{name}"
        if target.exists():
            raise BadInput(f"{target} exists already", resolution="name another one with --to, or remove it")
        shutil.rmtree(stage, ignore_errors=True)
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part.run.locked())
            made = self._create(stage, name)
            if parts := tuple(replace(part, run=run) for part in self.parts if (run := load_old_kernel(part.run.path))):
                replace(self, parts=parts)._create(made.path, OLD_KERNEL)
        made.path.rename(target)
        stage.rmdir()
        return RunFolder(target, made.manifest)

    def _create(self, folder: Path, name: str) -> RunFolder:
        with ExitStack() as stack:
            journals = [stack.enter_context(Journal.existing(part.run.journal)) for part in self.parts]
            for part, journal in zip(self.parts, journals, strict=True):
                self._refuse_other_cells(part, journal)
            made = create(folder, self._manifest(), name)
            self._copy_files(made)
            self._copy_records(made, journals)
        return made

    def _shard(self, part: Part) -> Selection:
        return sharded(self.whole, part.shard)

    def _refuse_other_cells(self, part: Part, journal: Journal) -> None:
        if {cell.id for cell in journal.cells()} != {cell.id for cell in self._shard(part).cells()}:
            raise BadInput(
                f"{part.run.path} has other cells than shard {part.shard} of its matrix",
                resolution="another version of matrix measured it: merge it with that version",
            )

    def _request(self, selection: Selection) -> RunRequest:
        matrix = self.declared.space.matrix
        selected = SelectedMatrix(self.declared, selection, Plan(selection, matrix.repeat, matrix.seed))
        return RunRequest(Path("matrix.yaml"), selected, self.parts[0].manifest.machine, None, None, cold=False)

    def _fingerprint(self) -> str:
        """Return that of a run without shards, unless options of the runs are not known here, such as --kernel."""
        if all(self._request(self._shard(one)).fingerprint() == one.manifest.fingerprint for one in self.parts):
            return self._request(self.whole).fingerprint()
        return digest([part.manifest.fingerprint for part in self.parts]).hex()

    def _manifest(self) -> Manifest:
        manifests = [part.manifest for part in self.parts]
        first, planned = manifests[0], sum(one.planned for one in manifests)
        hosts = ", ".join(dict.fromkeys(one.host.hostname or "" for one in manifests))
        changes: dict[str, Any] = {
            "id": token_hex(8),
            "fingerprint": self._fingerprint(),
            "command": command_line(["matrix", *sys.argv[1:]]),
            "kernels": tuple(dict.fromkeys(kernel for one in manifests for kernel in one.kernels)),
            "versions": {kernel: tools for one in manifests for kernel, tools in one.versions.items()},
            "host": first.host.model_copy(update={"hostname": hosts}),
            "disks": first.disks if all(one.disks == first.disks for one in manifests) else (),
            "health": tuple(health for one in manifests for health in one.health),
            "revision": first.revision if all(one.revision == first.revision for one in manifests) else None,
            "started": min(one.started for one in manifests),
            "ended": max(one.ended for one in manifests),
            "planned": planned,
            "losses": {stack: count for one in manifests for stack, count in one.losses.items()},
            "stacks": {stack: facts for one in manifests for stack, facts in one.stacks.items()},
            "requested": Requested(only=first.requested.only),
            "archived": planned > MOST_IN_FOLDERS,
            "exit": None,
        }
        return first.model_copy(update=changes)

    def _copy_files(self, made: RunFolder) -> None:
        with open_files(made, writing=True) as target:
            for part in self.parts:
                with open_files(part.run) as source:
                    for cell in self._shard(part).cells():
                        target.add(cell.name, source.of_cell(cell.name))

    def _copy_records(self, made: RunFolder, journals: Sequence[Journal]) -> None:
        with Journal.open(made.journal, synthetic=made.manifest.synthetic, run=made.manifest.id) as target:
            target.add_cells(CellRow(cell.id, cell.name, cell.axes) for cell in self.whole.cells())
            trials = map(self._trials, self.parts, journals)
            target.record_many(heapq.merge(*trials, key=attrgetter("started")))  # reports look at their order
            for table, journal in product(PLAIN, journals):
                target.add_rows(table, journal.rows_of(table))

    def _trials(self, part: Part, journal: Journal) -> Iterator[Trial]:
        """Yield its trials. Cells of different hosts must not be compared, so the trials name their host."""
        hosts = {one.manifest.host.hostname for one in self.parts}
        host = part.manifest.host.hostname or ""
        if len(hosts) == 1 or part.manifest.synthetic:
            return journal.trials()
        return (
            replace(
                trial,
                notes={HOST: host, **trial.notes},
                facts=replace(trial.facts, host=trial.facts.host or host),
            )
            for trial in journal.trials()
        )


def _refuse_differences(one: Part, other: Part, declared: Declared) -> None:
    found, wanted = other.common(declared), one.common(declared)
    lines = [
        f"- {label} differs" if label in _TEXTS.values() else f"- {label}: {value or 'none'}, {found[label] or 'none'}"
        for label, value in wanted.items()
        if found[label] != value
    ]
    if lines:
        raise BadInput(
            f"{one.run.path} and {other.run.path} are not shards of the same run",
            details="\n".join(lines),
            resolution="merge runs of the same matrix and options, which differ in --shard only",
        )


def _refuse_gaps(parts: Sequence[Part]) -> None:
    counts = Counter(part.shard.number for part in parts)
    of = parts[0].shard.of
    missing = ", ".join(f"{number}/{of}" for number in range(1, of + 1) if number not in counts)
    twice = ", ".join(f"{number}/{of}" for number, count in counts.items() if count > 1)
    if missing or twice:
        raise BadInput(
            f"these runs are not all shards: missing {missing}" if missing else f"several runs of shard {twice}",
            resolution="name one run of each shard",
        )
