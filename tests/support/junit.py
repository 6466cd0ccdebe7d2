"""JUnit documents as tests read them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as StandardTree

import pytest
from junitparser import junitparser as library
from lxml import etree

from tests.support.report_files import SCHEMA

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(params=[etree, StandardTree], ids=["lxml", "standard library"], autouse=True)
def tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """junitparser takes lxml where it is installed; users of the product do not have it."""
    module: ModuleType = request.param
    monkeypatch.setattr(library, "etree", module)
    return module


def parsed(document: bytes) -> etree._Element:
    root = etree.fromstring(document)
    SCHEMA.assertValid(root)
    return root


def properties(suite: etree._Element) -> dict[str, str]:
    return {str(one.get("name")): str(one.get("value")) for one in suite.iterfind("properties/property")}
