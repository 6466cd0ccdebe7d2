"""`matrix help`, whose topics are the pages of docs/, and `matrix completion`, whose script Click makes."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import shipped
from matrix_runner.base.findings import few
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.language.suggestions import hint

_MOST = 3  # pages
_MOST_PLACES = 8
_SECTION = re.compile(r"^#+ (.+)\n((?:(?!#+ ).*(?:\n|\Z))*)", re.MULTILINE)

_EPILOG = """\b
Examples:
  matrix help                 the topics
  matrix help language        the matrix language
  matrix help run             the same as `matrix run --help`
  matrix help runs rm         the same as `matrix runs rm --help`
  matrix help readahead       where pages and guidelines have a word
  matrix help lost disk       where sections have all these words
"""


def _pages() -> dict[str, Path]:
    return {path.stem: path for path in sorted(shipped("docs").glob("*/*.md"))}


def _complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    group = (_command_of(context.params.get("words") or (), context.find_root()) or context).command
    commands = group.list_commands(context) if isinstance(group, click.Group) else []
    topics = [] if context.params.get("words") else _pages()
    return [name for name in (*topics, *commands) if name.startswith(incomplete)]


@click.command("help", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[TOPIC]...", shell_complete=_complete)
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the page on TOPIC, the help of a command, or where words are explained."""
    pages = _pages()
    root = context.find_root()
    topic = " ".join(words)
    if not topic:
        echo_whole(f"{root.get_help()}\n\nTopics:")
        for kind in ("tutorial", "how-to", "explanation", "reference"):
            topics = ", ".join(name for name, path in pages.items() if path.parent.name == kind)
            echo(f"  {kind:<13}{topics}")
    elif page := pages.get(topic.replace(" ", "-")):
        _show(page.read_text(encoding="utf-8"))
    elif found := _command_of(words, root):
        echo_whole(found.get_help())
    elif meanings := _meanings(topic, pages["glossary"].read_text(encoding="utf-8")):
        _show(f"{meanings}\n\n→ {_nearest(topic, pages)}\n")
    elif places := _places(topic, pages):
        for place in places:
            echo(place)
    else:
        raise BadInput(f"no topic or command is called {topic!r}", resolution=_nearest(topic, pages))


def _command_of(words: Sequence[str], root: click.Context) -> click.Context | None:
    found = root
    for word in words:
        known = found.command.get_command(found, word) if isinstance(found.command, click.Group) else None
        if known is None:
            return None
        found = known.context_class(known, info_name=word, parent=found)
    return found


def _meanings(word: str, glossary: str) -> str:
    """Return what the glossary says of a word, one sentence a line; empty if it has no entry."""
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", glossary, re.MULTILINE)
    found = [text for words, text in rows if word.lower() in re.split(", | or ", words.lower().replace("`", ""))]
    return "\n".join(f"- {one}" for text in found for one in re.split(r"(?<=\.) (?=[A-Z`])", text))


def _places(word: str, pages: Mapping[str, Path]) -> list[str]:
    """Return where pages and shipped guidelines have words: a line each, the page with most places first."""
    from matrix_runner.space.declared_files import load_guidelines

    if not re.match(r"\w", word):
        return []
    # `backup` finds `back up`, too.
    letters = ("[ -]?".join(map(re.escape, one.replace("-", ""))) for one in word.split())
    wanted = [re.compile(rf"\b{one}", re.IGNORECASE) for one in letters]
    found = [(name, *_first_place(path.read_text(encoding="utf-8"), wanted)) for name, path in pages.items()]
    ordered = sorted((one for one in found if one[1]), key=lambda one: -one[1])[:_MOST_PLACES]
    lines = [f"{f'matrix help {name}':<40}  {place}" for name, _, place in ordered]
    files = sorted((shipped("matrix") / "guidelines").glob("*.yaml"))
    known = (one for file in files for one in load_guidelines(file))
    named = (one for one in known if all(word.search(f"{one.id} {one.claim}") for word in wanted))
    return [*lines, *(f"{f'guideline {one.id}':<40}  {one.claim}" for one in named)]


def _first_place(text: str, wanted: Sequence[re.Pattern[str]]) -> tuple[int, str]:
    """Return how often sections of a page have all words, and the first heading of them or of such a section."""
    sections = [(title, min(len(word.findall(body)) for word in wanted)) for title, body in _SECTION.findall(text)]
    named = [heading for heading, _ in sections if all(word.search(heading) for word in wanted)]
    having = [heading for heading, count in sections if count]
    count = sum(count for _, count in sections) + 10 * len(named)
    return count, next(iter((*named, *having)), "")


def _nearest(word: str, pages: Mapping[str, Path]) -> str:
    """Name the pages that explain a word, in headings and first columns, or have it most often; else a similar name."""
    anywhere = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    defined = re.compile(rf"^(#+ .*|\| `?){anywhere.pattern}", re.IGNORECASE | re.MULTILINE)
    texts = {name: path.read_text(encoding="utf-8") for name, path in pages.items()}
    counts = {name: (len(defined.findall(text)), len(anywhere.findall(text))) for name, text in texts.items()}
    found = sorted((name for name in pages if counts[name][1]), key=counts.__getitem__, reverse=True)[:_MOST]
    if found:
        return f"the word is in {few(f'`matrix help {name}`' for name in found)}"
    return hint(word, [*pages]).removeprefix("; ") or "`matrix help` lists the topics"


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        echo_whole(text, newline=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # without -R, less shows colours as escape sequences
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


_COMPLETION_EPILOG = """\b
Examples:
  echo 'eval "$(matrix completion bash)"' >> ~/.bashrc
  echo 'eval "$(matrix completion zsh)"' >> ~/.zshrc
  matrix completion fish > ~/.config/fish/completions/matrix.fish
"""


@click.command("completion", epilog=_COMPLETION_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and files."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the three shells are click's own
    echo_whole(kind(context.find_root().command, {}, "matrix", "_MATRIX_COMPLETE").source())
