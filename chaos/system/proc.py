"""Reads single files under /proc into plain values; None where a process is gone or may not be read.

Knows nothing of lives, marks or jobs: that is `processes.py`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that somebody here needs. Times in seconds; `exit_status` is a raw wait status."""

    pid: int
    name: str
    state: str
    ppid: int
    session: int
    start_ticks: int
    cpu_s: float
    children_cpu_s: float
    threads: int
    rss_bytes: int
    exit_status: int


def read_stat(pid: int, root: Path = PROC) -> Stat | None:
    """One process's row; None when there is no such process."""
    text = _read(root / str(pid) / "stat")
    if not text:
        return None
    # The command stands in parentheses and may itself hold parentheses and spaces: split after the last one.
    head, _, rest = text.rpartition(b")")
    fields = rest.split()
    user, system, children_user, children_system = (int(value) for value in fields[11:15])
    return Stat(
        pid=pid,
        name=head.partition(b"(")[2].decode(errors="replace"),
        state=fields[0].decode(),
        ppid=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_s=(user + system) / TICKS_PER_S,
        children_cpu_s=(children_user + children_system) / TICKS_PER_S,
        threads=int(fields[17]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        exit_status=int(fields[49]),
    )


def true_state(stat: Stat, root: Path = PROC) -> str:
    """The process's state. A main thread that ended before its siblings shows Z, yet the process still runs."""
    if stat.state != "Z" or stat.threads <= 1:
        return stat.state
    for thread in _numbers(root / str(stat.pid) / "task"):
        text = _read(root / str(stat.pid) / "task" / str(thread) / "stat")
        if text and (state := text.rpartition(b")")[2].split()[0].decode()) not in "ZX":
            return state
    return stat.state


def pids(root: Path = PROC) -> list[int]:
    """Every process id there is now, ascending."""
    return sorted(_numbers(root))


def command_line(pid: int, root: Path = PROC) -> tuple[str, ...]:
    """Its arguments; empty for kernel threads, zombies and what may not be read."""
    text = _read(root / str(pid) / "cmdline") or b""
    return tuple(part.decode(errors="replace") for part in text.rstrip(b"\0").split(b"\0")) if text else ()


def environment(pid: int, root: Path = PROC) -> dict[str, str] | None:
    """The environment it was started with; None when it may not be read (never the same as empty)."""
    text = _read(root / str(pid) / "environ")
    if text is None:
        return None
    pairs = (part.decode(errors="replace").partition("=") for part in text.split(b"\0") if part)
    return {name: value for name, _, value in pairs}


def innermost_pid(pid: int, root: Path = PROC) -> int:
    """Its pid in its own pid namespace; the pid as seen from here when the kernel does not tell."""
    for line in (_read(root / str(pid) / "status") or b"").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


def pid_namespace(pid: int | str, root: Path = PROC) -> int | None:
    """Inode of its pid namespace; None when it may not be read."""
    try:
        return (root / str(pid) / "ns" / "pid").stat().st_ino
    except OSError:
        return None


def owner(pid: int, root: Path = PROC) -> int | None:
    """The user that the process runs as."""
    try:
        return (root / str(pid)).stat().st_uid
    except OSError:
        return None


def boot_id(root: Path = PROC) -> str:
    """Changes with every boot: what a ledger of another boot says about processes is history."""
    return (root / "sys" / "kernel" / "random" / "boot_id").read_text().strip()


def boot_ticks_now() -> int:
    """Now, on the scale of a process's start ticks and rounded down as they are."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS_PER_S // 1_000_000_000


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        # Gone between listing and reading (ESRCH, ENOENT) or not ours to read (EACCES): no answer either way.
        return None
