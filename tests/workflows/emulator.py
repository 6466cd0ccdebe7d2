"""A small runner of workflows: it runs the steps of the YAML with bash, and only records the actions of other repositories.

It starts in no time, so the daily tests use it. At night test_act.py runs the same workflows by act.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from tests.workflows.expressions import as_text, evaluated, expanded

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATUS = re.compile(r"\b(always|success|failure|cancelled)\(\)")
_KEPT = re.compile(r"^(?P<name>[\w-]+)(?:=(?P<plain>.*)|<<(?P<end>.+)\n(?P<text>(?:.*\n)*?)(?P=end))$", re.MULTILINE)


def loaded(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe").load(path.read_text())
    return content


@dataclass
class Job:
    """One run of a job, or of the steps of an action in it."""

    checkout: Path
    temp: Path
    inputs: Mapping[str, Any]
    env: Mapping[str, str]
    contexts: Mapping[str, Any] = field(default_factory=dict)
    status: str = "success"
    log: str = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The actions of other repositories, and their inputs.
    used: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def run(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if not self._due(str(step.get("if", "success()"))):
                continue
            if uses := step.get("uses"):
                good = self._use(uses, self._expanded(step.get("with", {})))
            else:
                good = self._shell(step)
            if name := step.get("id"):
                self.steps.setdefault(name, {"outputs": {}})["outcome"] = "success" if good else "failure"
            if not good and not step.get("continue-on-error"):
                self.status = "failure"

    @property
    def page(self) -> str:
        """Return the summary on the page of the job."""
        return (self.temp / "summary").read_text() if (self.temp / "summary").exists() else ""

    def _known(self) -> dict[str, Any]:
        return {
            **self.contexts,
            "inputs": self.inputs,
            "job": {"status": self.status},
            "steps": self.steps,
        }

    def _due(self, condition: str) -> bool:
        bare = condition if not condition.startswith("${{") else condition.strip()[3:-2]
        due = evaluated(bare, self._known())
        return bool(due) and (bool(_STATUS.search(bare)) or self.status == "success")

    def _expanded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: as_text(expanded(str(value), self._known())) for name, value in values.items()}

    def _use(self, uses: str, given: dict[str, Any]) -> bool:
        if uses != "./":
            self.used.append((uses, given))
            return True
        action = loaded(self.checkout / "action.yml")
        inputs = {name: given.get(name, one.get("default", "")) for name, one in action["inputs"].items()}
        inner = Job(
            self.checkout, self.temp, inputs, {**self.env, "GITHUB_ACTION_PATH": str(self.checkout)}, self.contexts
        )
        inner.run(action["runs"]["steps"])
        self.log += inner.log
        self.used += inner.used
        return inner.status == "success"

    def _shell(self, step: Mapping[str, Any]) -> bool:
        assert "${{" not in step["run"], "an expression in a script would make text a command"
        assert step.get("shell", "bash") == "bash"
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        output = self.temp / "output"
        output.write_text("")
        env = {
            **self.env,
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "RUNNER_TEMP": str(self.temp),
            **self._expanded(step.get("env", {})),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.checkout,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.log += done.stdout
        if name := step.get("id"):
            self.steps[name] = {"outputs": _outputs(output.read_text())}
        return done.returncode == 0


def _outputs(text: str) -> dict[str, str]:
    return {
        one["name"]: one["plain"] if one["end"] is None else one["text"].removesuffix("\n")
        for one in _KEPT.finditer(text)
    }


def environment(temp: Path, **more: str) -> dict[str, str]:
    """Return the environment of a runner, which has folders of its own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(temp),
        "LANG": "C.UTF-8",
        "MATRIX_STATE": str(temp / "state"),
        "GITHUB_ACTIONS": "true",
        "CI": "true",
        **more,
    }
