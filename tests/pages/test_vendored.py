from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.vendored import FOLDERS, LOCK, differences

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_vendored_files_are_those_of_the_lock_file(folder: Path) -> None:
    assert not differences(folder)


def test_a_changed_and_a_foreign_file_are_found(tmp_path: Path) -> None:
    for path in FOLDERS[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert not differences(tmp_path)
    (tmp_path / "NOTICE").write_text("another")
    (tmp_path / "more.js").touch()
    (tmp_path / "LICENSE").unlink()
    assert differences(tmp_path) == ["LICENSE", "NOTICE", "more.js"]
    assert (tmp_path / LOCK).exists()
