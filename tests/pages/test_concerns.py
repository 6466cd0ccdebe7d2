"""What held a cell back, if the host limited some or all of its trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from matrix_runner.answers.cell_figures import measured_cell
from matrix_runner.base.files import shipped
from matrix_runner.pages.concerns import held_back_by
from matrix_runner.pages.ranking import FIRM
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import HOST_LIMITED, UNCONFINED, UNSETTLED, Trial, TrialFacts, losses_of
from matrix_runner.simdisks.server import Overload
from tests.pages.samples import SEQ, direction, measured
from tests.support.facts import noted

DISKS, HOST = "disks: each busy all the time", "host: too slow or too busy"


def trials(*lost: str) -> list[Trial]:
    """Return a trial for each share that it lost; empty for trials in time."""
    notes = [{HOST_LIMITED: one, "bottleneck": f"{HOST}, {one}"} if one else {"bottleneck": DISKS} for one in lost]
    plain = (measured("c1", number, direction(1e8, 4096)) for number in range(1, len(lost) + 1))
    return [replace(one, **noted(of)) for one, of in zip(plain, notes, strict=True)]


@pytest.mark.parametrize(
    ("several", "text"),
    [
        (trials("", ""), DISKS),
        (
            trials("43.1% (late)", "", "", ""),
            f"host in 1 of 4 trials: too slow or too busy, on average 11{FIRM}% of the time of all trials lost; else {DISKS}",
        ),
        (trials("5.3%", "", "", ""), f"host in 1 of 4 trials: too slow or too busy, on average 1.3{FIRM}% of the time of all trials lost; else {DISKS}"),
        (trials("70.7%", "39.0%"), f"{HOST}, on average 55{FIRM}% of the time lost"),
        ([replace(one, **noted({**one.notes, UNSETTLED: "9 %"})) for one in trials("50%")] + trials(""), DISKS),
        ([], ""),
    ],
)  # fmt: skip
def test_the_host_is_named_beside_the_disks(several: list[Trial], text: str) -> None:
    assert held_back_by(several) == text


def test_the_share_is_the_one_of_the_answer() -> None:
    several = trials("70.7%", "39.0%", "")
    content = RunData("m", "qemu", False, [SEQ], several)
    answer = measured_cell("", SEQ, several, content.rule, ())
    assert f"{answer.lost_share:.1%}" == "36.6%"
    assert f"37{FIRM}% of the time of all trials lost" in held_back_by(several)
    (found,) = content.concerns
    assert found.found[0].why == "70.7 %"
    assert "Each row is of the worst trial" in found.meaning


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (
            Overload(0.01, 0.2, 0.55),
            (
                "55.0 % of the time was lost: the virtual machine waited for a processor of the host (55.0 %), requests came "
                "late, so disks were idle (20.0 %), answers left late (0.8 %)"
            ),
        ),
        (Overload(0.09, 0.0), "9.0 % of the time was lost: answers left late (9.0 %)"),
        (
            Overload(0.0, 0.0, transit=0.2),
            "20.0 % of the time was lost: requests and answers were under way (20.0 %)",
        ),
    ],
)
def test_the_losses_of_the_worst_trial_are_in_plain_words(loss: Overload, why: str) -> None:
    facts = [TrialFacts(lost=0.06, lost_late=0.06, lost_idle=0.0), TrialFacts(**losses_of(loss.share, loss.causes))]
    several = [replace(one, facts=of) for one, of in zip(trials("", "", ""), (*facts, TrialFacts()), strict=True)]
    (found,) = RunData("m", "qemu", False, [SEQ], several).concerns
    assert found.found[0].why == why
    assert found.found[0].trials == "2 of 3"
    topic = found.meaning.partition("`matrix help ")[2].partition("`")[0]
    assert (shipped("docs") / "explanation" / f"{topic}.md").is_file()


def test_percentages_for_people_have_a_space() -> None:
    busy = [
        replace(one, **noted({"bottleneck": "disks: each busy for at least 97% of the time"})) for one in trials("")
    ]
    assert held_back_by(busy) == "disks: each busy for at least 97 % of the time"


def test_a_trial_with_an_unconfined_fio_is_named_and_doubted() -> None:
    plain, other = trials("", "")
    content = RunData(
        "m", "local", False, [SEQ], [plain, replace(other, notes={UNCONFINED: "root may not mount here"})]
    )
    (concern,) = content.concerns
    assert (concern.title, concern.found[0].trials, concern.found[0].why) == (
        *("Unconfined", "1 of 2"),
        "root may not mount here",
    )
    assert "other files and devices" in concern.doubt
