"""Addresses of clusters: what is refused, and the certificates for the rest."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from runner.base.errors import BadInput
from runner.lab.address import Address, load_certificates, make_certificates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["", "lab", "lab:8786", "http://lab:8786", "tcp://lab", "tcp://lab:8786/x", "local:0"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="local:"):
        Address.parsed(text)


def test_local_has_slots_and_needs_no_security() -> None:
    assert Address.parsed("local:4") == Address("local:4", 4)
    assert Address.parsed("local:4").security(None, insecure=False) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_plain_connections_within_this_host_are_allowed(host: str) -> None:
    assert Address.parsed(f"tcp://{host}:8786").security(None, insecure=False) is None


@pytest.mark.parametrize("host", ["10.0.0.1", "lab", "localhost.example.org", "0.0.0.0"])  # noqa: S104
def test_plain_connections_to_others_need_a_word(host: str) -> None:
    address = Address.parsed(f"tcp://{host}:8786")
    with pytest.raises(BadInput, match="not encrypted"):
        address.security(None, insecure=False)
    assert address.security(None, insecure=True) is None


def test_encrypted_ones_need_certificates(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    address = Address.parsed("tls://lab:8786")
    with pytest.raises(BadInput, match="needs certificates") as refused:
        address.security(None, insecure=True)
    assert refused.value.resolution.startswith("name the folder that you copied"), "a second set never matches"
    with pytest.raises(BadInput, match="is missing"):
        address.security(tmp_path, insecure=False)


def test_certificates_are_private_and_their_authority_signs_no_more(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    folder = tmp_path / "lab"
    make_certificates(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "lab-key.pem", "lab.pem"]
    assert stat.S_IMODE((folder / "lab-key.pem").stat().st_mode) == 0o600
    assert load_certificates(folder).require_encryption
    with pytest.raises(BadInput, match="has certificates already"):
        make_certificates(folder)


def test_hosts_yaml_names_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("cluster: {address: 'tls://lab:8786', certificates: cluster}\n")
    assert Address.parsed(str(file)) == Address("tls://lab:8786", certificates=tmp_path / "cluster")
    file.write_text("hosts: {shelf: {reach: 'ssh:shelf'}}\n")
    with pytest.raises(BadInput, match="has no `cluster:`"):
        Address.parsed(str(file))
    file.write_text("cluster: {address: lab}\n")
    with pytest.raises(BadInput, match="1 error"):
        Address.parsed(str(file))


@pytest.mark.parametrize("name", ["ca.pem", "lab.pem", "lab-key.pem"])
def test_damaged_certificates_are_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("distributed")
    folder = tmp_path / "lab"
    make_certificates(folder)
    (folder / name).write_text("no certificate")
    with pytest.raises(BadInput, match="cannot be used"):
        load_certificates(folder)
