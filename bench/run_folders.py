"""Put each boundary of each field of a manifest through each command that reads a run folder.

    python -m bench.run_folders [--only FIELD] [--part 1/4] [--values 2] [--commands results,compare]

There are about 4,200 changes, of which the reader takes 1,000: one command has so many calls, all of them 28,000. With
`--values 2`, of each field two changes that the reader takes and two that it refuses: 500 calls of one command.
A command answers, or refuses the run by a named error, and writes nothing outside of the run and its own output. What
the reader of manifests refuses itself goes through one command only. The program ends with 1 if one does otherwise.
One side: counts of errors against 0.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fuzz import limited
from matrix_runner.cli import main as matrix
from matrix_runner.records import run_folder
from matrix_runner.session import bug_report

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 20.0  # of processor, until a command counts as endless
MATRIX = """\
name: small
disks: {count: 4, size: 1GiB, model: sata-ssd}
layouts: {a: [md: {level: [0, 5], chunk: 64KiB}]}
workloads: {w: {rw: randread, iodepth: [1, 8], runtime: 1s}}
repeat: {min: 2, max: 4, until: 5%}
guidelines: [{id: g, claim: a, best: {metric: read.bw, along: iodepth, is: 8}}]
"""
COMMANDS: dict[str, tuple[str, ...]] = {
    "results": ("results",),
    "csv": ("results", "--format", "csv", "--trials", "one"),
    "pivot": ("results", "--pivot", "iodepth", "one"),
    "compare": ("compare", "one", "two"),
    "by": ("compare", "--by", "md.level", "0", "5", "one"),
    "back": ("compare", "two", "one", "--html", "out/compare.html"),
    "report": ("report", "one", "--to", "out/report"),
    "history": ("history", "--only", "layout=a"),
    "summary": ("summary", "one"),
    "explore": ("explore", "one", "--to", "out/explore.html"),
    "runs": ("runs",),
    "json": ("runs", "--json"),
    "status": ("status", "one"),
    "show": ("show", "--run", "one", "a/*"),
    "site": ("site", "--to", "out/site"),
    "bug-report": ("bug-report", "one", "--to", "out/bug.tar.gz"),
    "chart": ("chart", "one", "--metric", "read_bw", "--to", "out/chart.svg"),
    "recommend": ("recommend", "one"),
    "guidelines": ("guidelines", "check", "one"),
    "bisect": ("bisect", "small.yaml", "--between", "two", "one", "--on", "dry", "--quiet"),
    "salvage": ("salvage", "one"),
    "tag": ("runs", "tag", "one", "x"),
    "prune": ("runs", "prune", "--keep-last", "1", "--dry-run"),
    "resume": ("run", "small.yaml", "--on", "dry", "--quiet"),
    "merge": ("merge", "shards/first", "shards/second", "--to", "both"),
}
SHARDS = {"first": "1/2", "second": "2/2"}
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, 1e308, 1e-320, "", "x", "1", "\x1b[31m", "²", "<b>", "\x00"),
    *("../../x", "/etc/passwd", "a\nb", "9" * 5000, "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00"),
    *([], [0], ["x"], {}, {"a": 1}, {"a": "b"}, {"<b>": {}}, [[]]),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield each place; of a list whose entries are of one kind, and of a map of texts, only the first."""
    keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    kinds = {type(node[key]) for key in keys}
    if len(kinds) == 1 and (isinstance(node, list) or kinds == {str}):
        del keys[1:]
    for key in keys:
        yield (*path, key)
        yield from places(node[key], (*path, key))


