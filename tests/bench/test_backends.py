"""What the bench of machines makes of what a run leaves behind."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import backends
from bench.backends import NAMES, TRIALS, Backend, NotHad, Taken, here, line, measured, taken, wanted
from matrix_runner.machines import MACHINES

HEAD = "cell,name,outcome,reason,started,folder\n"


def results(place: Path, outcomes: list[str], fio: float = 0.5) -> Path:
    """What a run leaves: a trial a second, from the tenth on."""
    run = place / "results" / "r"
    run.mkdir(parents=True)
    rows = []
    for number, outcome in enumerate(outcomes):
        trial = run / f"trial-{number}"
        trial.mkdir()
        (trial / "processors.csv").write_text(f"seconds,user\n{fio},0.1\n")
        rows.append(
            f"c{number},n,{outcome},{'why' * (outcome == 'broken')},1970-01-01T00:00:{10 + number}+00:00,{trial.name}\n"
        )
    (run / "manifest.json").write_text('{"machine": "dry"}')
    (run / "trials.csv").write_text(HEAD + "".join(reversed(rows)))
    return run.parent


def test_every_machine_is_measured() -> None:
    assert set(NAMES) == set(MACHINES)


def test_a_trial_lasts_until_the_next_begins(tmp_path: Path) -> None:
    found = taken(4.0, results(tmp_path, ["measured"] * TRIALS))
    assert found == Taken(6.0, (1.0,) * (TRIALS - 1), (0.5,) * (TRIALS - 1), "dry")


def test_runs_with_broken_trials_give_no_figure(tmp_path: Path) -> None:
    with pytest.raises(NotHad, match="why"):
        taken(4.0, results(tmp_path, ["measured"] * (TRIALS - 1) + ["broken"]))


def test_the_program_alone_for_real(tmp_path: Path) -> None:
    found = here(["dry"], tmp_path)
    assert (len(found.trials), set(found.fio), found.machine) == (TRIALS - 1, {0.0}, "dry")
    assert min(found.first, *found.trials) > 0


def test_a_refusal_is_reported_and_is_no_error(tmp_path: Path) -> None:
    # An ordinary user hears first that it is none of theirs.
    with pytest.raises(NotHad, match="there is no hosts" if os.geteuid() == 0 else "log in as root"):
        here(["local"], tmp_path)


def test_missing_machines_are_reported_and_the_others_measured(tmp_path: Path) -> None:
    def never(_: Path) -> Taken:
        raise NotHad("no such thing")

    some = Taken(2.0, (1.0,), (0.5,))
    asked = [Backend("qemu", "here", never), Backend("dry", "here", lambda _: some)]
    found, missing = measured(asked, 2, tmp_path)
    assert found == {("dry", "here"): [some, some]}, "the first round only fills caches"
    assert missing == {"qemu (here)": "no such thing"}
    (tmp_path / "once").mkdir()
    assert measured(asked, 0, tmp_path / "once")[0] == {("dry", "here"): [some]}


def test_an_interrupted_benchmark_keeps_its_figures(tmp_path: Path) -> None:
    some = Taken(2.0, (1.0,), (0.5,))
    left = iter([some, some])

    def stopped(_: Path) -> Taken:
        for one in left:
            return one
        raise KeyboardInterrupt

    assert measured([Backend("dry", "here", stopped)], 9, tmp_path) == ({("dry", "here"): [some]}, {})


def test_a_row_holds_a_machine_against_the_program_alone_and_its_trials_against_fio() -> None:
    rounds = [Taken(first, (0.6, 0.7, 0.6), (0.5, 0.5, 0.5)) for first in (3.0, 4.0, 8.0)]
    assert line(("qemu", "here"), rounds, [Taken(2.0, (), ())]).split() == [
        *("qemu", "here", "4.00", "s", "8.00", "s", "2.0", "100", "ms", "1.200"),
    ]
    assert line(("dry", "here"), [Taken(1.0, (0.01,), (0.0,))], []).split()[-4:] == ["-", "10", "ms", "-"]


def test_without_a_machine_to_run_them_in_the_rest_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        pytest.skip("no mmdebstrap")

    monkeypatch.setattr(backends, "up", none)
    with ExitStack() as stack:
        found, missing = wanted({"ssh", "container", "qemu"}, tmp_path, stack)
    assert [one.told for one in found] == ["dry (here)", "qemu (here)"]
    assert missing == dict.fromkeys(["container", "ssh"], "no machine to run it in: no mmdebstrap")
