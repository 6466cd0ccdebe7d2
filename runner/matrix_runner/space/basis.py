"""Digests of all that the simulated figures of a matrix follow from, and those with which a study was measured."""

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import read_input
from matrix_runner.base.model import digest
from matrix_runner.language.matrix import Matrix
from matrix_runner.simdisks.clib import sources

#: The file beside the page of a study.
MEASURED = "measured.json"
#: Keys that do not change the figure of a trial.
_APART = {"name", "description", "guidelines", "repeat", "for_", "max_cells"}


class Basis(BaseModel, frozen=True, extra="forbid"):
    """Equal on all hosts: digests of sources, not of compiled code. Runs of before have empty ones."""

    physics: str = ""
    models: str = ""
    work: str = ""

    def changes(self, since: "Basis") -> tuple[str, ...]:
        """Name what differs from an earlier basis. Physics were older before they were recorded."""
        if since == Basis():
            return ("physics",)
        pairs = {"physics": "physics", "models": "disk models", "work": "matrix"}
        return tuple(text for name, text in pairs.items() if getattr(self, name) != getattr(since, name))


class MeasuredRun(BaseModel, frozen=True, extra="forbid"):
    name: str
    started: str
    basis: Basis


class MeasuredPage(BaseModel, frozen=True, extra="forbid"):
    """The runs of which a page shows the figures."""

    runs: tuple[MeasuredRun, ...] = ()

    def changes(self, now: Basis) -> tuple[str, ...]:
        bases = [run.basis for run in self.runs] or [Basis()]
        return tuple(dict.fromkeys(name for one in bases for name in now.changes(one)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.name for run in self.runs)

    @property
    def age(self) -> tuple[str, ...]:
        return tuple(sorted(run.started for run in self.runs))


def basis_of(matrix: Matrix) -> Basis:
    # Only what is written: the default of a new key changes no figure.
    apart: Any = {**dict.fromkeys(_APART, True), "disks": {"__all__": {"model"}}}
    written = matrix.model_dump(mode="json", exclude=apart, exclude_unset=True)
    models = [disk.physics.characteristics if disk.physics else None for disk in matrix.every_disk()]
    return Basis(
        physics=_physics(shares_bus=bool(matrix.bus_limit)), models=digest(models).hex(), work=digest(written).hex()
    )


def measured_page(folder: Path) -> MeasuredPage:
    """Read what a page was made of. Older pages have no such file."""
    path = folder / MEASURED
    try:
        return MeasuredPage.model_validate_json(read_input(path))
    except FileNotFoundError:
        return MeasuredPage()
    except (OSError, ValidationError) as problem:
        raise BadInput(
            f"{path} is not what `matrix study --page` writes",
            details=str(problem),
            resolution="remove it, or write the page again with --page",
        ) from None


@cache
def _physics(*, shares_bus: bool) -> str:
    return digest([(path.name, path.read_text()) for path in sources() if shares_bus or path.stem != "bus"]).hex()
