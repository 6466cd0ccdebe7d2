"""Traces of I/O: fio's iolog (version 2 and 3) and the binary files of blktrace, read strictly."""

from __future__ import annotations

import hashlib
import struct
from array import array
from dataclasses import dataclass, field

from matrix_runner.base.quantities import format_size

READ, WRITE, SYNC, DATASYNC = range(4)
ACTIONS = ("read", "write", "sync", "datasync")
#: The largest request: each job of a replay has a buffer of this size.
LARGEST = 16 << 20
_MOST_REQUESTS = 1_000_000
_MOST = 2**62  # bytes or microseconds
_ALIGN = 1 << 20  # the spaces of several files follow each other at such an offset
_HEADS = {"fio version 2 iolog": 2, "fio version 3 iolog": 3}
_RECORD = struct.Struct("<IIQQIIIIIHH")
_MAGIC, _QUEUE = 0x65617407, 1
_WRITES, _FLUSHES, _PASSTHROUGH, _NOTES, _DISCARDS = 1 << 1, 1 << 2, 1 << 9, 1 << 10, 1 << 13


class BadTraceError(Exception):
    """A trace that cannot be replayed. `line` is 0 for the whole file, and for a file that is not a text."""

    def __init__(self, message: str, line: int = 0, text: str = "") -> None:
        super().__init__(message)
        self.message, self.line, self.text = message, line, text


@dataclass(frozen=True, slots=True)
class Trace:
    """The requests of a trace in order of time. Two are equal if their requests are."""

    path: str = field(compare=False)
    digest: str
    times: array[int] = field(compare=False, repr=False)  # microseconds since the first request
    actions: bytes = field(compare=False, repr=False)  # positions in ACTIONS
    offsets: array[int] = field(compare=False, repr=False)  # the files of a trace follow each other
    sizes: array[int] = field(compare=False, repr=False)
    left_out: int = field(compare=False)  # requests of other kinds: trims

    def __str__(self) -> str:
        return self.path

    @property
    def summary(self) -> str:
        """Return a short iolog with the digest and few of its requests. The record of a run has it, not the trace."""
        first = next(at for at, action in enumerate(self.actions) if action <= WRITE)
        lines = ["fio version 3 iolog", f"0 {self.digest} add"]
        for at in sorted({0, first, len(self.times) - 1}):
            action, place = ACTIONS[self.actions[at]], f"{self.offsets[at]} {self.sizes[at]}"
            lines.append(f"{self.times[at]} {self.digest} {action} {place}")
        return "\n".join((*lines, ""))

    def until(self, microseconds: float) -> int:
        """Return the number of requests before a time."""
        return sum(one < microseconds for one in self.times)


