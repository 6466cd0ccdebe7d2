"""Connect to a scheduler, or give the reason why it cannot be reached, or cannot listen."""

import asyncio
import errno
import os
import socket
import ssl
from urllib.parse import urlsplit

from matrix_runner.base.errors import BadInput
from matrix_runner.carry.cluster.address import Certificates
from matrix_runner.carry.cluster.connection import Connection, Ended, open_connection
from matrix_runner.carry.cluster.frames import Hello
from matrix_runner.carry.cluster_interface import ClusterLost

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
