"""The documentation site: Sphinx with MyST and Furo. `./bootstrap docs` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))

from runner import __version__

project = "matrix"
author = "the authors of matrix"
project_copyright = author
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["pictures/*.md"]
html_theme = "furo"
html_title = f"matrix {release}"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_show_sourcelink = False
# A reader copies the commands of a block, without their prompts and output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
myst_heading_anchors = 3
nitpicky = True
# This address stands for that of the repository.
linkcheck_ignore = [r"https://example\.org/"]

#: Where files outside of docs/ are read on the site; on GitHub the relative links work as they are.
SOURCE = "https://example.org/matrix/blob/main"


def link_to_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Turn relative links that leave docs/ into links to the repository."""
    folder = (Path("docs") / page).parent

    def absolute(found: re.Match[str]) -> str:
        path = os.path.normpath(folder / found[1])
        return found[0] if path.startswith("docs") else f"]({SOURCE}/{path}"

    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#\s]*)", absolute, source[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", link_to_source)
