"""The documentation site: Sphinx with MyST and Furo. `./bootstrap docs` builds it."""

import sys
from pathlib import Path

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
html_theme_options = {"top_of_page_buttons": []}
html_show_sourcelink = False
# A reader copies the commands of a block, without their prompts and output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
myst_heading_anchors = 3
nitpicky = True
