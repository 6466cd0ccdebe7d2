"""A slow, lossy link between two network namespaces, for kernels without `tc netem`. It needs root.

Each namespace has a TUN device. This process passes packets from one to the other, late, and drops some.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_TUNSETIFF, _TUN, _NO_INFO = 0x400454CA, 0x0001, 0x1000
_NEW_NETWORK = 0x40000000
_MTU = 1500


class Link:
    """`delay`: seconds each way; `loss`: the share of packets that are dropped."""

    def __init__(self, delay: float = 0.025, loss: float = 0.01, seed: int = 1) -> None:
        self._delay, self._loss, self._draw = delay, loss, random.Random(seed)  # noqa: S311
        self.names = tuple(f"matrix-{os.getpid()}-{side}" for side in "ab")
        self.passed = Counter[str]()
        self._cut = self._over = False
        self._ends: list[int] = []
        self._thread = threading.Thread(target=self._pass_packets, daemon=True)

    def __enter__(self) -> Self:
        try:
            for name, address in zip(self.names, ADDRESSES, strict=True):
                _ip("netns", "add", name)
                self._ends.append(_open_tun(name))
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", "far")
                for device in ("far", "lo"):
                    _ip("-n", name, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        if self._thread.is_alive():
            self._thread.join()
        for end in self._ends:
            os.close(end)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)  # noqa: S607

    def inside(self, side: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs on one side, 0 or 1."""
        return ["ip", "netns", "exec", self.names[side], *command]

    def cut(self) -> None:
        """Drop all packets, as a cable that is out."""
        self._cut = True

    def restore(self) -> None:
        self._cut = False

    def _pass_packets(self) -> None:
        late: list[tuple[float, int, int, bytes]] = []
        order = count()
        while not self._over:
            wait = min(0.1, max(0.0, late[0][0] - time.monotonic())) if late else 0.1
            for end in select.select(self._ends, (), (), wait)[0]:
                packet = os.read(end, _MTU + 100)
                lost = self._cut or self._draw.random() < self._loss
                self.passed["dropped" if lost else "passed"] += 1
                if not lost:
                    other = self._ends[1 - self._ends.index(end)]
                    heapq.heappush(late, (time.monotonic() + self._delay, next(order), other, packet))
            while late and late[0][0] <= time.monotonic():
                _, _, other, packet = heapq.heappop(late)
                with suppress(OSError):  # its queue is full: one more packet is lost
                    os.write(other, packet)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)  # noqa: S607


def _open_tun(namespace: str) -> int:
    """Open a device `far` in a namespace. It stays there."""
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    found: list[int] = []

    def open_there() -> None:
        _enter(there)
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", b"far", _TUN | _NO_INFO))
        found.append(end)

    thread = threading.Thread(target=open_there)  # a namespace belongs to a thread
    thread.start()
    thread.join()
    os.close(there)
    if not found:
        raise OSError(f"no TUN device in {namespace}")
    return found[0]


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
