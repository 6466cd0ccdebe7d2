"""Tools of Go, built from the modules that a go.sum names by their digests, and the Go that builds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
#: For a Go before 1.21 (Debian 12), which cannot fetch the toolchain that a go.mod names.
_TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.25.0.linux-amd64"
_OUT_OF_REACH = re.compile("dial tcp|lookup disabled|no such host|connection refused|i/o timeout|proxyconnect")


def build_tool(module: str, package: str, folder: Path) -> Path:
    """Build a tool of the module in the folder `module` beside this file. Go caches what it compiles."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the tools of the workflows are built with Go, and it is not installed")
    program = folder / package.rpartition("/")[2]
    words = ("build", "-buildvcs=false", "-o", str(program), package)
    done = _run(go, *words, folder=_HERE / module)
    if "invalid go version" in done.stderr:
        done = _run(_newer_go(go), *words, folder=_HERE / module)
    assert done.returncode == 0, done.stderr
    return program


def _newer_go(old: str) -> str:
    """Return the toolchain, fetched as a module. Go checks it against the checksum database."""
    fetched = _run(old, "mod", "download", "-json", _TOOLCHAIN)
    assert fetched.returncode == 0, fetched.stderr
    root = Path(json.loads(fetched.stdout)["Dir"])
    for program in (*(root / "bin").iterdir(), *(root / "pkg/tool/linux_amd64").iterdir()):
        program.chmod(0o555)
    return str(root / "bin/go")


def _run(go: str, *words: str, folder: Path = _HERE) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run([go, *words], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode and _OUT_OF_REACH.search(done.stderr):
        pytest.skip("the modules of a tool are not cached, and cannot be fetched")
    return done
