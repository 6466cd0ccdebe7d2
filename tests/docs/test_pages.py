"""Links and paragraphs of the pages, without a build."""

from __future__ import annotations

import re

from tests.support.pages import ROOT, pages

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_links_lead_to_files_as_github_shows_them() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages()
        for link in _LINK.findall(page.read_text())
        if not re.match(r"https?://|#|mailto:", link) and not (page.parent / link.partition("#")[0]).exists()
    ]
    assert not broken


def test_external_links_are_complete_addresses() -> None:
    address = re.compile(r"https://[\w.-]+\.[a-z]{2,}(:\d+)?(/[\w./~%#?=&+,:@-]*)?$")
    links = {link for page in pages() for link in _LINK.findall(page.read_text()) if link.startswith("http")}
    assert not {link for link in links if not address.match(link)}


def test_no_paragraph_is_long() -> None:
    texts = {page: re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL) for page in pages()}
    long = [
        f"{page.relative_to(ROOT)}: {part.strip()[:60]} …"
        for page, text in texts.items()
        for part in re.split(r"\n\s*\n|\n(?=[-|#]|\d+\. )", text)
        if not part.lstrip().startswith("|") and len(part.split()) > 100
    ]
    assert not long