def changed(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value at a place; without it if the value is `...`."""
    made = node = copy.deepcopy(whole)
    for key in path[:-1]:
        node = node[key]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return made


def mutations(manifest: Any, most: int) -> Iterator[tuple[str, Any, bool]]:
    """Yield changes, and whether the reader of manifests takes them: of both at most so many at a place."""
    draw = random.Random(1)  # noqa: S311 - repeatable
    for path in places(manifest):
        counts = [0, 0]
        for value in draw.sample((*_VALUES, ...), len(_VALUES) + 1):
            found = changed(manifest, path, value)
            if found != manifest and counts[is_taken := can_read(found)] < most:
                counts[is_taken] += 1
                yield f"{'.'.join(map(str, path))} = {'nothing' if value is ... else repr(value)[:60]}", found, is_taken


def can_read(manifest: Any) -> bool:
    try:
        run_folder.Manifest.model_validate_json(json.dumps(manifest))
    except ValueError:
        return False
    return True


class Lab:
    """A folder with two runs and those of two shards, in which commands of this process run. One of each is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)
        os.environ |= {"MATRIX_RESULTS": "results", "COLUMNS": "200", "HOME": str(folder)}
        os.environ.pop("MATRIX_STORE", None)
        (folder / "small.yaml").write_text(MATRIX)
        bug_report._command = lambda *_: []  # its other commands take seconds, and read no run
        self.errors = (folder / "errors").open("wb+")
        self.nothing = os.open(os.devnull, os.O_RDWR)
        for name in ("one", "two"):
            self.make(folder / "results" / name)
        (folder / "kept-shards").mkdir()
        for name, shard in SHARDS.items():
            self.make(folder / "kept-shards" / name, "--shard", shard)
        shutil.rmtree(folder / "out", ignore_errors=True)
        for database in (folder / "results").glob("store.db*"):
            database.unlink()  # it has the runs with their former names
        shutil.copytree(folder / "results", folder / "kept")
        self.manifest = json.loads((folder / "results/one/manifest.json").read_bytes())
        self.plain = dict(self.manifest)
        self.first = json.loads((folder / "kept-shards/first/manifest.json").read_bytes())
        self.manifest |= {
            "pools": {"h": self.manifest["disks"][:1]},
            "health": [{"disk": "ata-x", "before": {"serial": "1", "passed": True}, "after": {"serial": "1"}}],
            "revision": {"commit": "a" * 40, "dirty": False, "branch": "main"},
            "weights": {"w": 1.0},
            "finds": {"w": {"max": "iops"}},
            "search": {"along": "iodepth"},
            "titles": {"a": "b"},
            "tags": ["x"],
        }

    def make(self, to: Path, *options: str) -> None:
        if status := self.call("run", "small.yaml", "--on", "dry", "--quiet", "--fresh", *options):
            raise SystemExit(f"no run: {status}")
        self.errors.seek(0)
        if not (self.folder / "results").exists():
            raise SystemExit(self.errors.read().decode())
        made = next(one for one in (self.folder / "results").iterdir() if one.name.startswith("small"))
        made.rename(to)

    def call(self, *words: str) -> str:
        """Return how a command ended that had to end otherwise; empty if it answered or refused."""
        self.errors.truncate(0)
        self.errors.seek(0)
        kept, before = [os.dup(number) for number in range(3)], sys.argv
        sys.stdout.flush()
        for number, to in enumerate((self.nothing, self.nothing, self.errors.fileno())):
            os.dup2(to, number)
        sys.argv = ["matrix", *words]
        why = ""
        try:
            with limited(SECONDS):
                matrix()
        except SystemExit as ended:
            why = "" if ended.code in {None, 0, 1, 2, 3, 4} else f"it ended with {ended.code}"
        except BaseException as error:  # noqa: BLE001 - every one is what we look for
            why = repr(error)
        finally:
            sys.argv = before
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in enumerate(kept):
                os.dup2(old, number)
                os.close(old)
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        if "a mistake in matrix itself" in said or "Traceback" in said:
            last = [line for line in said.splitlines() if "/matrix_runner/" in line][-1:]
            return f"{why} traceback: {' '.join(last)} {said[-300:]}"
        return why

    def put(self, manifest: Any, *, shards: bool) -> None:
        """Put the runs back, of which one has this manifest. Those of shards take as long again."""
        for name in ("results", "shards", "out"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / "kept", self.folder / "results")
        (self.folder / "out").mkdir()
        (self.folder / "results/one/manifest.json").write_text(json.dumps(manifest))
        if shards:
            shutil.copytree(self.folder / "kept-shards", self.folder / "shards")
            (self.folder / "shards/first/manifest.json").write_text(json.dumps(self.of_shard(manifest)))

    def of_shard(self, manifest: Any) -> Any:
        """Return the manifest of the first shard with what is changed in that of a whole run."""
        made = manifest | {key: own for key, own in self.first.items() if manifest.get(key) == self.plain.get(key)}
        if isinstance(asked := made.get("requested"), dict) and asked.get("shard") == "":
            made["requested"] = asked | {"shard": SHARDS["first"]}
        return made

    def strays(self) -> list[str]:
        """Return what is in the folder beside runs, the store and outputs."""
        known = {
            "results",
            "kept",
            "shards",
            "kept-shards",
            "out",
            "errors",
            "small.yaml",
            ".cache",
            ".local",
            ".config",
        }
        return sorted(one.name for one in self.folder.iterdir() if one.name not in known)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="the beginning of a field")
    options.add_argument("--part", default="1/1", help="this part of so many")
    options.add_argument("--values", type=int, default=len(_VALUES), help="of a field, that go through all commands")
    options.add_argument("--commands", default=",".join(COMMANDS))
    asked = options.parse_args()
    part, parts = map(int, asked.part.split("/"))
    wanted = asked.commands.split(",")
    shards = "merge" in wanted
    tried, flaws = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="matrix-folders-") as name:
        lab = Lab(Path(name))
        for number, (change, manifest, is_taken) in enumerate(mutations(lab.manifest, asked.values)):
            if number % parts != part - 1 or not change.startswith(asked.only):
                continue
            lab.put(manifest, shards=shards)
            tried["taken" if is_taken else "refused"] += 1
            for command in wanted if is_taken else wanted[:1]:
                if command == "resume" and isinstance(manifest.get("finished"), bool):
                    lab.put(manifest | {"finished": False, "exit": None}, shards=shards)
                why = lab.call(*COMMANDS[command])
                if strays := lab.strays():
                    why += f" wrote {strays}"
                    lab = Lab(Path(tempfile.mkdtemp(dir=name)))
                    lab.put(manifest, shards=shards)
                tried["calls"] += 1
                if why:
                    flaws[f"{command}: {why}"] += 1
                    print(f"{change}: {command}: {why}", flush=True)
        os.chdir("/")
    print(f"{dict(tried)}; {flaws.total()} wrong, {len(flaws)} kinds")
    sys.exit(1 if flaws else 0)


if __name__ == "__main__":
    main()
