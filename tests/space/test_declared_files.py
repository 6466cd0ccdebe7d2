from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.schema import schema_text
from matrix_runner.language.references import format_change
from matrix_runner.space.declared_files import append_entries, load_accepted
from matrix_runner.space.load import BadMatrix, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.command import Said

ROOT = Path(__file__).parents[2]
TEXT = """\
name: nas
disks: {count: 4, size: 64MiB}
layouts: {raid5: [md: {level: 5, chunk: [64KiB, 512KiB]}], stripe: [lvm: {stripes: 2}]}
workloads: {oltp: {rw: [randread, randwrite], bs: 4KiB, runtime: 1s}}
"""
SPACE = parse("nas.yaml", TEXT).space
KNOWN = "- {cells: {layout: raid5, rw: randwrite}, change: -8%, since: 2026-03-04, until: 2026-12-31, reason: md}\n"


def refused(folder: Path, text: str, name: str = "known-changes.yaml") -> str:
    (folder / name).write_text(text)
    with pytest.raises(BadInput) as caught:
        load_accepted(folder).check_cells(SPACE)
    return caught.value.details.splitlines()[0].removeprefix(f"{folder}/")


def test_a_folder_without_the_files_accepts_nothing(tmp_path: Path) -> None:
    found = load_accepted(tmp_path)
    assert (found.baselines.entries, found.changes) == ((), ())
    found.check_cells(SPACE)
    found.check_baselines(lambda _: False)


def test_entries_are_read(tmp_path: Path) -> None:
    (tmp_path / "known-changes.yaml").write_text(KNOWN)
    (tmp_path / "baselines.yaml").write_text("- {matrix: nas, host: lab1, run: nas-1}\n")
    found = load_accepted(tmp_path)
    found.check_cells(SPACE)
    (change,) = found.changes
    assert (change.change, format_change(change.change), change.since) == (0.92, "-8%", date(2026, 3, 4))
    days = [date(2026, 3, 3), change.since, date(2026, 12, 31), date(2027, 1, 1)]
    assert [change.is_accepted_on(day) for day in days] == [False, True, True, False]
    assert found.baselines.entries[0].run == "nas-1"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("raid5", "raid7"), "1:20: no cell has layout=raid7; did you mean raid5?"),
        (("layout:", "lay:"), "1:12: unknown axis 'lay'"),
        (("layout: raid5", "layout: stripe, chunk: 64KiB"), "1:4: no cell matches all of these values"),
        (("-8%", "8%"), "1:51: '8%': not a change; write it with its sign, like -8% for slower or +12% for faster"),
        (("-8%", "-100%"), "1:51: '-100%': not a change of speed"),
        (("2026-03-04", "March"), "1:63: 'March': not a day; write it like 2026-03-31"),
        (("2026-03-04", "2026-13-04"), "1:63: '2026-13-04' is no date; write one as in 2026-11-30"),
        (("2026-12-31", "2025-12-31"), "1:3: `until` (2025-12-31) is before `since` (2026-03-04)"),
        (("reason: md", "reasons: md"), "unknown key 'reasons'; did you mean reason?"),
        (("reason: md", "link: x"), "'reason' is missing"),
    ],
)
def test_wrong_entries_have_their_place(tmp_path: Path, wrong: tuple[str, str], message: str) -> None:
    assert message in refused(tmp_path, KNOWN.replace(*wrong))


def test_changes_of_other_matrices_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "known-changes.yaml").write_text(
        "- {matrix: other, cells: {layout: x}, change: -8%, since: 2026-03-04, reason: why}\n"
    )
    load_accepted(tmp_path).check_cells(SPACE)


def test_a_baseline_without_a_run_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "baselines.yaml").write_text("- {run: nas-1}\n- {matrix: nas, run: nas-2}\n")
    found = load_accepted(tmp_path)
    with pytest.raises(BadMatrix) as caught:
        found.check_baselines(lambda one: one.run == "nas-1")
    assert "baselines.yaml:2:22: no run of nas is called 'nas-2'" in caught.value.details


def test_entries_are_added_below_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "known-changes.yaml"
    path.write_text("# ours\n" + KNOWN.rstrip("\n"))
    append_entries("known_changes", tmp_path, ["- {change: +3%, since: 2026-05-01, reason: faster}\n"])
    assert path.read_text().startswith("# ours\n- {cells")
    assert [one.change for one in load_accepted(tmp_path).changes] == [0.92, 1.03]


def test_a_file_that_would_become_unreadable_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "baselines.yaml"
    path.write_text("[]\n")
    with pytest.raises(BadInput, match="not valid YAML"):
        append_entries("baselines", tmp_path, ["- {run: nas-1}\n"])
    assert path.read_text() == "[]\n"


@pytest.mark.parametrize(("kind", "text"), [("known-changes", KNOWN), ("baselines", "- {run: nas-1, host: lab1}\n")])
def test_the_schemas_are_shipped_and_take_what_is_right(kind: str, text: str) -> None:
    assert (ROOT / f"matrix/{kind}.schema.json").read_text() == schema_text(kind)
    validator, yaml = jsonschema.Draft202012Validator(json.loads(schema_text(kind))), YAML(typ="rt")
    (entry,) = yaml.load(text)
    entry = {key: str(value) if key in {"since", "until"} else value for key, value in entry.items()}
    validator.validate([entry])
    assert not validator.is_valid([{**entry, "hosts": "lab1"}])


def test_validate_checks_the_files_beside_a_matrix(call: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "nas.yaml").write_text(TEXT)
    (tmp_path / "known-changes.yaml").write_text(KNOWN)
    assert call("validate", "nas.yaml").status == 0
    (tmp_path / "known-changes.yaml").write_text(KNOWN.replace("raid5", "raid7"))
    said = call("validate", "nas.yaml")
    assert said.status == 2
    assert "known-changes.yaml:1:20: no cell has layout=raid7; did you mean raid5?" in said.err
