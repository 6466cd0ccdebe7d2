"""Write the generated parts of the reference: `python -m docs.generate`. Two comments enclose such a part."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from ruamel.yaml import YAML

import matrix_runner
from docs.meanings import DEFAULTS, EXAMPLES, FORMS, MEANINGS
from docs.shell_files import shell_files
from docs.yardstick import FILE, yardstick_text
from matrix_runner.cli import cli
from matrix_runner.cli.schema import schema_text
from matrix_runner.language.period import RULES
from matrix_runner.layers import LAYERS, NOT_TUNED, Layer
from matrix_runner.machines.qemu.kernel_config import OPTIONS, Option
from matrix_runner.pages import csv_files
from matrix_runner.work.fio.keys import Steady, WorkloadKeys
from matrix_runner.work.sync import ENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from matrix_runner.base.model import Model

Schema = dict[str, Any]
DOCS = Path(__file__).parent
#: Parts of a help text that the page of the commands links to.
_ON_OTHER_PAGES = ("Exit codes", "Names of runs", "States of a run")
_PART = re.compile(r"(<!-- begin (?P<name>[\w.-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)
#: Two letters in a row: a text has more than values.
_TELLING = re.compile("[a-z]{2}")
#: Longer lists of choices are shown as a link.
_MOST_CHOICES = 20
#: Longer values are no examples.
_LONGEST = 40
_SIZES = "a size (`64KiB`)"
#: Parts of the language under a path of their own.
_PATHS = {"Layer": "layouts", "PartedLayout": "layouts with parts", "Column": "layouts with parts: parts"}
#: Patterns of texts, in words.
_TEXTS = (
    (r"(read\.bw|", "one with `JOB.` before it, for one job"),
    (r"/s\s*$", "a rate (`133MB/s`)"),
    ("memory", "a size, a share (`50%`) or `4x memory`"),
    (r"%\s*$)", "a size or a share (`25%`)"),
    (r"us|ms|s|m|h", "a time (`10s`)"),
    ("[KMGT]iB", _SIZES),
    ("%", "a share (`5%`)"),
    ("^.+#.+$", "`FILE.yaml#name`"),
)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |\n" for row in lines
    )


@cache
def _schema() -> Schema:
    found: Schema = json.loads(schema_text())
    for part in found["$defs"].values():
        former = [key for key, value in part.get("properties", {}).items() if value.get("deprecated")]
        for key in former:
            del part["properties"][key]
    return found


def parts_of_the_language() -> Iterator[tuple[str, Schema]]:
    """Yield each part of a matrix with its path, in the order in which a matrix refers to them."""
    schema = _schema()
    yield "The top level", schema
    seen = set[str]()
    queue = [one for key, value in schema["properties"].items() for one in _references(value, key)]
    while queue:
        name, path = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        part = schema["$defs"][name]
        for form in (part, *part.get("anyOf", ())):
            if "properties" in form:
                yield (f"{path}: use" if "use" in form["properties"] else path), form
                for key, value in form["properties"].items():
                    queue += _references(value, _below(path, key, name))


def language() -> str:
    """Return a section for each part of the language, except layers: these have pages."""
    schema = _schema()
    parts = list(parts_of_the_language())
    in_tables = {
        _meaning(key, value, schema, parent_of(path))
        for path, part in parts
        for key, value in part["properties"].items()
    }
    return "\n".join(_keys(f"## {path}", part, schema, in_tables) for path, part in parts if not _layer(path))


def layer_pages() -> dict[Path, str]:
    """Return a page for each layer, made from its declaration."""
    schema = _schema()
    parts = dict(parts_of_the_language())
    keys = parts["layouts"]["properties"]
    return {
        DOCS / "reference" / "layers" / f"{layer.kind}.md": f"# Layer `{layer.kind}`\n\n"
        f"{part.get('description') or _meaning(layer.kind, keys[layer.kind], schema, 'layouts')}\n\n"
        f"Example: `{example(layer.kind, keys[layer.kind], 'layouts')}`. {_around(layer, parts)}\n\n"
        + _keys("## Keys", part, schema, path=path)
        + _needs(layer)
        for path, part in parts.items()
        if (layer := _layer(path))
    }


def _layer(path: str) -> type[Layer] | None:
    return LAYERS.get(path.removeprefix("layouts: ")) if path.startswith("layouts: ") else None


def _around(layer: type[Layer], paths: Collection[str]) -> str:
    """Return links to what the language says of all layers, and of the tunables of this one."""
    own = f"[its own](../language.md#tune-{layer.kind}) and " if f"tune: {layer.kind}" in paths else ""
    tuned = (
        f" Its devices can have {own}[other tunables](../language.md#tunables)." if layer.kind not in NOT_TUNED else ""
    )
    return f"See also [the devices on which it can lie](../language.md#layers-that-lie-on-others).{tuned}"


@cache
def _anchors() -> Mapping[str, str]:
    """Return the links to the parts of the language, by the name of the part in the schema."""
    by_keys = {json.dumps(part, sort_keys=True): path for path, part in parts_of_the_language()}
    found: dict[str, str] = {}
    for name, part in _schema()["$defs"].items():
        for form in (part, *part.get("anyOf", ())):
            if path := by_keys.get(json.dumps(form, sort_keys=True)):
                page = f"layers/{layer.kind}.md" if (layer := _layer(path)) else ""
                found.setdefault(name, page or f"#{path.lower().replace(':', '').replace(' ', '-')}")
    return found


def _own_defaults(path: str) -> Mapping[str, object]:
    """Return the defaults of single values, which the schema lacks where a list of values is possible."""
    models: Mapping[str, type[Model]] = {"workloads": WorkloadKeys, "workloads: steady": Steady}
    model = models.get(path) or _layer(path)
    fields = model.model_fields if model else {}
    return {name: one.default for name, one in fields.items() if isinstance(one.default, str | int | float)}


def _below(path: str, key: str, name: str) -> str:
    return f"{path.removesuffix(' (a layer)')}: {key}" if name != "Layer" else f"layouts: {key}"


def _keys(title: str, part: Schema, schema: Schema, in_tables: Collection[str] = (), path: str = "") -> str:
    """Return a section. Its text lacks the first line if a table has it, as the meaning of the key."""
    needed = part.get("required") or next((one["required"] for one in part.get("anyOf", ()) if "required" in one), ())
    path = path or title.removeprefix("## ")
    parent, defaults = parent_of(path), _own_defaults(path)
    rows = (
        (
            f"`{key}`",
            FORMS.get(_full(parent, key)) or _values(value),
            DEFAULTS.get(_full(parent, key))
            or _default({**value, "default": defaults.get(key, value.get("default"))}, needed=key in needed),
            _meaning(key, value, schema, parent),
            f"`{example(key, value, parent)}`",
        )
        for key, value in part["properties"].items()
        if not (path == "workloads: under" and key in ENDS)  # the end of the rebuild ends this workload
    )
    first, _, rest = part.get("description", "").partition("\n")
    text = rest.strip() if first in in_tables else part.get("description", "")
    return (
        f"{title}\n\n"
        + (f"{text}\n\n" if text and not _layer(path) else "")
        + table(("key", "value", "default", "meaning", "example"), rows)
    )


def _needs(layer: type[Layer]) -> str:
    """Return a table of what a layer needs of the rig: for all uses, and for some values."""
    from matrix_runner.base.quantities import format_size

    rows = []
    for need in layer.needs:
        values = (format_size(one) if isinstance(one, int) and one >= 1024 else str(one) for one in need.values)
        kernel = [
            *need.modules,
            *(f"CONFIG_{name}" for name in need.options),
            *[f"Linux {need.linux}"] * bool(need.linux),
        ]
        lists = (", ".join(f"`{name}`" for name in names) for names in (kernel, need.programs))
        use = f"`{need.key}: {', '.join(values)}`" if need.key else "any use"
        rows.append((use, *lists, "not in a container" * need.own_kernel))
    head = ("for", "modules and options of the kernel", "programs", "where")
    skipped = "[Cells without them](../language.md#what-layers-need) are skipped. A version is the lowest one."
    return f"\n## Needs\n\n{skipped}\n\n{table(head, iter(rows))}" if rows else ""


def parent_of(path: str) -> str:
    """Return the key above those of a part, as in the table of examples."""
    return {"The top level": "", "workloads": "workload "}.get(path, path.rpartition(" ")[2])


def _full(parent: str, key: str) -> str:
    return f"{parent.strip()} {key}".strip()


def _references(value: Schema, path: str) -> list[tuple[str, str]]:
    found = re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(value))
    return [
        (name, _PATHS.get(name, path if len(set(found)) == 1 else f"{path}: {name.removesuffix('Axes').lower()}"))
        for name in dict.fromkeys(found)
    ]


def _alternatives(value: Schema) -> Iterator[Schema]:
    """Yield the forms of one value; a list of values is an axis, and the same form."""
    for form in value.get("anyOf") or value.get("oneOf") or [value]:
        if form is not value and ("anyOf" in form or "oneOf" in form):
            yield from _alternatives(form)
        elif form.get("type") == "array" and value is not form:
            continue
        elif form.get("type") != "null" and form.get("const") != 0:
            yield form


def _values(value: Schema) -> str:
    return " or ".join(dict.fromkeys(filter(None, (_form(one) for one in _alternatives(value)))))


def _form(one: Schema) -> str:
    if "$ref" in one:
        return _reference(one["$ref"].rpartition("/")[2])
    if "const" in one:
        return f"`{one['const']}`"
    if "enum" in one:
        texts = [str(text).lower() if isinstance(text, bool) else str(text) for text in one["enum"]]
        if len(texts) > _MOST_CHOICES:
            return "a name of a [figure](files.md#names-of-figures)"
        return ", ".join(f"`{text}`" for text in dict.fromkeys(texts))
    if "pattern" in one:
        return next((words for part, words in _TEXTS if part in one["pattern"]), "a text")
    kinds: Mapping[str, str] = {
        "integer": "a number",
        "number": "a number",
        "boolean": "`true`, `false`",
        "string": "a text",
        "array": "a list",
        "object": "a map",
    }
    text = kinds.get(str(one.get("type")), "")
    low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum")
    if low is not None and high is not None and high < 2**31 - 1:
        return f"{low} to {high}"
    return f"{text} from {low}" if low is not None else text


def _reference(name: str) -> str:
    if name not in _anchors():
        return "a map, below"
    part = _schema()["$defs"][name]
    numbers = [one for one in part.get("anyOf", ()) if one.get("type") == "integer"]
    return "".join(f"{_form(one)}, or " for one in numbers) + f"[a map]({_anchors()[name]})"


def _default(value: Schema, *, needed: bool) -> str:
    if needed:
        return "required"
    given = value.get("default")
    if isinstance(given, dict) and given and None not in given.values():
        return f"`{_flow(given)}`"
    if given in (None, "", [], {}) or isinstance(given, dict):
        return ""
    return f"`{_shown(given, value)}`"


def _shown(given: object, value: Schema) -> str:
    from matrix_runner.base.quantities import format_size, format_time

    if isinstance(given, bool):
        return str(given).lower()
    pattern = json.dumps(value)
    if f'"{given}B"' in pattern:
        return f"{given}B"
    if isinstance(given, int) and "KMGT" in pattern and given >= 1024:
        return format_size(given)
    if isinstance(given, float):
        return f"{given:.0%}" if "%" in pattern else format_time(given)
    return str(given)


def _meaning(key: str, value: Schema, schema: Schema, parent: str) -> str:
    own = str(value.get("description") or MEANINGS.get(_full(parent, key)) or MEANINGS.get(key, ""))
    if own or "$ref" not in json.dumps(value):
        return own
    name = re.findall(r"#/\$defs/(\w+)", json.dumps(value))[0]
    return str(schema["$defs"][name].get("description", "")).partition("\n")[0]


def _flow(value: object) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _shipped_examples() -> Mapping[tuple[str, str], str]:
    """Return the shortest telling value of each key in the shipped matrices, by the key above it."""
    found: dict[tuple[str, str], str] = {}

    def collect(parent: str, value: object) -> None:
        if isinstance(value, list):
            for one in value:
                collect(parent, one)
        if not isinstance(value, dict):
            return
        for key, one in value.items():
            text = f"{key}: {_flow(one)}"
            named = parent in {"layouts", "workloads"}
            old = found.get((parent, str(key)), "")
            if not named and len(text) <= _LONGEST and (not old or len(text) > len(old)):
                found[parent, str(key)] = text
            collect(f"{parent[:-1]} " if named and parent == "workloads" else "" if named else str(key), one)

    for path in sorted((DOCS.parent / "matrix").rglob("*.yaml")):
        if path.name not in {"published.yaml", "hosts.yaml"}:
            collect("", YAML(typ="safe").load(path))
    return found


def example(key: str, value: Schema, parent: str) -> str:
    if given := EXAMPLES.get(_full(parent, key)) or EXAMPLES.get(key):
        return f"{key}: {given}"
    if shipped := _shipped_examples().get((parent, key)):
        return shipped
    examples = value.get("examples") or [_example_of(one, value) for one in _alternatives(value)][:1] or ["…"]
    first = examples[0]
    text = first if isinstance(first, str) else json.dumps(first, ensure_ascii=False).replace('"', "")
    return f"{key}: {text}"


def _example_of(one: Schema, value: Schema) -> str:
    if "examples" in one:
        return str(one["examples"][0])
    if "enum" in one:
        texts = [text for text in one["enum"] if text not in ("default", value.get("default"))]
        return str(texts[0]).lower() if isinstance(texts[0], bool) else str(texts[0])
    if "const" in one:
        return str(one["const"])
    if one.get("type") == "boolean":
        return "true"
    if one.get("type") in {"integer", "number"}:
        return str(one.get("minimum") or one.get("exclusiveMinimum") or value.get("default") or 1)
    return next(
        (words.partition("`")[2].partition("`")[0] for part, words in _TEXTS if part in one.get("pattern", "")), "…"
    )


def models() -> str:
    schema = json.loads(schema_text("model"))
    return "\n".join(
        _keys(f"## {name}", part, schema) for name, part in schema["$defs"].items() if "properties" in part
    )


def hosts() -> str:
    schema = json.loads(schema_text("hosts"))
    names = {"LabHost": "A host", "LabDisk": "A disk", "LabCluster": "A cluster"}
    return "\n".join(
        _keys(f"## {names[name]}", part, schema) for name, part in schema["$defs"].items() if "properties" in part
    )


def commands() -> str:
    """Return a section for each command and subcommand, with its options and examples."""
    root = cli.make_context("matrix", [], resilient_parsing=True)
    return "\n".join(_commands_of(cli, root, "##"))


def _commands_of(group: click.Group, parent: click.Context, heading: str) -> Iterator[str]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command  # noqa: S101 - the group lists it
        context = click.Context(command, info_name=name, parent=parent)
        yield _command(command, context, heading)
        if isinstance(command, click.Group):
            yield from _commands_of(command, context, f"{heading}#")


def _command(command: click.Command, context: click.Context, heading: str) -> str:
    usage = " ".join(command.collect_usage_pieces(context)).strip()
    given = (one for one in command.get_params(context) if isinstance(one, click.Option) and one.name != "help")
    rows = (record for one in given if (record := one.get_help_record(context)))
    options = ((f"`{names}`", text) for names, text in rows)
    about = inspect.cleandoc(command.help or "").replace("\b\n", "")
    title = f"{heading} {context.command_path}\n\n```text\n{context.command_path} {usage}\n```"
    shown = list(options)
    text = f"{title}\n\n{about}\n" + (f"\n{table(('option', 'meaning'), iter(shown))}" if shown else "")
    return text + _epilog(inspect.cleandoc(command.epilog or "").replace("\b\n", ""))


def _epilog(text: str) -> str:
    """Return the examples of a command as one block, and what follows as paragraphs, which fit on any screen."""
    parts = [part for part in text.split("\n\n") if part and not part.startswith(_ON_OTHER_PAGES)]
    examples = [part for part in parts if re.match(r"(Examples?|Then):", part)]
    block = "\n\n".join(examples)
    return (f"\n```text\n{block}\n```\n" if block else "") + "".join(
        f"\n{part}\n" for part in parts if part not in examples
    )


#: Rooms of the code by the subject of their messages, in the order of the page.
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "The matrix": ("language", "work", "layers", "space"),
    "The command line": ("cli", "base", "pytest_plugin.py"),
    "Runs and clusters": ("session", "carry", "decide", "scripts"),
    "Machines": ("machines", "simdisks"),
    "Physical disks": ("hosts",),
    "Run folders and stores": ("records",),
    "Results, guidelines and studies": ("answers", "pages", "statistics"),
}


def messages() -> str:
    """Return a table of messages with advice for each subject. Values in them are shown as `…`."""
    from tests.messages.catalogue import catalogue

    found = {room: list[str]() for rooms in SUBJECTS.values() for room in rooms}
    for module, texts in catalogue(Path(matrix_runner.__path__[0])):
        found[module.partition("/")[0]] += [text for text in texts if "\n→ " in text]
    parts = []
    for subject, rooms in SUBJECTS.items():
        rows = sorted(
            row
            for row in {_cause_and_cure(text) for room in rooms for text in found[room]}
            if all(map(_TELLING.search, row))
        )
        parts.append(f"## {subject}\n\n{table(('message', 'what to do'), iter(rows))}")
    return "\n".join(parts)


def _cause_and_cure(text: str) -> tuple[str, str]:
    brief, _, advice = _plain(text).rpartition("→ ")
    return ": ".join(line for line in brief.strip().splitlines() if line.strip(" …")), advice.strip()


def _plain(text: str) -> str:
    """Replace each value in braces by `…`, also nested ones."""
    while (shorter := re.sub(r"\{[^{}]*\}", "…", text)) != text:
        text = shorter
    return re.sub(r"…+(?:\s*…+)*", "…", text).replace("<", "&lt;")


#: Options that the kernel cannot have as a module.
NO_MODULES = frozenset({"AIO", "IO_URING", "EFI_PARTITION"})


def periods() -> str:
    def version(one: tuple[int, ...]) -> str:
        return ".".join(map(str, one))

    rows = ((f"`{one.name}`", f"`{one.value}`", version(one.since), version(one.before), one.source) for one in RULES)
    return table(("tunable", "value", "since Linux", "before Linux", "source"), rows)


def kernel_options() -> str:
    def value(one: Option) -> str:
        built_in = one.need == "boot" or one.name in NO_MODULES
        return ("`y`" if built_in else "`y` or `m`") + ("" if one.boots else ", for this work only")

    return table(("option", "value", "use"), ((f"`{one.text}`", value(one), one.use) for one in OPTIONS))


def columns(of: tuple[csv_files.Column, ...]) -> str:
    return table(("column", "unit", "meaning"), ((f"`{name}`", unit, meaning) for name, unit, meaning in of))


PARTS: Mapping[str, Callable[[], str]] = {
    "language": language,
    "models": models,
    "hosts": hosts,
    "commands": commands,
    "trials.csv": lambda: columns(csv_files.TRIALS),
    "summary.csv": lambda: columns(csv_files.SUMMARY),
    "found.csv": lambda: columns(csv_files.FOUND),
    "kernel-options": kernel_options,
    "periods": periods,
    "messages": messages,
}


def generated(text: str) -> str:
    """Return the text of a page with its generated parts made anew."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part['name']]()}\n{part[3]}", text)


def made_files() -> dict[Path, bytes]:
    """Return files that have no part written by hand."""
    texts = {**shell_files(), **layer_pages()}
    return {FILE: yardstick_text(), **{path: text.encode() for path, text in texts.items()}}


def main() -> None:
    for page in DOCS.rglob("*.md"):
        old = page.read_text()
        if (new := generated(old)) != old:
            page.write_text(new)
            click.echo(f"written: {page.relative_to(DOCS.parent)}")
    for path, made in made_files().items():
        if not path.exists() or made != path.read_bytes():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(made)
            click.echo(f"written: {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
