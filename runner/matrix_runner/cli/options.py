"""Options and arguments of several commands, `--open` among them, and the error for an unknown option."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial, wraps
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.quantities import NoUnit, parse_size, parse_time
from matrix_runner.base.text import shorten
from matrix_runner.machines import MACHINES, WITH_HOSTS, Where

if TYPE_CHECKING:
    from matrix_runner.carry.cluster.connection import Address
    from matrix_runner.decide.concurrency import Jobs
    from matrix_runner.session.run_request import ClusterOptions


Words = tuple[str, ...]  # the values of an option or an argument that may be repeated
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def combined(name: str, make: Callable[..., object], **options: Decorator) -> Decorator:
    """Return a decorator that adds options, whose values reach the command as one object."""

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(*args: Any, **values: Any) -> Any:
            return command(*args, **{name: make(**{option: values.pop(option) for option in options})}, **values)

        for option in reversed(options.values()):
            option(call)
        return call

    return add_options


class _Folder(click.Path):
    """A folder. Refuses an empty name (an unset variable), which would be the current folder, and devices."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the folder is empty", param, ctx)
        path = super().convert(value, param, ctx)
        if Path(os.fsdecode(path)).exists() and not Path(os.fsdecode(path)).is_dir():
            self.fail(f"{os.fsdecode(path)!r} is not a folder", param, ctx)
        return path


FILE = click.Path(path_type=Path, dir_okay=False)
PATH = click.Path(path_type=Path)
TO_FOLDER = click.Path(path_type=Path, file_okay=False)
OF_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


