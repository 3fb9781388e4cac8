"""What each thread of a process does for the kernel: its state, what it waits in, how long it waited for a CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from chaos.system import proc

UNREAD = "-"


class Thread(NamedTuple):
    """Times in seconds since its start, None where they could not be read. `waits_in`: the kernel's function."""

    tid: int
    name: str
    state: str
    waits_in: str
    ran_s: float | None
    delayed_s: float | None


def threads_of(pid: int, root: Path = proc.PROC) -> list[Thread]:
    """In order of their ids: the main thread first. Raises OSError where there is no such process."""
    folder = root / str(pid) / "task"
    found = []
    for tid in sorted(int(name) for name in os.listdir(folder)):
        stat = proc.read_stat(tid, folder)
        if stat is None:
            continue  # it has just ended
        ran_s, delayed_s = _times(folder / str(tid) / "schedstat")
        name, waits_in = (_word(folder / str(tid) / each) for each in ("comm", "wchan"))
        found.append(Thread(tid, name, stat.state, "" if waits_in == "0" else waits_in, ran_s, delayed_s))
    return found


def catches(pid: int, signal_number: int, root: Path = proc.PROC) -> bool:
    """Whether the process has a handler for that signal now: without one a real-time signal would end it."""
    for line in _word(root / str(pid) / "status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal_number - 1) & 1)
    return False


def _times(path: Path) -> tuple[float | None, float | None]:
    fields = _word(path).split()
    if len(fields) < 2 or not all(field.isdigit() for field in fields[:2]):
        return None, None
    return int(fields[0]) / 1e9, int(fields[1]) / 1e9


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return UNREAD
