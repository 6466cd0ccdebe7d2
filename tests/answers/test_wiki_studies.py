"""The studies of the RAID wiki and of multi-zone disks: complete, and each findable by its own name."""

from pathlib import Path

import pytest

from matrix_runner.space.load import load

STUDIES = Path(__file__).parents[2] / "matrix" / "studies"
FOLDERS = [STUDIES / "multi-zone", *sorted(path.parent for path in STUDIES.glob("raid-wiki/**/matrix.yaml"))]
SET_UPS = {"raid-wiki", "davidsen", "tuned", "chunks", "howto", "martin", "pci", "pcie"}


def test_every_set_up_of_disks_is_there() -> None:
    assert {folder.name for folder in FOLDERS} == SET_UPS | {"multi-zone"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_study_is_whole(folder: Path) -> None:
    space = load(folder / "matrix.yaml").space
    assert all(disks.model is not None for disks in space.matrix.disks)
    assert all(one.source for one in space.matrix.guidelines)
    page = (folder / "README.md").read_text()
    assert page.index("<!-- measured:") < page.index("<!-- end of measured -->")
    assert (folder / "published.yaml").is_file()


def test_wiki_studies_have_different_names() -> None:
    names = [load(folder / "matrix.yaml").space.matrix.name for folder in FOLDERS]
    assert len(set(names)) == len(names)


def test_the_page_of_the_wiki_leads_to_all_of_them() -> None:
    page = (STUDIES / "raid-wiki" / "README.md").read_text()
    assert all(f"({name}/README.md)" in page for name in SET_UPS - {"raid-wiki"})
