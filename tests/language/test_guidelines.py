"""Guidelines as they are written: what holds, and what is told of what does not."""

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.schema import schema_text
from matrix_runner.language.guidelines import SHAPES, Amount
from matrix_runner.records.tables import DIRECTION
from matrix_runner.space.load import BadMatrix, load, parse
from matrix_runner.work.fio.output import Direction
from matrix_runner.work.metrics import OF_DIRECTION
from tests.support.matrices import SWEEP

ROOT = Path(__file__).parents[2]
#: One of each shape, and the other forms of a ratio.
SOUND = """\
- {id: alike, ratio: {metric: read.bw, of: {layout: far, md.layout: f2}, to: {layout: striped}, within: 10%}}
- {id: ratio, ratio: {metric: read.lat_p99, of: {layout: parity}, to: {layout: single}, at_most: 2x}}
- {id: best, best: {metric: write.iops, along: chunk, where: {layout: parity, workload: oltp}, is: 64KiB, tolerance: 5%}}
- {id: monotone, monotone: {metric: read.bw, along: md.chunk, where: {layout: striped}, direction: rises}}
- {id: scaling, scaling: {metric: read.bw, along: workload.bs, at_least: 0.1 per step}}
- {id: mean, ratio: {metric: write.bw, of: {stripe_cache_size: 16384}, to: {stripe_cache_size: 256}, mean: true, at_least: 1.3x}}
- {id: bound, bound: {metric: total.iops, where: {layout: [far, parity]}, at_least: 240 IOPS}}
- {id: sum, sum: {metric: total.bw, whole: {layout: striped}, parts: [{layout: single}], times: 4, within: 10%}}
- {id: profile, profile: {metric: read.bw, along: md.chunk, where: {layout: striped}, follows: [1, 2, 2.5], within: 20%}}
"""


def matrix(guidelines: str) -> str:
    return f"{SWEEP}guidelines:\n{guidelines}"


def told(text: str) -> list[str]:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", text)
    return [f"{place.line}:{place.column}: {message}" for place, message in caught.value.places]


def test_every_kind_of_claim_can_be_written() -> None:
    found = parse("m.yaml", matrix(SOUND)).space.matrix.guidelines
    assert {(one.id, one.shape) for one in found} == {(shape, shape) for shape in SHAPES} | {
        ("alike", "ratio"),
        ("mean", "ratio"),
    }
    by_id = {one.id: one for one in found}
    assert by_id["bound"].bound is not None
    assert by_id["bound"].bound.at_least == Amount(240, "1/s")
    assert by_id["scaling"].scaling is not None
    assert by_id["scaling"].scaling.at_least == 0.1


def test_a_range_from_zero_is_a_claim() -> None:
    share = matrix("- {id: one, bound: {metric: cpu.iowait, at_least: 0%, at_most: 5%}}\n")
    (one,) = parse("m.yaml", share).space.matrix.guidelines
    assert one.bound is not None
    assert one.bound.at_most == Amount(0.05, "share")


@pytest.mark.parametrize(("metric", "most"), [("cpu.iowait", "0%"), ("read.lat_p99", "0ms"), ("read.bw", "0MB/s")])
def test_at_most_zero_is_refused_at_its_place(metric: str, most: str) -> None:
    (said,) = told(matrix(f"- {{id: one, bound: {{metric: {metric}, at_most: {most}}}}}\n"))
    line, column, message = said.split(":", 2)
    assert (int(line), int(column)) == (
        SWEEP.count("\n") + 2,
        len(f"- {{id: one, bound: {{metric: {metric}, at_most: ") + 1,
    )
    assert "a measurement cannot show a value of at most 0" in message


def test_both_schemas_accept_them() -> None:
    yaml = YAML(typ="safe")
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(yaml.load(matrix(SOUND + "- other.yaml\n")))
    alone = jsonschema.Draft202012Validator(json.loads(schema_text("guidelines")))
    alone.validate(yaml.load(SOUND))
    assert not alone.is_valid(yaml.load(SOUND.replace("read.bw", "raed.bw")))


