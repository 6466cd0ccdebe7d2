"""`matrix runs`: the table is in pages/runs.py, the state of a run in records/observe.py, removal in run_folder.py."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.errors import BadInput, Damaged, MatrixError
from matrix_runner.base.findings import few
from matrix_runner.base.quantities import parse_size
from matrix_runner.cli.options import Parsed, combined, rows, run_argument, stored_text
from matrix_runner.cli.screen import confirm_removal, echo, echo_whole, json_text, print_sheet
from matrix_runner.cli.store_options import Source, accepted, plain_source, report_damage
from matrix_runner.pages.terminal_text import volume

if TYPE_CHECKING:
    from matrix_runner.pages.runs import ListedRun
    from matrix_runner.records.observe import State
    from matrix_runner.records.run_folder import Keep, KeptRun, RunFolder
    from matrix_runner.records.store import RunRow, SharedStore

#: Columns that a narrow terminal drops, in this order: the name of a run holds most of them.
_SPARE = ("matrix", "machine", "started (UTC)", "trials")

_EPILOG = """\b
Examples:
  matrix runs                         the last twenty runs, the latest first
  matrix runs chunk-sweep             the runs of one matrix
  matrix runs 'nightly-*' --rows 100  the runs with such a matrix or folder
  matrix runs --json                  for a program
  matrix runs tag latest kernel-6.12  mark a run; `prune` keeps it
  matrix runs exclude latest --reason 'a rebuild was under way'
  matrix runs prune --keep 90d        remove old runs, after it has listed them

\b
States of a run:
  running       `matrix status` shows its progress
  interrupted   the same `matrix run` continues it
  finished      `matrix results RUN` shows its results
  broken        complete, with exit code 3
  unfinished    only in the store: it may be running on another host
  gone          only in the store: its folder was removed without `matrix runs rm`
Also shown there: baseline, if baselines.yaml names the run, and why a run is excluded.
"""


_AGES = {"h": "hours", "d": "days", "w": "weeks"}


def _time_ago(text: str) -> datetime:
    found = re.fullmatch(r"(\d{1,4})([hdw])", text)
    if found is None:
        raise ValueError("not an age; write it like 12h, 90d or 8w")
    return datetime.now(UTC) - timedelta(**{_AGES[found[2]]: int(found[1])})


class _Runs(click.Group):
    """A group whose usual command is `list`: other first words are names of matrices and runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        is_named = is_named or ctx.resilient_parsing  # a shell completes the name of a command
        return super().parse_args(ctx, args if is_named else ["list", *args])


@click.group("runs", cls=_Runs, epilog=_EPILOG)
def command() -> None:
    """List runs, the latest first; tag, exclude or remove them."""


@command.command("list")
@run_argument("names", nargs=-1, metavar="[MATRIX]...")
@rows(20, "runs")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@accepted
@plain_source
def list_runs(names: tuple[str, ...], rows: int, as_json: bool, accepted: Path, source: Source) -> None:
    """List runs, the latest first: state, start time, cells and verdicts."""
    from matrix_runner.pages.runs import list_table, run_document, select_by_name
    from matrix_runner.pages.table import as_sheet
    from matrix_runner.records.address import is_named
    from matrix_runner.records.observe import State, readable_runs

    folders, unreadable = readable_runs(source.results)
    notes = []
    if unreadable:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(unreadable.items())[:3])
        more = f"; and {len(unreadable) - 3} more" if len(unreadable) > 3 else ""
        notes.append(f"not listed, as it cannot be read: {reasons}{more}")
    with _open_store(source, notes) as shared:
        every = _every_run(folders, shared)
        selection = select_by_name([one.run for one in every], names)
        folder_of = {id(one.run): one.folder for one in every}
        damage = shared.damage if shared else {}
        lost = State.FINISHED if is_named(source.store) else State.GONE
        listed = [_list_run(run, folder_of[id(run)], shared, notes, damage, lost) for run in selection[:rows]]
        try:
            named = _baselines(every, accepted)
        except MatrixError as problem:
            notes.append(f"{problem.brief}: the list does not show baselines")
        else:
            listed = [replace(one, is_baseline=one.run.id in named) for one in listed]
        report_damage(damage)
    left_out = len(selection) - len(listed)
    if as_json:
        document = {"runs": [run_document(one) for one in listed], "left_out": left_out, "notes": notes}
        echo_whole(json_text(document, indent=True))
        return
    for note in notes:
        echo(f"note: {note}", err=True)
    if not listed:
        echo(f"there is no run below {source.results}/; `matrix run MATRIX` starts one")
        return
    print_sheet(replace(as_sheet(list_table(listed)), spare=_SPARE), sys.stdout)
    if left_out:
        echo(f"{left_out:,} more; `--rows` shows more")


