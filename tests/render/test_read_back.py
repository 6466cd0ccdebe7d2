"""The functions of a read-back script, on files that stand in for the kernel's."""

import subprocess
from pathlib import Path

from runner.execute.interpret import with_unasked
from tests.matrices import SWEEP, space
from tests.render.test_scripts import rendered

#: What the kernel says, by file.
SAID = {
    "plain": "256\n",
    "empty": "",
    "no-newline": "4",
    "choice": "none [mq-deadline] kyber\n",
    "limit": "1000 (system)\n",
    "md/bitmap/location": "+8\n",
}


#: The lines of the script that look at what nothing was asked of.
UNASKED = """
trap wait EXIT
if [[ -n ${unasked[*]-} ]]; then grep -sH '' "${unasked[@]}" & fi
"""


def read_back(folder: Path, text: str) -> tuple[int, list[str], str]:
    """Exit status, readings, and complaints."""
    for name, said in SAID.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(said)
    script = rendered(next(iter(space(SWEEP).cells())))["3-verify.sh"]
    assert UNASKED in script
    functions = script[: script.index("\nkernel_name /dev")]
    end = script[script.index('\nwait\nprintf %s "$readings"') :]
    done = subprocess.run(
        ["/bin/bash", "-c", f"{functions}\nat=.\n{text}\n{end}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_every_file_is_told_with_what_was_wanted_of_it(tmp_path: Path) -> None:
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


def test_all_that_is_not_as_declared_is_complained_of_and_all_is_told(tmp_path: Path) -> None:
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


def test_what_is_not_there_is_told_only_if_it_was_asked_about(tmp_path: Path) -> None:
    looks = "look a - missing; look_anyway b - missing; look c - empty"
    assert read_back(tmp_path, looks) == (0, ["reading\tb\t-\tabsent"], "")


def test_what_nothing_was_asked_of_is_told_as_it_is_even_where_something_else_is_wrong(tmp_path: Path) -> None:
    looks = 'look_on disk "$at"/plain "$at"/missing; look_on other "$at"/choice "$at"/empty'
    as_it_is = ["./plain:256", "./choice:none [mq-deadline] kyber"]
    assert read_back(tmp_path, f"{looks}; {UNASKED}") == (0, as_it_is, "")
    status, said, _ = read_back(tmp_path, f"{looks}; {UNASKED}told c x y")
    assert (status, said) == (4, [*as_it_is, "reading\tc\tx\ty"])


def test_what_goes_wrong_later_does_not_leave_the_looking_behind(tmp_path: Path) -> None:
    looks = 'unasked=("$at"/plain); grep() { sleep 0.2; command grep "$@"; }'
    assert read_back(tmp_path, f"{looks}; {UNASKED}fail gone") == (1, ["./plain:256"], "matrix: gone\n")


def test_files_told_as_they_are_become_readings() -> None:
    said = """\
/sys/class/block/vda/queue/scheduler:[none] mq-deadline
/sys/class/block/vda/queue/nr_requests:256
/sys/class/block/vda/queue/nr_requests:a second line
/sys/class/block/vda/device/empty:
/sys/class/block/vdab/size:7
/proc/sys/vm/dirty_ratio:20
reading\tdisk0.node\t-\tvda
reading\tmd.level\traid0\traid0
matrix: something else: /sys/class/block/vda/x:1
"""
    assert with_unasked(said).splitlines() == [
        "reading\tdisk0.queue/scheduler\t-\tnone",
        "reading\tdisk0.queue/nr_requests\t-\t256",
        "/sys/class/block/vdab/size:7",
        "reading\tvm.dirty_ratio\t-\t20",
        "reading\tdisk0.node\t-\tvda",
        "reading\tmd.level\traid0\traid0",
        "matrix: something else: /sys/class/block/vda/x:1",
    ]


def test_what_was_looked_up_outlives_a_look(tmp_path: Path) -> None:
    text = (
        'REPLY=plain; look a 256 "$REPLY"; look_anyway b 256 "$REPLY"; look_on disk "$at"/choice; look c 256 "$REPLY"'
    )
    assert read_back(tmp_path, text)[::2] == (0, "")
