"""`matrix schema`."""

from __future__ import annotations

import json

import click


@click.command("schema", epilog="Example:  matrix schema > matrix/schema.json")
@click.option(
    "--of",
    "what",
    type=click.Choice(["matrix", "model", "guidelines", "hosts", "published"]),
    default="matrix",
    help="The kind of file: a matrix, a disk model, guidelines, hosts.yaml, or the published figures of a study.",
)
def command(what: str) -> None:
    """Print the JSON Schema of the matrix language, for completion and checks in editors."""
    texts = {
        "matrix": schema_text,
        "model": model_schema_text,
        "guidelines": guidelines_schema_text,
        "hosts": hosts_schema_text,
        "published": published_schema_text,
    }
    click.echo(texts[what](), nl=False)


def hosts_schema_text() -> str:
    from runner.language.hosts import Lab

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Lab.model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def published_schema_text() -> str:
    from runner.language.published import Published

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Published.model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def model_schema_text() -> str:
    from pydantic import TypeAdapter

    from runner.language.disks import AnyModel, DiskModel

    adapter: TypeAdapter[AnyModel] = TypeAdapter(DiskModel)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def guidelines_schema_text() -> str:
    from pydantic import TypeAdapter

    from runner.language.guidelines import Guideline

    adapter = TypeAdapter(list[Guideline])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def schema_text() -> str:
    from runner.language.matrix import Matrix

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Matrix.model_json_schema()}
    # A library of layouts has layouts only.
    library = {"required": ["layouts"], "properties": dict.fromkeys(["disks", "workloads"], False)}
    schema["anyOf"] = [{"required": schema.pop("required")}, library]
    return json.dumps(schema, indent=1) + "\n"
