"""Files made to cost much: few lines of output, little work, or a refusal."""

from __future__ import annotations

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.language import messages, yaml_source
from matrix_runner.language.yaml_source import MAX_DEPTH
from matrix_runner.space.load import BadMatrix, parse
from tests.support.matrices import SMALL

#: The most characters of all errors of a file together.
BOUNDED = 50 * 5 * 420


def test_ten_thousand_errors_in_one_line_are_fifty_errors_and_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def did_you_mean(word: str, _known: object) -> str:
        compared.append(word)
        return f"did you mean {word}?"

    monkeypatch.setattr(messages, "did_you_mean", did_you_mean)
    keys = ", ".join(f"key{n}: 1" for n in range(10_000))
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", f"{{name: x, {keys}}}")
    assert caught.value.brief == "m.yaml: 10,003 errors"
    *shown, last = caught.value.details.split("\n")
    assert len(shown) == 150
    assert last == "… and 9,953 more errors"
    assert len(caught.value.details) < BOUNDED
    assert compared == [f"key{n}" for n in range(49)]  # the place of the missing keys is one of the fifty


def test_the_first_errors_of_a_file_are_shown_in_order() -> None:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", SMALL + "".join(f"key{n}: 1\n" for n in range(60)))
    heads = [line.partition(";")[0] for line in caught.value.details.split("\n") if line.startswith("m.yaml:")]
    assert [head.rpartition(" ")[2] for head in heads] == [f"'key{n}'" for n in range(50)]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a: [" + "1, " * 5_000 + "]", "more than 5,000 values"),
        ("a: " + "[" * 100 + "]" * 100, "nested more than 64 deep"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH)),
            "nested more than 64 deep",
        ),
        ("a: *" + "x" * 100_000, "is not defined above"),
        ("? " + "x" * 100_000 + "\n: 1\n", "unknown key 'xxx"),
        ("'" + "x" * 10_000 + "': 1\n", "a second `key:` in one value"),
    ],
)
def test_large_texts_are_refused_in_few_lines(text: str, refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_source, "MAX_NODES", 5_000)
    with pytest.raises(BadInput) as caught:
        parse("m.yaml", text)
    assert refusal in caught.value.details
    assert len(caught.value.details) < 4000


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\xa0"])
def test_only_line_breaks_of_yaml_begin_lines(character: str) -> None:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", SMALL + f"# a{character}\nzzz: 1\n")
    assert "    zzz: 1\n    ^" in caught.value.details
