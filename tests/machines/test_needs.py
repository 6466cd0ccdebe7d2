"""What layers need, and what of it a machine is known to lack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from matrix_runner.layers import LAYERS
from matrix_runner.layers.md import Md
from matrix_runner.layers.memory import Memory
from matrix_runner.layers.needs import Need
from matrix_runner.layers.nvme_tcp import NvmeTcp
from matrix_runner.machines import machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.container import Container
from matrix_runner.machines.dry import Dry
from matrix_runner.machines.local import Local
from matrix_runner.machines.needs import any_lacks, lacks
from matrix_runner.machines.qemu import facts_of, unset_options
from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.machines.requirements import PACKAGES
from matrix_runner.session import selected_matrix
from tests.support.kernels import RELEASE, image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix_runner.layers.base import Layer

FOLDER = "name a folder with another mdadm at `kernel:`"


class Demanding(Md):
    needs: ClassVar[tuple[Need, ...]] = (
        Need("bitmap", ("internal",), ("raid1",), ("mdadm 4.6", "lvm"), "6.18", ("MD_LLBITMAP",), own_kernel=True),
    )


def layer(bitmap: str = "internal") -> Layer:
    return Demanding.model_validate({"level": 1, "bitmap": bitmap})


ALL = {"kernel": "6.18.0-rc1", "mdadm": "mdadm - v4.6 - 2026-01-01"}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, ""),
        (ALL, ""),
        ({"mdadm": "mdadm - no version"}, ""),
        ({"without": "raid10", "absent": "mkfs.xfs"}, ""),
        ({"kernel": "6.9.1"}, "needs Linux 6.18 or later, and the kernel is 6.9.1: name another at `kernel:`"),
        (
            {"kernel": "7.0", "without": "raid1"},
            "needs raid1, and this kernel (7.0) has no such module: name another at",
        ),
        ({"mdadm": "4.4-11+deb13u1"}, f"needs mdadm 4.6 or later, and this is 4.4: {FOLDER}"),
        ({"mdadm": "mdadm - v4.10 - 2027"}, ""),
        (
            {"kernel": "7.0", "unset": "MD_LLBITMAP"},
            "needs CONFIG_MD_LLBITMAP, and this kernel (7.0) is built without it: ",
        ),
        ({"absent": "lvm"}, "needs lvm: name a folder with another lvm at `kernel:`"),
    ],
)
def test_what_is_missing_is_named_with_what_would_bring_it(facts: Mapping[str, str], reason: str) -> None:
    found = [one.message for one in lacks([layer()], Dry(), facts)]
    assert [one.startswith(f"`md: {{bitmap: internal}}` {reason}") for one in found] == [True] * bool(reason)
    assert not lacks([layer("none")], Dry(), facts), "other values need nothing"


@pytest.mark.parametrize("kind", [Memory, NvmeTcp])
def test_more_queues_than_processors_are_skipped_because_the_kernel_would_make_fewer(kind: type[Layer]) -> None:
    layer = kind.model_validate({"queues": 4} | ({"count": 1, "size": "1MiB"} if kind is Memory else {}))
    assert not lacks([layer], Dry(), {})
    assert not lacks([layer], Dry(), {"processors": "4"})
    (refusal,) = lacks([layer], Dry(), {"processors": "2"})
    assert refusal.message == (
        f"`{kind.kind}: {{queues: 4}}` needs 4 processors, and this machine has 2: "
        "write `machine: {cpus: 4}`, or write fewer queues"
    )
    (refusal,) = lacks([layer], Local(), {"processors": "2"})
    assert refusal.message.endswith("has 2: write fewer queues")


def test_a_host_has_other_remedies() -> None:
    facts = {"kernel": "6.1", "mdadm": "mdadm - v4.4", "absent": "lvm"}
    (kernels, *_) = lacks([layer()], Container(), facts)
    assert kernels.message.endswith("a kernel of its own, and container shares that of its host: use qemu or local")
    assert [one.message.partition(" needs ")[2] for one in lacks([layer()], Local(), facts)] == [
        "Linux 6.18 or later, and the kernel is 6.1: boot another, or use qemu with `kernel:`",
        "mdadm 4.6 or later, and this is 4.4: install a newer mdadm, such as that of backports",
        "lvm: apt install lvm2",
    ]
    (first, *_) = any_lacks([Demanding], Local(), facts)
    assert first.brief.startswith("`md: {bitmap: internal}` needs")


def test_an_appliance_tells_what_it_has_before_a_boot() -> None:
    base = Appliance(Path("/u"), Path("/c"), {"kernel": "6.12.1", "mdadm": "4.4-11"}, modules=frozenset({"raid1"}))
    spec = RigSpec((), modules=("raid1", "linear"), programs=("mdadm", "mkfs.xfs"))
    known = {"kernel": "6.12.1", "processors": "2", "absent": "mkfs.xfs", "without": "linear"}
    assert facts_of(base, spec, ()) == {**known, "mdadm": "4.4-11"}
    assert facts_of(base, spec, ["usr/sbin/mdadm"]) == known, "the version of one's own is unknown"
    built_in = Appliance(Path("/u"), Path("/c"), {"kernel": "6.12.1", "mdadm": "4.4-11"})
    assert "without" not in facts_of(built_in, spec, ())


def test_options_of_a_kernel_are_known_by_its_configuration(tmp_path: Path) -> None:
    base, spec = Appliance(tmp_path, tmp_path), RigSpec((), options=("MD_LLBITMAP", "BCACHE", "MD_RAID0"))
    (tmp_path / "config").write_text("# CONFIG_MD_LLBITMAP is not set\nCONFIG_BCACHE=m\nCONFIG_MD_RAID0=y\n")
    assert unset_options(base, spec, None) == {"unset": "MD_LLBITMAP"}
    assert unset_options(base, RigSpec(()), None) == {}
    assert unset_options(base, spec, image(tmp_path, b"")) == {}, "an image without a configuration"
    (tmp_path / f"config-{RELEASE}").write_text("CONFIG_MD_LLBITMAP=y\nCONFIG_BCACHE=y\n")
    assert unset_options(base, spec, image(tmp_path, b"")) == {"unset": "MD_RAID0"}


def test_each_program_of_a_layer_has_a_package() -> None:
    needed = {name.partition(" ")[0] for kind in LAYERS.values() for need in kind.needs for name in need.programs}
    assert needed <= set(PACKAGES)


def test_each_need_is_about_a_key_and_its_values() -> None:
    for kind in LAYERS.values():
        for need in kind.needs:
            assert not need.key or need.key in kind.model_fields
            assert bool(need.key) == bool(need.values)


class Partial(Dry):
    name: ClassVar[str] = "partial"

    def refusals(self, spec: RigSpec) -> list[Any]:
        from matrix_runner.machines.requirements import refusals

        return list(refusals("".join(f"no-module {name}\n" for name in spec.modules if name != "raid1"), "here"))


def test_a_run_is_refused_only_if_no_stack_can_run() -> None:
    good, bad = RigSpec((), modules=("raid1",)), RigSpec((), modules=("linear",))
    assert not selected_matrix.refusals_of(Partial(), [good, bad])
    assert len(selected_matrix.refusals_of(Partial(), [bad])) == 1


@pytest.mark.parametrize("name", ["qemu", "dry"])
def test_a_machine_without_an_appliance_knows_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))
    assert machine(name, MachineOptions()).known(RigSpec(())) == {}
    assert machine(name, MachineOptions()).known(RigSpec((), kernel="./gone")) == {}


def test_sizes_are_named_as_in_a_matrix() -> None:
    assert Need("recordsize", (2 << 20, 4 << 20)).label("zfs") == "`zfs: {recordsize: 2MiB or 4MiB}`"
    assert Need("level", (10,)).label("md") == "`md: {level: 10}`"
