"""The address of a cluster as a user writes it, and the certificates for its connections."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.space.declared_files import load_lab

_CA, _CA_KEY, _CERTIFICATE, _KEY = "ca.pem", "ca-key.pem", "lab.pem", "lab-key.pem"
_DAYS = 3650
_SCHEMES = ("tcp", "tls")


@dataclass(frozen=True)
class Certificates:
    """The authority of a cluster, and the certificate that all its members use. Both sides of a connection check it."""

    folder: Path

    def client(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def server(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # the authority signs for this cluster only
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.folder / _CA)
        context.load_cert_chain(self.folder / _CERTIFICATE, self.folder / _KEY)
        return context


@dataclass(frozen=True)
class Address:
    text: str
    certificates: Path | None = None

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Read the address, or the `cluster:` of a hosts.yaml. Raise ValueError if it is neither."""
        if text.endswith((".yaml", ".yml")):
            return cls.declared(Path(text))
        kind, _, number = text.partition(":")
        if kind == "local":
            raise ValueError(f"{text!r} is not an address; use --jobs {number or 'N'} for several rigs on this host")
        parts = urlsplit(text)
        if parts.scheme not in _SCHEMES or not parts.hostname or not parts.port or parts.path:
            raise ValueError(f"{text!r} is not an address; write tls://HOST:PORT or tcp://HOST:PORT")
        return cls(text)

    @classmethod
    def declared(cls, file: Path) -> Self:
        cluster = load_lab(file).cluster
        if cluster is None:
            raise BadInput(
                f"{file} has no `cluster:`", resolution="add it: cluster: {address: tls://HOST:PORT, certificates: DIR}"
            )
        folder = file.parent / cluster.certificates if cluster.certificates else None
        return replace(cls.parsed(cluster.address), certificates=folder)

    @property
    def is_encrypted(self) -> bool:
        return self.text.startswith("tls:")

    def checked(self, certificates: Path | None, *, insecure: bool) -> Certificates | None:
        """Return the certificates to use. Refuse a connection that others can use, such as other users of this host."""
        if not self.is_encrypted:
            if not insecure:
                raise BadInput(
                    f"{self.text}: without certificates, each user who reaches it can run programs on all workers; "
                    "on this host, that is each local user",
                    resolution="make certificates with `matrix cluster certificates DIR` and use tls://, or --insecure",
                )
            return None
        certificates = certificates or self.certificates
        if certificates is None:
            raise BadInput(
                f"{self.text} needs certificates",
                resolution="name the folder that you copied (--certificates DIR, or MATRIX_CERTIFICATES); "
                "only if no host has one, make it with `matrix cluster certificates DIR`",
            )
        return load_certificates(certificates)


def load_certificates(folder: Path) -> Certificates:
    for path in (folder / _CA, folder / _CERTIFICATE, folder / _KEY):
        if not path.is_file():
            raise BadInput(f"{path} is missing", resolution="copy the folder that `matrix cluster certificates` wrote")
    found = Certificates(folder)
    try:
        found.client()
    except (ssl.SSLError, OSError) as error:
        raise BadInput(
            f"the certificates in {folder} cannot be used",
            details=getattr(error, "reason", None) or error.strerror or str(error),
            resolution="copy the folder that `matrix cluster certificates` wrote, as a whole",
        ) from error
    return found


def make_certificates(folder: Path) -> None:
    """Make an authority, and the certificate that all members of one cluster use. Destroy the authority's key."""
    if (folder / _CA).exists():
        raise BadInput(f"{folder} has certificates already", resolution="name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
    authority = ("-x509", *key, "-days", str(_DAYS), "-subj", "/CN=matrix cluster authority")
    _openssl("req", *authority, "-keyout", str(folder / _CA_KEY), "-out", str(folder / _CA))
    request = folder / "lab.csr"
    _openssl("req", *key, "-subj", "/CN=matrix cluster", "-keyout", str(folder / _KEY), "-out", str(request))
    signed = ("-CA", str(folder / _CA), "-CAkey", str(folder / _CA_KEY), "-CAcreateserial", "-days", str(_DAYS))
    _openssl("x509", "-req", "-in", str(request), *signed, "-out", str(folder / _CERTIFICATE))
    for name in (_CA_KEY, "lab.csr", "ca.srl"):
        (folder / name).unlink(missing_ok=True)
    (folder / _KEY).chmod(0o600)


def _openssl(*words: str) -> None:
    result = run(["openssl", *words])
    if result.returncode:
        raise HarnessBroken(f"openssl {words[0]} failed", details=result.stderr.strip())
