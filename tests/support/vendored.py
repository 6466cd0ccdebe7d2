"""Vendored JavaScript: `python -m tests.support.vendored` fetches it again from npm, by the version and digest in each lock file.

To take another version, change `version`, `integrity` and `files` in `lock.json`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support.top import TOP

LOCK = "lock.json"
FOLDERS = (TOP / "runner/matrix_runner/pages/echarts", TOP / "tests/data/axe")


def differences(folder: Path) -> list[str]:
    """Return the files that are not as the lock file has them."""
    locked: dict[str, str] = json.loads((folder / LOCK).read_text())["files"]
    found = {path.name: _sha256(path.read_bytes()) for path in folder.iterdir() if path.name != LOCK}
    wanted = {Path(path).name: digest for path, digest in locked.items()}
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def fetch(folder: Path) -> None:
    lock = json.loads((folder / LOCK).read_text())
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", f"{lock['package']}@{lock['version']}"]
        name = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout.strip()
        packed = Path(place, name)
        digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != lock["integrity"]:
            raise SystemExit(f"{name} has the digest sha512-{digest}, not {lock['integrity']}")
        with tarfile.open(packed) as archive:
            for path in lock["files"]:
                member = archive.extractfile(f"package/{path}")
                assert member
                (folder / Path(path).name).write_bytes(member.read())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    for folder in FOLDERS:
        fetch(folder)
        if wrong := differences(folder):
            raise SystemExit(f"{folder}: not as in {LOCK}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