def _every_run(folders: Sequence[RunFolder], shared: SharedStore | None) -> list[KeptRun]:
    """Return all runs with a folder or in the store, the latest first."""
    from matrix_runner.records.run_folder import KeptRun
    from matrix_runner.records.store import describe_run

    by_id = {folder.manifest.id for folder in folders}
    elsewhere = [KeptRun(run) for run in shared.runs() if run.id not in by_id] if shared else []
    every = [*(KeptRun(describe_run(folder), folder) for folder in folders), *elsewhere]
    return sorted(every, key=lambda one: (one.run.started, one.run.name), reverse=True)


@contextmanager
def _open_store(source: Source, notes: list[str]) -> Iterator[SharedStore | None]:
    from matrix_runner.records.address import address_of, is_named
    from matrix_runner.records.store import SharedStore

    address = address_of(source.store, source.results)
    opened = None
    try:
        if is_named(source.store) or not address.file or address.file.exists():
            opened = SharedStore.existing(address)
            notes += [opened.note] if opened.note else []
    except MatrixError as problem:
        if is_named(source.store):
            raise
        notes.append(f"{problem.brief}: runs without a folder are not listed")
    with opened or nullcontext():
        yield opened


def _list_run(
    run: RunRow,
    folder: RunFolder | None,
    shared: SharedStore | None,
    notes: list[str],
    damage: dict[str, MatrixError],
    lost: State,
) -> ListedRun:
    """`lost`: the state of a finished run without a folder."""
    from matrix_runner.pages.runs import ListedRun
    from matrix_runner.records.observe import State, derive_state, observe_run, read_progress

    if folder is None:
        state = lost if run.finished else State.UNFINISHED
        try:
            return ListedRun(run, state, shared.progress(run.id) if shared else None, {}, "")
        except Damaged as problem:
            damage[run.name] = problem
            return ListedRun(run, state, None, {}, "")
    folder, holder = observe_run(folder)
    state = derive_state(folder.manifest, holder)
    try:
        progress = read_progress(folder, checked=True)
    except Damaged as problem:
        damage[run.name], progress = problem, None
    except MatrixError as problem:
        notes.append(problem.brief)
        progress = None
    return ListedRun(run, state, progress, _verdicts(folder), str(folder.path))


def _verdicts(folder: RunFolder) -> Mapping[str, int]:
    """Count guidelines by their verdict. Verdicts of synthetic runs do not count."""
    from matrix_runner.pages.stored import read_verdicts

    if folder.manifest.synthetic:
        return {}
    return Counter(row["verdict"] for row in read_verdicts(folder.path).values())


_RUNS = run_argument("names", nargs=-1, required=True, metavar="RUN...")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_TAG = re.compile(r"[^\s,\ud800-\udfff]{1,50}")


@command.command("rm", epilog="Example:  matrix runs rm 'chunk-sweep-qemu-202601*'")
@_RUNS
@_YES
@accepted
@plain_source
def remove(names: tuple[str, ...], yes: bool, accepted: Path, source: Source) -> None:
    """Remove runs: their folders, and their rows of the store. RUN as in `matrix results`."""
    with _chosen(names, source) as (shared, chosen):
        _warn_of_baselines(chosen, accepted)
        _remove(chosen, shared, yes=yes)


def _rules(**given: Any) -> Keep:
    from matrix_runner.records.run_folder import Keep

    return Keep(**given)


_keep = combined(
    "keep",
    _rules,
    since=click.option(
        "--keep", "since", type=Parsed("AGE", _time_ago), help="Keep runs that are younger, e.g. 90d or 12h."
    ),
    last=click.option(
        "--keep-last", "last", type=click.IntRange(min=0), default=0, help="Keep so many runs of each matrix and host."
    ),
    tagged=click.option(
        "--keep-tagged/--no-keep-tagged", "tagged", default=True, show_default=True, help="Keep runs with a tag."
    ),
    size=click.option(
        "--down-to",
        "size",
        type=Parsed("SIZE", parse_size),
        help="Remove only until all runs have this size together.",
    ),
)


