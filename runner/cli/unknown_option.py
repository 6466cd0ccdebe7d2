"""The error for an option that a command does not have, with the option that was probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection

    import click

#: A typo must not lead to what deletes data or repeats work.
DANGEROUS = frozenset({"--destroy", "--labelled", "--retry-broken"})
#: What other programs call an option: the options that may be meant, and how each is written.
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
#: What a command does without an option.
_NEEDLESS = {"--resume", "--continue"}


def option_meant(option: str, known: Collection[str]) -> str:
    """The option of a command that a word probably means, as it is written; empty if there is none."""
    for name, shown in _OTHER_NAMES.get(option, ()):
        if name in known:
            return shown
    near = get_close_matches(option, [name for name in known if name.startswith("--")], n=2, cutoff=0.7)
    return "" if DANGEROUS.intersection(near) else " or ".join(near)


def no_such_option(error: click.NoSuchOption) -> BadInput:
    """The error as a user sees it."""
    if error.ctx is None:
        return BadInput(error.format_message())
    command, path = error.ctx.command, error.ctx.command_path
    known = [name for parameter in command.get_params(error.ctx) for name in parameter.opts]
    return BadInput(f"`{path}` has no option {error.option_name}", resolution=_cure(error.option_name, known, path))


def _cure(option: str, known: Collection[str], path: str) -> str:
    every = f"`{path} --help` shows all options"
    if option in _NEEDLESS and "--fresh" in known:
        return f"leave it out: the same command continues an unfinished run; {every}"
    if meant := option_meant(option, known):
        return f"did you mean {meant}? {every}"
    if path == "matrix":
        return "options stand behind the command, like `matrix run --on dry FILE`; `matrix --help` shows the commands"
    return every
