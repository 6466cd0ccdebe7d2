"""The built package: its page on an index, and what it installs for shells."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs.package_page import source_address, whole_links
from docs.shell_files import FOLDER, shell_files
from tests.support.top import TOP


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=TOP, check=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_each_link_of_the_page_works_away_from_the_repository(wheel: zipfile.ZipFile) -> None:
    (name,) = (one for one in wheel.namelist() if one.endswith("dist-info/METADATA"))
    head, _, page = wheel.read(name).decode().partition("\n\n")
    assert f"Project-URL: Source, {source_address()}\n" in head
    targets = re.findall(r"\]\(([^)]+)\)|src(?:set)?=\"([^\"]+)\"", page)
    assert len(targets) > 20
    assert all(one.startswith(("https://", "#")) for pair in targets for one in pair if one)
    for path in re.findall(rf"{re.escape(source_address())}/(?:blob|raw)/main/([^)#\"]+)", page):
        assert (TOP / path).exists(), path


def test_a_package_installs_the_manual_page_and_completions(wheel: zipfile.ZipFile) -> None:
    installed = {one.partition(".data/data/")[2] for one in wheel.namelist() if ".data/data/" in one}
    assert installed == {
        "share/man/man1/matrix.1",
        "share/bash-completion/completions/matrix",
        "share/zsh/site-functions/_matrix",
        "share/fish/vendor_completions.d/matrix.fish",
    }


@pytest.mark.parametrize(
    ("link", "made"),
    [
        ("[a](docs/a.md)", "[a](H/blob/main/docs/a.md)"),
        ('<img src="docs/a.png">', '<img src="H/raw/main/docs/a.png">'),
        ("[a](https://b)", "[a](https://b)"),
        ("[a](#b)", "[a](#b)"),
    ],
)
def test_relative_links_become_whole(link: str, made: str) -> None:
    assert whole_links(link, "H") == made


@pytest.mark.parametrize("path", shell_files(), ids=lambda path: path.name)
def test_files_for_shells_are_up_to_date(path: Path) -> None:
    """If it fails, `python -m docs.generate` writes them."""
    assert path.read_text() == shell_files()[path]


def test_the_manual_page_uses_known_macros_only() -> None:
    page = shell_files()[FOLDER / "matrix.1"]
    assert set(re.findall(r"^[.'](\w*)", page, re.MULTILINE)) == {"TH", "SH", "B", "I", "TP"}
    for name in ("run", "compare", "MATRIX_STORE", "141", r"matrix run \-\-on dry raid.yaml"):
        assert f".TP\n.B {name}\n" in page
