"""Stops a whole job: every process that carries its mark or descends from one, daemonised ones too.

The launcher is asked first, so that it can clean up after itself; then everything is killed until nothing is
found any more. A process that lost its mark *and* all its marked ancestors before the first look is not found here.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from chaos.clock import Clock
from chaos.doors import ProcessReader
from chaos.errors import Refused, TargetGone
from chaos.model.identity import Life, ProcessInfo
from chaos.model.undo import Undone
from chaos.system.processes import DEAD_STATES, PidfdKiller, protected_pids, with_descendants

GRACE_S = 1.0  # for the launcher to end its ranks by itself
QUIET_S = 0.5  # nothing found for this long = gone: a process that was just being forked has shown up by then
STOP_LIMIT_S = 7.0  # part of the 10 s in which everything is over
POLL_S = 0.05


def stop_job(mark: str, opened_ticks: int, *, table: ProcessReader, killer: PidfdKiller, clock: Clock) -> Undone:
    """`opened_ticks`: processes that began before are not the job's, whatever they carry."""
    if not mark:
        return Undone(how="failed", measured=False, detail="the record names no mark")
    return _Stopping(mark, opened_ticks, table, killer, clock).run()


class _Stopping:
    def __init__(self, mark: str, opened_ticks: int, table: ProcessReader, killer: PidfdKiller, clock: Clock) -> None:
        self._mark = mark
        self._opened_ticks = opened_ticks
        self._table = table
        self._killer = killer
        self._clock = clock
        self._family: set[Life] = set()  # everything ever seen to be the job's: stays so when its parent is gone
        self._refused: dict[Life, str] = {}
        self._older = ""  # processes of the job, by their mark, that began before the entry

    def run(self) -> Undone:
        began_ns = self._clock.monotonic_ns()
        self._ask_launcher()
        while (alive := self._alive()) and self._since_s(began_ns) < GRACE_S:
            self._clock.sleep(POLL_S)
        quiet_from_ns = self._clock.monotonic_ns()
        while self._since_s(quiet_from_ns) < QUIET_S:
            if alive:
                if self._since_s(began_ns) > STOP_LIMIT_S:
                    return self._failed(alive)
                self._signal(alive, signal.SIGKILL)
                quiet_from_ns = self._clock.monotonic_ns()
            self._clock.sleep(POLL_S)
            alive = self._alive()
        if self._older:
            # Not ours to stop, and not to be passed over in silence either: nothing may be called gone.
            return Undone(how="failed", measured=False, detail=f"older than the entry, so left alone: {self._older}")
        if not self._family:
            return Undone(how="gone", measured=True, detail=f"no process of {self._mark} was there")
        return Undone(how="done", measured=True, detail=f"{len(self._family)} processes of {self._mark} stopped")

    def _ask_launcher(self) -> None:
        alive = self._alive()
        pids = {info.pid for info in alive}
        roots = [info for info in alive if info.ppid not in pids]
        launcher = min(roots, key=lambda info: info.life.start_ticks, default=None)
        if launcher is not None:
            self._signal([launcher], signal.SIGTERM)
            self._signal([launcher], signal.SIGCONT)  # a stopped one could not hear the first

    def _alive(self) -> list[ProcessInfo]:
        rows = list(self._table.snapshot())
        marked = {row.pid for row in rows if row.mark == self._mark or row.life in self._family}
        spared = protected_pids(self._table)
        found = [
            row
            for row in with_descendants(rows, marked)
            if row.pid not in spared
            and row.state not in DEAD_STATES
            and row.mark in (None, self._mark)  # one with another run's mark is that run's to stop
        ]
        self._older = ", ".join(_name(row) for row in found if row.life.start_ticks < self._opened_ticks)
        alive = [row for row in found if row.life.start_ticks >= self._opened_ticks]
        self._family.update(row.life for row in alive)
        return alive

    def _signal(self, infos: Iterable[ProcessInfo], signal_number: int) -> None:
        for info in infos:
            try:
                self._killer.send(info.life, signal_number, mark=self._mark, family=self._family)
            except TargetGone:
                continue
            except Refused as problem:
                self._refused[info.life] = problem.message

    def _failed(self, alive: list[ProcessInfo]) -> Undone:
        named = "; ".join(self._refused.get(info.life, f"{_name(info)} is in state {info.state}") for info in alive)
        return Undone(how="failed", measured=False, detail=f"still there after {STOP_LIMIT_S:g} s: {named}")

    def _since_s(self, moment_ns: int) -> float:
        return (self._clock.monotonic_ns() - moment_ns) / 1e9


def _name(info: ProcessInfo) -> str:
    return f"pid {info.pid} ({' '.join(info.command)[:60]})"
