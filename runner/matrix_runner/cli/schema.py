"""`matrix schema`: the schemas come from the models in language/."""

import json
from typing import Any

import click

from matrix_runner.cli.screen import echo_whole


@click.command("schema", epilog="Example:  matrix schema > matrix/schema.json")
@click.option(
    "--of",
    "what",
    type=click.Choice(["matrix", "model", "guidelines", "hosts", "published", "baselines", "known-changes"]),
    default="matrix",
    metavar="KIND",
    help="The kind of file: matrix, model (of a disk), guidelines, hosts, published (figures of a study), baselines or "
    "known-changes.",
)
def command(what: str) -> None:
    """Print the JSON Schema of the matrix language, for completion and checks in editors."""
    echo_whole(schema_text(what), newline=False)


def schema_text(what: str = "matrix") -> str:
    from pydantic import TypeAdapter

    from matrix_runner.language.disks import DiskModel
    from matrix_runner.language.guidelines import Guideline
    from matrix_runner.language.hosts import Lab
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.language.references import Baseline, KnownChange, Published

    models: dict[str, Any] = {
        "matrix": Matrix,
        "model": DiskModel,
        "guidelines": list[Guideline],
        "hosts": Lab,
        "published": Published,
        "baselines": list[Baseline],
        "known-changes": list[KnownChange],
    }
    content = TypeAdapter(models[what]).json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}
    if what == "matrix":
        # A library of layouts has layouts only.
        library = {"required": ["layouts"], "properties": dict.fromkeys(["disks", "workloads"], False)}
        schema["anyOf"] = [{"required": schema.pop("required")}, library]
    return json.dumps(schema, indent=1) + "\n"
