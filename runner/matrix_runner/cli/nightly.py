"""`matrix nightly install`: the timer of systemd that runs a matrix each night, after checks of all that it needs."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import write_whole
from matrix_runner.base.process import run
from matrix_runner.base.quantities import parse_time
from matrix_runner.cli.disks import list_host_disks, load_lab_file
from matrix_runner.cli.options import PLACE, STUDY, MatrixPath, Parsed, hosts, positive, results
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.machines import WITH_HOSTS, Where, machine
from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.rig_specs import specs_of
from matrix_runner.session.selected_matrix import Checks, check_machine, load_selected

_EPILOG = """\b
Examples:
  matrix nightly install nas.yaml --dry-run            the checks, and the two files
  matrix nightly install nas.yaml --at 01:30           simulated disks, each night
  matrix nightly install disk.yaml --on local          physical disks of hosts.yaml
  matrix nightly remove nas.yaml

\b
A night with a slower cell, a failed guideline or a broken trial is a failed unit: see `systemctl --failed`. The output
of `journalctl -u matrix-nas` says why. Root installs a unit of the system, another user one of that user.
"""


_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SERVICE = """\
[Unit]
Description=matrix {name}, each night
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory={folder}
{variables}ExecStart={run}
# A slower cell makes the unit fail, too.
ExecStopPost={summary}
KillMode=mixed
KillSignal=SIGINT
TimeoutStopSec=5min
"""
_TIMER = """\
[Unit]
Description=matrix {name}, each night

[Timer]
OnCalendar=*-*-* {at}:00
Persistent=true

