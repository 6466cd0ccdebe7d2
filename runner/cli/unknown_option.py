"""The error for an unknown option, with a suggestion."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection

    import click

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
#: Options of other programs that need no option here.
_DEFAULT_BEHAVIOUR = {"--resume", "--continue"}


def suggest_option(option: str, known: Collection[str]) -> str:
    """Return the option that the user probably means; empty without a good guess."""
    for name, shown in _OTHER_NAMES.get(option, ()):
        if name in known:
            return shown
    near = get_close_matches(option, [name for name in known if name.startswith("--")], n=2, cutoff=0.7)
    return "" if DANGEROUS.intersection(near) else " or ".join(near)


def unknown_option_error(error: click.NoSuchOption) -> BadInput:
    if error.ctx is None:
        return BadInput(error.format_message())
    command, path = error.ctx.command, error.ctx.command_path
    known = [name for parameter in command.get_params(error.ctx) for name in parameter.opts]
    return BadInput(
        f"`{path}` has no option {error.option_name}", resolution=_resolution(error.option_name, known, path)
    )


def _resolution(option: str, known: Collection[str], path: str) -> str:
    every = f"`{path} --help` shows all options"
    if option in _DEFAULT_BEHAVIOUR and "--fresh" in known:
        return f"leave it out: the same command continues an unfinished run; {every}"
    if meant := suggest_option(option, known):
        return f"did you mean {meant}? {every}"
    if path == "matrix":
        return "options follow the command, like `matrix run --on dry FILE`; `matrix --help` shows the commands"
    return every
