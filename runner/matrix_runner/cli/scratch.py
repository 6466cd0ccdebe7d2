"""`matrix disks scratch`: practice disks, and their lines of hosts.yaml."""

from collections.abc import Sequence
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import write_atomically
from matrix_runner.base.quantities import parse_size
from matrix_runner.cli.options import FILE, Parsed
from matrix_runner.cli.screen import echo, echo_whole, json_text
from matrix_runner.hosts.disk_ledger import lease_records, state_dir
from matrix_runner.hosts.scratch import PracticeDisk, practice_disk, practice_disks

_EPILOG = """\b
Examples:
  matrix disks scratch --to hosts.yaml            one disk of 1 GiB: ./scratch-1.img
  matrix disks scratch --count 4 --size 512MiB    four disks
  matrix disks scratch --remove                   detach and delete all in this folder

\b
A practice disk is a file that the kernel shows as a disk with a stable name. After a restart of the host, the same
command attaches the files again; their content stays. Its figures are those of the memory and disks below the file.
"""


@click.command("scratch", epilog=_EPILOG)
@click.option("--size", type=Parsed("SIZE", parse_size), default="1GiB", show_default=True, help="The size of each.")
@click.option("--count", type=click.IntRange(1, 64), default=1, show_default=True, help="The number of disks.")
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    help="The folder of the files.  [default: this folder]",
)
@click.option("--to", type=FILE, help="Write hosts.yaml there; a file with other content is refused.")
@click.option("--remove", is_flag=True, help="Detach the practice disks of this folder, and delete their files.")
def command(size: int, count: int, folder: Path, to: Path | None, remove: bool) -> None:
    """Make practice disks, and print or write a hosts.yaml that permits their use."""
    if remove:
        found = practice_disks(folder)
        leased = {one.disk for one in lease_records(state_dir(), "local")}
        for disk in found:
            if disk.name in leased:
                raise BadInput(f"{disk.name} is leased by a run", resolution="wait for it, or run `matrix clean`")
            disk.refuse_busy()
        for disk in found:
            disk.remove()
            echo(f"{disk.name}: {disk.file} deleted", err=True)
        if not found:
            echo(f"no practice disks in {folder.resolve()}", err=True)
        return
    disks = [practice_disk(folder, number) for number in range(1, count + 1)]
    text = _hosts_file(disks, size)
    if to and to.exists() and to.read_bytes() != text.encode():
        raise BadInput(f"{to} has other content", resolution="name another file, or add the printed lines to this one")
    for disk in disks:
        disk.attach(size)
    if to:
        write_atomically(to, text.encode())
        echo(f"{to}: {count} practice disk{'s' if count != 1 else ''}", err=True)
    else:
        echo_whole(text, newline=False)


def _hosts_file(disks: Sequence[PracticeDisk], size: int) -> str:
    lines = ["hosts:", "  here:", "    disks:"]
    for disk in disks:
        lines += [
            f"      - id: {disk.name}",
            f"        serial: {json_text(str(disk.file))}",
            f"        size: {size}B",
            "        wear: 1TB",
        ]
    return "\n".join([*lines, f"    destroy: [{', '.join(disk.name for disk in disks)}]", ""])
