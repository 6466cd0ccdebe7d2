"""The envelope against a real bash."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from shlex import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import shell
from matrix_runner.machines.base import Step, StepResult

MARK = "m4rk"


def enact(*steps: Step, mark: str = MARK) -> list[StepResult]:
    with tempfile.TemporaryDirectory() as folder:
        script = shell.pack(steps, mark, shell.enter_work_folder(f"{folder}/it's here", 0))
        done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=False)
    return shell.unpack(steps, mark, done.stdout, done.stderr.decode())


def outcomes(*steps: Step) -> list[tuple[str, int, str]]:
    return [(result.name, result.status, result.output) for result in enact(*steps)]


def test_steps_run_in_order_with_their_output() -> None:
    assert outcomes(Step("a", "echo 1"), Step("b", "echo 2 >&2; printf 3")) == [("a", 0, "1\n"), ("b", 0, "2\n3")]


def test_the_first_that_fails_is_the_last_that_runs() -> None:
    assert outcomes(Step("a", "echo 1"), Step("b", "exit 7"), Step("c", "echo 3")) == [("a", 0, "1\n"), ("b", 7, "")]


def test_no_steps_no_results() -> None:
    assert enact() == []


def test_later_steps_read_what_earlier_ones_wrote() -> None:
    steps = [Step("a", "cat job.fio >copy", {"job.fio": "[x]\n"}), Step("b", "cat copy sub/-f", {"sub/-f": "y"})]
    assert outcomes(*steps)[1] == ("b", 0, "[x]\ny")


def test_each_run_starts_in_an_empty_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2 * shell.WORK_FOLDERS + 2):
            step = Step("a", "ls -A; touch .x y", {"given": ""})
            script = shell.pack([step], MARK, shell.enter_work_folder(folder, number))
            done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True)
            assert shell.unpack([step], MARK, done.stdout)[0].output == "given\n"
        assert len(list(Path(folder).iterdir())) == shell.WORK_FOLDERS


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        ("set -eu\nfalse\necho not reached", 1, ""),
        ("cat <<'EOF'\n$not 'expanded'\nEOF\ncat", 0, "$not 'expanded'\n"),
        ("exec false", 1, ""),
        ("kill -9 $BASHPID", 137, ""),
        ("cd /; exit 3; }", 2, None),
        ("echo $# $1", 0, "0\n"),
        ("cat; read -r x; echo $?", 0, "1\n"),
        ("trap 'echo bye' EXIT; set -o pipefail; false | true", 1, "bye\n"),
    ],
)
def test_a_step_may_be_any_bash(text: str, status: int, output: str | None) -> None:
    (result,) = enact(Step("a", text))
    assert result.status == status
    assert output is None or result.output == output


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_step_ends_at_its_first_error(place: int) -> None:
    steps = [Step(str(number), "set -euo pipefail\necho on", {"file": "x"}) for number in range(3)]
    steps[place] = Step("bad", "set -euo pipefail\nfalse\necho went on", {"file": "x"})
    assert outcomes(*steps)[place:] == [("bad", 1, "")]


def test_a_step_whose_files_cannot_be_written_is_not_run() -> None:
    with pytest.raises(HarnessBroken, match="step b was cut short") as caught:
        enact(Step("a", "mkdir job.fio"), Step("b", "echo ran anyway", {"job.fio": "x"}))
    assert "ran anyway" not in caught.value.details


def test_a_syntax_error_fails_only_its_own_step() -> None:
    results = enact(Step("good", "echo fine"), Step("bad", "if ; then ("))
    assert [result.status == 0 for result in results] == [True, False]
    assert "syntax error" in results[1].output


def test_options_of_one_step_do_not_reach_the_next() -> None:
    assert outcomes(Step("a", "set -eux; shopt -s nullglob; cd /"), Step("b", "echo $unset *"))[1] == ("b", 0, "*\n")


def test_a_step_that_goes_on_is_in_the_shell_of_the_one_before_it() -> None:
    steps = [
        Step("a", "a=1"),
        Step("b", "echo $a; set -u", continues_shell=True),
        Step("c", "echo $a"),
        Step("d", "echo $a"),
    ]
    assert [said for _, _, said in outcomes(*steps)] == ["", "1\n", "\n", "\n"]


@pytest.mark.parametrize("text", ["exit 7", "(exit 7)", "set -e; (exit 7); echo went on", "if ; then (", "exec false"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_shared_or_not_the_first_that_fails_is_the_last_that_runs(text: str, place: int) -> None:
    texts = ["set -euo pipefail\necho on\ncat file"] * 3
    texts[place] = text
    apart = [Step(str(number), text, {"file": str(number)}) for number, text in enumerate(texts)]
    together = [replace(step, continues_shell=True) for step in apart]
    assert len(outcomes(*together)) == place + 1
    assert [one[:2] for one in outcomes(*together)] == [one[:2] for one in outcomes(*apart)]
    assert outcomes(*together)[:place] == outcomes(*apart)[:place]


def test_a_step_that_leaves_a_shared_shell_as_if_all_were_done_is_found_out() -> None:
    with pytest.raises(HarnessBroken, match="step b was cut short"):
        enact(Step("a", "exit 0"), Step("b", "echo not reached", continues_shell=True))


def test_in_a_shared_shell_too_a_step_whose_files_cannot_be_written_is_not_run() -> None:
    with pytest.raises(HarnessBroken, match="step b was cut short") as caught:
        enact(Step("a", "mkdir job.fio"), Step("b", "echo ran anyway", {"job.fio": "x"}, continues_shell=True))
    assert "ran anyway" not in caught.value.details


def test_exit_traps_of_a_shared_shell_belong_to_its_last_step() -> None:
    steps = [Step("a", "trap 'echo bye' EXIT"), Step("b", "echo b; exit 3", continues_shell=True)]
    assert outcomes(*steps) == [("a", 0, ""), ("b", 3, "b\nbye\n")]


def test_each_step_of_a_shared_shell_has_its_own_time() -> None:
    texts = ["unset EPOCHREALTIME; EPOCHREALTIME=10.000000", "EPOCHREALTIME=12.500000", ":"]
    assert enact(*(Step("a", text, continues_shell=True) for text in texts))[1].seconds == 2.5


def test_output_that_looks_like_a_frame_is_output() -> None:
    fake = "\nother end 0 0 1\nother begin 1\n"
    assert outcomes(Step("a", f"printf %s '{fake}'"))[0][2] == fake


def test_bytes_that_are_no_text_survive_as_well_as_they_can() -> None:
    assert outcomes(Step("a", r"printf '\377\000x'"))[0][2] == "�\0x"


def test_null_bytes_are_refused() -> None:
    with pytest.raises(HarnessBroken, match="null byte"):
        shell.pack([Step("a", "echo \0")], MARK, ":")


def test_a_script_cut_short_is_an_error_with_its_last_words() -> None:
    with pytest.raises(HarnessBroken, match="step a was cut short") as caught:
        enact(Step("a", "echo last words; kill -9 $$"))
    assert "last words" in caught.value.details


def test_time_is_measured() -> None:
    assert enact(Step("a", "sleep 0.01"))[0].seconds >= 0.01


text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200)
names = st.from_regex(r"[A-Za-z0-9 '$*~-]{1,12}", fullmatch=True)


@given(content=text, name=names)
def test_files_and_texts_arrive_as_they_are(content: str, name: str) -> None:
    said = Step("say", f"cat -- {quote('./' + name)}", {name: content})
    (result,) = enact(said)
    assert result.output.encode() == content.encode()
