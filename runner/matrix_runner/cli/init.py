"""`matrix init`: the matrix of a fio job comes from space/advice.py."""

import os
import re
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import shipped
from matrix_runner.cli.options import FILE, Parsed
from matrix_runner.cli.screen import echo

KINDS = ("raid", "lvm", "nas", "ssd", "compare")
SCHEMA = "matrix.schema.json"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,79}")
_ARRAYS = {
    "0": "level: 0, chunk: 512KiB",
    "1": "level: 1",
    "5": "level: 5, chunk: 512KiB",
    "6": "level: 6, chunk: 512KiB",
    "10": "level: 10, layout: f2, chunk: 512KiB",
}


def _parse_levels(text: str) -> tuple[str, ...]:
    levels = tuple(dict.fromkeys(text.split(",")))
    if unknown := [level for level in levels if level not in _ARRAYS]:
        raise ValueError(f"there is no RAID level {unknown[0]!r}; known are {', '.join(_ARRAYS)}")
    return levels


_EPILOG = """\b
Examples:
  matrix init                          write raid.yaml
  matrix init compare                  write compare.yaml: RAID 5, RAID 10 far and an LVM stripe
  matrix init my-nas --kind nas        write my-nas.yaml: arrays under file systems
  matrix init --disks 6 --levels 5,6,10  write nas.yaml: these arrays of six disks under file systems
  matrix init --from jobs/db.fio       write db.yaml: this job file of fio on a disk and on RAID 5

\b
Then:
  matrix plan my-nas.yaml              show cells and time
  matrix run my-nas.yaml               measure
"""


@click.command("init", epilog=_EPILOG)
@click.argument("name", required=False)
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--kind", type=click.Choice(KINDS), help="The starter to copy.  [default: NAME if it is one of these, else raid]"
)
@click.option(
    "--from",
    "job",
    type=FILE,
    help="Write a matrix of this job file of fio. NAME is that of the file if not given.",
)
@click.option("--disks", type=click.IntRange(1, 26), help="The number of disks of a NAS.")
@click.option("--levels", metavar="LEVEL,…", type=Parsed("levels", _parse_levels), help="The RAID levels of a NAS.")
def command(
    name: str | None,
    more: tuple[str, ...],
    kind: str | None,
    job: Path | None,
    disks: int | None,
    levels: tuple[str, ...] | None,
) -> None:
    """Write a small, commented matrix as a start, and a schema for editors."""
    if more:
        one = f"{more[0]} --kind {name}" if name in KINDS else f"{name} --kind KIND"
        raise BadInput(f"one NAME, not {len(more) + 1}", resolution=f"matrix init {one}")
    if kind and job:
        raise BadInput("--kind and --from both determine the content of the matrix", resolution="leave one of them out")
    if disks or levels:
        if job or kind not in {None, "nas"} or name in set(KINDS) - {"nas"}:
            raise BadInput("--disks and --levels are of a NAS", resolution="leave them out, or use --kind nas")
        kind = "nas"
    of_job = job and (job.stem if _NAME.fullmatch(job.stem) else "job")
    name = (name or kind or of_job or "raid").removesuffix(".yaml").removesuffix(".yml")
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a matrix",
            resolution="start with a letter; use letters, digits and the signs _ . + -",
        )
    path = Path(f"{name}.yaml")
    text = _of_job(name, job, path) if job else _of_kind(name, kind or (name if name in KINDS else "raid"))
    if disks or levels:
        text = _adapt_nas(text, path, disks, levels)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path} exists already", resolution="choose another name: matrix init NAME") from None
    write_schema(Path())
    echo(f"wrote {path}, and {SCHEMA} for editors\nnext: matrix plan {path}; matrix run {path}")


def write_schema(folder: Path) -> None:
    schema = folder / SCHEMA
    if not schema.exists():
        schema.write_text((shipped("matrix") / "schema.json").read_text(encoding="utf-8"), encoding="utf-8")


def _of_kind(name: str, kind: str) -> str:
    text = (shipped("matrix") / "starters" / f"{kind}.yaml").read_text(encoding="utf-8")
    text = text.replace("$schema=../schema.json", f"$schema={SCHEMA}", 1)
    return text.replace(f"name: {kind}\n", f'name: "{name}"\n', 1)


def _adapt_nas(text: str, path: Path, disks: int | None, levels: tuple[str, ...] | None) -> str:
    """Return the matrix of a NAS with other disks and arrays, checked."""
    from matrix_runner.space.load import parse

    if disks:
        text = re.sub("(?<=count: )[0-9]+", str(disks), text, count=1).replace("with four disks", f"with {disks} disks")
    if levels:
        lines = [f"  raid{level}: [md: {{{_ARRAYS[level]}}}, fs: {{type: [ext4, xfs]}}]\n" for level in levels]
        text = re.sub(r"(?<=layouts:\n)(  .*\n)+", "".join(lines), text, count=1)
    parse(str(path), text)
    return text


def _of_job(name: str, job: Path, path: Path) -> str:
    """Return the matrix of a job file, checked: errors show lines of the job file."""
    from matrix_runner.language.messages import MOST_SHOWN
    from matrix_runner.language.yaml_source import format_error
    from matrix_runner.session.selected_matrix import fio_flaws
    from matrix_runner.space.advice import matrix_of_job
    from matrix_runner.space.load import BadMatrix, parse, read_beside

    if not job.is_file():
        why = "this is not a regular file" if job.exists() else "there is no such file"
        raise BadInput(f"{job}: {why}", resolution="name a job file of fio")
    relative = Path(os.path.relpath(job)).as_posix()

    def text_of(file: str) -> str:
        return read_beside(str(path), file).decode()

    refusals: list[BadMatrix] = []
    for in_files in (False, True):  # some jobs, such as copies that verify, need files of their own
        text = matrix_of_job(name, relative, SCHEMA, text_of, in_files=in_files)
        try:
            parse(str(path), text, text_of, ask=lambda space: fio_flaws(space, None))
        except BadMatrix as error:
            refusals.append(error)
        else:
            return text
    refused = min(refusals, key=lambda one: len(one.places))  # without reasons of a device or of files only
    lines = [  # the matrix is not written, so no message points into it
        f"{relative}: {message}" if place.file == str(path) else format_error(refused.source, place, message)
        for place, message in refused.places[:MOST_SHOWN]
    ]
    raise BadInput(
        f"{job}: no matrix can run this job file as it is",
        details="\n".join(lines),
        resolution="nothing was written; change the job file, or write a matrix with other values below `set:`",
    )