@command.command(
    "prune",
    epilog="""\b
Examples:
  matrix runs prune --keep 90d --dry-run    what would be removed
  matrix runs prune --keep 90d --keep-last 20
  matrix runs prune --down-to 1GB --yes     for a timer
""",
)
@_keep
@click.option("--dry-run", is_flag=True, help="Only list the runs.")
@_YES
@accepted
@plain_source
def prune(keep: Keep, dry_run: bool, yes: bool, accepted: Path, source: Source) -> None:
    """List old runs, then remove them.

    Runs that are not finished stay, those that baselines.yaml names, and the last good run of each matrix, machine and
    host. Without a baseline, the first good runs that stay are the accepted level of later ones.
    """
    from matrix_runner.records.run_folder import folder_size, runs_to_remove, sweep_halves

    if keep.since is None and not keep.last and keep.size is None:
        raise BadInput("no rule says which runs stay", resolution="add --keep AGE, --keep-last N or --down-to SIZE")
    if not dry_run:
        sweep_halves(source.results)  # what a kill left of an earlier removal
    with _open_all(source) as (shared, every):
        sized = [replace(one, size=folder_size(one.folder.path)) for one in every if one.folder]
        rules = replace(keep, named=_baselines(sized, accepted))
        found = runs_to_remove(sized, rules)
        left = sum(one.size for one in sized) - sum(one.size for one in found)
        too_much = (
            f"note: {volume(left)} stay, more than {volume(keep.size)}: runs that are not finished, tagged, kept by "
            "other options, in baselines.yaml, or the last good one of their kind; `matrix runs rm` removes any run"
            if keep.size is not None and left > keep.size
            else ""
        )
        if too_much:
            echo(too_much, err=True)
        if dry_run or not found:
            _show_kept(sized, found, rules)
        if not found:
            echo(f"no run to remove; {len(sized):,} stay")
        elif dry_run:
            _show(found)
        else:
            _remove(found, shared, yes=yes)


@command.command("tag", epilog="Example:  matrix runs tag latest~1 before-upgrade")
@run_argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--remove", "take", is_flag=True, help="Remove these tags.")
@plain_source
def tag(run: str, tags: tuple[str, ...], take: bool, source: Source) -> None:
    """Add tags to a run. `prune` keeps such runs."""

    if wrong := [one for one in tags if not _TAG.fullmatch(one)]:
        raise BadInput(f"{wrong[0]!r} is no tag", resolution="use 1 to 50 characters without spaces and commas")

    def change(folder: RunFolder) -> dict[str, object]:
        old = folder.manifest.tags
        if take and (unknown := [one for one in tags if one not in old]):
            raise BadInput(f"{folder.path.name} has no tag {unknown[0]}", resolution="`matrix runs` shows all tags")
        return {"tags": tuple(one for one in old if one not in tags) if take else (*dict.fromkeys((*old, *tags)),)}

    _change([run], source, change)


@command.command("note", epilog="Example:  matrix runs note latest 'with the new cable'")
@run_argument("run")
@click.argument("text", callback=stored_text)
@plain_source
def note(run: str, text: str, source: Source) -> None:
    """Write a note on a run; an empty TEXT removes it."""
    _change([run], source, lambda _: {"note": text})


@command.command("exclude", epilog="Example:  matrix runs exclude latest --reason 'a rebuild was under way'")
@_RUNS
@click.option("--reason", required=True, callback=stored_text, help="Why; `matrix runs` shows it.")
@accepted
@plain_source
def exclude(names: tuple[str, ...], reason: str, accepted: Path, source: Source) -> None:
    """Leave runs out of `history` and of the accepted level, unless baselines.yaml names them. `include` undoes it."""
    if not reason.strip():
        raise BadInput("--reason is empty", resolution="say why, in your own words")
    with _chosen(names, source) as (_, chosen):
        _warn_of_baselines(chosen, accepted)
    _change(names, source, lambda _: {"excluded": reason})


@command.command("include", epilog="Example:  matrix runs include latest")
@_RUNS
@plain_source
def include(names: tuple[str, ...], source: Source) -> None:
    """Undo `exclude`."""
    _change(names, source, lambda _: {"excluded": ""})


def _baselines(runs: Sequence[KeptRun], accepted: Path) -> frozenset[str]:
    """Return the ids of those runs that baselines.yaml names."""
    from matrix_runner.answers.selectors import runs_of_baseline
    from matrix_runner.space.declared_files import load_accepted

    entries = load_accepted(accepted).baselines.entries
    return frozenset(run.id for one in entries for run in runs_of_baseline(one, [kept.run for kept in runs]))


