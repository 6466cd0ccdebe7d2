"""What several commands take: the matrix, the selection of its cells, the machine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.machines import MACHINES, WITH_HOSTS, Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.space.shard import Shard


class _Folder(click.Path):
    """A folder that has a name: an empty one (an unset variable) would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("a folder needs a name, and this is empty", param, ctx)
        return super().convert(value, param, ctx)


class MatrixPath(click.Path):
    """A file, or the folder of a study, which keeps its matrix under that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As a path, whatever it is given as."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return path / STUDY if path.is_dir() else path


#: What a study's folder calls its matrix.
STUDY = "matrix.yaml"
matrix_file = click.argument("matrix", type=MatrixPath(path_type=Path))
only = click.option(
    "--only",
    multiple=True,
    metavar="NAME|AXIS=VALUE,…",
    help="Only cells of which all of this is true, e.g. raid5 (a layout, a workload or another value) "
    "or 'layout=raid5,bs=64KiB|1MiB'. Given several times: the cells that any of them names.",
)


def _shard(_context: click.Context, _option: click.Parameter, text: str | None) -> Shard | None:
    """A part of the whole."""
    from runner.space.shard import Shard

    if text is None:
        return None
    try:
        return Shard.parsed(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


shard = click.option(
    "--shard",
    metavar="N/OF",
    callback=_shard,
    help="Only one part of its cells, e.g. 2/5: for several machines at once. No stack is in two parts.",
)


class _Place(click.ParamType[Where]):
    """`qemu`, `local`, …; `ssh:shelf`."""

    name = "machine"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return f"[{'|'.join(f'{name}[:HOST]' if name in WITH_HOSTS else name for name in MACHINES)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Where:
        if isinstance(value, Where):
            return value
        name, colon, host = str(value).partition(":")
        if name not in MACHINES:
            self.fail(f"{name!r} is not one of {', '.join(map(repr, MACHINES))}.", param, ctx)
        if colon and name not in WITH_HOSTS:
            self.fail(f"there is one {name}, so {value!r} means nothing", param, ctx)
        if colon and not re.fullmatch(r"[A-Za-z0-9@_][A-Za-z0-9@_.:-]*", host):
            self.fail(f"{host!r} is not the name of a host", param, ctx)
        return Where(name, host)


PLACE = _Place()
_IS = "Where to run; of several hosts in hosts.yaml, HOST or the first that has what is needed."
on_host = click.option("--on", "place", type=PLACE, default="qemu", show_default=True, help=_IS)
#: Where it makes no difference on which of its kind.
on = click.option(
    "--on",
    "place",
    type=PLACE,
    default="qemu",
    show_default=True,
    help="Where to run.",
    callback=lambda _ctx, _param, value: value.machine,
)
kernel = click.option("--kernel", help="Kernel to run under: debian-12, debian-13 or the path of a bzImage.")
templates = click.option(
    "--templates",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own templates, used instead of shipped ones of the same name.",
)
results = click.option(
    "--results",
    type=_Folder(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where runs are kept.",
)

store = click.option(
    "--store",
    metavar="FILE|URL",
    help="The store of all runs: a file, or postgresql://USER@HOST/DATABASE. "
    "If not given: $MATRIX_STORE, else store.db where runs are kept.",
)

hosts = click.option(
    "--hosts", type=click.Path(path_type=Path, dir_okay=False), help="Disks that exist.  [default: hosts.yaml]"
)
_destroy = click.option(
    "--destroy",
    multiple=True,
    metavar="DISK-ID",
    help="This disk of hosts.yaml may lose everything that is on it. Once for each disk.",
)


_passthrough = click.option(
    "--passthrough",
    is_flag=True,
    help="Give virtual machines disks of this host (those of hosts.yaml) instead of their own.",
)


def lending(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options that are about disks that exist."""
    return _passthrough(hosts(_destroy(command)))
