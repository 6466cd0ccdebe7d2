"""The workflow of the page on sites, by the emulator: up to the upload, with the real program."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded

if TYPE_CHECKING:
    from pathlib import Path


def workflow() -> dict[str, Any]:
    page = (TOP / "docs/how-to/publish-a-site.md").read_text()
    (text,) = re.findall(r"```yaml\n# \.github/workflows/site\.yml\n(.*?)```", page, re.DOTALL)
    content: dict[str, Any] = YAML(typ="safe").load(text)
    return content


def test_the_site_of_two_nights_is_uploaded(checkout: Path, temp: Path) -> None:
    found = workflow()
    (job,) = found["jobs"].values()
    nightly = loaded(TOP / ".github/workflows/nightly.yml")
    assert found["on"]["workflow_run"]["workflows"] == [nightly["name"]]
    results = temp / "kept results"
    env = environment(temp, MATRIX_RESULTS=str(results))
    for _ in range(2):
        words = ["./bootstrap", "run", "--on", "dry", "--fresh", "small.yaml", "--results", str(results)]
        subprocess.run(words, cwd=checkout, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = Job(checkout, temp, {}, env, {"runner": {"temp": str(temp)}})
    done.run(job["steps"])
    assert done.status == "success", done.log
    assert "index.html: 2 runs, " in done.log
    *_, (upload, given), (deploy, _) = done.used
    assert (upload.partition("@")[0], deploy.partition("@")[0]) == (
        "actions/upload-pages-artifact",
        "actions/deploy-pages",
    )
    assert len([*(temp / "site").glob("*/report.html")]) == 2
    assert given["path"] == str(temp / "site")
    assert {"pages", "id-token"} <= job["permissions"].keys(), "which publishing needs"
