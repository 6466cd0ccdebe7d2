"""`matrix init`."""

import re
from pathlib import Path

import click

from runner.base.errors import BadInput
from runner.base.files import shipped
from runner.cli.screen import echo

KINDS = ("raid", "lvm", "nas", "ssd", "compare")
SCHEMA = "matrix.schema.json"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,79}")
_EPILOG = """\b
Examples:
  matrix init                          write raid.yaml
  matrix init compare                  write compare.yaml: RAID 5, RAID 10 far and an LVM stripe
  matrix init my-nas --kind nas        write my-nas.yaml: arrays under file systems

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
def command(name: str | None, more: tuple[str, ...], kind: str | None) -> None:
    """Write a small, commented matrix as a start, and a schema for editors."""
    if more:
        one = f"{more[0]} --kind {name}" if name in KINDS else f"{name} --kind KIND"
        raise BadInput(f"one NAME, not {len(more) + 1}", resolution=f"matrix init {one}")
    name = (name or kind or "raid").removesuffix(".yaml").removesuffix(".yml")
    kind = kind or (name if name in KINDS else "raid")
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a matrix",
            resolution="start with a letter; use letters, digits and the signs _ . + -",
        )
    path = Path(f"{name}.yaml")
    text = (shipped("matrix") / "starters" / f"{kind}.yaml").read_text(encoding="utf-8")
    text = text.replace("$schema=../schema.json", f"$schema={SCHEMA}", 1)
    text = text.replace(f"name: {kind}\n", f'name: "{name}"\n', 1)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path} exists already", resolution="choose another name: matrix init NAME") from None
    schema = Path(SCHEMA)
    if not schema.exists():
        schema.write_text((shipped("matrix") / "schema.json").read_text(encoding="utf-8"), encoding="utf-8")
    echo(f"wrote {path}, and {SCHEMA} for editors\nnext: matrix plan {path}; matrix run {path}")
