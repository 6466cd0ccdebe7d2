"""`matrix batch`: what a request gives back, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.carry.batch_messages import BatchRequest, Outbox
from matrix_runner.machines.base import APPLIANCE
from matrix_runner.records.record import Outcome
from matrix_runner.records.rows import decode_trial
from matrix_runner.session import batch as session
from tests.support.batches import ORDER, messages_of, request_of
from tests.support.dry import Dry
from tests.support.engine import Bench, Dying
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matrix_runner.machines.base import MachineOptions


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


def test_a_batch_gives_the_trials_that_a_run_in_one_process_gives(bench: Bench, tmp_path: Path) -> None:
    bench.run()
    requests = [request_of(batch) for number in bench.plan.rounds for batch in bench.plan.batches(number)]
    trials = [decode_trial(one) for one in messages_of(tmp_path, *requests) if one["event"] == "trial"]
    alike = [(one.cell, one.round, one.outcome, one.figures, one.readings, one.notes, one.folder) for one in trials]
    assert alike == [
        (one.cell, one.round, one.outcome, one.figures, one.readings, one.notes, one.folder) for one in bench.trials
    ], "in the same order, too"


def test_the_files_of_a_trial_come_before_it(bench: Bench, tmp_path: Path) -> None:
    bench.run()
    (batch, *_) = bench.plan.batches(1)
    messages = messages_of(tmp_path, request_of(batch))
    kinds = [one["event"] for one in messages]
    assert kinds == ["rig-up", *["started", "files", "trial"] * 2, "end"]
    files = next(one for one in messages if one["event"] == "files")
    assert {**files["scripts"], **files["outputs"]} == bench.shelf.kept[files["cell"], 1]


def test_lost_rigs_count_on_from_those_of_other_batches(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (batch, *_) = bench.plan.batches(1)
    (cell, *_) = batch.cells
    dying = Dying(9, lambda job: f"rw={'read' if 'rw=read' in cell.name else 'randwrite'}\n" in job)
    monkeypatch.setattr(session, "machine", lambda *_: type(bench.machine)(dying))
    before = {"cell": cell.id, "round": 1, "number": 1, "started": "", "reason": "the guest kernel panicked"}
    messages = messages_of(tmp_path, request_of(batch, attempts=[before]))
    assert [one["number"] for one in messages if one["event"] == "attempt"] == [2]
    trials = {one.cell: one for one in map(decode_trial, (one for one in messages if one["event"] == "trial"))}
    assert (trials[cell.id].outcome, trials[cell.id].attempts) == (Outcome.BROKEN, 2)
    assert Counter(one.outcome for one in trials.values()) == {Outcome.BROKEN: 1, Outcome.MEASURED: 1}


def test_another_version_is_refused_with_both_versions(bench: Bench, tmp_path: Path) -> None:
    (batch, *_) = bench.plan.batches(1)
    other = ORDER.model_copy(update={"version": "9.9"})
    refused, end = messages_of(tmp_path, request_of(batch, other))
    assert refused["event"] == "refused"
    assert refused["brief"] == f"its matrix is {ORDER.version}, and that of `matrix run` is 9.9"
    assert end["event"] == "end"


def test_a_field_of_a_newer_version_is_refused(bench: Bench, tmp_path: Path) -> None:
    lines: list[bytes] = []
    batches = session.Batches(Outbox(lines.append), tmp_path)
    (batch, *_) = bench.plan.batches(1)
    newer = orjson.loads(request_of(batch).model_dump_json()) | {"colour": "red"}
    asyncio.run(batches.execute(orjson.dumps(newer)))
    assert [orjson.loads(line)["event"] for line in lines] == ["refused", "end"]


def test_cells_that_this_host_does_not_make_are_refused(bench: Bench, tmp_path: Path) -> None:
    (batch, *_) = bench.plan.batches(1)
    refused, _ = messages_of(tmp_path, request_of(batch, cells=["0123456789abcdef"]))
    assert refused["brief"] == "this host makes other cells of the same matrix"


def test_a_request_without_cells_checks_the_host(tmp_path: Path) -> None:
    checked, _ = messages_of(tmp_path, BatchRequest(token="", order=ORDER))
    assert checked["event"] == "checked"
    assert checked["refusals"] == {}
    assert checked["boot_id"]
    strange = ORDER.model_copy(update={"kernel": "no such kernel", "digest": "other"})
    checked, _ = messages_of(tmp_path, BatchRequest(token="", order=strange))
    assert len(checked["refusals"]) == 2
    assert all("no such kernel" in why for why in checked["refusals"].values())


def test_a_build_of_the_appliance_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def building(_: str, options: MachineOptions) -> Dry:
        options.progress("starting the virtual machine", None)
        options.progress(f"{APPLIANCE}fetching packages", 0.1)
        return Dry()

    monkeypatch.setattr(session, "machine", building)
    notice, checked, _ = messages_of(tmp_path, BatchRequest(token="", order=ORDER))
    assert notice["text"] == "it builds its appliance; this can take some minutes"
    assert checked["event"] == "checked"


def test_a_file_that_was_not_sent_is_not_read_here(tmp_path: Path) -> None:
    (tmp_path / "raids.yaml").write_text("layouts: {far: [disk]}\n")
    text = SMALL.replace("[md: {level: 5, chunk: [16KiB, 64KiB]}]", f"[use: {tmp_path}/raids.yaml#far]")
    refused, _ = messages_of(tmp_path, BatchRequest(token="", order=ORDER.model_copy(update={"text": text})))
    assert refused["event"] == "refused"
    sent = {f"{tmp_path}/raids.yaml": "layouts: {far: [disk]}\n"}
    checked, _ = messages_of(
        tmp_path, BatchRequest(token="", order=ORDER.model_copy(update={"text": text, "used": sent}))
    )
    assert checked["event"] == "checked"


def test_the_process_leaves_no_folder_and_removes_those_of_killed_ones(bench: Bench, tmp_path: Path) -> None:
    (batch, *_) = bench.plan.batches(1)
    command = [sys.executable, "-m", "matrix_runner.cli", "batch"]
    environment = os.environ | {"TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    line = request_of(batch).model_dump_json().encode() + b"\n"
    for signal_ in (signal.SIGKILL, None):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
            assert child.stdin
            assert child.stdout
            child.stdin.write(line)
            child.stdin.flush()
            events = [orjson.loads(child.stdout.readline())["event"] for _ in range(8)]
            assert events[-1] == "end"
            assert len(list((tmp_path / "scratch").iterdir())) == 1
            if signal_:
                child.send_signal(signal_)
    assert list((tmp_path / "scratch").iterdir()) == []
