"""Verdicts of every kind."""

from matrix_runner.answers.verdicts import Judgement
from tests.answers.world import cells, guideline, run, verdict

PAIR = cells(layout=["raid0", "far"])


def claimed(name: str, times: float, *, noise: float = 0.01, synthetic: bool = False, rounds: int = 5) -> Judgement:
    claim = guideline(
        claim=f"{name} in words",
        source="somebody",
        ratio={"metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, "at_least": "1.5x"},
    ).model_copy(update={"id": name})
    truth = run(PAIR, lambda axes: times if axes["layout"] == "far" else 1.0, noise=noise, rounds=rounds)
    return verdict(claim, truth, synthetic=synthetic)


HOLDS, FAILS = claimed("good", 2.0), claimed("bad", 1.0)


OPEN = claimed("open", 1.6, noise=0.3)


NEVER = verdict(claimed("never", 1.0).guideline, run(cells(layout=["single"]), lambda _: 1.0))


ALL = (HOLDS, FAILS, OPEN, NEVER)