def test_figures_are_named_in_one_place() -> None:
    assert tuple(OF_DIRECTION) == DIRECTION == tuple(Direction.__dataclass_fields__)[:-1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric: read.bw, of", "metric: raed.bw, of", "17:31: 'raed.bw': there is no such metric; did you mean read.bw or rebuild.bw?"),
        ("layout: striped}, within", "layout: stripd}, within", "17:87: no cell has layout=stripd; did you mean striped?"),
        ("md.layout: f2", "md.layuot: f2", "17:58: unknown axis 'md.layuot'; did you mean layout or md.layout?"),
        ("along: chunk", "along: chnk", "unknown axis 'chnk'; did you mean md.chunk?"),
        ("is: 64KiB", "is: 32KiB", "no cell has md.chunk=32KiB; did you mean 256KiB or 512KiB?"),
        ("is: 64KiB", "is: 64k", "no cell has md.chunk=64k; did you mean 64KiB"),
        ("at_most: 2x", "at_most: two", "'two': not a factor; write it like 1.3x"),
        (", at_most: 2x", "", "the claim is missing; add `at_least` or `at_most`"),
        ("at_least: 240 IOPS", "at_least: 0", "every value is at least 0; write a larger bound"),
        ("at_least: 1.3x", "at_least: 1.3x, at_most: 1.2x", "`at_least` (1.3) is more than `at_most` (1.2)"),
        ("at_least: 240 IOPS", "at_least: 12ms", "the unit does not fit total.iops; write requests a second, like 240 IOPS"),
        ("at_least: 240 IOPS", "at_least: soon", "'soon': neither a rate (200MB/s, 240 IOPS), a time (12ms), a share (95%) nor 2 per request"),
        ("at_least: 240 IOPS", "at_least: 2 per request", "the unit does not fit total.iops"),
        ("within: 10%", "within: 10", "'10': not a percentage; write it like 5%"),
        ("ratio: {", "rato: {", "unknown key 'rato'; did you mean ratio?"),
        ("direction: rises", "direction: rise", "'rise' is not one of rises or falls; did you mean rises?"),
        ("{layout: far, md.layout: f2}", "{layout: far, level: 0}", "17:40: no cell matches all of these values"),
        ("id: ratio,", "id: alike,", "several guidelines are called alike"),
        ("of: {layout: parity}", "of: {}", "this map is empty; write at least one item"),
        ("follows: [1, 2, 2.5]", "follows: [1]", "a shape has a number for each value of the axis"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_place(old: str, new: str, said: str) -> None:
    text = matrix(SOUND)
    assert old in text
    assert any(said in one for one in told(text.replace(old, new, 1)))


def test_all_mistakes_are_reported_at_once() -> None:
    malformed = matrix(SOUND).replace("within: 10%}}", "within: 10}}", 1).replace("2.5]", "x]")
    assert len(told(malformed)) == 2
    impossible = matrix(SOUND).replace("is: 64KiB", "is: 32KiB").replace("level: [5, 6]", "level: [5, 6], devices: 9")
    assert len(told(impossible)) == 2


def shared(tmp_path: Path, item: str, content: str = SOUND) -> Path:
    (tmp_path / "advice.yaml").write_text(content)
    (tmp_path / "m.yaml").write_text(matrix(f"- {item}\n"))
    return tmp_path / "m.yaml"


def test_a_file_names_all_guidelines_and_its_part_names_one(tmp_path: Path) -> None:
    assert len(load(shared(tmp_path, "advice.yaml")).space.matrix.guidelines) == SOUND.count("\n")
    (one,) = load(shared(tmp_path, "advice.yaml#sum")).space.matrix.guidelines
    assert one.shape == "sum"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("advice.yaml#smu", "advice.yaml has no guideline 'smu'; did you mean sum?"),
        ("advise.yaml", "there is no file"),
        ("m.yaml", "m.yaml is not a list of guidelines"),
    ],
)
def test_an_unusable_file_is_reported_at_its_name(tmp_path: Path, item: str, said: str) -> None:
    with pytest.raises(BadMatrix) as caught:
        load(shared(tmp_path, item))
    ((place, message),) = caught.value.places
    assert said in message
    assert (Path(place.file).name, place.line) == ("m.yaml", 17)


