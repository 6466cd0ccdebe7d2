"""Connections of a cluster: its address, its certificates, how to reach its scheduler, and a connection of a member."""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.base.time_limit import time_limit
from matrix_runner.carry.cluster.frames import LENGTHS, PULSE, BadFrame, Head, Hello, frame, lengths_of, parsed_head
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
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:  # openssl would write the key into a file of theirs
        raise BadInput(
            f"other users can write in {folder}, and so get the key of the cluster",
            resolution="name a new folder, or one of yours that no other user can write",
        )
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


_PART = 1 << 20  # bytes to wait for at a time
_BACKLOG = 512 << 20  # bytes that a peer has not taken, after which it counts as gone
_FAREWELL = 5.0  # seconds for the last messages
#: A link that is cut for 30 s ends a connection, also an idle one; a peer that is stopped does not.
_KEEPALIVE = {
    socket.SO_KEEPALIVE: (socket.SOL_SOCKET, 1),
    socket.TCP_KEEPIDLE: (socket.IPPROTO_TCP, 10),
    socket.TCP_KEEPINTVL: (socket.IPPROTO_TCP, 2),
    socket.TCP_KEEPCNT: (socket.IPPROTO_TCP, 10),
    socket.TCP_USER_TIMEOUT: (socket.IPPROTO_TCP, 30_000),
}


class Ended(Exception):
    """The connection ended, or the peer sent what no member sends."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        made: socket.socket = writer.get_extra_info("socket")
        if made.family in {socket.AF_INET, socket.AF_INET6}:
            for option, (level, value) in _KEEPALIVE.items():
                made.setsockopt(level, option, value)

    @property
    def peer(self) -> str:
        host, port = (self._writer.get_extra_info("peername") or ("gone", 0))[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def send(self, head: Head, body: bytes = b"") -> None:
        self._write(frame(head, body))

    def send_sign_of_life(self) -> None:
        self._write(PULSE)

    def _write(self, content: bytes) -> None:
        if self._writer.is_closing():
            raise Ended("the connection is closed")
        if self._writer.transport.get_write_buffer_size() > _BACKLOG:
            self.abort()
            raise Ended(f"it did not take {_BACKLOG >> 20} MiB of messages")
        self._writer.write(content)

    async def read(self, silence: float | None = None) -> tuple[Head, bytes]:
        """Return the next message. Raise Ended, also after so many seconds without a byte."""
        try:
            while True:
                head, body = lengths_of(await self._exactly(LENGTHS.size, silence))
                if head:
                    return parsed_head(await self._exactly(head, silence)), await self._exactly(body, silence)
        except (OSError, EOFError, TimeoutError, BadFrame) as error:
            self.abort()
            raise Ended("it closed the connection" if isinstance(error, EOFError) else str(error)) from error

    async def _exactly(self, count: int, silence: float | None) -> bytes:
        parts = list[bytes]()
        while count:
            async with time_limit(silence) if silence else nullcontext():
                parts.append(await self._reader.readexactly(min(count, _PART)))
            count -= len(parts[-1])
        return b"".join(parts)

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what is not sent yet, and end."""
        try:
            with suppress(OSError, TimeoutError):
                if not self._writer.is_closing():  # with TLS, `abort` after two calls of `close` fails
                    self._writer.close()
                async with time_limit(_FAREWELL):
                    await self._writer.wait_closed()
        finally:
            self.abort()


async def open_connection(host: str, port: int, certificates: Certificates | None) -> Connection:
    context = certificates.client() if certificates else None
    return Connection(*await asyncio.open_connection(host, port, ssl=context))


_PAUSE = 1.0  # seconds between two attempts
_ANSWER = 5.0  # seconds for an answer
_OTHER_SCHEME = "name the scheduler as it prints its address, with tls:// or tcp://"
_CERTIFICATES = "copy the folder of certificates from the host of the scheduler, and start again with it"
_NO_TLS = frozenset(("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"))
_UNFIT = {
    errno.EADDRINUSE: ("the port is in use", "name another port, or stop the program that has this one (`ss -ltnp`)"),
    errno.EADDRNOTAVAIL: (
        "the address is not one of this host",
        "start the scheduler on that host, or name an address of this one (`ip address` lists them)",
    ),
    errno.EACCES: ("only root may use this port", "name a port above 1023"),
}


