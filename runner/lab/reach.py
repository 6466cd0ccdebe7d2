"""Why a scheduler cannot be reached, or cannot listen.

Dask tries for long to reach one, and then reports only that time is over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner.base.errors import BadInput
from runner.engine.cluster_interface import ClusterLost

if TYPE_CHECKING:
    from distributed.security import Security

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


async def check_connection(address: str, security: Security | None) -> None:
    """Connect, and wait for the first byte of the scheduler. Raise ClusterLost with the reason of a failure."""
    parts = urlsplit(address)
    if not parts.port:  # a scheduler in this process
        return
    context = security.get_connection_args("client")["ssl_context"] if security else None
    try:
        async with asyncio.timeout(_ANSWER):  # noqa: TID251 - it is short, and callers ask again
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
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
        async with asyncio.timeout(_ANSWER):  # noqa: TID251 - it is short, and callers ask again
            await reader.readexactly(1)  # a scheduler speaks first; at tls://, it waits for a client that does
    except ssl.SSLError as error:  # it may refuse a certificate so late
        raise Misdirected(
            f"{address}: the scheduler does not accept our certificate",
            details=error.reason or "",
            resolution=_CERTIFICATES,
        ) from error
    except (OSError, EOFError) as error:  # also a TimeoutError
        raise ClusterLost(
            f"{address}: what listens there does not answer as a scheduler",
            details=f"nothing within {_ANSWER:g} s" if isinstance(error, TimeoutError) else "it closed the connection",
            resolution=f"{_OTHER_SCHEME}; a scheduler that hangs has to be started again",
        ) from error
    finally:
        writer.close()


async def wait_for_scheduler(address: str, security: Security | None, seconds: float, *, again: bool) -> None:
    """Wait until it answers. `again`: it answered before, so its name may be missing only for a while."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            await check_connection(address, security)
        except ClusterLost as problem:
            if clock() > end or (isinstance(problem, Misdirected) and not again):
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return


def unanswered(address: str, details: str) -> ClusterLost:
    return ClusterLost(
        f"no scheduler answers at {address}",
        details=details,
        resolution="start it with `matrix cluster scheduler`; if it runs, check host, port and firewall",
    )


def check_listening(place: str) -> None:
    """Listen once at `host:port`. Raise BadInput with the reason of a failure, which Dask hides in a traceback."""
    host, _, port = place.rpartition(":")
    try:
        family, *_, where = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(where[:2], family=family).close()
    except OSError as error:
        unknown = (f"it cannot be used: {error.strerror}", "name an address and a free port of this host")
        brief, resolution = _UNFIT.get(error.errno or 0, unknown)
        raise BadInput(f"{place}: {brief}", resolution=resolution) from error
