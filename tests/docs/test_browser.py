"""The site builds without a warning, and Chromium shows each page well: narrow and wide, light and dark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from lxml import html

from tests.support.pages import DOCS, Block, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Browser

WIDTHS = (1400, 400)
#: Faults that a reader would see in the layout of a page.
FAULTS = """[
    ...(document.documentElement.scrollWidth > innerWidth ? [`wider than ${innerWidth} pixels`] : []),
    ...[...document.querySelectorAll('article *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth && !one.closest('.table-wrapper, pre'))
        .map(one => `cut at ${innerWidth} pixels: ${one.tagName} ${one.textContent.slice(0, 40)}`),
    ...[...document.images].filter(one => !one.alt).map(one => `no text for ${one.src}`),
    ...[...document.images].filter(one => !one.complete || !one.naturalWidth).map(one => `no picture ${one.src}`),
    ...[...document.querySelectorAll('div.highlight')].filter(one => !one.querySelector('button.copybtn'))
        .map(one => `no copy button: ${one.textContent.slice(0, 40)}`),
]"""
#: Press each copy button, and return the texts.
COPY = """(() => {
    const texts = [];
    document.addEventListener('copy', () => texts.push(document.activeElement.value));
    document.querySelectorAll('button.copybtn').forEach(one => one.click());
    return texts;
})()"""
#: The places of the pictures that are shown, without their rounded corners.
PLACES = """[...document.images].map(one => one.getBoundingClientRect()).filter(one => one.width)
    .map(({x, y, width, height}) =>
        ({x: x + scrollX + 9, y: y + scrollY + 9, width: width - 18, height: height - 18, scale: 1}))"""


@dataclass(frozen=True)
class Build:
    folder: Path
    status: int
    warnings: str


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    return Build(folder, done.returncode, done.stderr)


@pytest.fixture(scope="module")
def site(build: Build) -> Path:
    return build.folder


def test_the_site_builds_without_a_warning(build: Build) -> None:
    assert build.status == 0, build.warnings
    assert (build.folder / "search.html").exists()


@pytest.mark.exhaustive
def test_each_page_fits_and_its_blocks_are_copied(site: Path, chromium: Browser) -> None:
    faults = []
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site)
        chromium.open(page.as_uri())
        for width in WIDTHS:
            chromium.show_as(width, "light")
            faults += [f"{name}: {fault}" for fault in chromium.run(FAULTS)]
        source = DOCS / name.with_suffix(".md")
        shown = [block for block in blocks(source.read_text()) if block.language] if source.exists() else []
        if [text.strip() for text in chromium.run(COPY)] != [to_copy(block).strip() for block in shown]:
            faults.append(f"{name}: the copy buttons do not copy the blocks")
        faults += [f"{name}: {problem}" for problem in chromium.problems]
    assert not faults


def to_copy(block: Block) -> str:
    lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    return "\n".join(lines) if lines else block.text


def test_pictures_follow_the_theme(site: Path, chromium: Browser) -> None:
    same = []
    for page in sorted(site.rglob("*.html")):
        if "<img" not in page.read_text():
            continue
        chromium.show_as(1400, "light")
        chromium.open(page.as_uri())
        light, dark = (looks(chromium, theme) for theme in ("light", "dark"))
        assert len(light) == len(dark)
        same += [
            f"{page.name}: picture {n}" for n, (one, other) in enumerate(zip(light, dark, strict=True)) if one == other
        ]
    assert not same


def looks(chromium: Browser, theme: str) -> list[bytes]:
    chromium.run(f"document.body.dataset.theme = '{theme}'")
    return [chromium.picture_of(place) for place in chromium.run(PLACES)]


def test_links_inside_the_site_lead_somewhere(site: Path) -> None:
    trees = {page: html.fromstring(page.read_bytes()) for page in site.rglob("*.html")}
    anchors = {page: {one.get("id") for one in tree.iter()} for page, tree in trees.items()}
    broken = []
    for page, tree in trees.items():
        for link in (one.get("href", "") for one in tree.iter("a")):
            if "://" in link or link.startswith(("mailto:", "data:")):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors.get(target, set())):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken
