"""Watches the job's processes come and go, and writes `process_appeared` and `process_exited`.

A process belongs to the job when it carries the run's mark, or a parent that we know does. Ends are
learned from pidfds (the kernel wakes us), so their times are exact to the wake-up of a thread.
"""

from __future__ import annotations

import time

from chaos.doors import Ended, ExitReader, ProcessReader
from chaos.history.writer import Writer
from chaos.model.identity import Life, ProcessInfo

SCAN_S = 0.1  # how long a new process can stay unseen while processes come and go
CALM_SCAN_S = 0.5  # and when none has for CALM_AFTER_S: each look costs the job. An end is told by the kernel at once
CALM_AFTER_S = 10.0
ROLE_SETTLES_S = 1.0  # a child of the launcher that has no rank by then is its helper: it was forked, and not exec'ed


class Known:
    """One process of the job."""

    def __init__(self, info: ProcessInfo, watched: bool, seen_at: float) -> None:
        self.info = info
        self.life: Life = info.life
        self.watched = watched  # its end will be told; otherwise it is looked for
        self.seen_at = seen_at
        self.role = ""
        self.rank: int | None = None


class ProcessSource:
    """Single-threaded: `step(timeout_s)` looks once. `rank_lives` maps life to initial rank."""

    def __init__(self, mark: str, reader: ProcessReader, exits: ExitReader, writer: Writer) -> None:
        self._mark = mark
        self._reader, self._exits, self._writer = reader, exits, writer
        self._known: dict[int, Known] = {}
        self._foreign: set[int] = set()
        self._ended_lives: dict[int, Life] = {}  # a zombie stays in the table until its parent reaps it
        self.launcher: Life | None = None
        self._changed_at = time.monotonic()

    def watch_launcher(self, pid: int) -> None:
        """The job's first process. Called right after its start, so that nothing of the job is missed."""
        info = self._reader.info(pid)
        if info is not None:
            self.launcher = info.life

    def step(self, timeout_s: float | None = None) -> None:
        """Waits for an end for at most `timeout_s` (None: as calm as the job is), then looks for newcomers."""
        if timeout_s is None:
            timeout_s = CALM_SCAN_S if time.monotonic() - self._changed_at > CALM_AFTER_S else SCAN_S
        for life, ended in self._exits.poll(timeout_s).items():
            known = self._known.get(life.pid)
            if known is not None:
                self._ended(known, ended)
        self._scan()

    def alive(self) -> list[Known]:
        """The job's processes that have not ended."""
        return list(self._known.values())

    def ended_orphans(self) -> list[Life]:
        """Ended lives that nobody has reaped yet, but for the launcher, which is its starter's to reap."""
        return [life for life in list(self._ended_lives.values()) if life != self.launcher]

    def close(self) -> None:
        self._exits.close()
        self._known.clear()

    def _scan(self) -> None:
        pids = set(self._reader.pids())
        self._foreign &= pids
        self._ended_lives = {pid: life for pid, life in self._ended_lives.items() if pid in pids}
        if self.launcher is not None:
            # Seen between fork and exec, the launcher looked like one of the controller's own.
            self._foreign.discard(self.launcher.pid)
        for known in list(self._known.values()):
            if not known.watched and not self._reader.is_alive(known.life):
                self._ended(known, None)
        for pid in sorted(pids):
            known_already = self._known.get(pid)
            if known_already is not None:
                self._settle(known_already)
            elif pid not in self._foreign:
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        info = self._reader.info(pid)
        if info is None or self._ended_lives.get(pid) == info.life:
            return
        if info.mark != self._mark and info.ppid not in self._known:
            # The launcher's child between fork and exec carries the launcher's environment, mark and all:
            # what has no mark now will not get one.
            self._foreign.add(pid)
            return
        known = Known(info, self._exits.watch(info.life), time.monotonic())
        self._known[pid] = known
        self._settle(known)

    def _settle(self, known: Known) -> None:
        if known.role:
            return
        info = self._reader.info(known.life.pid)
        if info is None or info.life != known.life:
            return
        role, rank = self._role_of(info, time.monotonic() - known.seen_at)
        if not role:
            return
        known.info, known.role, known.rank = info, role, rank
        self._changed_at = time.monotonic()
        self._write_appeared(known)

    def _role_of(self, info: ProcessInfo, age_s: float) -> tuple[str, int | None]:
        """Role and rank; an empty role while it may still change (between fork and exec)."""
        launcher = self.launcher
        if launcher is not None and info.life == launcher:
            return "launcher", None
        rank = _rank_in(info.environment)
        if launcher is not None and info.ppid == launcher.pid:
            if rank is not None:
                return "rank", rank
            return ("rank_monitor", None) if age_s >= ROLE_SETTLES_S else ("", None)
        return "other", rank

    def _write_appeared(self, known: Known) -> None:
        info = known.info
        self._writer.write_about(
            "process_appeared",
            {
                "pid": info.pid,
                "ppid": info.ppid,
                "role": known.role,
                "command": " ".join(info.command)[:300],
            },
            life=known.life.id,
            rank=known.rank,
        )

    def _ended(self, known: Known, ended: Ended | None) -> None:
        t_ns, wall_s = time.monotonic_ns(), time.time()
        self._changed_at = time.monotonic()
        if not known.role:
            known.role = "other"
            self._write_appeared(known)
        self._writer.write_about(
            "process_exited",
            {
                "pid": known.life.pid,
                "role": known.role,
                "code": None if ended is None else ended.code,
                "signal": None if ended is None else ended.signal,
                "source": "none" if ended is None else ended.source,
            },
            life=known.life.id,
            rank=known.rank,
            t_ns=t_ns,
            wall_s=wall_s,
        )
        del self._known[known.life.pid]
        self._ended_lives[known.life.pid] = known.life


def _rank_in(environment: dict[str, str]) -> int | None:
    text = environment.get("RANK", "")
    return int(text) if text.isdigit() else None
