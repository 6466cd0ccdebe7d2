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
    help="Of a disk model's file, of a file of guidelines, of hosts.yaml, or of what a study published.",
)
def command(what: str) -> None:
    """Print the JSON Schema of the matrix language, for editors that complete and check."""
    texts = {
        "matrix": schema_text,
        "model": model_schema_text,
        "guidelines": guidelines_schema_text,
        "hosts": hosts_schema_text,
        "published": published_schema_text,
    }
    click.echo(texts[what](), nl=False)


def hosts_schema_text() -> str:
    """The schema as it is shipped in matrix/hosts.schema.json."""
    from runner.language.hosts import Lab

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Lab.model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def published_schema_text() -> str:
    """The schema as it is shipped in matrix/published.schema.json."""
    from runner.language.published import Published

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Published.model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def model_schema_text() -> str:
    """The schema as it is shipped in matrix/model.schema.json."""
    from pydantic import TypeAdapter

    from runner.language.disks import AnyModel, DiskModel

    adapter: TypeAdapter[AnyModel] = TypeAdapter(DiskModel)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def guidelines_schema_text() -> str:
    """The schema as it is shipped in matrix/guidelines.schema.json."""
    from pydantic import TypeAdapter

    from runner.language.guidelines import Guideline

    adapter = TypeAdapter(list[Guideline])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema()}
    return json.dumps(schema, indent=1) + "\n"


def schema_text() -> str:
    """The schema as it is shipped in matrix/schema.json."""
    from runner.language.matrix import Matrix

    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Matrix.model_json_schema()}
    # A file of layouts for others to use has nothing but these.
    library = {"required": ["layouts"], "properties": dict.fromkeys(["disks", "workloads"], False)}
    schema["anyOf"] = [{"required": schema.pop("required")}, library]
    return json.dumps(schema, indent=1) + "\n"
