"""Scripts of dm-crypt, dm-integrity and preconditioning: clean, with no key on a command line, nothing unasked for."""

import re

import pytest

from matrix_runner.layers.dm import TEST_KEY
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.scripts.jinja import render
from matrix_runner.space.space import Cell, Space, Stack
from tests.support.matrices import space
from tests.support.shell import complaints

DISKS = tuple(f"/dev/disk/by-id/it's:{number}" for number in range(4))
ALL = """\
name: all
disks: {count: 4, size: 1GiB}
layouts:
  crypt: [disks, crypt: {format: [luks2, luks1, plain], same_cpu_crypt: [true, false]}]
  integrity: [disks, integrity: {mode: [journal, bitmap, direct], journal_size: 8MiB}]
  stack: [disks, integrity, md: {level: 5}, crypt: {format: plain}]
  written: [disks, precondition: {how: [none, fill, until-steady], discard: [true, false]}, md: {level: 5}]
workloads: {work: {rw: read}}
"""


def array_called(found: Space, label: str) -> Stack:
    return next(array for array in found.stacks if array.label == label)


def scripts_of(found: Space, array: Stack) -> dict[str, str]:
    whole = stack_scripts(array, DISKS, zeroed=True)
    cell: Cell = next(cell for cell in found.cells() if cell.stack is array)
    again = render("activate.sh", None, title=array.label, stack=whole.stack)
    return {
        "set-up.sh": whole.set_up,
        "tear-down.sh": whole.tear_down,
        "verify.sh": cell_scripts(cell, whole.stack).verify,
        "activate.sh": again,
    }


@pytest.fixture(scope="module")
def rendered() -> dict[str, dict[str, str]]:
    found = space(ALL)
    return {array.label: scripts_of(found, array) for array in found.stacks}


def test_every_script_is_clean(rendered: dict[str, dict[str, str]]) -> None:
    scripts = [text for files in rendered.values() for text in files.values()]
    assert len(scripts) == 4 * (6 + 3 + 1 + 6)
    assert complaints(scripts) == ""


def test_the_key_goes_through_a_pipe_alone(rendered: dict[str, dict[str, str]]) -> None:
    lines = [line for files in rendered.values() for text in files.values() for line in text.splitlines()]
    told = [line.strip() for line in lines if TEST_KEY[:20] in line]
    assert told
    assert all(line.startswith("printf '%s' ") and line.endswith("|") for line in told)


def test_a_plain_key_is_as_long_as_it_must_be(rendered: dict[str, dict[str, str]]) -> None:
    text = rendered["crypt/format=plain,same_cpu_crypt=false"]["set-up.sh"]
    (key, *_) = re.findall(r"printf '%s' '([^']*)' \|", text)
    assert len(key) * 8 == 512
    assert key[:32] != key[32:]
    assert "--key-size=512" in text
    assert "luksFormat" not in text


def test_mappings_and_headers_carry_a_mark_of_what_they_are() -> None:
    def named(text: str) -> set[str]:
        found = space(text)
        stack = stack_scripts(found.stacks[0], DISKS, zeroed=True).stack
        return set(stack.tops)

    one = ALL.replace("[true, false]", "true").replace("[luks2, luks1, plain]", "luks1")
    other = one.replace("same_cpu_crypt: true", "same_cpu_crypt: false")
    assert len(named(one) | named(other)) == 8
    assert named(one) == named(one)


def test_only_declared_flags_are_set(rendered: dict[str, dict[str, str]]) -> None:
    assert "--perf-same_cpu_crypt" in rendered["crypt/format=luks1,same_cpu_crypt=true"]["set-up.sh"]
    assert "--perf" not in rendered["crypt/format=luks1,same_cpu_crypt=false"]["set-up.sh"]
    assert "told_flag 'crypt[1]' same_cpu_crypt off" in rendered["crypt/format=luks1,same_cpu_crypt=false"]["verify.sh"]


def test_a_name_with_a_colon_stays_one_device_of_fio(rendered: dict[str, dict[str, str]]) -> None:
    assert r"s\:0'" in rendered["written/how=fill,discard=false"]["set-up.sh"]


def test_without_a_declaration_there_is_no_tuning(rendered: dict[str, dict[str, str]]) -> None:
    for name, fio, discards in (
        ("how=none,discard=false", 0, 0),
        ("how=none,discard=true", 0, 1),
        ("how=fill,discard=true", 1, 1),
        ("how=until-steady,discard=false", 2, 0),
    ):
        text = rendered[f"written/{name}"]["set-up.sh"]
        assert text.count("said=$(fio ") == fio
        assert text.count('  blkdiscard "$device"') == discards


def test_arrays_on_written_devices_are_resynced() -> None:
    """An array on noise is not clean; one on wiped dm-integrity is."""
    found = space(ALL)

    def resync(label: str) -> set[str]:
        layers = stack_scripts(array_called(found, label), DISKS, zeroed=True).stack.layers
        return {layer.resync for layer in layers if layer.resync}

    assert resync("written/how=fill,discard=false") == {"waited for"}
    assert resync("written/how=none,discard=false") == {"assume-clean"}
    assert resync("stack") == {"assume-clean"}
