"""What the machine withheld: steal, CPU time of processes that are not ours, run delay of one process.

Only measures; what may be excused with it is the judge's business. None = could not be read, never zero.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from chaos.model.identity import Life
from chaos.system import proc

_BUSY_FIELDS = (1, 2, 3, 6, 7)  # user, nice, system, irq, softirq of the `cpu` line; guest time is inside user
_STEAL_FIELD = 8

Usage = dict[tuple[int, int], tuple[float, float]]  # (pid, start ticks) -> CPU seconds, reaped children's CPU seconds


class Machine:
    """Cumulative figures of this host, from the first call on for `foreign_cpu_s`."""

    def __init__(self, root: Path = proc.PROC) -> None:
        self._root = root
        self._foreign_s = 0.0
        self._last_busy_s: float | None = None
        self._last_own: Usage = {}

    def steal_s(self) -> float | None:
        """Seconds since boot that the hypervisor gave to others, summed over CPUs."""
        fields = self._cpu_line()
        return None if fields is None else int(fields[_STEAL_FIELD]) / proc.TICKS_PER_S

    def foreign_cpu_s(self, ours: Iterable[int]) -> float | None:
        """CPU seconds used on the host since the first call by all but `ours` (pids of the job and of us)."""
        fields = self._cpu_line()
        if fields is None:
            return None
        busy_s = sum(int(fields[index]) for index in _BUSY_FIELDS) / proc.TICKS_PER_S
        now = self._own_cpu(ours)
        if self._last_busy_s is not None:
            spent_by_us_s = _spent_s(self._last_own, now)
            self._foreign_s += max(0.0, busy_s - self._last_busy_s - spent_by_us_s)
        self._last_busy_s = busy_s
        self._last_own = now
        return self._foreign_s

    def run_delay_s(self, life: Life) -> float | None:
        """Seconds that the life's threads were ready to run and did not get a CPU, all threads that it has now.

        The main thread alone would not do: while it waits for a collective, the thread that carries it out is the one
        that needs a CPU (docs/decisions, 8).
        """
        tasks = self._root / str(life.pid) / "task"
        try:
            threads = os.listdir(tasks)
            delay_ns = sum(_delay_ns(tasks / thread) for thread in threads)
        except OSError:
            return None
        stat = proc.read_stat(life.pid, self._root)
        return delay_ns / 1e9 if stat is not None and stat.start_ticks == life.start_ticks else None

    def _cpu_line(self) -> list[str] | None:
        try:
            with (self._root / "stat").open() as file:
                fields = file.readline().split()
        except OSError:
            return None
        return fields if len(fields) > _STEAL_FIELD and fields[0] == "cpu" else None

    def _own_cpu(self, ours: Iterable[int]) -> Usage:
        """A process once ours stays ours until it is reaped: a zombie shows no mark any more, so the caller may have
        lost sight of it."""
        result: Usage = {}
        given = set(ours)
        for pid in given | {pid for pid, _ in self._last_own}:
            stat = proc.read_stat(pid, self._root)
            if stat is None:
                continue
            key = (pid, stat.start_ticks)
            if pid in given or key in self._last_own:  # else that pid is somebody else's by now
                result[key] = (stat.cpu_s, stat.children_cpu_s)
        return result


def _delay_ns(task: Path) -> int:
    """A thread that ends between listing and reading has no more to tell."""
    try:
        return int((task / "schedstat").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except (IndexError, ValueError) as error:
        raise OSError(f"{task}/schedstat is not as expected") from error


def _spent_s(before: Usage, now: Usage) -> float:
    """CPU seconds that our processes used between two looks.

    A child that ended passes all it ever used to its parent in one step, and that was counted while it lived:
    taken off again, but never below zero, for somebody else may have reaped it.
    """
    nothing = (0.0, 0.0)
    by_themselves_s = sum(now[key][0] - before.get(key, nothing)[0] for key in now)
    by_children_s = sum(now[key][1] - before.get(key, nothing)[1] for key in now)
    counted_before_s = sum(sum(times) for key, times in before.items() if key not in now)
    return by_themselves_s + max(0.0, by_children_s - counted_before_s)
