"""The mistakes that a matrix is told of."""

import pytest

from matrix_runner.base.errors import Exit
from matrix_runner.space.load import Ask, BadMatrix, parse


def errors(text: str, ask: Ask = lambda _: ()) -> list[str]:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", text, ask=ask)
    assert caught.value.exit_code == Exit.BAD_INPUT
    return [f"{place.line}:{place.column}: {message}" for place, message in caught.value.places]
