"""The factors of slow motion that a host has needed, in a file for each kind of machine, for its later runs."""

from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import read_input, write_atomically
from matrix_runner.decide.estimate import costs_of
from matrix_runner.decide.factors import Factors
from matrix_runner.hosts.disk_ledger import state_dir
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines.base import Machine

_MOST = 10_000  # kinds of cells
_KNOWN = TypeAdapter(dict[str, int])


def factors_of(matrix: Matrix, here: Machine) -> Factors | None:
    """Return what chooses the factors of trials; None if the matrix declares one, or if no disks are simulated."""
    if not (matrix.chooses_slow and here.brings_disks):
        return None
    costs = costs_of(here)
    path = state_dir() / "slow-motion" / f"{here.name}.json"

    def keep(kind: str, factor: int) -> None:
        known = {**_read(path), kind: factor}
        latest = dict(list(known.items())[-_MOST:])
        with suppress(OSError, MatrixError):  # a full disk, or a folder of another user: a later run learns it again
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, _KNOWN.dump_json(latest))

    return Factors(matrix, costs, _read(path), keep)


def _read(path: Path) -> dict[str, int]:
    try:
        return _KNOWN.validate_json(read_input(path))
    except (OSError, MatrixError, ValidationError):
        return {}
