"""The documentation site: Sphinx with MyST and Furo. `./bootstrap docs` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))

from docs.package_page import source_address
from matrix_runner.base.version import matrix_version

project = "matrix"
author = "the authors of matrix"
project_copyright = author
release = version = matrix_version()
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["pictures/*.md"]
# They would turn the two hyphens of an option into a dash.
smartquotes = False
html_theme = "furo"
html_title = f"matrix {release}"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_show_sourcelink = False
html_use_index = False
html_static_path = ["static"]
html_css_files = ["site.css"]
# A reader copies the commands of a block, without their prompts and output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
myst_heading_anchors = 3
nitpicky = True
# This address stands for that of the repository.
linkcheck_ignore = [r"https://example\.org/"]

#: Where files outside of docs/ are read on the site; on GitHub the relative links work as they are.
SOURCE = f"{source_address()}/blob/main"
#: A word of inline code with at most this many characters does not break after its hyphens.
SHORT = 24


def link_to_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Turn relative links that leave docs/ into links to the repository."""
    folder = (Path("docs") / page).parent

    def absolute(found: re.Match[str]) -> str:
        path = os.path.normpath(folder / found[1])
        return found[0] if path.startswith("docs") else f"]({SOURCE}/{path}"

    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#\s]*)", absolute, source[0])


class Looks(SphinxTransform):
    """Prepare pictures and options for every width and both themes."""

    default_priority = 400

    def apply(self) -> None:
        for image in list(self.document.findall(nodes.image)):
            # Sphinx links a picture that has a width to its file.
            image["width"] = "100%"
            self.add_dark_twin(image)
        for code in self.document.findall(nodes.literal):
            if max(map(len, code.astext().split()), default=0) <= SHORT:
                code["classes"].append("short")

    def add_dark_twin(self, image: nodes.image) -> None:
        """Put `NAME-dark.png` beside `NAME.png`: the theme shows one of them."""
        name = Path(image["uri"])
        dark = name.with_stem(f"{name.stem}-dark")
        if (Path(self.env.doc2path(self.env.docname)).parent / dark).exists():
            twin = image.deepcopy()
            twin["uri"] = str(dark)
            twin["classes"].append("only-dark")
            image["classes"].append("only-light")
            image.parent.insert(image.parent.index(image) + 1, twin)


def setup(app: Sphinx) -> None:
    app.add_transform(Looks)
    app.connect("source-read", link_to_source)