class _Requests:
    """Collects the requests of a trace."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, int, int, int]] = []  # time, number of the file, action, offset, size
        self._files: dict[str | int, int] = {}
        self._ends: list[int] = []
        self.left_out = 0

    def add(self, time: int, file: str | int, action: int, offset: int, size: int) -> None:
        number = self._files.setdefault(file, len(self._files))
        if number == len(self._ends):
            self._ends.append(0)
        self._ends[number] = max(self._ends[number], offset + size)
        self._found.append((time, number, action, offset, size))
        if len(self._found) > _MOST_REQUESTS:
            raise BadTraceError(f"more than {_MOST_REQUESTS:,} requests; split the trace")

    def trace(self, path: str) -> Trace:
        if not any(action in {READ, WRITE} for _, _, action, _, _ in self._found):
            raise BadTraceError("the trace has no reads or writes")
        starts, total = list[int](), 0
        for end in self._ends:
            starts.append(total)
            total += -(-end // _ALIGN) * _ALIGN
        if total > _MOST:
            raise BadTraceError("the files of the trace are too large together")
        self._found.sort(key=lambda one: one[0])
        first = self._found[0][0]
        times = array("Q", [one[0] - first for one in self._found])
        if len(times) > 1 and not times[-1]:
            raise BadTraceError(
                "the trace has no times, so all its requests would begin at once; record it with fio 3.31 or later"
            )
        actions = bytes(one[2] for one in self._found)
        offsets = array("Q", [starts[one[1]] + one[3] for one in self._found])
        sizes = array("I", [one[4] for one in self._found])
        content = hashlib.blake2b(digest_size=16)
        for part in (times, actions, offsets, sizes):
            content.update(bytes(part))
        return Trace(path, content.hexdigest(), times, actions, offsets, sizes, self.left_out)


def parse_trace(path: str, content: bytes) -> Trace:
    """Raise BadTraceError."""
    if content[1:4] == _MAGIC.to_bytes(4, "little")[1:4]:
        return _parse_blktrace(content).trace(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    lines = text.split("\n")
    version = _HEADS.get(lines[0].strip())
    if version is None:
        raise BadTraceError(
            "neither an iolog of fio, which begins with `fio version 3 iolog` (or 2), nor a binary file of blktrace",
            1,
            lines[0][:200],
        )
    return (_parse_timed(lines) if version == 3 else _parse_waiting(lines)).trace(path)


def _parse_timed(lines: list[str]) -> _Requests:
    """Read version 3, in which each line begins with microseconds."""
    found = _Requests()
    for number, line in enumerate(lines[1:], start=2):
        words = line.split()
        if not words:
            continue
        try:
            time = _number(words[0], "a time in microseconds")
            if len(words) == 3 and words[2] in _OF_FILES:
                continue
            _add(found, time, words[1:])
        except ValueError as why:
            raise BadTraceError(str(why), number, line) from None
    return found


def _parse_waiting(lines: list[str]) -> _Requests:
    """Read version 2. fio takes `wait` as milliseconds since its start, although its manual differs."""
    found, time = _Requests(), 0
    for number, line in enumerate(lines[1:], start=2):
        words = line.split()
        if not words or (len(words) == 2 and words[1] in _OF_FILES):
            continue
        try:
            if len(words) == 4 and words[1] == "wait":
                time = _waited(words[2], time)
                continue
            _add(found, time, words)
        except ValueError as why:
            raise BadTraceError(str(why), number, line) from None
    return found


def _waited(word: str, time: int) -> int:
    now = _number(word, "milliseconds") * 1000
    if now < time:
        why = f"wait {now // 1000} after wait {time // 1000}: fio counts milliseconds since its start"
        raise ValueError(f"{why}, so they must grow; version 3 has a time in each line")
    return now


_OF_FILES = frozenset({"add", "open", "close"})


def _add(found: _Requests, time: int, words: list[str]) -> None:
    if len(words) != 4:
        raise ValueError("a line has a file, an action, an offset and a length")
    file, action, at, length = words
    offset, size = _number(at, "an offset in bytes"), _number(length, "a length in bytes")
    if action == "trim":
        found.left_out += 1
    elif action in ACTIONS:
        code = ACTIONS.index(action)
        _check(code, offset, size)
        found.add(time, file, code, *((offset, size) if code <= WRITE else (0, 0)))
    else:
        raise ValueError(f"'{action:.40}' is not an action; known are {', '.join(ACTIONS)} and trim")


def _check(action: int, offset: int, size: int) -> None:
    if action <= WRITE and not 0 < size <= LARGEST:
        raise ValueError(f"a length of {size} bytes; possible are 1 byte to {format_size(LARGEST)}")
    if offset > _MOST:
        raise ValueError("no disk has such an offset")


def _number(word: str, what: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 19):
        raise ValueError(f"'{word:.40}' is not {what}")
    return int(word)


def _parse_blktrace(content: bytes) -> _Requests:
    """Read the requests at their arrival in the queue, which blktrace calls Q."""
    found, at = _Requests(), 0
    while at < len(content):
        if at + _RECORD.size > len(content):
            raise BadTraceError(f"the file ends within the record at byte {at}")
        magic, _, time, sector, size, action, _, device, _, _, more = _RECORD.unpack_from(content, at)
        if magic != _MAGIC:
            raise BadTraceError(f"no record of blktrace begins at byte {at}; only its version 7 (x86, arm64) is known")
        kind = action >> 16
        if action & 0xFFFF == _QUEUE and not kind & (_NOTES | _PASSTHROUGH):
            try:
                _add_queued(found, kind, time // 1000, device, (sector, size))
            except ValueError as why:
                raise BadTraceError(f"in the record at byte {at}: {why}") from None
        at += _RECORD.size + more
    return found


def _add_queued(found: _Requests, kind: int, time: int, device: int, place: tuple[int, int]) -> None:
    sector, size = place
    if kind & _DISCARDS:
        found.left_out += 1
    elif size == 0 and kind & _FLUSHES:
        found.add(time, device, SYNC, 0, 0)
    elif size:
        code = WRITE if kind & _WRITES else READ
        _check(code, sector * 512, size)
        found.add(time, device, code, sector * 512, size)
