"""The functions of a read-back script, on files that stand in for the kernel's."""

import subprocess
from pathlib import Path

from matrix_runner.carry.trial_result import split_other_settings
from tests.support.matrices import SWEEP, space
from tests.support.scripts import rendered

#: What the kernel says, by file.
SAID = {
    "plain": "256\n",
    "empty": "",
    "no-newline": "4",
    "choice": "none [mq-deadline] kyber\n",
    "limit": "1000 (system)\n",
    "md/bitmap/location": "+8\n",
}


def read_back(folder: Path, text: str) -> tuple[int, list[str], str]:
    """Exit status, readings, and complaints."""
    for name, said in SAID.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(said)
    script = rendered(next(iter(space(SWEEP).cells())))["3-verify.sh"]
    functions = script[: script.index("\nkernel_name /dev")]
    end = script[script.index('\nprintf %s "$readings"') :]
    done = subprocess.run(
        ["/bin/bash", "-c", f"{functions}\nat=.\n{text}\n{end}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_each_file_is_read_back_with_its_wanted_value(tmp_path: Path) -> None:
    looks = "look a 256 plain; look b mq-deadline choice; look c 1000 limit; look d internal ./md/bitmap/location"
    assert read_back(tmp_path, f"{looks}; look e 4 no-newline; told f 1 1") == (
        0,
        [
            "reading\ta\t256\t256",
            "reading\tb\tmq-deadline\tmq-deadline",
            "reading\tc\t1000\t1000",
            "reading\td\tinternal\tinternal",
            "reading\te\t4\t4",
            "reading\tf\t1\t1",
        ],
        "",
    )


def test_every_mismatch_is_reported_and_every_value_printed(tmp_path: Path) -> None:
    status, readings, complaint = read_back(
        tmp_path, "look a 4096 plain; look b 0 missing; told c x y; look d 256 plain"
    )
    assert status == 4
    assert [reading.split("\t")[1:] for reading in readings] == [
        ["a", "4096", "256"],
        ["b", "0", "absent"],
        ["c", "x", "y"],
        ["d", "256", "256"],
    ]
    assert complaint.splitlines() == [
        "matrix: not as declared: a wanted 4096, kernel says 256",
        "matrix: not as declared: b wanted 0, kernel says absent",
        "matrix: not as declared: c wanted x, kernel says y",
    ]


def test_missing_files_are_reported_only_if_declared(tmp_path: Path) -> None:
    looks = "look a - missing; look_anyway b - missing; look c - empty"
    assert read_back(tmp_path, looks) == (0, ["reading\tb\t-\tabsent"], "")


#: fio as it stands in: it takes its time, as it does, and says something.
FIO = 'confined() { "$@"; }\nfio() { sleep 0.1; echo "fio: a word"; echo "{}" >fio.json; return 3; }\n'


def measured(folder: Path, name: str) -> tuple[int, list[str]]:
    """Exit status and lines of a measurement of which the kernel knows nothing but `name`, and the memory's files."""
    (folder / name / "queue").mkdir(parents=True)
    (folder / name / "queue" / "scheduler").write_text("none [mq-deadline] kyber\n")
    script = rendered(next(iter(space(SWEEP).cells())))["4-measure.sh"].replace("/sys/class/block", str(folder))
    knows = f"look_up() {{ REPLY={name}; [[ $1 == */by-id/matrix-0 ]]; }}\n"
    text = script.replace("\nunasked() {\n", f"\n{knows}unasked() {{\n").replace(
        "\ncounted before\n", f"\n{FIO}\ncounted before\n"
    )
    done = subprocess.run(["/bin/bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_undeclared_settings_are_recorded_while_fio_starts(tmp_path: Path) -> None:
    status, lines = measured(tmp_path, "sdx")
    assert status == 3
    after = lines.index(next(line for line in lines if line.startswith("counted after")))
    assert lines.index("fio: a word") < after
    told = lines.index("reading\tdisk0.node\t-\tsdx")
    assert told < lines.index(f"{tmp_path}/sdx/queue/scheduler:none [mq-deadline] kyber") < lines.index("{}")


def test_recorded_files_become_readings() -> None:
    said = """\
/sys/class/block/vda/queue/scheduler:[none] mq-deadline
/sys/class/block/vda/queue/nr_requests:256
/sys/class/block/vda/queue/nr_requests:a second line
/sys/class/block/vda/device/empty:
/sys/class/block/vdab/size:7
/proc/sys/vm/dirty_ratio:20
reading\tdisk0.node\t-\tvda
matrix: something else: /sys/class/block/vda/x:1
{
/sys/class/block/vda/in/the/json:1
}
"""
    readings, rest = split_other_settings(said)
    assert readings.splitlines() == [
        "reading\tdisk0.queue/scheduler\t-\tnone",
        "reading\tdisk0.queue/nr_requests\t-\t256",
        "reading\tvm.dirty_ratio\t-\t20",
        "reading\tdisk0.node\t-\tvda",
    ]
    assert rest.splitlines() == [
        "/sys/class/block/vdab/size:7",
        "matrix: something else: /sys/class/block/vda/x:1",
        "{",
        "/sys/class/block/vda/in/the/json:1",
        "}",
    ]


def test_device_lookups_are_cached(tmp_path: Path) -> None:
    text = 'REPLY=plain; look a 256 "$REPLY"; look_anyway b 256 "$REPLY"; look c 256 "$REPLY"'
    assert read_back(tmp_path, text)[::2] == (0, "")
