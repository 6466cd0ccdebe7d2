"""Addresses of clusters: what is refused, and the certificates for the rest."""

from __future__ import annotations

import ssl
import stat
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.cluster.connection import Address, load_certificates, make_certificates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["", "lab", "lab:8786", "http://lab:8786", "tcp://lab", "tcp://lab:8786/x"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address; write tls://"):
        Address.parsed(text)


@pytest.mark.parametrize(("text", "jobs"), [("local:4", "4"), ("local:", "N")])
def test_several_rigs_on_this_host_are_an_option_of_the_run(text: str, jobs: str) -> None:
    with pytest.raises(ValueError, match=f"use --jobs {jobs} for several rigs on this host"):
        Address.parsed(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "lab", "0.0.0.0"])  # noqa: S104
def test_connections_without_certificates_need_a_word_also_within_this_host(host: str) -> None:
    """Each local user reaches a port of 127.0.0.1, so could run programs as the user of a worker."""
    address = Address.parsed(f"tcp://{host}:8786")
    with pytest.raises(BadInput, match="without certificates, each user who reaches it can run programs"):
        address.checked(None, insecure=False)
    assert address.checked(None, insecure=True) is None


def test_encrypted_ones_need_certificates(tmp_path: Path) -> None:
    address = Address.parsed("tls://lab:8786")
    with pytest.raises(BadInput, match="needs certificates") as refused:
        address.checked(None, insecure=True)
    assert refused.value.resolution.startswith("name the folder that you copied"), "a second set never matches"
    with pytest.raises(BadInput, match="is missing"):
        address.checked(tmp_path, insecure=False)


def test_certificates_are_private_and_their_authority_signs_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    make_certificates(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "lab-key.pem", "lab.pem"]
    assert stat.S_IMODE((folder / "lab-key.pem").stat().st_mode) == 0o600
    assert load_certificates(folder).client().verify_mode is ssl.CERT_REQUIRED
    assert load_certificates(folder).server().verify_mode is ssl.CERT_REQUIRED
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
    folder = tmp_path / "lab"
    make_certificates(folder)
    (folder / name).write_text("no certificate")
    with pytest.raises(BadInput, match="cannot be used"):
        load_certificates(folder)
