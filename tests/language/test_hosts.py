"""hosts.yaml: what it says, and every error of it in its place; needs, and the host that has them."""

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.schema import schema_text
from matrix_runner.language.hosts import DeclaredDisk, Needs
from matrix_runner.space.declared_files import matched, parse_lab
from matrix_runner.space.load import BadMatrix
from tests.support.matrices import SMALL, space

LAB = """\
hosts:
  shelf:
    reach: ssh:shelf
    destroy: [wwn-0x5000c500a1]
    disks:
      - {id: wwn-0x5000c500a1, serial: ZC11A, wwn: '0x5000c500a1', size: 4TB, kind: hdd, tags: [sas, bay-1], wear: 1TB}
      - {id: wwn-0x5000c500a2, serial: ZC11B, size: 4TB, kind: hdd, tags: [sas], wipe: allowed}
      - {id: wwn-0x5000c500a3, serial: ZC11C, size: 2TB, kind: hdd, for: [nightly-*]}
  desk:
    disks:
      - {id: nvme-Fast_S5, serial: S5, size: 512110190592B, kind: nvme}
"""
ROOT = Path(__file__).parents[2]


def refused(text: str) -> str:
    with pytest.raises(BadMatrix) as caught:
        parse_lab("hosts.yaml", text)
    return str(caught.value.details)


def test_declared_disks_have_the_values_of_hosts_yaml() -> None:
    shelf = parse_lab("hosts.yaml", LAB).hosts["shelf"]
    assert shelf.reach == "ssh:shelf"
    assert shelf.claims[0] == DeclaredDisk(
        "wwn-0x5000c500a1", 4 * 10**12, serial="ZC11A", wwn="0x5000c500a1", wear=10**12
    )
    assert [claim.wipe for claim in shelf.claims] == [False, True, False]
    assert shelf.claims[2].purposes == ("nightly-*",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("serial: ZC11B,", "seral: ZC11B,", "hosts.yaml:7:32: unknown key 'seral'; did you mean serial?"),
        ("reach: ssh:shelf", "reach: telnet:shelf", "hosts.yaml:3:12: 'telnet:shelf': write local or ssh:HOST"),
        ("id: nvme-Fast_S5", "id: sda/../nvme", "hosts.yaml:11:14: 'sda/../nvme': not the name of a disk"),
        ("id: nvme-Fast_S5", "id: /dev/disk/by-id/x", "write only the name in /dev/disk/by-id: x"),
        ("serial: S5", "serial: 0012", "hosts.yaml:11:36: '12': YAML reads this as a number"),
        ("serial: S5, ", "", "hosts.yaml:11:9: `serial` or `wwn` is missing"),
        ("512110190592B", "512110190592", "no unit; did you mean 512110190592"),
        ("wipe: allowed", "wipe: yes", "is not one of allowed"),
        ("wipe: allowed", "vfio: yes", "is not one of allowed"),
        ("destroy: [wwn-0x5000c500a1]", "destroy: [other]", "`destroy` names other"),
        ("wwn-0x5000c500a3", "wwn-0x5000c500a2", "wwn-0x5000c500a2 is listed twice"),
        ("kind: nvme", "kind: tape", "is not one of hdd, ssd or nvme"),
        ("desk:", "de sk:", "a name has letters"),
    ],
)
def test_errors_have_their_place(old: str, new: str, said: str) -> None:
    assert said in refused(LAB.replace(old, new))


def test_all_errors_are_reported_at_once() -> None:
    said = refused(LAB.replace("size: 2TB", "size: 2").replace("kind: nvme", "knd: nvme"))
    assert "hosts.yaml:8:53" in said
    assert "hosts.yaml:11:" in said


def test_the_schema_is_shipped_and_takes_what_is_right() -> None:
    assert (ROOT / "matrix/hosts.schema.json").read_text() == schema_text("hosts")
    validator = jsonschema.Draft202012Validator(json.loads(schema_text("hosts")))
    validator.validate(YAML(typ="safe").load(LAB))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(YAML(typ="safe").load(LAB.replace("wipe: allowed", "wipe: sure")))


def needs(**disks: object) -> Needs:
    return Needs.model_validate({"disks": disks})


def test_the_first_host_that_has_the_disks_is_taken() -> None:
    lab = parse_lab("hosts.yaml", LAB)
    found = matched(lab, needs(count=2, kind="hdd", tag="sas"), "any")
    assert (found.host, [disk.serial for disk in found.disks]) == ("shelf", ["ZC11A", "ZC11B"])
    assert matched(lab, needs(count=1, kind="nvme"), "any").host == "desk"
    assert [disk.serial for disk in matched(lab, needs(count=3), "nightly-7").disks] == ["ZC11A", "ZC11B", "ZC11C"]


def test_groups_of_disks_share_the_disks_of_a_host_by_their_needs() -> None:
    lab = parse_lab("hosts.yaml", LAB)
    # Any disk fits the first group, but only one fits the second.
    both = Needs.model_validate({"disks": {"any": {"count": 2}, "own": {"count": 1, "tag": "sas"}}})
    found = matched(lab, both, "nightly-7")
    assert [disk.serial for disk in found.disks] == ["ZC11B", "ZC11C", "ZC11A"]
    with pytest.raises(BadInput, match="needs 3 disks and 1 disk, of kind nvme") as caught:
        matched(lab, Needs.model_validate({"disks": {"any": {"count": 3}, "fast": {"count": 1, "kind": "nvme"}}}), "m")
    assert "it has 2 of 4" in caught.value.details


def test_without_a_matching_host_each_host_has_a_reason() -> None:
    with pytest.raises(BadInput) as caught:
        matched(parse_lab("hosts.yaml", LAB), needs(count=3, kind="hdd", tag=["sas"], size="3TB"), "any")
    assert (
        caught.value.brief
        == "any needs 3 disks, of kind hdd, tagged sas, of 3TB or more, and no host in hosts.yaml has them"
    )
    assert caught.value.details.splitlines() == [
        "  shelf: it has 2 of 3",
        "      wwn-0x5000c500a3 has no tag sas, has only 2TB, is for nightly-*",
        "  desk: it has 0 of 3",
        "      nvme-Fast_S5 is of kind nvme, has no tag sas, has only 512110190592B",
    ]


def test_a_matrix_declares_its_needs_without_changing_cells() -> None:
    with_needs = space(f"{SMALL}needs: {{disks: {{count: 4, kind: hdd, tag: sas}}}}\n")
    assert with_needs.matrix.needs is not None
    assert with_needs.matrix.needs.groups[""].tag == ("sas",)
    assert [
        note.text
        for note in with_needs.remarks
        if note.text.startswith("needs: applies to machines with physical disks")
    ]
    assert [cell.id for cell in with_needs.cells()] == [cell.id for cell in space(SMALL).cells()]
    with pytest.raises(BadInput, match="error") as caught:
        space(f"{SMALL}needs: {{disks: {{cuont: 4}}}}\n")
    assert "unknown key 'cuont'; did you mean count?" in caught.value.details