def test_guidelines_of_a_file_may_be_untested_and_picked_ones_not(tmp_path: Path) -> None:
    other = SOUND.replace("{layout: single}]", "{layout: volume}]")
    found = load(shared(tmp_path, "advice.yaml", other)).space
    assert "guideline sum is not tested: no cell has layout=volume" in "\n".join(found.notes)
    with pytest.raises(BadMatrix) as caught:
        load(shared(tmp_path, "advice.yaml#sum", other))
    ((place, message),) = caught.value.places
    assert message.startswith("no cell has layout=volume")
    assert (Path(place.file).name, place.line) == ("advice.yaml", 8)


def test_an_impossible_axis_is_an_error_everywhere(tmp_path: Path) -> None:
    lacking, wrong = "{rw: read, lvm.stripes: 2}", "{rw: read, lvm.strips: 2}"
    text = "- {id: one, bound: {metric: read.bw, where: WHERE, at_least: 1MB/s}}\n"
    assert load(shared(tmp_path, "advice.yaml", text.replace("WHERE", lacking))).space.notes
    with pytest.raises(BadMatrix) as caught:
        load(shared(tmp_path, "advice.yaml", text.replace("WHERE", wrong)))
    assert "unknown axis 'lvm.strips'" in caught.value.places[0][1]


def test_shipped_guidelines_can_be_used() -> None:
    for path in sorted((ROOT / "matrix/guidelines").glob("*.yaml")):
        load_one = parse("matrix/m.yaml", matrix(f"- guidelines/{path.name}\n"), lambda file: (ROOT / file).read_text())
        assert load_one.space.matrix.guidelines
        assert all(one.claim and one.source for one in load_one.space.matrix.guidelines)


def test_a_file_of_guidelines_is_not_checked_as_a_matrix() -> None:
    with pytest.raises(BadInput) as caught:
        parse("advice.yaml", SOUND)
    assert caught.value.brief == "advice.yaml: this file has only guidelines; matrices include it"
    assert "guidelines: [advice.yaml]" in caught.value.resolution


FORMER = """\
name: former
disks: {count: 3, size: 1GiB}
layouts: {five: [md: {level: 5}]}
workloads: {again: {sync_action: rebuild}}
guidelines:
  - {id: fast, bound: {metric: sync.bw, at_least: 1MB/s}}
"""
_CALLED = "6:32: `sync.bw` is now called `rebuild.bw`; the former name works until version 1.0"


def test_a_former_name_works_with_a_note() -> None:
    found = parse("former.yaml", FORMER).space
    (bound,) = (one.claimed for one in found.matrix.guidelines)
    assert bound.metric == "rebuild.bw"
    assert [note for note in found.notes if "former name" in note] == [f"former.yaml:{_CALLED}"]


@pytest.mark.parametrize(
    ("claim", "note"),
    [
        ("compare: {SIDES, to: {chunk: 64KiB}, within: 10%}", "`compare` is now called `ratio`;"),
        (
            "effect: {SIDES, over: {chunk: 64KiB}, at_least: 1.1x}",
            "`effect` is now called `ratio`, with `mean: true`, and its `over` is called `to`;",
        ),
    ],
)
def test_a_former_kind_of_claim_works_with_a_note(claim: str, note: str) -> None:
    text = FORMER.replace("level: 5", "level: 5, chunk: [64KiB, 128KiB]")
    text = text.replace("{sync_action: rebuild}", "{rw: read, bs: 1MiB}")
    text = text.replace("bound: {metric: sync.bw, at_least: 1MB/s}", claim)
    found = parse("former.yaml", text.replace("SIDES", "metric: read.bw, of: {chunk: 128KiB}")).space
    (called,) = [one for one in found.notes if "former name" in one]
    assert called.startswith("former.yaml:6:")
    assert note in called


def test_a_matrix_with_errors_has_the_notes_on_former_names_too() -> None:
    with pytest.raises(BadMatrix, match="1 error") as caught:
        parse("former.yaml", FORMER.replace("level: 5", "levl: 5"))
    assert caught.value.details.endswith(f"note: former.yaml:{_CALLED}")
