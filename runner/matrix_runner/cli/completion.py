"""`matrix completion`: Click makes the script."""

import click

from matrix_runner.cli.screen import echo_whole

_EPILOG = """\b
Examples:
  echo 'eval "$(matrix completion bash)"' >> ~/.bashrc
  echo 'eval "$(matrix completion zsh)"' >> ~/.zshrc
  matrix completion fish > ~/.config/fish/completions/matrix.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and files."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the three shells are click's own
    echo_whole(kind(context.find_root().command, {}, "matrix", "_MATRIX_COMPLETE").source())
