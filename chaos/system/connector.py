"""What the kernel tells of processes as they come and go: the netlink process connector.

So processes are known that live for less than a look at the process table, with their true parent, and how each
ended, whoever reaps it. Needs CAP_NET_ADMIN in the first network namespace (containers rarely have it); where it is
refused, the process table and pidfds are all there is. Watches only: nobody is waited for, nothing is held up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct

import msgspec

from chaos.errors import Refused

_NETLINK_CONNECTOR = 11
_KIND = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
_CN_IDX_PROC = _CN_VAL_PROC = 1
_LISTEN, _IGNORE = 1, 2
_NLMSG_DONE = 3
_NETLINK_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_CONNECTOR_HEADER = struct.Struct("=IIIIHH")  # index, value, sequence, acknowledged, length, flags
_EVENT = struct.Struct("=IIQ")  # what, cpu, CLOCK_MONOTONIC in ns
_PIDS = struct.Struct("=ii")  # thread, process
_FORK = struct.Struct("=iiii")  # parent's thread and process, child's thread and process
_EXIT = struct.Struct("=iiI")  # thread, process, wait status
_ACK, _FORKED, _EXECUTED, _ENDED = 0, 0x1, 0x2, 0x80000000
_BODY_AT = _NETLINK_HEADER.size + _CONNECTOR_HEADER.size
_SO_RCVBUFFORCE = 33
# A message takes about 1 KiB of it, and at most half a second passes between two looks.
_BUFFER_BYTES = 8 << 20
_ANSWER_S = 0.5  # the kernel answers within the call itself; this is for a busy machine


class News(msgspec.Struct, frozen=True, kw_only=True):
    """`doors.News`."""

    kind: str
    t_ns: int
    pid: int = 0
    parent: int = 0
    code: int | None = None
    signal: int | None = None


class Connector:
    """`doors.NewsReader`. Raises Refused where the kernel does not tell us."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, _KIND, _NETLINK_CONNECTOR)
        except OSError as error:
            raise _refused(error) from error
        try:
            self._listen()
        except OSError as error:
            self._socket.close()
            raise _refused(error) from error

    def drain(self) -> list[News]:
        """What was told since the last call."""
        found: list[News] = []
        while True:
            try:
                message, sender = self._socket.recvfrom(4096)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                found.append(News(kind="lost", t_ns=0))
                continue
            # Port 0 is the kernel: any process of root's could send to our socket as well.
            if sender[0] == 0 and (news := news_of(message)) is not None:
                found.append(news)

    def close(self) -> None:
        """Kernels before 6.6 count listeners, and are told; later ones see the socket close."""
        with contextlib.suppress(OSError):
            self._socket.send(_request(_IGNORE))
        self._socket.close()

    def _listen(self) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._socket.bind((0, _CN_IDX_PROC))
        self._socket.send(_request(_LISTEN))
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        while poller.poll(_ANSWER_S * 1000):
            message, sender = self._socket.recvfrom(4096)
            refusal = _answer(message) if sender[0] == 0 else None
            if refusal is not None:
                if refusal:
                    raise OSError(refusal, os.strerror(refusal))
                return
        raise TimeoutError(errno.ETIMEDOUT, "the kernel does not answer")


def news_of(message: bytes) -> News | None:
    """One message of the kernel's; None for threads and for what nobody here needs."""
    if len(message) < _BODY_AT + _EVENT.size:
        return None
    what, _, t_ns = _EVENT.unpack_from(message, _BODY_AT)
    at = _BODY_AT + _EVENT.size
    try:
        if what == _FORKED:
            _, parent, thread, pid = _FORK.unpack_from(message, at)
            return News(kind="forked", t_ns=t_ns, pid=pid, parent=parent) if thread == pid else None
        if what == _EXECUTED:
            _, pid = _PIDS.unpack_from(message, at)
            return News(kind="executed", t_ns=t_ns, pid=pid)
        if what == _ENDED:
            thread, pid, status = _EXIT.unpack_from(message, at)
            return _ended(t_ns, pid, status) if thread == pid else None
    except struct.error:
        return None
    return None


def _ended(t_ns: int, pid: int, status: int) -> News:
    if os.WIFSIGNALED(status):
        return News(kind="ended", t_ns=t_ns, pid=pid, signal=os.WTERMSIG(status))
    return News(kind="ended", t_ns=t_ns, pid=pid, code=os.WEXITSTATUS(status))


def _answer(message: bytes) -> int | None:
    """The kernel's answer to our request: 0, or the number of the error; None when it is something else."""
    if len(message) < _BODY_AT + _EVENT.size + 4:
        return None
    what, _, _ = _EVENT.unpack_from(message, _BODY_AT)
    if what != _ACK:
        return None
    number: int = struct.unpack_from("=i", message, _BODY_AT + _EVENT.size)[0]
    return abs(number)


def _request(operation: int) -> bytes:
    body = struct.pack("=I", operation)
    connector = _CONNECTOR_HEADER.pack(_CN_IDX_PROC, _CN_VAL_PROC, 0, 0, len(body), 0)
    length = _NETLINK_HEADER.size + len(connector) + len(body)
    return _NETLINK_HEADER.pack(length, _NLMSG_DONE, 0, 0, 0) + connector + body


def _refused(error: OSError) -> Refused:
    return Refused(
        f"the kernel's process connector cannot be used: {error.strerror or error}",
        remedy="run as root (CAP_NET_ADMIN) in the host's own network namespace",
    )
