"""TCP sockets of a process, as the kernel shows them: both ends, state, what waits in the queues. Looks only."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from chaos.system import proc

STATES = {
    "01": "ESTABLISHED", "02": "SYN_SENT", "03": "SYN_RECV", "04": "FIN_WAIT1", "05": "FIN_WAIT2", "06": "TIME_WAIT",
    "07": "CLOSE", "08": "CLOSE_WAIT", "09": "LAST_ACK", "0A": "LISTEN", "0B": "CLOSING", "0C": "NEW_SYN_RECV",
}  # fmt: skip
_MAPPED = "::ffff:"


class Tcp(NamedTuple):
    """One socket. Queues in bytes: what the other end has not taken yet, and what this process has not read yet."""

    fd: int
    local: str
    remote: str
    state: str
    unsent: int
    unread: int


def tcp_sockets(pid: int, root: Path = proc.PROC) -> list[Tcp]:
    """Those that the process itself holds, in order of their descriptors. Raises OSError where it may not be looked at,
    or is gone."""
    owned = _inodes(pid, root)
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            lines = (root / str(pid) / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            continue  # a kernel without IPv6
        for fields in map(str.split, lines):
            if fields[9] in owned:
                unsent, unread = (int(size, 16) for size in fields[4].split(":"))
                local, remote = (_address(fields[place], family) for place in (1, 2))
                state = STATES.get(fields[3], fields[3])
                found.append(Tcp(owned[fields[9]], local, remote, state, unsent, unread))
    return sorted(found)


def _inodes(pid: int, root: Path) -> dict[str, int]:
    """inode -> descriptor."""
    folder = root / str(pid) / "fd"
    owned: dict[str, int] = {}
    for number in os.listdir(folder):
        try:
            link = os.readlink(folder / number)
        except OSError:
            continue  # closed meanwhile
        if link.startswith("socket:["):
            owned.setdefault(link[8:-1], int(number))
    return owned


def _address(text: str, family: socket.AddressFamily) -> str:
    """`0100007F:1F90` is 127.0.0.1:8080: words of four bytes in this machine's order."""
    digits, port = text.split(":")
    words = [bytes.fromhex(digits[start : start + 8]) for start in range(0, len(digits), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    name = socket.inet_ntop(family, packed)
    # One end of a connection may have it as IPv6, and the other one as IPv4.
    name = name[len(_MAPPED) :] if name.startswith(_MAPPED) and "." in name else name
    return f"[{name}]:{int(port, 16)}" if ":" in name else f"{name}:{int(port, 16)}"