def _warn_of_baselines(chosen: Sequence[KeptRun], accepted: Path) -> None:
    named = _baselines(chosen, accepted)
    for one in chosen:
        if one.run.id in named:
            echo(
                f"note: baselines.yaml names {one.run.name}, and is not changed; "
                "`matrix accept RUN --baseline` names another run",
                err=True,
            )


@contextmanager
def _open_all(source: Source) -> Iterator[tuple[SharedStore | None, list[KeptRun]]]:
    from matrix_runner.records.observe import readable_runs

    folders, _ = readable_runs(source.results)
    notes: list[str] = []
    with _open_store(source, notes) as shared:
        for text in notes:
            echo(f"note: {text}", err=True)
        yield shared, _every_run(folders, shared)


@contextmanager
def _chosen(names: Sequence[str], source: Source) -> Iterator[tuple[SharedStore | None, list[KeptRun]]]:
    from matrix_runner.answers.selectors import runs_named
    from matrix_runner.records.observe import has_results

    if elsewhere := [name for name in names if "/" in name and Path(name).parent.resolve() != source.results.resolve()]:
        raise BadInput(
            f"{elsewhere[0]} is not in {source.results}/", resolution="name the folder that it is in with `--results`"
        )
    with _open_all(source) as (shared, every):
        # `latest` is a run with results.
        runs = [replace(one.run, measured=has_results(one.folder)) if one.folder else one.run for one in every]
        meant = {(run.id, run.name) for name in names for run in runs_named(name, runs)}  # a copy has the id, too
        yield shared, [one for one in every if (one.run.id, one.run.name) in meant]


def _change(names: Sequence[str], source: Source, change: Callable[[RunFolder], dict[str, object]]) -> None:
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import load

    with _chosen(names, source) as (shared, chosen):
        if lacking := [one.run.name for one in chosen if one.folder is None]:
            raise BadInput(
                f"{few(lacking, 3)}: the folder is not below {source.results}/",
                resolution="name the results folder of that host with `--results`",
            )
        for folder in (one.folder for one in chosen if one.folder):
            with folder.locked():
                changed = load(folder.path).update_manifest(**change(folder))
            if shared and not shared.fixed:
                with changed.feeding(wait=True), Journal.existing(changed.journal) as journal:
                    shared.catch_up(changed, journal)
            echo(f"{changed.path.name}: {_describe(changed)}")


def _describe(folder: RunFolder) -> str:
    manifest = folder.manifest
    parts = {"tags": ", ".join(manifest.tags), "note": manifest.note, "excluded": manifest.excluded}
    return "; ".join(f"{name}: {text}" for name, text in parts.items() if text) or "no tags, no note, not excluded"


def _show(found: Sequence[KeptRun]) -> None:
    for one in found:
        what = f"{one.run.matrix} on {one.run.machine}, {one.run.started[:16].replace('T', ' ')}"
        echo(f"{one.run.name}  {what}{f', {volume(one.size)}' if one.size else ''}")
    total = sum(one.size for one in found)
    echo(f"{len(found):,} run{'s' if len(found) != 1 else ''}{f', {volume(total)}' if total else ''}")


def _show_kept(runs: Sequence[KeptRun], removed: Sequence[KeptRun], rules: Keep) -> None:
    from matrix_runner.records.run_folder import reasons_to_keep

    for one, why in reasons_to_keep(runs, rules):
        if one not in removed:
            echo(f"{one.run.name}  stays, {volume(one.size)}: {why or 'all runs are small enough without it'}")


def _remove(chosen: Sequence[KeptRun], shared: SharedStore | None, *, yes: bool) -> None:
    from matrix_runner.hosts.disk_ledger import lease_records, state_dir
    from matrix_runner.records.run_folder import remove_run

    if shared and shared.fixed:
        raise BadInput(f"the store {shared.address} is read-only", resolution="remove runs as a user who may write it")
    leased = {one.folder for one in lease_records(state_dir())}
    for one in chosen:
        if one.folder and str(one.folder.path.absolute()) in leased:
            raise BadInput(f"{one.run.name} still leases disks", resolution="run `matrix clean` first")
    _show(chosen)
    if not yes:
        confirm_removal("Remove them?", "runs")
    for one in chosen:
        remove_run(one, shared)
    echo(f"removed {len(chosen):,} run{'s' if len(chosen) != 1 else ''}")
