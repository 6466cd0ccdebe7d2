"""Which orders are one and the same run, and which are refused before there is one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.cli import main
from matrix_runner.language.hosts import Needs
from matrix_runner.machines.dry import Dry
from matrix_runner.scripts import jinja as environment
from matrix_runner.session.cluster import order_for_batches
from matrix_runner.session.prepare import choose_run
from matrix_runner.session.run import _versions
from matrix_runner.session.run_request import RunRequest, check_kernel, kernel_content
from matrix_runner.session.selected_matrix import load_selected
from matrix_runner.session.versions import Versions
from matrix_runner.space.declared_files import matched, parse_lab
from tests.support.matrices import SMALL
from tests.support.parted import PARTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrix_runner.machines.base import MachineOptions
    from matrix_runner.records.run_folder import StackFacts
    from matrix_runner.session.prepare import RunChoice
    from tests.support.command import Said


def fingerprint(folder: Path, text: str = SMALL, *, kernel: str | None = None, own: Path | None = None) -> str:
    (folder / "m.yaml").write_text(text)
    return RunRequest(folder / "m.yaml", load_selected(folder / "m.yaml"), "dry", kernel, own, cold=False).fingerprint()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for name in ("set-up", "tear-down"):
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "md.sh").write_text(f"# {name}\n")
    return tmp_path / "own"


def test_the_same_request_continues_the_run(tmp_path: Path, own: Path) -> None:
    assert fingerprint(tmp_path) == fingerprint(tmp_path, "# a comment\n" + SMALL)
    assert fingerprint(tmp_path, own=own) == fingerprint(tmp_path, own=own) != fingerprint(tmp_path)


def test_small_disks_stand_for_large_ones(tmp_path: Path) -> None:
    def facts(text: str) -> StackFacts:
        (tmp_path / "m.yaml").write_text(text)
        request = RunRequest(tmp_path / "m.yaml", load_selected(tmp_path / "m.yaml"), "dry", None, None, cold=False)
        return request.manifest().stacks["raid5/chunk=64KiB"]

    small = re.sub("disks: .*", "disks: {count: 3, size: 64MiB, model: nas-7200}", SMALL)
    large = small.replace("64MiB, model", "64MiB, stands_for: 6400MiB, model")
    one, many = facts(small), facts(large)
    assert many.capacity == pytest.approx(one.capacity * 100, rel=0.1)
    assert many.rebuild_bytes == pytest.approx((one.rebuild_bytes or 0) * 100, rel=0.1)
    assert many.rebuild_rate == one.rebuild_rate
    assert fingerprint(tmp_path, small) != fingerprint(tmp_path, large), "its caches are smaller"


def test_a_stack_with_parts_has_what_it_offers(tmp_path: Path) -> None:
    layouts = "plain: {on: hdd, layers: [md: {level: 5}]}, cached: {on: hdd, layers: [lvm: {type: cache, fast: ssd}]}"
    (tmp_path / "m.yaml").write_text(PARTED % layouts)
    request = RunRequest(tmp_path / "m.yaml", load_selected(tmp_path / "m.yaml"), "dry", None, None, cold=False)
    found = {name: facts.capacity for name, facts in request.manifest().stacks.items()}
    assert found == {stack.label: stack.room for stack in request.selected.space.stacks}


def test_the_manifest_has_what_a_stack_offers(tmp_path: Path) -> None:
    text = re.sub("disks: .*", "disks: {count: 3, size: 64MiB, model: nas-7200}", SMALL)
    (tmp_path / "m.yaml").write_text(text + "for: {work: 2}\npractical: 2%\n")
    request = RunRequest(tmp_path / "m.yaml", load_selected(tmp_path / "m.yaml"), "dry", None, None, cold=False)
    found = request.manifest()
    assert (found.weights, found.practical) == ({"work": 2}, 0.02)
    assert request.fingerprint() == fingerprint(tmp_path, text), "weights and what counts as equal change no figure"
    assert set(found.stacks) == set(found.losses) == {"raid5/chunk=16KiB", "raid5/chunk=64KiB"}
    facts = found.stacks["raid5/chunk=64KiB"]
    assert facts.rebuild_bytes
    assert 64 * 2**20 < facts.capacity < 128 * 2**20
    assert 1e8 < (facts.rebuild_rate or 0) < 2e8


def test_rigs_of_a_cluster_work_side_by_side_only_on_disks_with_a_model(tmp_path: Path) -> None:
    def why(machine: str, disks: str) -> str:
        (tmp_path / "m.yaml").write_text(re.sub("disks: .*", f"disks: {disks}", SMALL))
        request = RunRequest(tmp_path / "m.yaml", load_selected(tmp_path / "m.yaml"), machine, None, None, cold=False)
        return order_for_batches(request).one_at_a_time

    assert "disks without a model" in why("qemu", "{count: 3, size: 64MiB}")
    assert why("dry", "{count: 3, size: 64MiB}") == why("qemu", "{count: 3, size: 64MiB, model: nas-7200}") == ""


def on_real(folder: Path, place: str, more: str, **about: Any) -> str:
    """The fingerprint of an order on a disk that exists, of which hosts.yaml says this as well."""
    (folder / "m.yaml").write_text(SMALL)
    lab = parse_lab("h", f"hosts: {{here: {{disks: [{{id: d, serial: S, size: 1GiB{more}}}]}}}}")
    exist = matched(lab, Needs.model_validate({"disks": {"count": 1}}), "m")
    return RunRequest(
        folder / "m.yaml", load_selected(folder / "m.yaml"), place, None, None, cold=False, match=exist, **about
    ).fingerprint()


def test_only_a_search_of_kernels_goes_on_under_another_one(tmp_path: Path) -> None:
    def under(release: str, versions: Versions) -> str:
        return on_real(tmp_path, "local", "", release=release, versions=versions)

    kernels = ("6.1", "6.12")
    assert under("6.1", Versions(kernels, running="6.1")) == under("6.12", Versions(kernels, running="6.12"))
    assert under("6.1", Versions(())) != under("6.12", Versions(()))


@pytest.mark.parametrize(
    ("place", "more", "same"),
    [
        ("local", ", wear: 1TB", True),
        ("local", ", vfio: allowed", True),
        ("qemu-passthrough", ", vfio: allowed", False),
        ("local", ", kind: hdd", False),
    ],
)
def test_only_disk_settings_that_affect_figures_change_the_fingerprint(
    tmp_path: Path, place: str, more: str, same: bool
) -> None:
    assert (on_real(tmp_path, place, "") == on_real(tmp_path, place, more)) is same


def test_templates_that_change_places_make_another_run(tmp_path: Path, own: Path) -> None:
    before = fingerprint(tmp_path, own=own)
    one, other = own / "set-up" / "md.sh", own / "tear-down" / "md.sh"
    texts = one.read_text(), other.read_text()
    other.write_text(texts[0])
    one.write_text(texts[1])
    assert fingerprint(tmp_path, own=own) != before


@pytest.mark.parametrize("changed", ["set-up", "tear-down"])
def test_templates_of_the_same_name_in_two_folders_count(tmp_path: Path, own: Path, changed: str) -> None:
    before = fingerprint(tmp_path, own=own)
    (own / changed / "md.sh").write_text("# other\n")
    assert fingerprint(tmp_path, own=own) != before


def test_a_copy_of_a_shipped_template_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(environment.SHIPPED / "measure.sh", mine)
    assert fingerprint(tmp_path, own=mine) == fingerprint(tmp_path)


def test_another_version_of_the_shipped_templates_makes_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(tmp_path)
    newer = tmp_path / "newer"
    shutil.copytree(environment.SHIPPED, newer)
    monkeypatch.setattr(environment, "SHIPPED", newer)
    assert fingerprint(tmp_path) == before
    with (newer / "md" / "set-up.sh").open("a") as template:
        template.write("# and one thing more\n")
    assert fingerprint(tmp_path) != before


def test_a_folder_with_the_name_of_a_template_is_ignored(tmp_path: Path, own: Path) -> None:
    before = fingerprint(tmp_path, own=own)
    (own / "x.d").mkdir()
    assert fingerprint(tmp_path, own=own) == before


@pytest.mark.parametrize("declared", [False, True])
def test_a_kernel_image_counts_by_its_content(tmp_path: Path, declared: bool) -> None:
    image = tmp_path / "bzImage"
    text = SMALL + f"machine: {{kernel: {image}}}\n" if declared else SMALL
    asked_for = None if declared else str(image)
    image.write_bytes(b"one")
    before = fingerprint(tmp_path, text, kernel=asked_for)
    os.utime(image, (1, 1))
    assert fingerprint(tmp_path, text, kernel=asked_for) == before
    image.write_bytes(b"two")
    assert fingerprint(tmp_path, text, kernel=asked_for) != before


def test_a_machine_gets_the_kernel_image_from_the_start_of_the_run(
    call: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, told = tmp_path / "bzImage", []

    def from_options(cls: type[Dry], wishes: MachineOptions) -> Dry:
        told.append(dict(wishes.images))
        return cls()

    def meanwhile(*args: Any, **how: Any) -> RunChoice:
        image.write_bytes(b"built anew")
        return choose_run(*args, **how)

    monkeypatch.setattr(Dry, "from_options", classmethod(from_options))
    monkeypatch.setattr("matrix_runner.session.run.choose_run", meanwhile)
    (tmp_path / "m.yaml").write_text(SMALL)
    image.write_bytes(b"as it was")
    meant = kernel_content(str(image))
    assert call("run", "--on", "dry", "--kernel", str(image), "m.yaml").status == 0
    assert told[-1] == {str(image): meant}


@pytest.mark.parametrize(
    ("asked_for", "declared"),
    [(None, ()), (None, ("debian-12", "debian-13")), ("debian-13", ()), ("debian-13", ("debian-13",))],
)
def test_kernels_that_agree(asked_for: str | None, declared: tuple[str, ...]) -> None:
    check_kernel(asked_for, declared)


@pytest.mark.parametrize(
    ("asked_for", "declared", "cure"),
    [
        ("debian-13", ("debian-12",), "remove `kernel:`"),
        ("debian-13", ("debian-12", "debian-13"), "--only 'kernel=debian-13'"),
        ("/boot/bz", ("debian-12", "debian-13"), "remove `kernel:`"),
    ],
)
def test_an_undeclared_kernel_is_refused(asked_for: str, declared: tuple[str, ...], cure: str) -> None:
    with pytest.raises(BadInput, match="the matrix itself names debian-12") as caught:
        check_kernel(asked_for, declared)
    assert cure in caught.value.resolution


def test_facts_of_a_start_are_not_versions() -> None:
    facts = {"kernel": "6.1", "fio": "3.33", "up": "restored", "ready": "0.4", "md": "there", "matrix-0": "/dev/sda"}
    assert _versions(facts) == {"fio": "3.33"}


def test_an_internal_error_does_not_look_like_a_failed_guideline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(**_: object) -> None:
        raise KeyError("x.d")

    monkeypatch.setattr("matrix_runner.cli.cli.main", breaks)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == Exit.BROKEN
    said = capsys.readouterr().err
    assert "a mistake in matrix itself: KeyError" in said
    assert "in breaks" in said, "where it happened"
    assert "report it" in said


def test_an_interrupt_is_no_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("matrix_runner.cli.cli.main", interrupted)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == Exit.INTERRUPTED
