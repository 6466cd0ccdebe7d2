"""Every YAML block and command of the documentation works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from ruamel.yaml import YAML

from matrix_runner.base.errors import MatrixError
from matrix_runner.cli import cli
from matrix_runner.space.declared_files import FILES, load_accepted, load_guidelines, load_lab
from tests.support.pages import ROOT, Block, Command, blocks, commands, matches, pages
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.command import Call, Said

#: Programs that pages name and these tests do not run.
OTHER_PROGRAMS = {
    "apt", "bash", "cat", "cd", "export", "git", "gh", "kill", "less", "ls", "mkdir", "nproc", "pip", "pipx", "podman", "psql", "pytest",
    "python3", "sbatch", "scp", "source", "ssh", "ssh-copy-id", "sudo", "systemctl", "tmux", "uv", "vagrant", "xdg-open",
}  # fmt: skip
#: What a fragment is put over.
SMALL = {
    "name": "name: small",
    "disks": "disks: {count: 4, size: 512MiB}",
    "layouts": "layouts: {r5: [md: {level: 5, chunk: 64KiB}]}",
    "workloads": "workloads: {w: {rw: randread, bs: 4KiB, runtime: 1s}}",
}
PAGES = [page for page in pages() if "```" in page.read_text()]
#: Pages with outputs of real runs. The commands of the nightly tutorial need a physical disk.
REAL_PAGES = [page for page in PAGES if "```console real" in page.read_text() and page.stem != "first-nightly"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(autouse=True)
def _shipped_files(tmp_path: Path) -> None:
    for folder in ("matrix", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_work(page: Path, call: Call, tmp_path: Path) -> None:
    for block in blocks(page.read_text()):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "yaml":
            check_yaml(block, call, tmp_path, where)
        elif block.language == "console":
            for command in commands(block):
                check_command(command, block, call, where)
        elif name := block.file_name if block.language == "ini" else block.info if block.language == "text" else "":
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(block.text)
        else:
            assert block.language in {"bash", "text", "ini", "json", "python", "mermaid", "groovy", ""}, (
                f"{where}: {block.language}?"
            )


@pytest.mark.vm
@pytest.mark.exhaustive
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("page", REAL_PAGES, ids=name_of)
def test_real_outputs_of_a_page_look_like_new_ones(page: Path, call: Call, tmp_path: Path) -> None:
    for block in blocks(page.read_text()):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "yaml":
            check_yaml(block, call, tmp_path, where)
        elif "real" in block.info:
            for command in commands(block):
                check_real_command(command, tmp_path, where)


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
    if path.name in FILES.values():
        load_accepted(path.parent)
        return
    if isinstance(there, list) and block.file_name:
        load_guidelines(path)
        return
    if isinstance(there, dict) and ("layouts" not in there and block.file_name):
        return  # a part that another file includes: `matrix validate` of that one reads it
    said = call("validate", name)
    assert said.status == 0, f"{where}:\n{said.err}{said.out}"


def words_of_matrix(command: Command, where: str) -> list[str] | None:
    """Return the arguments of `matrix`, or None for another program."""
    # The home of a shell; in tests all is in one folder.
    program, *words = (word.removeprefix("~/") for word in command.words)
    if program == "sudo" and words[0] == ".venv/bin/matrix":
        program, *words = words
    if program in {"./bootstrap", ".venv/bin/matrix"}:
        program = "matrix"
    if program == "matrix":
        return words
    assert program in OTHER_PROGRAMS, f"{where}: {program} is neither matrix nor a known program"
    return None


def check_real_command(command: Command, folder: Path, where: str) -> None:
    words = words_of_matrix(command, where)
    if words is None or words == ["test"]:
        return
    with Terminal(["matrix", *words], columns=100, cwd=folder, env={"MATRIX_STORE": ""}) as terminal:
        status = terminal.wait(patience=1200)
        printed = terminal.transcript
    # A guideline that fails is a result, too.
    assert status in {command.status, 1}, f"{where}: {printed}"
    if command.output.strip():
        parts = [re.escape(part.strip()) for part in shape(command.output).split("…")]
        assert re.fullmatch(r"\s*.*\s*".join(parts), shape(printed)), f"{where}: {printed}"


def shape(text: str) -> str:
    """Return a text without what differs from run to run: figures, what follows from equal ones, borders, line ends."""
    text = re.sub(r"\d+([.,]\d+)*|(?<==)default", "0", text)
    text = " ".join(re.sub(r"[\u2500-\u257f]+", " ", text).split())
    return re.sub(
        r"(are equal within 0 %|cannot be told apart) for (\w+)( \(at most 0 % apart\))?", r"alike for \2", text
    )


def check_command(command: Command, block: Block, call: Call, where: str) -> None:
    words = words_of_matrix(command, where)
    if words is None:
        return
    if words in (["test"], ["docs"], ["docs", "--pictures"]):  # commands of bootstrap
        return
    if words[0] == "worker" or words[:2] in (["cluster", "scheduler"], ["cluster", "status"]) or _has_scheduler(words):
        parse_only(words, where)
        return
    if words[:1] == ["run"] and "--on" not in words:
        words[1:1] = ["--on", "dry"]
    if "--on" in words and words[words.index("--on") + 1] != "dry":
        parse_only(words, where)
        return
    if words[:2] == ["disks", "calibrate"]:  # of a physical disk; a shipped model stands for the fitted one
        if "--from" in words:
            Path(words[words.index("--from") + 1]).mkdir(parents=True)
        parse_only(words, where)
        Path(words[words.index("--to") + 1]).write_text((ROOT / "matrix/models/samsung-f1-1tb.yaml").read_text())
        return
    said = call(*words)
    assert said.status == command.status, f"{where}: matrix {' '.join(words)}\n{said.err}{said.out}"
    if command.output.strip() and "real" not in block.info:
        assert shows(command.output, said), f"{where}: matrix {' '.join(words)} prints\n{said.err}{said.out}"


def _has_scheduler(words: list[str]) -> bool:
    """Return whether a run needs a scheduler, which these tests do not start."""
    return any(word.startswith(("tls://", "tcp://")) for word in words)


def shows(expected: str, said: Said) -> bool:
    expected = expected.replace("/home/user/", "")  # commands lose their `~/`, too
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
