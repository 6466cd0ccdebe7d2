"""Mutations of texts, of JSON, of declared data, and of SQLite files: small changes of valid inputs."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_POOL = (
    *("0", "1", "-1", "2", "31", "1e999", "9" * 25, "-9223372036854775809", "0.5", "nan", ".inf", "0x10", "1_000", "²"),
    *("null", "true", "~", "''", '""', "[]", "{}", "[1, 2]", "{a: b}", "[[]]", "2001-01-01", "!!binary a", "!!set {a}"),
    *(
        "default",
        "1KiB",
        "64KiB",
        "1PiB",
        "5%",
        "100%",
        "-5%",
        "1s",
        "1h",
        "sda",
        "/",
        "..",
        "*a",
        "&a",
        "<<",
        "? ",
        "- ",
    ),
    *("\x00", "\x1b[31m", "\u202e", "\ud800", "\u2028", "\x85", "é", "\t", "\n", "\r"),
    *(": ", ", ", "#", "'", '"', "|", ">"),
    *("[", "]", "{", "}", "=", "\\", "%", "a" * 300, "[" * 70, "layouts", "workloads", "use", "md", "name", "disks"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.5, 1e308, "", "x", "1", "\x1b[31m", "²"),
    *([], [0], {}, {"a": 1}, [[]], "9" * 5000, {"N": 5}, {"1": "2"}),
)


def mutate_text(text: str, draw: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(tokens) + 1)
        match draw.randrange(6):
            case 0:
                tokens[at : at + 1] = [draw.choice(_POOL)]
            case 1:
                tokens[at:at] = [draw.choice(_POOL)]
            case 2:
                tokens[at : at + draw.choice((1, 2, 10))] = []
            case 3:
                end = at + draw.choice((1, 5, 30))
                tokens[at:at] = tokens[at:end]
            case 4 if tokens:
                tokens[at : at + 1] = [draw.choice(tokens)]
            case _:
                tokens[at:] = tokens[at:][::-1] if draw.randrange(20) == 0 else tokens[at:]
    return "".join(tokens)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _places(node[key])


def mutate_json(text: str, draw: random.Random) -> str:
    if draw.randrange(4) == 0:
        return mutate_text(text, draw)
    return json.dumps(_changed(json.loads(text), _VALUES, draw), indent=2)


_LONG = "9" * 5000
#: Values that YAML can have beside those of JSON; long numbers in quantities.
_DECLARED = (
    *(*_VALUES, *(word for word in _POOL if "\ud800" not in word)),
    *(date(2001, 1, 1), b"abc", {1, 2}, {None: 1}, 2**63 - 1, 10**400, float("nan"), float("inf")),
    *(f"{_LONG}KiB", f"{_LONG}%", f"{_LONG}s", f"{_LONG}x memory", f"64KiB x {_LONG}", "1e400", "1e400s", "x" * 3000),
    *("64KiB x 3", "2x memory", "101%", "0%", "1e-400%", "n2", "raid5", "auto", "off", "../../x", "a/b", "*"),
)


def mutate_tree(tree: Any, draw: random.Random) -> Any:
    """Change data of YAML that is parsed already."""
    return _changed(copy.deepcopy(tree), _DECLARED, draw)


def _changed(whole: Any, values: Sequence[Any], draw: random.Random) -> Any:
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = list(_places(whole))
        if not places:
            break
        node, key = draw.choice(places)
        match draw.randrange(8):
            case 0:
                del node[key]
            case 1 | 2:  # another part of it
                other, name = draw.choice(places)
                node[key] = copy.deepcopy(other[name])
            case 3:
                node[key] = [node[key], copy.deepcopy(draw.choice(values))]
            case 4 if isinstance(node, dict):
                node[draw.choice([one for one in values if isinstance(one, str)])] = node.pop(key)
            case _:
                node[key] = copy.deepcopy(draw.choice(values))
    return whole


def mutate_journal(content: bytes, draw: random.Random) -> bytes:
    """Flip bytes that are not zero, or change values of rows; the structure of the file stays whole then."""
    if draw.randrange(2):
        return flip_bytes(content, draw)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for _ in range(draw.choice((1, 1, 3))):
            table = draw.choice([name for (name,) in connection.execute(_TABLES)])
            column = draw.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
            found = connection.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()  # noqa: S608
            if found:
                row, value = draw.choice(found)
                changed = _changed_value(value, draw)
                with suppress(sqlite3.IntegrityError):
                    change = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?'  # noqa: S608
                    connection.execute(change, (changed, row))
        connection.commit()
        return connection.serialize()


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"


_ROW_VALUES = (None, -1, 0, 1, 2**31, 2**63 - 1, 1e308, -0.5, float("inf"), "", "x", "[]", "{}", b"\xff", b"")


def _changed_value(value: Any, draw: random.Random) -> Any:
    if draw.randrange(2):
        return draw.choice(_ROW_VALUES)
    if isinstance(value, str):
        text = mutate_text(value, draw)
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return flip_bytes(value, draw) if isinstance(value, bytes) and value else value


def flip_bytes(content: bytes, draw: random.Random) -> bytes:
    flipped, used = bytearray(content), [at for at, byte in enumerate(content) if byte] or [0]
    for _ in range(draw.choice((1, 4, 40))):
        at = draw.choice(used) if draw.randrange(4) else draw.randrange(len(flipped))
        flipped[at] = draw.randrange(256)
    return bytes(flipped)
