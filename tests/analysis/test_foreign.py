"""fio's JSON that was made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from runner.analysis.fio_import import parse_groups
from runner.base.errors import BadInput

DATA = Path(__file__).parents[1] / "data"
SEVERAL = (DATA / "fio-libaio-jobs.json").read_text()
GROUPED = (DATA / "fio-psync-grouped.json").read_text()


def changed(text: str, **options: str) -> str:
    whole: dict[str, Any] = orjson.loads(text[text.index("{\n") :])
    for job in whole["jobs"]:
        job["job options"] |= options
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()


def test_every_group_of_jobs_is_one() -> None:
    first, second = parse_groups(SEVERAL, "f")
    assert (first.name, second.name) == ("r", "w+rw2")
    assert first.options["rw"] == "read"
    assert second.options["rw"] == "write|randrw"
    assert second.options["bs"] == "8KiB|4KiB"
    assert first.options["ioengine"] == "libaio", "what is said for all jobs counts for each"
    assert second.figures is not None
    assert second.figures.read is not None
    assert second.figures.write is not None


@pytest.mark.parametrize(
    ("told", "meant"),
    [("4k", "4KiB"), ("4096", "4KiB"), ("4KiB", "4KiB"), ("1m", "1MiB"), ("2G", "2GiB"), ("4k,8k", "4k,8k")],
)
def test_sizes_have_one_spelling(told: str, meant: str) -> None:
    (group,) = parse_groups(changed(GROUPED, bs=told), "f")
    assert group.options["bs"] == meant


def test_options_have_one_name_and_those_that_say_where_are_none() -> None:
    (group,) = parse_groups(changed(GROUPED, readwrite="read", filename="/dev/sdz", randseed="7"), "f")
    assert group.options["rw"] == "read"
    assert not {"readwrite", "filename", "randseed", "name"} & set(group.options)


def test_when_it_began() -> None:
    (group,) = parse_groups(GROUPED, "f")
    assert group.started.isoformat(timespec="seconds") == "2026-11-21T07:42:26+00:00"
    assert group.version == "fio-3.33"
    assert group.lacks == ()


@pytest.mark.parametrize("text", ["", "{", '{\n"jobs": []\n}', '{\n"jobs": 7\n}', "[1]", "\0"])
def test_what_is_no_result_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(BadInput, match=r"old\.json: fio") as caught:
        parse_groups(text, "old.json")
    assert caught.value.resolution


@pytest.mark.parametrize("version", ["synthetic, from the dry machine", "made up by the dry machine"])
def test_synthetic_figures_do_not_become_a_measurement(version: str) -> None:
    with pytest.raises(BadInput, match=r"old\.json is synthetic, from the dry machine"):
        parse_groups(GROUPED.replace('"fio-3.33"', f'"{version}"'), "old.json")


def test_older_formats_are_no_guess() -> None:
    whole: dict[str, Any] = orjson.loads(GROUPED[GROUPED.index("{\n") :])
    for side in ("read", "write"):
        del whole["jobs"][0][side]["bw_bytes"]
    (group,) = parse_groups(orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode(), "f")
    assert group.figures is None
    assert "is not as fio writes it: jobs[0].read.bw_bytes is missing" in group.failure


def test_of_several_documents_the_last_whole_one_counts() -> None:
    """fio writes them one after the other with `--status-interval`."""
    first, last = changed(GROUPED, bs="4k"), changed(GROUPED, bs="8k")
    for text in (f"{first}\n{last}\n", f"note\n{first}\n{last}\n{first[: len(first) // 2]}"):
        (group,) = parse_groups(text, "f")
        assert group.options["bs"] == "8KiB"


def test_an_error_quotes_one_line() -> None:
    with pytest.raises(BadInput) as error:
        parse_groups(GROUPED[: len(GROUPED) // 2], "f")
    assert error.value.details
    assert "\n" not in error.value.details


def test_a_file_with_more_options_than_fio_has_is_refused() -> None:
    job = {"jobname": "j", "read": {"io_bytes": 1, "iops": 1.0}, "job options": {f"o{n}": "1" for n in range(1001)}}
    with pytest.raises(BadInput) as refused:
        parse_groups(orjson.dumps({"fio version": "fio-3.1", "jobs": [job]}).decode(), "f.json")
    assert "1,001 different options" in refused.value.brief
