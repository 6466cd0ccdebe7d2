"""The part of GitHub's expressions that our workflows use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<op>&&|\|\||==|!=|[!(),])|(?P<name>[A-Za-z_][\w.*-]*))")
WRAPPED = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)

Contexts = Mapping[str, Any]


def expanded(text: str, contexts: Contexts) -> Any:
    """Replace the expressions in a value of a workflow. A single expression keeps its type."""
    whole = WRAPPED.fullmatch(text.strip())
    if whole and "${{" not in whole[1]:
        return evaluated(whole[1], contexts)
    return WRAPPED.sub(lambda found: as_text(evaluated(found[1], contexts)), text)


def evaluated(text: str, contexts: Contexts) -> Any:
    reader = _Reader(text, contexts)
    value = reader.either()
    assert reader.at == len(reader.tokens), f"left over in {text!r}: {reader.tokens[reader.at :]}"
    return value


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Reader:
    def __init__(self, text: str, contexts: Contexts) -> None:
        self.contexts, self.at = contexts, 0
        self.tokens: list[tuple[str, str]] = []
        place, text = 0, text.strip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            assert found, f"unknown syntax: {text[place:]!r}"
            assert found.lastgroup
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()

    def next(self, *wanted: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] in {("op", one) for one in wanted}:
            self.at += 1
            return True
        return False

    def either(self) -> Any:
        value = self.both()
        while self.next("||"):
            other = self.both()
            value = value or other
        return value

    def both(self) -> Any:
        value = self.same()
        while self.next("&&"):
            other = self.same()
            value = value and other
        return value

    def same(self) -> Any:
        value = self.one()
        if self.next("=="):
            return as_text(value) == as_text(self.one())
        if self.next("!="):
            return as_text(value) != as_text(self.one())
        return value

    def one(self) -> Any:
        if self.next("!"):
            return not self.one()
        if self.next("("):
            value = self.either()
            assert self.next(")")
            return value
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return word[1:-1].replace("''", "'")
        assert kind == "name", f"{word!r} is out of place"
        return self.called(word) if self.next("(") else self.looked_up(word)

    def called(self, name: str) -> Any:
        given = []
        while not self.next(")"):
            given.append(self.either())
            self.next(",")
        status = self.contexts["job"]["status"]
        known: dict[str, Callable[..., Any]] = {
            "always": lambda: True,
            "success": lambda: status == "success",
            "failure": lambda: status == "failure",
            "cancelled": lambda: status == "cancelled",
            "toJSON": json.dumps,
            "fromJSON": json.loads,
            "format": lambda text, *values: re.sub(r"\{(\d+)\}", lambda found: as_text(values[int(found[1])]), text),
        }
        return known[name](*given)

    def looked_up(self, name: str) -> Any:
        value: Any = self.contexts
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value
