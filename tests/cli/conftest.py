"""Types of `tests.support.command`, under the name that the tests beside this one import."""

from tests.support.command import Call, Said

__all__ = ["Call", "Said"]
