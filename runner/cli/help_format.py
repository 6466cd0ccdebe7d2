"""Help texts that fit the terminal, and the error for an unknown option."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

import click

from runner.base.errors import BadInput
from runner.reports.terminal_text import wrap

_COMMENT = re.compile(r"(?<=\S)\s{2,}(?=\S)")
_BELOW = 6
_NARROW, _NAMES = 70, 18  # up to this width of the terminal, option names get at most this many columns


class Formatter(click.HelpFormatter):
    """Also folds paragraphs after `\\b`: indented lines are examples, other lines are sentences."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width > _NARROW else _NAMES, col_spacing)

    def write_text(self, text: str) -> None:
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            if not paragraph.startswith("\b\n"):
                super().write_text(paragraph)
                continue
            lines = paragraph.removeprefix("\b\n").rstrip().split("\n")
            examples = [line for line in lines if line.startswith(" ")]
            super().write_text(" ".join(line for line in lines if line not in examples))
            self.write("".join(f"{line}\n" for line in fit_examples(examples, self.width, self.current_indent)))


class Context(click.Context):
    formatter_class = Formatter


def fit_examples(examples: list[str], width: int, indent: int) -> list[str]:
    space = " " * indent
    if all(len(line) + indent <= width for line in examples):
        return [space + line for line in examples]
    lines: list[str] = []
    for example in examples:
        command, *comment = _COMMENT.split(example.strip(), maxsplit=1)
        first, *more = wrap(command, width - indent - _BELOW)
        lines += [f"{space}  {first}", *(f"{space}    {part}" for part in more)]
        if more:
            lines[-len(more) - 1 : -1] = [f"{line} \\" for line in lines[-len(more) - 1 : -1]]
        for text in comment:
            lines += [" " * (indent + _BELOW) + part for part in wrap(text, width - indent - _BELOW)]
    return lines


def with_fitting_help(command: click.Command) -> click.Command:
    command.context_class = Context
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_fitting_help(below)
    return command


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


def unknown_option_error(error: click.NoSuchOption) -> BadInput:
    if error.ctx is None:
        return BadInput(error.format_message())
    command, path, option = error.ctx.command, error.ctx.command_path, error.option_name
    known = [name for parameter in command.get_params(error.ctx) for name in parameter.opts]
    resolution = f"`{path} --help` shows all options"
    if option in _DEFAULT_BEHAVIOUR and "--fresh" in known:
        resolution = f"leave it out: the same command continues an unfinished run; {resolution}"
    elif meant := suggest_option(option, known):
        resolution = f"did you mean {meant}? {resolution}"
    elif path == "matrix":
        resolution = "options follow the command, like `matrix run --on dry FILE`; `matrix --help` shows the commands"
    return BadInput(f"`{path}` has no option {option}", resolution=resolution)
