"""Appends events to this process's own history file. Standard library only: ranks import it.

One file a process, one line an event, whole lines in one `os.write`: what was written before a SIGKILL is
there, and no line of two threads is ever mixed. Reads nothing, buffers nothing, locks nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from chaos.model.events import HEADER, KINDS, life_id

HEADER_FIELDS = frozenset(HEADER)

_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, default=str).encode


def life_of(pid: int) -> str | None:
    """The life of a process of our own pid namespace, or None when there is none that we can read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name stands in brackets and may hold anything; the fields begin after the last one.
            fields = stat.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as boot:
            boot_id = boot.read().strip()
        namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
    except (OSError, IndexError):
        return None
    return life_id(boot_id, namespace, pid, int(fields[19]))


def this_life() -> str:
    """The life of this process."""
    life = life_of(os.getpid())
    if life is None:
        raise OSError("cannot read this process's own /proc/PID/stat: is /proc mounted?")
    return life


def file_name(role: str, life: str) -> str:
    """`rank-<pid>-<start_ticks>.jsonl`: the history file that a process of this role and life writes."""
    pid, start_ticks = life.rsplit("-", 2)[1:]
    return f"{role}-{pid}-{start_ticks}.jsonl"


class Writer:
    """One process's history file.

    `write` raises OSError when the line could not be written whole; the caller decides what then is blind.
    """

    __slots__ = ("_fd", "head", "life", "path")

    def __init__(self, folder: str, role: str) -> None:
        self.life = this_life()
        self.path = os.path.join(folder, file_name(role, self.life))
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.head = ""
        self.identify()

    def identify(
        self,
        *,
        reentry: int | None = None,
        group: str | None = None,
        rank: int | None = None,
        initial_rank: int | None = None,
    ) -> None:
        """Sets the header fields of the lines to come. Built once here, so that an event costs no more than a join."""
        self.head = _head(self.life, reentry, group, rank, initial_rank)

    def write(self, kind: str, fields: Mapping[str, Any] | None = None) -> None:
        """Writes one event about this process."""
        now_ns, wall_s = time.monotonic_ns(), time.time()
        self.put(f'{{"t_ns":{now_ns},"wall_s":{wall_s:.6f}{self.head}"kind":"{kind}"{self.tail(fields)}\n')

    @staticmethod
    def tail(fields: Mapping[str, Any] | None) -> str:
        """An event's own fields as the end of its line: `,"step":3}`."""
        return "," + _dumps(fields)[1:] if fields else "}"

    def write_about(
        self,
        kind: str,
        fields: Mapping[str, Any],
        *,
        life: str | None,
        rank: int | None = None,
        group: str | None = None,
        t_ns: int | None = None,
        wall_s: float | None = None,
    ) -> None:
        """Writes one event about another process, or (life None) about the run. Times default to now."""
        if kind not in KINDS:
            raise ValueError(f"unknown kind of event {kind!r}")
        if not HEADER_FIELDS.isdisjoint(fields):
            raise ValueError(f"{kind}: {', '.join(HEADER_FIELDS.intersection(fields))} belong to the header")
        stamp_ns = time.monotonic_ns() if t_ns is None else t_ns
        stamp_s = time.time() if wall_s is None else wall_s
        head = _head(life, None, group, rank, rank)
        self.put(f'{{"t_ns":{stamp_ns},"wall_s":{stamp_s:.6f}{head}"kind":"{kind}"{self.tail(fields)}\n')

    def close(self) -> None:
        """Closes the file; also what a forked child does with the descriptor it inherited."""
        # Taken first: a fork while another thread closes must not leave the child a number to close a second time.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def put(self, lines: str) -> None:
        """Writes whole lines, in one `os.write`."""
        raw = lines.encode("ascii")
        if os.write(self._fd, raw) != len(raw):
            raise OSError(f"{self.path}: a line was cut: is the disk full?")


def _head(life: str | None, reentry: int | None, group: str | None, rank: int | None, initial: int | None) -> str:
    fields = {"life": life, "reentry": reentry, "group": group, "rank": rank, "initial_rank": initial}
    return "," + _dumps(fields)[1:-1] + ","