class MatrixPath(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return path / STUDY if path.is_dir() else path


def _complete_runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a run; anything else is the path of a folder."""
    from matrix_runner.records.run_folder import run_folders

    names = ["latest", *sorted(folder.name for folder in run_folders(context.params.get("results") or Path("results")))]
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]


#: An argument and an option that name runs.
run_argument = partial(click.argument, shell_complete=_complete_runs)
run_option = partial(click.option, shell_complete=_complete_runs)
STUDY = "matrix.yaml"  # the name of the matrix in the folder of a study
matrix_file = click.argument("matrix", type=MatrixPath(path_type=Path))
only = click.option(
    "--only",
    multiple=True,
    metavar="NAME|AXIS=VALUE,…",
    help="Only cells that match all conditions, e.g. raid5 (a layout, a workload or another value) "
    "or 'layout=raid5,bs=64KiB|1MiB'. If repeated: cells that match any of them.",
)


def _race(race: bool, wanted: Words) -> Words | None:
    if wanted and not race:
        raise BadInput("--for chooses the workloads of a race", resolution="add --race, or use --only")
    return wanted if race else None


race = combined(
    "race",
    _race,
    race=click.option(
        "--race",
        is_flag=True,
        help="After the minimum of every cell (2 trials without `repeat:`), measure only stacks that can still be the "
        "best, until the best of each workload is decided (within `practical:` of the matrix, 5 % by default).",
    ),
    wanted=click.option(
        "--for",
        "wanted",
        multiple=True,
        metavar="AXIS=VALUE,…",
        help="With --race: the workloads to decide, as for --only. If repeated: those that match any of them.",
    ),
)
_ALL_ROWS = 10**9  # in place of larger numbers, which databases refuse


def rows(default: int, what: str = "rows in a table") -> Decorator:
    return click.option(
        "--rows",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        callback=lambda _context, _parameter, value: min(value, _ALL_ROWS),
        help=f"The largest number of {what}.",
    )


class Parsed(click.ParamType[Any]):
    """A value that a function parses. Its ValueError becomes the message."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value)
        except NoUnit as problem:
            self.fail(f"{problem} Write number and unit as one word, like 1MB", param, ctx)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


def stored_text(context: click.Context, parameter: click.Parameter, text: str) -> str:  # noqa: ARG001
    """Refuse a text that no manifest or store can hold."""
    from matrix_runner.records.record import LONGEST

    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise click.BadParameter("it is not UTF-8")
    if len(text) > LONGEST:
        raise click.BadParameter(f"'{shorten(text, 60)}' has {len(text):,} characters; at most {LONGEST:,}")
    return text


class _Later:
    """A class that is imported at its first use, because that is slow."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *values: Any, **named: Any) -> Any:
        return getattr(import_module(f"matrix_runner.{self._module}"), self._name)(*values, **named)

    def parsed(self, text: str) -> Any:
        return getattr(import_module(f"matrix_runner.{self._module}"), self._name).parsed(text)


shard = click.option(
    "--shard",
    metavar="N/OF",
    type=Parsed("shard", _Later("space.select", "Shard").parsed),
    help="Only one part of the cells, e.g. 2/5, to split the work among hosts. A stack is in one part only.",
)


design = click.option(
    "--design",
    metavar="screen:N|pairwise",
    type=Parsed("design", _Later("space.select", "Design").parsed),
    help="Only some of many cells. screen:N: N cells that show which axes matter and which pairs of them interact. "
    "pairwise: cells that have each pair of values once; they find what breaks, and estimate no effect.",
)


class _Place(click.ParamType[Where]):
    name = "machine"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return f"[{'|'.join(f'{name}[:HOST]' if name in WITH_HOSTS else name for name in MACHINES)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Where:
        if isinstance(value, Where):
            return value
        name, colon, host = str(value).partition(":")
        if name not in MACHINES:
            from matrix_runner.language.suggestions import hint

            self.fail(f"{name!r} is not one of {', '.join(map(repr, MACHINES))}{hint(name, [*MACHINES])}", param, ctx)
        if colon and name not in WITH_HOSTS:
            self.fail(f"{name} takes no host, unlike {', '.join(WITH_HOSTS)}", param, ctx)
        if colon and not re.fullmatch(r"[A-Za-z0-9@_][A-Za-z0-9@_.:-]*", host):
            self.fail(f"{host!r} is not the name of a host", param, ctx)
        return Where(name, host)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in MACHINES if name.startswith(incomplete)]


PLACE = _Place()


def _cluster_options(address: Address | None, certificates: Path | None, insecure: bool) -> ClusterOptions | None:
    from matrix_runner.session.run_request import ClusterOptions

    return ClusterOptions(address, certificates, insecure) if address else None


certificates = click.option(
    "--certificates",
    type=_Folder(path_type=Path, exists=True, file_okay=False),
    envvar="MATRIX_CERTIFICATES",
    help="The folder that `matrix cluster certificates` wrote, for tls://. [env: MATRIX_CERTIFICATES]",
)
insecure = click.option(
    "--insecure", is_flag=True, help="Allow tcp:// to other hosts: anyone in the network can then run code on workers."
)


def _cluster(about: str) -> Decorator:
    address = click.option(
        "--cluster",
        "address",
        metavar="ADDRESS",
        type=Parsed("address", _Later("carry.cluster.connection", "Address").parsed),
        help=about,
    )
    return combined("cluster", _cluster_options, address=address, certificates=certificates, insecure=insecure)


cluster = _cluster(
    "Run on a cluster: tls://HOST:PORT or tcp://HOST:PORT of its scheduler, or a hosts.yaml with `cluster:`."
)
scheduler = _cluster("The scheduler: tls://HOST:PORT, tcp://HOST:PORT, or a hosts.yaml with `cluster:`.")
listening = _cluster("The address to listen at: tls://HOST:PORT, tcp://HOST:PORT, or a hosts.yaml with `cluster:`.")


def matches(cell: Any, patterns: Words) -> bool:
    """Return whether an id, a name or a pattern of names is that of a cell."""
    return any(one in (cell.id, cell.name) or fnmatchcase(cell.name, one) for one in patterns)


_TAGS = Parsed("tags", lambda text: tuple(dict.fromkeys(filter(None, map(str.strip, text.split(","))))))
_tags = partial(click.option, "--tags", metavar="TAG,…", type=_TAGS, default="")
own_tags = _tags(help="Properties of this host, for `matrix run --tags`. A host with KVM has the tag kvm already.")
wanted_tags = _tags(help="With --cluster: use only workers that have all of these tags.")
_ON_HELP = "The machine to run on. HOST: a host of hosts.yaml; without it the first host that meets the needs."
_on = partial(click.option, "--on", "place", type=PLACE, default="qemu", show_default=True)
on_host = _on(help=_ON_HELP)
#: For commands that need no host.
on = _on(help="The machine to run on.", callback=lambda _ctx, _param, value: value.machine)
kernel = click.option(
    "--kernel",
    help="Kernel of virtual machines: debian-12, debian-13, also with -backports, the path of a bzImage or its folder.",
)
templates = click.option(
    "--templates",
    type=_Folder(path_type=Path, exists=True, file_okay=False),
    help="Your own templates, used instead of shipped ones of the same name.",
)
results = click.option(
    "--results",
    type=_Folder(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="The folder of all runs.",
)

store = click.option(
    "--store",
    metavar="FILE|URL",
    help="The store of all runs: a file, or postgresql://USER@HOST/DATABASE. "
    "If not given: $MATRIX_STORE, else store.db in the folder of all runs.",
)

_hosts = partial(click.option, "--hosts", type=FILE)
hosts = _hosts(help="Hosts and their physical disks.  [default: hosts.yaml]")
pool = _hosts(
    help="The physical disks that runs may use and destroy: those in `destroy:` of their host there.  "
    "[default: hosts.yaml]"
)
destroy = click.option(
    "--destroy",
    multiple=True,
    metavar="DISK-ID",
    help="Allow the loss of all data on this disk of hosts.yaml. Repeat it for each disk.",
)


passthrough = click.option(
    "--passthrough", is_flag=True, help="Give physical disks of this host (from hosts.yaml) to virtual machines."
)


def positive(parse: Callable[[str], float], value: str | float) -> float:
    try:
        found = value if isinstance(value, float) else parse(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is {error}") from None
    if found <= 0:
        raise ValueError(f"{value!r} must be larger than 0")
    return found


budget = combined(
    "budget",
    _Later("decide.budget", "Cost"),
    seconds=click.option(
        "--budget",
        "seconds",
        metavar="TIME",
        type=Parsed("time", partial(positive, parse_time)),
        default=inf,
        help="Finish within this time from now on, e.g. 2h: the minimum of every cell first, then the cells with the "
        "widest intervals.",
    ),
    written=click.option(
        "--bytes-budget",
        "written",
        metavar="SIZE",
        type=Parsed("size", partial(positive, parse_size)),
        default=inf,
        help="Write at most this much to the stacks in the whole run, e.g. 500GB (parity and mirrors write more).",
    ),
)


def _parse_jobs(_context: click.Context, _option: click.Parameter, text: str) -> Jobs:
    if text == "auto":
        return "auto"
    if not re.fullmatch("0*[1-9][0-9]{0,5}", text, re.ASCII):
        raise click.BadParameter(f"{text!r} is neither a number of rigs nor auto")
    return int(text)


def jobs_by_default(default: str) -> Decorator:
    return click.option(
        "--jobs",
        metavar="N|auto",
        callback=_parse_jobs,
        default=default,
        show_default=True,
        help="The number of rigs that work at the same time: on qemu and vagrant if each disk has a model, and on dry; "
        "auto: as many as the host can serve.",
    )


jobs = jobs_by_default("1")


#: Never suggested: a typo must not lead to lost data or repeated work.
DANGEROUS = frozenset({"--destroy", "--labelled", "--retry-broken"})
#: Option names of other programs, each with our options and the text to show.
_OTHER_NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(("--dry", "--dry-run", "--dryrun", "--simulate", "-n"), (("--on", "--on dry"), ("--dry-run",) * 2)),
    **dict.fromkeys(("--machine", "--host", "--where", "--vm"), (("--on",) * 2,)),
    **dict.fromkeys(("--cell", "--filter", "--select", "--layout", "--workload", "-k"), (("--only",) * 2,)),
    **dict.fromkeys(("--all", "--limit", "--top", "--max-rows"), (("--rows",) * 2, ("--cells",) * 2)),
    **dict.fromkeys(("--out", "--output", "-o"), (("--to",) * 2, ("--results",) * 2)),
    **dict.fromkeys(("--parallel", "--workers", "-j"), (("--jobs",) * 2,)),
    **dict.fromkeys(("--restart", "--new", "--anew"), (("--fresh",) * 2,)),
    "--csv": (("--format", "--format csv"),),
    "--json": (("--format", "--format json"),),
    "--time": (("--budget",) * 2,),
}
_DEFAULT_BEHAVIOUR = {"--resume", "--continue"}  # options of other programs that need no option here


def suggest_option(option: str, known: Collection[str]) -> str:
    for name, shown in _OTHER_NAMES.get(option, ()):
        if name in known:
            return shown
    near = get_close_matches(option, [name for name in known if name.startswith("--")], n=2, cutoff=0.7)
    return "" if DANGEROUS.intersection(near) else " or ".join(near)


def _with_one_dash(option: str, known: Collection[str]) -> str:
    """Return the option that was typed with one dash: `-on` arrives here as `-o`."""
    typed = (f"-{word.partition('=')[0]}" for word in sys.argv[1:] if word.startswith(option))
    return next((word for word in typed if word in known), "")


def usage_error(error: click.ClickException) -> BadInput:
    """Return the error of click as one of ours."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    brief = _as_part(error.format_message())
    if isinstance(error, click.BadOptionUsage):
        return BadInput(brief, resolution=f"write {error.option_name} VALUE")
    if context is None:
        return BadInput(brief)
    path, command = context.command_path, context.command
    resolution = f"`{' '.join([path, *command.collect_usage_pieces(context)])}`; `{path} --help` explains it"
    match error:
        case click.NoSuchOption():
            brief, resolution = f"`{path}` has no option {error.option_name}", _instead_of(error.option_name, context)
        case click.NoSuchCommand() if isinstance(command, click.Group):
            near = get_close_matches(error.command_name, command.list_commands(context), n=1)
            brief = f"`{path}` has no command '{error.command_name}'"
            resolution = f"{f'did you mean {near[0]}? ' if near else ''}`{path} --help` shows the commands"
        case click.MissingParameter(param=click.Argument() as parameter):
            brief = f"`{path}` needs {_name_of(parameter)}"
        case click.BadParameter(param=click.Parameter() as parameter):
            name, is_missing = _name_of(parameter), isinstance(error, click.MissingParameter)
            brief = f"`{path}` needs {name}" if is_missing else f"{name}: {_as_part(error.message)}"
            resolution = f"`{path} --help` explains {name}"
    return BadInput(brief, resolution=resolution)


def _as_part(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _name_of(parameter: click.Parameter) -> str:
    names = [name for name in parameter.opts if name.startswith("-")]
    return max(names, key=len) if names else parameter.human_readable_name.strip("[].")


def _instead_of(option: str, context: click.Context) -> str:
    """Return what to write instead of an option that the command does not have."""
    path = context.command_path
    known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    resolution = f"`{path} --help` shows all options"
    if option in _DEFAULT_BEHAVIOUR and "--fresh" in known:
        return f"leave it out: the same command continues an interrupted run; {resolution}"
    if meant := _with_one_dash(option, known) or suggest_option(option, known):
        return f"did you mean {meant}? {resolution}"
    if path == "matrix":
        return "options follow the command, like `matrix run --on dry FILE`; `matrix --help` shows the commands"
    return resolution


opens = click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in the browser, or not.  [default: only from a terminal with a graphical screen]",
)


def open_page(page: Path, wanted: bool | None) -> None:
    """Open a page. None: only where a user sees it, and then a missing browser is no error."""
    import webbrowser

    if wanted is False or (wanted is None and not _is_seen()):
        return
    if not webbrowser.open(page.resolve().as_uri()) and wanted:
        raise HarnessBroken(f"no browser opened {page}", resolution="open the file yourself; $BROWSER names a browser")


def _is_seen() -> bool:
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(screen) and sys.stdout.isatty() and not os.environ.get("CI")
