"""The choice between continuing a run and starting a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.records.run_folder import create
from matrix_runner.session.prepare import choose_run, run_to_continue
from tests.records.past import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.run_folder import Manifest, RunFolder
    from matrix_runner.session.prepare import RunChoice


def unfinished(number: int = 1, **changes: Any) -> Manifest:
    return manifest(number, **{"finished": False, "least": 3, "most": 3, **changes})


def chosen(results: Path, **changes: Any) -> RunChoice:
    return choose_run(results, unfinished(9, **changes), fresh=False, retry_broken=False)


def continued(results: Path, **changes: Any) -> RunFolder | None:
    found = chosen(results, **changes)
    return None if found.new else found.folder


def test_the_latest_unfinished_run_of_the_same_work_is_continued(tmp_path: Path) -> None:
    create(tmp_path, unfinished(1))
    latest = create(tmp_path, unfinished(3))
    create(tmp_path, unfinished(2))
    create(tmp_path, unfinished(4, finished=True))
    create(tmp_path, unfinished(5, fingerprint="other"))
    create(tmp_path, unfinished(6, machine="dry"))
    assert continued(tmp_path) == latest


def test_a_changed_matrix_starts_a_new_run_with_the_reason(tmp_path: Path) -> None:
    last = create(tmp_path, unfinished())
    found = chosen(tmp_path, fingerprint="other", text="name: sweep  # changed\n")
    assert found.new
    assert found.message(0) == f"not continuing {last.path}/, which is not finished: the matrix differs"


def test_another_selection_starts_a_new_run_with_the_reason(tmp_path: Path) -> None:
    last = create(tmp_path, unfinished())
    options = "--only, --shard, --race, --kernel, --templates or hosts.yaml differ"
    message = chosen(tmp_path, fingerprint="other").message(0)
    assert message == f"not continuing {last.path}/, which is not finished: {options}"


def test_a_finished_run_is_not_continued(tmp_path: Path) -> None:
    last = create(tmp_path, unfinished(finished=True))
    found = chosen(tmp_path)
    assert found.new
    assert (
        found.message(0)
        == f"this is a new run, as {last.path}/ is finished; `matrix results {last.path.name}` shows that one"
    )
    assert chosen(tmp_path / "elsewhere").message(0) == ""


def test_a_changed_repeat_after_until_decided_gives_the_reason_for_a_new_run(tmp_path: Path) -> None:
    create(tmp_path, unfinished(finished=True, steered=True))
    assert "made with `--until-decided`" in chosen(tmp_path, least=5, most=5).message(0)
    assert "until-decided" not in chosen(tmp_path).message(0), "the same command finds a finished run"


def test_half_made_and_foreign_folders_are_skipped(tmp_path: Path) -> None:
    run = create(tmp_path, unfinished())
    (tmp_path / "killed-before-its-manifest").mkdir()
    (tmp_path / "killed-before-its-manifest" / ".manifest.json.1.new").write_text("{")
    (tmp_path / "of-tomorrow").mkdir()
    (tmp_path / "of-tomorrow" / "manifest.json").write_text('{"format": 3}')
    (tmp_path / "README.md").write_text("text")
    assert continued(tmp_path) == run


UNTIL: dict[str, Any] = {"least": 3, "most": 9, "until": 0.05}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"least": 5, "most": 5, "planned": 20}),
        ({}, UNTIL),
        (UNTIL, {**UNTIL, "most": 20}),
        (UNTIL, {**UNTIL, "until": 0.01}),
        (UNTIL, {"least": 9, "most": 9}),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_a_larger_repeat_adds_rounds_to_the_run(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], finished: bool
) -> None:
    run = create(tmp_path, unfinished(finished=finished, **before))
    found = chosen(tmp_path, **now)
    assert (found.new, found.folder) == (False, run)
    assert found.message(2).endswith("trials done), with the changed `repeat:` of the matrix")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"least": 2, "most": 2}),
        (UNTIL, {"least": 2, "most": 20, "until": 0.05}),
        ({"steered": True}, {"least": 5, "most": 5}),
        ({"most": None}, {"least": 5, "most": 5}),
    ],
)
def test_other_repeats_start_a_new_run(tmp_path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    create(tmp_path, unfinished(**before))
    assert continued(tmp_path, **now) is None


def test_a_finished_run_has_enough_for_a_wider_interval(tmp_path: Path) -> None:
    create(tmp_path, unfinished(finished=True, **UNTIL))
    assert continued(tmp_path, **{**UNTIL, "until": 0.1}) is None


def test_only_a_continued_run_may_have_left_something_on_its_disks(tmp_path: Path) -> None:
    def anew(**asked: bool) -> bool:
        return run_to_continue(tmp_path, unfinished(9), **({"fresh": False, "retry_broken": False} | asked)) is None

    assert anew()
    create(tmp_path, unfinished())
    assert not anew()
    assert anew(fresh=True)
    assert not anew(retry_broken=True)


def test_broken_trials_of_a_finished_run_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no run of this matrix with these options"):
        choose_run(tmp_path, unfinished(9), fresh=False, retry_broken=True)
    run = create(tmp_path, unfinished(finished=True))
    found = choose_run(tmp_path, unfinished(9), fresh=False, retry_broken=True)
    assert (found.folder, found.retry) == (run, True)
    with pytest.raises(BadInput, match="no run of this matrix with these options"):
        choose_run(tmp_path, unfinished(9, least=2, most=2), fresh=False, retry_broken=True)
    with pytest.raises(BadInput, match="--fresh starts a new run"):
        choose_run(tmp_path, unfinished(9), fresh=True, retry_broken=True)
