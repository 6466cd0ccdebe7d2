"""Reports as trees, and the schema of JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree

from matrix_runner.pages.html import page
from tests.support.begun_runs import manifest

if TYPE_CHECKING:
    from matrix_runner.pages.run_data import RunData
    from matrix_runner.records.run_folder import Manifest


def tree(content: RunData, about: Manifest | None = None, **room: int) -> etree._Element:
    return etree.fromstring(page(content, about or manifest(), "sweep-1", **room).partition(b"\n")[2])


SCHEMA = etree.XMLSchema(file=str(Path(__file__).parents[1] / "data" / "junit-10.xsd"))
