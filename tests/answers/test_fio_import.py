"""fio's JSON that was made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from matrix_runner.answers import fio_import
from matrix_runner.base.errors import BadInput

DATA = Path(__file__).parents[1] / "data"
SEVERAL = (DATA / "fio-libaio-jobs.json").read_text()
GROUPED = (DATA / "fio-psync-grouped.json").read_text()


def parse_groups(text: str, file: str) -> list[fio_import.Group]:
    return fio_import.parse_groups(text.encode("utf-8", "surrogatepass"), file)


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


def test_options_have_one_name_and_places_are_left_out() -> None:
    (group,) = parse_groups(changed(GROUPED, readwrite="read", filename="/dev/sdz", randseed="7"), "f")
    assert group.options["rw"] == "read"
    assert not {"readwrite", "filename", "randseed", "name"} & set(group.options)


def test_when_it_began() -> None:
    (group,) = parse_groups(GROUPED, "f")
    assert group.started.isoformat(timespec="seconds") == "2026-11-21T07:42:26+00:00"
    assert group.version == "fio-3.33"
    assert group.lacks == ()


@pytest.mark.parametrize("text", ["", "{", '{\n"jobs": []\n}', '{\n"jobs": 7\n}', "[1]", "\0"])
def test_other_json_is_refused_with_its_file_name(text: str) -> None:
    with pytest.raises(BadInput, match=r"old\.json: fio") as caught:
        parse_groups(text, "old.json")
    assert caught.value.resolution


@pytest.mark.parametrize("version", ["synthetic, from the dry machine", "made up by the dry machine"])
def test_synthetic_figures_do_not_become_a_measurement(version: str) -> None:
    with pytest.raises(BadInput, match=r"old\.json is synthetic, from the dry machine"):
        parse_groups(GROUPED.replace('"fio-3.33"', f'"{version}"'), "old.json")


def test_a_missing_figure_is_no_guess() -> None:
    whole: dict[str, Any] = orjson.loads(GROUPED[GROUPED.index("{\n") :])
    for side in ("read", "write"):
        del whole["jobs"][0][side]["bw_bytes"], whole["jobs"][0][side]["bw"]
    (group,) = parse_groups(orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode(), "f")
    assert group.figures is None
    assert "cannot be used: jobs[0].read.bw_bytes is missing" in group.failure


def test_the_last_whole_document_of_a_file_counts() -> None:
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


def of_jobs(*jobs: dict[str, Any]) -> str:
    return orjson.dumps({"fio version": "fio-3.1", "jobs": jobs}).decode()


def test_json_with_too_many_values_is_refused_before_parsing() -> None:
    for text, found in (
        ('{"jobs":[' + "1," * 3_000_001 + "1]}", "3,000,001 values; at most 3,000,000"),
        ('{"jobs":[' + "{}," * 200_000 + "{}]}", "200,003 objects; at most 200,000"),
        (of_jobs(*({"groupid": n} for n in range(10_001))), "10,001 groups of jobs; at most 10,000"),
        (of_jobs({"jobname": "n" * 1_048_577}), "a name or an option of 1,048,577 characters; at most 1,048,576"),
        (
            of_jobs(*({"groupid": n, "jobname": f"{n:065000}"} for n in range(65))),
            "4,225,000 characters of names and options; at most 4,194,304",
        ),
    ):
        with pytest.raises(BadInput) as refused:
            parse_groups(text, "f.json")
        assert refused.value.brief == f"f.json has {found}"
        assert refused.value.resolution


def test_only_the_last_document_has_bounds() -> None:
    large = '{\n"jobs": [' + "1," * 3_000_001 + "1]\n}\n"
    (group,) = parse_groups(f"{large}{GROUPED}", "f")
    assert group.figures is not None
    with pytest.raises(BadInput, match="3,000,001 values"):
        parse_groups(f"{GROUPED}\n{large}", "f")


def test_the_paths_of_a_thousand_jobs_are_read() -> None:
    whole: dict[str, Any] = orjson.loads(GROUPED[GROUPED.index("{\n") :])
    (job,) = whole["jobs"]
    whole["jobs"] = [{**job, "job options": {"filename": f"/srv/{n:075}"}} for n in range(1000)]
    (group,) = parse_groups(orjson.dumps(whole).decode(), "f")
    assert len(group.where) == 80_999


def test_a_histogram_has_at_most_as_many_bins_as_fio_may_write() -> None:
    whole: dict[str, Any] = orjson.loads(GROUPED[GROUPED.index("{\n") :])
    whole["jobs"][0]["read"]["lat_ns"]["bins"] = {str(n): 1 for n in range(10_001)}
    (group,) = parse_groups(orjson.dumps(whole).decode(), "f")
    assert group.figures is None
    assert "jobs[0].read.lat_ns.bins is " in group.failure


def test_a_name_that_is_not_utf_8_is_read() -> None:
    content = changed(GROUPED, description="caf\u00e9").encode().replace("\u00e9".encode(), b"\xe9")
    (group,) = fio_import.parse_groups(content, "f")
    assert group.figures is not None


def test_many_documents_cost_no_more_than_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    real = orjson.loads

    def loads(part: memoryview) -> Any:
        parsed.append(len(part))
        return real(part)

    monkeypatch.setattr(orjson, "loads", loads)
    for text in ('{"a"\n' * 1000 + "}\n" * 1000, '{"a"\n' * 100_000):
        parsed.clear()
        with pytest.raises(BadInput, match="cut short or damaged"):
            parse_groups(text, "f")
        assert sum(parsed) <= len(text)
        assert len(parsed) <= 100
