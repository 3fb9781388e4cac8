"""Shuts this process's own TCP connections down, except those that must live. Standard library only.

Gloo has no abort that frees a peer: a rank that waits in a collective goes on waiting until its timeout.
Shutting the connection down ends the wait on both of its ends at once.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator


def connections() -> frozenset[int]:
    """Inode numbers of this process's TCP connections: what names a socket, whatever descriptor it has."""
    found = []
    for inode, duplicate in _connected():
        duplicate.close()
        found.append(inode)
    return frozenset(found)


def shut_down(*, spared: frozenset[int], spared_port: int | None) -> int:
    """Shuts down all connections but the `spared` ones and those accepted on `spared_port`; returns how many."""
    count = 0
    for inode, duplicate in _connected():
        with duplicate:
            if inode in spared or duplicate.getsockname()[1] == spared_port:
                continue
            try:
                duplicate.shutdown(socket.SHUT_RDWR)
                count += 1
            except OSError:
                continue  # the other end was faster
    return count


def _connected() -> Iterator[tuple[int, socket.socket]]:
    """Each connected TCP socket as (inode, duplicate); the caller closes the duplicate.

    A duplicate, because the owner may close its descriptor at any moment and the number be given away.
    """
    for name in os.listdir("/proc/self/fd"):
        try:
            duplicate = os.dup(int(name))
        except OSError:
            continue  # closed meanwhile
        status = os.fstat(duplicate)
        if not stat.S_ISSOCK(status.st_mode):
            os.close(duplicate)
            continue
        found = socket.socket(fileno=duplicate)
        if found.family not in (socket.AF_INET, socket.AF_INET6) or not _has_peer(found):
            found.close()
            continue
        yield status.st_ino, found


def _has_peer(found: socket.socket) -> bool:
    try:
        found.getpeername()
    except OSError:
        return False
    return found.type == socket.SOCK_STREAM
