"""Every YAML block and command of the documentation works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from ruamel.yaml import YAML

from runner.base.errors import MatrixError
from runner.cli import cli
from runner.space.declared_files import load_guidelines, load_lab
from tests.support.pages import ROOT, Block, Command, blocks, commands, matches, pages

if TYPE_CHECKING:
    from tests.support.command import Call, Said

#: Programs that pages name and these tests do not run.
OTHER_PROGRAMS = {
    "apt", "bash", "cat", "cd", "export", "git", "gh", "kill", "less", "ls", "mkdir", "nproc", "pip", "pipx", "podman", "psql", "pytest",
    "python3", "source", "ssh", "ssh-copy-id", "sudo", "systemctl", "tmux", "uv", "vagrant", "xdg-open",
}  # fmt: skip
#: What a fragment is put over.
SMALL = {
    "name": "name: small",
    "disks": "disks: {count: 4, size: 512MiB}",
    "layouts": "layouts: {r5: [md: {level: 5, chunk: 64KiB}]}",
    "workloads": "workloads: {w: {rw: randread, bs: 4KiB, runtime: 1s}}",
}
PAGES = [page for page in pages() if "```" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_examples_of_a_page_work(page: Path, call: Call, tmp_path: Path) -> None:
    for folder in ("matrix", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for block in blocks(page.read_text()):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "yaml":
            check_yaml(block, call, tmp_path, where)
        elif block.language == "console":
            for command in commands(block):
                check_command(command, block, call, where)
        else:
            assert block.language in {"bash", "text", "ini", "json", "python", "mermaid", ""}, (
                f"{where}: {block.language}?"
            )


def check_yaml(block: Block, call: Call, folder: Path, where: str) -> None:
    name = block.file_name or "fragment.yaml"
    there = YAML(typ="safe").load(block.text)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not block.file_name:
        assert isinstance(there, dict), f"{where}: neither a file nor keys of a matrix"
        path.write_text("\n".join([*(line for key, line in SMALL.items() if key not in there), block.text]))
    else:
        path.write_text(block.text)
    if name.startswith(".github/"):
        return
    if path.name == "hosts.yaml":
        load_lab(path)
        return
    if isinstance(there, list) and block.file_name:
        load_guidelines(path)
        return
    if isinstance(there, dict) and ("layouts" not in there and block.file_name):
        return  # a part that another file includes: `matrix validate` of that one reads it
    said = call("validate", name)
    assert said.status == 0, f"{where}:\n{said.err}{said.out}"


def check_command(command: Command, block: Block, call: Call, where: str) -> None:
    program, *words = command.words
    if program == "sudo" and words[0] == ".venv/bin/matrix":
        program, *words = words
    if program in {"./bootstrap", ".venv/bin/matrix"}:
        program = "matrix"
    if program != "matrix":
        assert program in OTHER_PROGRAMS, f"{where}: {program} is neither matrix nor a known program"
        return
    if words in (["test"], ["docs"], ["docs", "--pictures"]):  # commands of bootstrap
        return
    if words[:1] == ["run"] and "--on" not in words:
        words[1:1] = ["--on", "dry"]
    if "--on" in words and words[words.index("--on") + 1] != "dry":
        parse_only(words, where)
        return
    said = call(*words)
    assert said.status == command.status, f"{where}: matrix {' '.join(words)}\n{said.err}{said.out}"
    if command.output.strip() and "real" not in block.info:
        assert shows(command.output, said), f"{where}: matrix {' '.join(words)} prints\n{said.err}{said.out}"


def shows(expected: str, said: Said) -> bool:
    return any(matches(expected, text) for text in (said.out, said.err, said.err + said.out, said.out + said.err))


def parse_only(words: list[str], where: str) -> None:
    """Check the options of a command that these tests cannot run."""
    root = cli.make_context("matrix", [], resilient_parsing=True)
    command = cli.get_command(root, words[0])
    assert command, f"{where}: matrix has no command {words[0]}"
    try:
        command.make_context(words[0], list(words[1:]), parent=root)
    except (click.ClickException, MatrixError) as wrong:
        pytest.fail(f"{where}: matrix {' '.join(words)}: {wrong}")