[Install]
WantedBy=timers.target
"""


def _time(text: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError(f"{text!r} is no time such as 02:00")
    return text


def _duration(text: str) -> str:
    positive(parse_time, text)
    return text


@click.group("nightly", epilog=_EPILOG)
def command() -> None:
    """Run a matrix each night by systemd."""


@command.command("install", epilog=_EPILOG)
@click.argument("matrix", type=MatrixPath(path_type=Path))
@click.option("--on", "place", type=PLACE, default="qemu", show_default=True, help="The machine to run on.")
@click.option("--at", type=Parsed("TIME", _time), default="02:00", show_default=True, help="The time of its start.")
@click.option(
    "--confirm",
    type=Parsed("TIME", _duration),
    default="20m",
    show_default=True,
    help="The time in which slower cells are measured again.",
)
@hosts
@results
@click.option("--dry-run", is_flag=True, help="Only check, and print the files.")
def install(
    matrix: Path, place: Where, at: str, confirm: str, hosts: Path | None, results: Path, dry_run: bool
) -> None:
    """Check this host, then start a nightly timer for MATRIX."""
    selected = load_selected(matrix, checks=Checks(place.machine))
    where, files = machine(place.machine, MachineOptions()), _files(matrix)
    for path in files:
        _refuse_other(path, matrix)
    if not place.host:
        check_machine(where, set(specs_of(selected.space.matrix, selected.stacks(), None)))
    of_this_host = not (where.brings_disks or place.machine in WITH_HOSTS)
    if problems := [*(_disk_problems(hosts) if of_this_host else ()), *_folder_problems(results)]:
        raise BadInput(
            "no night could use these",
            details="\n".join(f"- {problem}" for problem in problems),
            resolution="correct that; `matrix disks` shows all disks",
        )
    count = selected.selection.count()
    echo(f"checked: {count:,} cell{'s' * (count != 1)}, {place.machine}, {results.absolute()}/", err=True)
    program, folder = str(Path(sys.executable).parent / "matrix"), str(results.absolute())
    on = ":".join(filter(None, (place.machine, place.host)))
    night = [program, "run", str(matrix.absolute()), "--on", on, "--confirm", confirm, "--results", folder]
    night += ["--hosts", str(hosts.absolute())] if hosts else []
    name = selected.space.matrix.name
    summary = [program, "summary", name, "--results", folder, "--accepted", str(matrix.absolute().parent)]
    if not _has_systemd():
        note = (
            "nothing is installed, because systemd does not run here. Add this line by `crontab -e`; unlike a timer, "
            "cron omits a night if it is down"
        )
        echo(f"note: {note}", err=True)
        echo_whole(_cron_line(name, at, night, summary))
        return
    head = _head(matrix)
    texts = (head + _service(name, night, summary), head + _TIMER.format(name=name, at=at))
    for path, text in zip(files, texts, strict=True):
        if dry_run:
            echo_whole(f"# {path}\n{text}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        before = os.umask(0o077)  # an address of a store may have a password
        write_whole(path, text.encode())
        os.umask(before)
        echo(f"wrote {path}")
    if not dry_run:
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", files[1].name)


@command.command("remove", epilog="Example:  matrix nightly remove nas.yaml")
@click.argument("matrix", type=MatrixPath(path_type=Path))
def remove(matrix: Path) -> None:
    """Stop the timer of MATRIX, and remove its files. Results stay."""
    files = [path for path in _files(matrix) if path.exists()]
    if not files:
        raise BadInput(
            f"no nightly of {matrix} is installed",
            resolution="`systemctl list-timers` shows timers, `crontab -l` the lines of cron",
        )
    for path in files:
        _refuse_other(path, matrix)
    _systemctl("disable", "--now", _files(matrix)[1].name)
    for path in files:
        path.unlink()
        echo(f"removed {path}")
    _systemctl("daemon-reload")


def _head(matrix: Path) -> str:
    path = matrix.absolute()
    return f"# Written by `matrix nightly install` for {path.parent if path.name == STUDY else path}\n"


def _refuse_other(path: Path, matrix: Path) -> None:
    """Refuse to replace or remove a unit that is not the nightly of this matrix."""
    if path.exists() and not path.read_text(errors="replace").startswith(_head(matrix)):
        raise BadInput(f"{path} is another unit", resolution="rename the matrix file, or remove that unit")


def _service(name: str, night: list[str], summary: list[str]) -> str:
    variables = "".join(f"Environment={_quoted(one)}\n" for one in _given())
    run, stop_post = (" ".join(map(unit_word, words)) for words in (night, summary))
    _quoted(folder := str(Path.cwd()))  # refuses what could be another line
    folder = folder.replace("%", "%%")
    return _SERVICE.format(name=name, folder=folder, variables=variables, run=run, summary=stop_post)


def _cron_line(name: str, at: str, night: list[str], summary: list[str]) -> str:
    """Return a line of a crontab. Cron sets few variables, and takes a % for the end of the line."""
    hour, minute = map(int, at.split(":"))
    both = f"{shlex.join(night)}; status=$?; {shlex.join(summary)} || status=$?; exit $status"
    log, failure = shlex.quote(f"nightly-{name}.log"), shlex.quote(f"{name} failed: see nightly-{name}.log")
    steps = f"cd {shlex.quote(str(Path.cwd()))} && export {shlex.join([_PATH, *_given()])} && ({both})"
    line = f"{minute} {hour} * * * {steps} >>{log} 2>&1 || echo {failure}"
    if any(ord(char) < 32 for char in line):
        raise BadInput("a path or variable has a control character, which a crontab cannot contain")
    return line.replace("%", r"\%")


def _given() -> list[str]:
    return [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith("MATRIX_")]


def _has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def _files(matrix: Path) -> tuple[Path, Path]:
    folder = Path("/etc/systemd/system") if os.geteuid() == 0 else Path.home() / ".config/systemd/user"
    name = matrix.absolute().parent.name if matrix.name == STUDY else matrix.stem
    stem = f"matrix-{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}"
    return folder / f"{stem}.service", folder / f"{stem}.timer"


def unit_word(text: str) -> str:
    """Quote a word of a command line, in which systemd replaces variables."""
    return _quoted(text).replace("$", "$$")


def _quoted(text: str) -> str:
    if any(ord(char) < 32 for char in text):
        raise BadInput(f"{text!r} has a control character, which a unit of systemd cannot contain")
    quoted = re.sub(r'(["\\])', r"\\\1", text).replace("%", "%%")
    return quoted if re.fullmatch(r"[\w/.,:=@+-]+", text) else f'"{quoted}"'


def _disk_problems(hosts: Path | None) -> Iterator[str]:
    lab = load_lab_file(hosts)
    if lab is None:
        yield "there is no hosts.yaml, so no disk may be used: see `matrix help physical-disks`"
        return
    for host in (one for one in lab.hosts.values() if one.reach == "local"):
        for disk in (one for one in list_host_disks(hosts, None) if one.declared):
            why = [f"{one.reason}: {one.evidence}" for one in disk.refusals]
            if disk.declared not in host.destroy:
                why.append("`destroy:` of its host in hosts.yaml does not list it")
            yield from (f"{disk.declared}: {one}" for one in why)


def _folder_problems(results: Path) -> Iterator[str]:
    there = next(one for one in (results.absolute(), *results.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK):
        yield f"{there} cannot be written: name another folder by --results"


def _systemctl(*words: str) -> None:
    command = ["systemctl", *(() if os.geteuid() == 0 else ("--user",)), *words]
    done = run(command)
    if done.returncode:
        raise HarnessBroken(f"{' '.join(command)} failed", details=done.stderr.strip())
