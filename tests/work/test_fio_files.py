"""fio's options that name files or commands are refused; a new fio with a new option of that kind fails here."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from matrix_runner.work.fio.workload import misplaced

#: Texts that name neither a file nor a command.
HARMLESS = {
    *("bs", "ba", "blockalign", "bsrange", "bssplit", "blocksize", "blocksize_range", "description", "wait_for"),
    *("rwmixread", "cpus_allowed", "log_compression_cpus", "numa_cpu_nodes", "numa_mem_policy", "percentile_list"),
    *("random_distribution", "file_service_type", "rw", "mem", "verify", "buffer_pattern", "verify_pattern"),
    *("number_ios", "zonesize", "zonecapacity", "zonerange", "lockmem"),  # numbers
    *("steadystate", "ioengine", "fadvise_hint", "sync_file_range", "rate", "rate_min", "rate_iops", "rate_iops_min"),
}


def string_options() -> list[str]:
    fio = shutil.which("fio") or pytest.skip("no fio")
    text = subprocess.run([fio, "--cmdhelp=all"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^([\w-]+) *:", text, re.MULTILINE)
    found = []
    for name in names:
        shown = subprocess.run([fio, f"--cmdhelp={name}"], capture_output=True, text=True).stdout
        if "type: string (opt=bla)" in shown and "valid values" not in shown:
            found.append(name)
    return found


def test_every_option_with_a_text_is_harmless_or_refused() -> None:
    names = string_options()
    assert {"filename", "exec_prerun", "cgroup", "write_iolog"} <= {*names}
    assert [name for name in names if name not in HARMLESS and misplaced(name, "x") is None] == []


@pytest.mark.parametrize(
    "option", ["verify_dump", "verify_state_load", "verify_state_save", "cgroup_weight", "profile"]
)
def test_options_with_side_effects_on_files_are_refused(option: str) -> None:
    assert "is not allowed in the fio: map" in (misplaced(option, 1) or "")


@pytest.mark.parametrize("option", ["buffer_pattern", "verify_pattern"])
def test_a_pattern_may_not_name_a_file(option: str) -> None:
    assert "cannot name a file" in (misplaced(option, "'/etc/shadow'") or "")
    assert "cannot name a file" in (misplaced(option, "0xff'/etc/shadow'") or "")
    assert misplaced(option, '0xdeadbeef"text"') is None
