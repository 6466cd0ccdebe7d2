"""Mutate files and outputs that others write, and parse them: each is understood, or refused by a named error.

    python -m bench.fuzz --minutes 60 [--only journal] [--seed 1] [--crashers FOLDER]

Each parser gets the same time. It prints the counts of inputs, refusals and tracebacks, the slowest input and the
longest message, by parser. Inputs that end in a traceback, or take too much time or memory, are kept in
`tests/data/crashers/`, where the tests parse them again.
One side: counts of tracebacks against 0.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bench.fuzz_parsers import DATA, Parser, parsers
from matrix_runner.base.errors import BadInput, HarnessBroken

CRASHERS = DATA / "crashers"
SECONDS, BYTES = 10, 1 << 30  # the most time of an input, and the most memory of the process
_SLICE = 0.5  # seconds of one parser before the next has its turn


class TooSlow(Exception):
    pass


@dataclass
class Tally:
    inputs: int = 0
    refusals: int = 0
    tracebacks: int = 0
    spent: float = 0.0
    slowest: float = 0.0
    longest: int = 0
    crashes: dict[str, str] = field(default_factory=dict)  # the last line of a traceback to its input's file


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooSlow after so many seconds of the processor: other programs do not change them."""

    def stop(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attack(name: str, parser: Parser, seed: int, tally: Tally | None = None) -> Tally:
    """Parse one mutated input. Only named errors count as refusals."""
    tally = tally or Tally()
    draw = random.Random(f"{name}/{seed}")  # noqa: S311 - repeatable
    began = time.perf_counter()
    given = parser.mutate(draw.choice(parser.seeds), draw)
    parsed = time.perf_counter()
    tally.inputs += 1
    try:
        with limited(SECONDS):
            parser.parse(given)
    except (BadInput, HarnessBroken) as error:
        tally.refusals += 1
        tally.longest = max(tally.longest, len(f"{error.brief}{error.details}{error.resolution}"))
    except Exception:  # noqa: BLE001 - every other one is what we look for
        tally.tracebacks += 1
        lines = traceback.format_exc().rstrip().splitlines()
        where = next((line.strip() for line in reversed(lines) if "/matrix_runner/" in line), "")
        what = f"{lines[-1].partition(':')[0]} at {where}"
        if what not in tally.crashes:
            tally.crashes[what] = keep(name, given)
    ended = time.perf_counter()
    tally.slowest = max(tally.slowest, ended - parsed)
    tally.spent += ended - began
    return tally


def keep(name: str, given: Any) -> str:
    text = given if isinstance(given, str | bytes) else json.dumps(given, default=repr)
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    CRASHERS.mkdir(parents=True, exist_ok=True)
    file = CRASHERS / f"{name}-{blake2b(content, digest_size=6).hexdigest()}"
    file.write_bytes(content)
    return file.name


def attack_all(known: dict[str, Parser], first: int, seconds: float, inputs: int) -> dict[str, Tally]:
    """Give the next turn to the parser that had the least time."""
    tallies = {name: Tally() for name in known}
    while (spent := sum(one.spent for one in tallies.values())) < seconds:
        done = sum(one.inputs for one in tallies.values())
        if done >= inputs:
            break
        name, tally = min(tallies.items(), key=lambda one: one[1].spent)
        end = tally.spent + min(_SLICE, (seconds - spent) / len(known))
        while tally.spent < end:
            attack(name, known[name], first + tally.inputs, tally)
    return tallies


def main() -> None:
    global CRASHERS  # noqa: PLW0603
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=2.0)
    options.add_argument("--inputs", type=int, default=sys.maxsize)
    options.add_argument("--seed", type=int, default=time.time_ns() // 1000, help="the same seed gives the same inputs")
    options.add_argument("--only", default="")
    options.add_argument("--crashers", type=Path, default=CRASHERS)
    asked, every = options.parse_args(), parsers()
    if asked.only not in {"", *every}:
        options.error(f"there is no parser {asked.only}; known are {', '.join(every)}")
    CRASHERS = asked.crashers
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    known = {name: parser for name, parser in every.items() if asked.only in {"", name}}
    print(f"seed {asked.seed}", flush=True)
    tallies = attack_all(known, asked.seed, asked.minutes * 60, asked.inputs)
    print(f"{'parser':>10} {'inputs':>9} {'refused':>9} {'tracebacks':>10} {'slowest':>9} {'longest':>8}")
    for name, one in tallies.items():
        row = f"{name:>10} {one.inputs:>9,} {one.refusals:>9,} {one.tracebacks:>10,}"
        print(f"{row} {one.slowest:>7.2f} s {one.longest:>8,}")
        for crash, file in one.crashes.items():
            print(f"           {crash}: {file}")
    total = sum(one.inputs for one in tallies.values())
    print(f"{total:,} inputs; memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    sys.exit(1 if any(one.tracebacks for one in tallies.values()) else 0)


if __name__ == "__main__":
    main()
