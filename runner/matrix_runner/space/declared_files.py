"""Files beside a matrix: guidelines in their own file; hosts.yaml, and why a declared host does not fit a matrix."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import Place
from matrix_runner.base.quantities import format_in_unit
from matrix_runner.language.guidelines import Guideline, Guidelines
from matrix_runner.language.hosts import DiskNeeds, Lab, LabDisk, LabHost, Needs
from matrix_runner.language.messages import from_pydantic
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.yaml_source import read
from matrix_runner.space.guideline_references import find_unknown_axes
from matrix_runner.space.includes import validated
from matrix_runner.space.load import BadMatrix, load, placed, readable, text_of

_ADAPTER: TypeAdapter[tuple[Guideline, ...]] = TypeAdapter(Guidelines)


def load_guidelines(path: Path) -> tuple[Guideline, ...]:
    file, hash_, name = str(path).rpartition("#")
    if not hash_ or path.exists():
        return _all_in(path)
    there = _all_in(Path(file))
    if found := tuple(one for one in there if one.id == name):
        return found
    raise BadInput(f"{file}: there is no guideline {name}; {did_you_mean(name, [one.id for one in there])}")


def _all_in(path: Path) -> tuple[Guideline, ...]:
    text = text_of(path, "name a file with a list of guidelines, or a matrix with `guidelines:`")
    source = readable(str(path), text, read)
    if not isinstance(source.data, list):
        found = load(path).space.matrix.guidelines
        if not found:
            raise BadInput(f"{path}: this matrix has no guidelines")
        return found
    try:
        found = _ADAPTER.validate_python(source.data)
    except ValidationError as error:
        # `within`: hints treat the file as the `guidelines` section of a matrix.
        malformed = from_pydantic(error, source, within=("guidelines",))
        raise BadMatrix(source, placed(source, malformed)) from None
    if flaws := list(find_unknown_axes(found)):
        raise BadMatrix(source, placed(source, flaws))
    return found


def load_lab(path: Path) -> Lab:
    return parse_lab(str(path), text_of(path, "write it: `matrix help physical-disks` has an example"))


def parse_lab(name: str, text: str) -> Lab:
    source = readable(name, text, read)
    if source.data is None:
        raise BadMatrix(source, [(Place(name, 1, 1), "the file is empty; `matrix help physical-disks` has an example")])
    lab, malformed = validated(source, Lab)
    if lab is None:
        raise BadMatrix(source, placed(source, malformed))
    return lab


@dataclass(frozen=True, slots=True)
class Match:
    host: str
    disks: tuple[LabDisk, ...]
    reach: str = "local"
    standing: tuple[str, ...] = ()  # ids of disks whose content may be destroyed without a question
    apart: bool = False  # its disks share no controller or bus, so several runs may measure at the same time

    @property
    def ssh(self) -> str:
        return self.reach.removeprefix("ssh:") if self.reach != "local" else ""


def matched(lab: Lab, needs: Needs, matrix: str) -> Match:
    reasons = []
    for name, host in lab.hosts.items():
        fitting, why = _fitting(host, needs.disks, matrix)
        if not why:
            return Match(name, fitting, host.reach, host.destroy, apart=host.shares == "nothing")
        reasons.append(f"{name}: {why}")
    raise BadInput(
        f"{matrix} needs {described(needs.disks)}, and no host in hosts.yaml has them",
        details="\n".join(f"  {reason}" for reason in reasons),
        resolution="ask for less in `needs:`, or add disks to hosts.yaml",
    )


def described(needs: DiskNeeds) -> str:
    words = [f"{needs.count} disk{'s' if needs.count != 1 else ''}"]
    words += [f"of kind {needs.kind}"] if needs.kind else []
    words += [f"tagged {' and '.join(needs.tag)}"] if needs.tag else []
    words += [f"of {_format_disk_size(needs.size)} or more"] if needs.size else []
    return ", ".join(words)


def _fitting(host: LabHost, needs: DiskNeeds, matrix: str) -> tuple[tuple[LabDisk, ...], str]:
    unfit = {disk.id: ", ".join(_unfit(disk, needs, matrix)) for disk in host.disks}
    fitting = tuple(disk for disk in host.disks if not unfit[disk.id])
    if len(fitting) >= needs.count:
        return fitting[: needs.count], ""
    others = "".join(f"\n      {name} {why}" for name, why in unfit.items() if why)
    return (), f"it has {len(fitting)} of {needs.count}{others if host.disks else '; it lists no disks'}"


def _unfit(disk: LabDisk, needs: DiskNeeds, matrix: str) -> Iterator[str]:
    if needs.kind and disk.kind != needs.kind:
        yield f"is of kind {disk.kind}" if disk.kind else "has no `kind`"
    for tag in needs.tag:
        if tag not in disk.tags:
            yield f"has no tag {tag}"
    if needs.size and disk.size < needs.size:
        yield f"has only {_format_disk_size(disk.size)}"
    if disk.for_ and not any(fnmatchcase(matrix, one) for one in disk.for_):
        yield f"is for {', '.join(disk.for_)}"


def _format_disk_size(size: int) -> str:
    # Disks are sold in decimal units. A size that is a multiple of no unit is shown in bytes.
    units = {"TB": 10**12, "TiB": 1 << 40, "GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20}
    return format_in_unit(size, next((unit for unit, bytes_ in units.items() if size % bytes_ == 0), "B"), int)
