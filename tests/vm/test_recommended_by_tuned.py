"""The profile of what `matrix recommend` prints is put into effect by tuned itself, and the kernel is asked whether it is so.

The machine is a Debian with tuned running, as it does from its installation on. Nothing was measured for this: what is
recommended is what there is, and only the script counts.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.lab import Bay, Lab, up
from tests.support.recommended import LOOK, RUN, STABLE, TOP, WANTED, advice, matrix

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1200)]
LOG = "/var/log/tuned/tuned.log"
#: All that a profile has is something else after this, and nothing brings it back. Schedulers come first: what is set
#: of the queue is gone with another, so that a profile which turns it in the wrong order is found out.
OTHERWISE = """\
rm /etc/udev/rules.d/99-matrix.rules /etc/tmpfiles.d/matrix.conf
udevadm control --reload
for disk in {disks}; do
  queue=/sys/class/block/$(basename "$(readlink -f "$disk")")/queue
  echo none >"$queue"/scheduler
  echo 16 >"$queue"/nr_requests
  echo 256 >"$queue"/read_ahead_kb
done
top=/sys/class/block/$(basename "$(readlink -f {top})")
echo 256 >"$top"/queue/read_ahead_kb
if [[ -e $top/md/stripe_cache_size ]]; then echo 512 >"$top"/md/stripe_cache_size; fi
echo always >/sys/kernel/mm/transparent_hugepage/enabled
echo 33 >/proc/sys/vm/dirty_ratio
"""
#: What a profile claims, as tuned says that it is so, without names of the day; and of how many devices.
CLAIMED = {
    "'elevator' = 'mq-deadline'": 4,
    "'readahead' = '64'": 4,
    "'readahead' = '8192'": 1,
    "'queue/nr_requests' = '32'": 4,
    "'queue/iosched/read_expire' = '248'": 4,
    "'vm.dirty_ratio' = '11'": 1,
    "'/sys/kernel/mm/transparent_hugepage/enabled' = 'never'": 1,
}
OF_LAYOUT = {"raid5": {"'md/stripe_cache_size' = '4096'": 1}, "striped": {}}
#: The same, as it is looked at.
KNOBS = {
    *("readahead", "disk.read_ahead_kb", "disk.scheduler", "disk.nr_requests", "disk.iosched/read_expire"),
    *("stripe_cache_size", "hugepages", "dirty_ratio"),
}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of synthetic figures."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "pasted.yaml").write_text(RUN)
    matrix(folder, "run", "--on", "dry", "pasted.yaml")
    return folder


def typed(lab: Lab, text: str) -> str:
    return lab.said("bash -euo pipefail", stdin=text)


def looked(lab: Lab, layout: str) -> list[str]:
    said = typed(lab, LOOK.format(top=TOP[layout], disks=" ".join(lab.disks)))
    # Kernels list schedulers in one order or the other.
    said = said.replace("[mq-deadline] none", "none [mq-deadline]")
    return [" ".join(line.split()) for line in said.splitlines()]


def pasted(lab: Lab, night: Path, layout: str) -> None:
    script = advice(night, layout).script
    for number, disk in enumerate(lab.disks):
        script = script.replace(STABLE.format(number), disk)
    lab.run("bash", stdin=script)
    lab.run(f"mdadm --wait {TOP[layout]} || true")


def verified(lab: Lab) -> Counter[str]:
    """What tuned says of everything that it finds as the profile has it."""
    lab.run("tuned-adm verify")
    lines = re.findall(r"verify: passed: (.*)", lab.said(f"cat {LOG}"))
    return Counter(re.sub(r"^device \S+: |/sys/block/[^/]+/", "", line) for line in lines)


@pytest.mark.parametrize("layout", OF_LAYOUT)
def test_tuned_sets_all_that_the_profile_has(night: Path, layout: str, tmp_path: Path) -> None:
    wanted = WANTED[layout]
    with up(tmp_path, Bay(bus="sata"), packages=("tuned",)) as lab:
        lab.run("systemctl start tuned && tuned-adm off")
        pasted(lab, night, layout)
        assert looked(lab, layout) == wanted

        # A profile like those that tuned chooses by itself goes over it.
        lab.run("tuned-adm profile throughput-performance")
        assert {"disk.read_ahead_kb 4096", "dirty_ratio 40"} <= set(looked(lab, layout))

        lab.run(f"tuned-adm off; : >{LOG}")
        typed(lab, OTHERWISE.format(top=TOP[layout], disks=" ".join(lab.disks)))
        different = set(wanted) - set(looked(lab, layout))
        assert different == {line for line in wanted if line.split()[0] in KNOBS}

        lab.run("tuned-adm profile matrix")
        assert looked(lab, layout) == wanted
        assert verified(lab) == CLAIMED | OF_LAYOUT[layout]
        assert not re.findall(r"^.* (?:WARNING|ERROR) .*$", lab.said(f"cat {LOG}"), re.MULTILINE)
