"""The messages of a cluster, all as plain data: a head of JSON with known fields, and a body of compressed lines.

No message becomes an object or code of its choice, and each has a limit: who sends more is disconnected.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, StringConstraints, TypeAdapter, ValidationError

PROTOCOL = 1
MOST_HEAD = 1 << 16  # bytes of a head
MOST_BODY = 96 << 20  # bytes of a body as it travels
MOST_LINES = 64 << 20  # bytes of the lines of a batch in one message
MOST_REQUEST = 256 << 20  # bytes of a request: a matrix with its files
MOST_RATIO, _FREE = 64, 1 << 16  # how much larger than a body its content is, beside the first bytes
LENGTHS = struct.Struct(">II")
PULSE = LENGTHS.pack(0, 0)  # a message without a head: a sign of life


class BadFrame(Exception):
    """A message that no member of a cluster sends."""


class _Head(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Token = Annotated[str, Field(min_length=1, max_length=64)]
#: A name of another host, which a terminal shows: without control characters and separators of lines.
Name = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]


class Hello(_Head):
    """The first message of a relay."""

    op: Literal["hello"] = "hello"
    protocol: int = PROTOCOL


class Join(_Head):
    """The first message of a worker."""

    op: Literal["join"] = "join"
    host: Annotated[Name, Field(min_length=1)]
    slots: Annotated[int, Field(ge=1, le=1024)]
    version: Name
    tags: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


class Coordinate(_Head):
    """The first message of a coordinator."""

    op: Literal["coordinate"] = "coordinate"


class Ask(_Head):
    """The first message of `matrix cluster status`."""

    op: Literal["ask"] = "ask"


class Member(_Head):
    """A worker of the relay. `busy`: how many batches it has."""

    op: Literal["member"] = "member"
    address: Name
    facts: Join
    busy: NonNegativeInt = 0


class AllKnown(_Head):
    """The answer to a first message: a coordinator knows all members, and a worker is one."""

    op: Literal["all-known"] = "all-known"


class Left(_Head):
    op: Literal["left"] = "left"
    address: Name


class Request(_Head):
    """A request of a coordinator, as the body. `measures`: it needs a slot."""

    op: Literal["request"] = "request"
    to: Name
    token: Token
    measures: bool


class Cancel(_Head):
    op: Literal["cancel"] = "cancel"
    token: Token


class Lines(_Head):
    """Lines of a batch, as the body. `died`: why its process ended before the batch."""

    op: Literal["lines"] = "lines"
    token: Token
    over: bool = False
    died: Annotated[str, Field(max_length=4096)] = ""


Head = Hello | Join | Coordinate | Ask | Member | AllKnown | Left | Request | Cancel | Lines
_HEADS: TypeAdapter[Head] = TypeAdapter(Annotated[Head, Field(discriminator="op")])


def frame(head: Head, body: bytes = b"") -> bytes:
    text = head.model_dump_json().encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def parsed_head(text: bytes) -> Head:
    try:
        return _HEADS.validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        raise BadFrame(f"{'.'.join(map(str, found['loc']))}: {found['msg']}") from None


def lengths_of(prefix: bytes) -> tuple[int, int]:
    head, body = LENGTHS.unpack(prefix)
    if head > MOST_HEAD or body > MOST_BODY or (body and not head):
        raise BadFrame(f"a message of {head:,} and {body:,} bytes")
    return head, body


def packed(content: bytes) -> bytes:
    """Compress the content of a body, unless it is so regular that its reader would refuse it."""
    if not content:
        return b""
    small = zlib.compress(content, 1)
    return small if len(content) <= _most(small) else zlib.compress(content, 0)


def unpacked(body: bytes, most: int = MOST_LINES) -> bytes:
    """Raise BadFrame for what `packed` did not write, before it takes much memory."""
    if not body:
        return b""
    expander = zlib.decompressobj()
    try:
        content = expander.decompress(body, min(most, _most(body)))
    except zlib.error as error:
        raise BadFrame(f"a damaged body: {error}") from None
    if not expander.eof or expander.unused_data:
        raise BadFrame(f"a body of {len(body):,} bytes that is cut off, or that grows too much")
    return content


def lines_of(content: bytes) -> Iterator[bytes]:
    """Yield the lines one by one, as a list of them may be much larger."""
    at = 0
    while (end := content.find(b"\n", at)) >= 0:
        yield content[at:end]
        at = end + 1
    if content:
        yield content[at:]


def _most(body: bytes) -> int:
    return _FREE + MOST_RATIO * len(body)


def in_messages(lines: Sequence[bytes]) -> list[bytes]:
    """Return the bodies that hold all lines."""
    bodies, part, size = list[bytes](), list[bytes](), 0
    for line in lines:
        if part and size + len(line) >= MOST_LINES // 4:
            bodies.append(packed(b"\n".join(part)))
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    return [*bodies, packed(b"\n".join(part))]
