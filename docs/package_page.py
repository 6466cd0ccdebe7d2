"""The page of the package on an index, which hatchling asks for: links of the project, and README with whole links."""

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: Targets of Markdown links, and of pictures.
_TARGET = re.compile(r"(?P<before>\]\(|src=\"|srcset=\")(?!\w+:|#)(?P<path>[^)\"\s]+)")


class PackagePage(MetadataHookInterface):
    """Its configuration has one key: `source`, the address of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = self.config["source"]
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": whole_links(readme, source)}
        metadata["urls"] = {
            "Documentation": f"{source}/blob/main/docs/index.md",
            "Source": source,
            "Changelog": f"{source}/blob/main/CHANGELOG.md",
        }


def source_address() -> str:
    """Return the address that pyproject.toml has."""
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["source"])


def whole_links(text: str, source: str) -> str:
    """Make relative links absolute: to pages on the forge, and to the bytes of pictures."""
    return _TARGET.sub(
        lambda one: f"{one['before']}{source}/{'raw' if 'src' in one['before'] else 'blob'}/main/{one['path']}", text
    )