class ClusterLost(HarnessBroken):
    pass


class Misdirected(ClusterLost):
    """The connection needs another address or other certificates, so waiting does not help."""


async def connect(address: str, certificates: Certificates | None) -> Connection:
    """Connect, and wait for the first message of the scheduler. Raise ClusterLost with the reason of a failure."""
    parts = urlsplit(address)
    assert parts.hostname  # noqa: S101 - for the type checker: `Address` has checked it
    assert parts.port  # noqa: S101 - as before
    try:
        async with asyncio.timeout(_ANSWER):  # noqa: TID251 - it is short, and callers ask again
            made = await open_connection(parts.hostname, parts.port, certificates)
    except socket.gaierror as error:
        raise Misdirected(
            f"{address}: the name {parts.hostname} is not known",
            details=error.strerror or "",
            resolution="correct the name, or use the IP address of the host of the scheduler",
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise Misdirected(
            f"{address}: the certificates do not match",
            details=error.verify_message,
            resolution=_CERTIFICATES,
        ) from error
    except ssl.SSLError as error:
        plain = error.reason in _NO_TLS
        raise Misdirected(
            f"{address}: what listens there {'does not use TLS' if plain else 'refuses the connection'}",
            details=error.reason or "",
            resolution=_OTHER_SCHEME if plain else _CERTIFICATES,
        ) from error
    except TimeoutError as error:
        raise unanswered(address, f"no answer within {_ANSWER:g} s") from error
    except OSError as error:
        details = os.strerror(error.errno) if error.errno else str(error)
        raise unanswered(address, details) from error
    try:
        await _greeted(address, made)
    except BaseException:
        made.abort()
        raise
    return made


async def _greeted(address: str, made: Connection) -> None:
    """Wait for the greeting of a scheduler, which speaks first; at tls://, it waits for a client that does."""
    try:
        async with asyncio.timeout(_ANSWER):  # noqa: TID251 - it is short, and callers ask again
            head, _ = await made.read()
        if head == Hello():
            return
        details = "it is of another version"
    except TimeoutError:
        details = f"nothing within {_ANSWER:g} s"
    except Ended as error:
        details = str(error)
        if address.startswith("tls:"):  # it has our authority, and refuses our certificate so late
            raise Misdirected(
                f"{address}: the scheduler does not accept our certificate", details=details, resolution=_CERTIFICATES
            ) from error
    raise ClusterLost(
        f"{address}: what listens there does not answer as a scheduler",
        details=details,
        resolution=f"{_OTHER_SCHEME}; a scheduler that hangs has to be started again",
    )


async def connect_soon(address: str, certificates: Certificates | None, seconds: float, *, again: bool) -> Connection:
    """Connect as soon as it answers. `again`: it answered before, so its name may be missing only for a while."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            return await connect(address, certificates)
        except ClusterLost as problem:
            if clock() > end or (isinstance(problem, Misdirected) and not again):
                raise
            await asyncio.sleep(_PAUSE)


def unanswered(address: str, details: str) -> ClusterLost:
    return ClusterLost(
        f"no scheduler answers at {address}",
        details=details,
        resolution="start it with `matrix cluster scheduler`; if it runs, check host, port and firewall",
    )


def check_listening(place: str) -> None:
    """Listen once at `host:port`. Raise BadInput with the reason of a failure."""
    host, _, port = place.rpartition(":")
    try:
        family, *_, where = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(where[:2], family=family).close()
    except OSError as error:
        unknown = (f"it cannot be used: {error.strerror}", "name an address and a free port of this host")
        brief, resolution = _UNFIT.get(error.errno or 0, unknown)
        raise BadInput(f"{place}: {brief}", resolution=resolution) from error
