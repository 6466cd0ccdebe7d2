"""Wrong data that fio finds: an outcome of its own, never a figure, never a broken harness."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.cell_figures import measured_cell
from matrix_runner.base.errors import Exit
from matrix_runner.carry.trial_result import finding
from matrix_runner.machines.base import StepResult
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import outcome, table
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.session.finish import exit_code
from matrix_runner.statistics.stopping import Rule
from matrix_runner.work.fio.workload import FioWorkload
from tests.pages.samples import RAND, SEQ, direction, measured

if TYPE_CHECKING:
    from pathlib import Path

WORK = FioWorkload.model_validate({"rw": "write"})
VERIFIED = FioWorkload.model_validate({"rw": "write", "fio": {"verify": "crc32c"}})
BLOCK = 4096
JOB = "[trial]\nfilename={}\nsize=64k\nbs=4k\nverify=crc32c\nverify_state_save=0\nrw=write\n{}\n"
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt install fio")


def measure(folder: Path, *options: str) -> StepResult:
    job = folder / "job.fio"
    job.write_text(JOB.format(folder / "disk", "\n".join(options)))
    words = ["fio", "--output-format=json+", "--output=fio.json", job.name]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return StepResult("measure", done.returncode, done.stdout + (folder / "fio.json").read_text(), 0.0)


def damage(folder: Path, offset: int) -> None:
    with (folder / "disk").open("r+b") as disk:
        disk.seek(offset)
        disk.write(bytes(16))


@needs_fio
@pytest.mark.parametrize(
    ("offset", "options", "said"),
    [
        (3 * BLOCK + 100, (), "wrong data: crc32c: verify failed at file "),  # its content
        (3 * BLOCK, (), "wrong data: verify: bad magic header 0, wanted acca at file "),  # its header
        (3 * BLOCK + 100, ("verify_fatal=1",), f"offset {3 * BLOCK}, length {BLOCK}"),
        (3 * BLOCK + 100, ("continue_on_error=verify",), f"offset {3 * BLOCK}, length {BLOCK}"),
    ],
)
def test_a_wrong_read_of_fio_is_corrupt(tmp_path: Path, offset: int, options: tuple[str, ...], said: str) -> None:
    assert finding([measure(tmp_path, "do_verify=0")], WORK).outcome is Outcome.MEASURED
    damage(tmp_path, offset)
    found = finding([measure(tmp_path, "verify_only=1", *options)], WORK)
    assert (found.outcome, found.result.figures) == (Outcome.CORRUPT, None)
    assert said in found.reason


@needs_fio
def test_all_wrong_blocks_are_counted(tmp_path: Path) -> None:
    measure(tmp_path, "do_verify=0")
    for block in range(3):
        damage(tmp_path, block * BLOCK + 100)
    assert finding([measure(tmp_path, "verify_only=1", "continue_on_error=verify")], WORK).reason.endswith(
        "(and 2 more)"
    )


@needs_fio
def test_a_pattern_is_compared_too(tmp_path: Path) -> None:
    pattern = ("verify=pattern", "verify_pattern=0xdeadbeef")
    measure(tmp_path, "do_verify=0", *pattern)
    damage(tmp_path, 2 * BLOCK)
    assert finding([measure(tmp_path, "verify_only=1", *pattern)], WORK).outcome is Outcome.CORRUPT


@needs_fio
def test_reads_of_the_verification_are_no_figures(tmp_path: Path) -> None:
    result = measure(tmp_path)
    found = finding([result], VERIFIED)
    assert found.result.figures
    assert found.result.figures.write
    assert (found.result.figures.read, found.result.figures.write.bytes) == (None, 65536)
    assert found.result.verified == "64KiB read back, without difference"
    plain = finding([result], WORK).result.figures
    assert plain
    assert plain.read


def test_an_error_of_the_kernel_is_no_wrong_data() -> None:
    """dm-integrity returns the same error number as fio's verification, instead of wrong data."""
    text = 'fio: io_u error on file /dev/dm-0: Invalid or incomplete multibyte or wide character: read offset=0\n{\n  "jobs": [{"error": 84}]\n}\n'
    assert finding([StepResult("measure", 1, text, 0.0)], WORK).outcome is Outcome.BROKEN


def test_wrong_data_is_not_hidden_by_another_failure() -> None:
    read_back = StepResult("verify", 0, "reading\tmd.chunk\t65536\t4096\n", 0.0)
    text = "crc32c: verify failed at file /dev/vda offset 0, length 4096 (requested block: offset=0)\n"
    assert finding([read_back, StepResult("measure", 1, text, 0.0)], WORK).outcome is Outcome.CORRUPT


CORRUPT = Trial("c1", 2, Outcome.CORRUPT, "wrong data: crc32c: verify failed at file /dev/vda offset 0")
GOOD = measured("c1", 1, direction(2e8, 1 << 20))
RUN = RunData("m", "qemu", False, (SEQ,), (GOOD, CORRUPT))


def test_a_cell_with_wrong_data_has_no_figures_anywhere() -> None:
    (summary,) = RUN.summaries
    assert (summary.outcome, dict(summary.figures)) == (Outcome.CORRUPT, {})
    assert outcome(summary) == f"1 measured, 1 corrupt: {CORRUPT.reason}"
    assert not measured_cell("r", SEQ, RUN.trials, Rule(1, 1), ["read_bw"]).columns


def test_the_exit_code_is_that_of_a_result() -> None:
    assert exit_code(RUN) is Exit.CLAIM_FAILED
    broken = Trial("c2", 1, Outcome.BROKEN, "the guest panicked")
    assert exit_code(RunData("m", "qemu", False, (SEQ, RAND), (CORRUPT, broken))) is Exit.CLAIM_FAILED
    assert exit_code(RunData("m", "qemu", False, (SEQ, RAND), (GOOD, broken))) is Exit.BROKEN


def test_reports_tell_it_as_a_failure() -> None:
    document = junit(RUN).decode()
    assert f'<failure message="{CORRUPT.reason}" type="corrupt">' in document
    assert 'failures="1" errors="0"' in document.replace("\n", " ")
    assert table(RUN).rows[0][0] == SEQ.name
    both = RunData("m", "qemu", False, (RAND, SEQ), (GOOD, CORRUPT, measured("c2", 1, direction(4e5, 4096))))
    assert [row[0] for row in table(both).rows] == [SEQ.name, RAND.name]
