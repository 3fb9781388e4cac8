"""From a stamp of the wall clock to CLOCK_MONOTONIC, with the error of each time stated, or a reason why it cannot be.

Two things bound a time: the stamp itself, and the reading. A line that is new since the last look was written
after it, and said no later than now. Where the two disagree the error covers both; where they disagree by more
than a writer can be late, or where the two clocks moved against each other, the stamp is not believed and the
reading alone gives the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.observer.logs.lines import Line

JUMP_NS = 1_000_000  # adjusting a clock moves both clocks alike, setting it moves one; less is part of the error
GRACE_NS = 20_000_000  # between stamping a line and writing it, on a busy machine
LATE_MAX_NS = 2_000_000_000  # a writer that was stopped in between
AHEAD_NS = 2_000_000
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Look:
    """Both clocks at one moment; between the two readings lay at most `error_ns`."""

    mono_ns: int
    wall_ns: int
    error_ns: int

    @property
    def difference_ns(self) -> int:
        return self.wall_ns - self.mono_ns


def look(mono: Callable[[], int] = time.monotonic_ns, wall: Callable[[], int] = time.time_ns) -> Look:
    """The best of a few tries: between two readings a process can be put aside for long."""
    return min((_try(mono, wall) for _ in range(_TRIES)), key=lambda each: each.error_ns)


def _try(mono: Callable[[], int], wall: Callable[[], int]) -> Look:
    before, wall_ns, after = mono(), wall(), mono()
    return Look(mono_ns=after, wall_ns=wall_ns, error_ns=after - before)


@dataclass(frozen=True, slots=True)
class When:
    """When a line was said: in [t_ns − error_ns, t_ns + error_ns]. `doubt`: why its stamp is not believed."""

    t_ns: int
    wall_s: float
    error_ns: int
    doubt: str = ""


class LineClock:
    """Dates the lines of one file. `begin(look)` before each reading, then `date` for its lines in their order."""

    def __init__(self) -> None:
        self._now: Look | None = None
        self._last: Look | None = None  # what is read now was not there then
        self._newest_ns: int | None = None  # the newest stamp believed so far

    def begin(self, now: Look) -> str:
        """A new reading begins. Returns why stamps cannot be put on our clock in it, or an empty string."""
        self._last, self._now = self._now, now
        moved_ns = self._moved_ns()
        if not moved_ns:
            return ""
        return f"the wall clock jumped by {moved_ns / 1e9:+.3f} s against CLOCK_MONOTONIC while the job ran"

    def date(self, line: Line) -> When:
        """When the line was said."""
        now = self._now
        assert now is not None, "begin comes first"
        if line.stamp is None:
            return self._by_reading(now, "")
        wall_s = self._wall_s(line, now)
        t_ns = int(wall_s * 1e9) - now.difference_ns
        error_ns = line.stamp.cut_ns + JUMP_NS + now.error_ns
        doubt = self._doubt(t_ns, error_ns, now)
        if doubt:
            return self._by_reading(now, doubt)
        floor_ns = self._floor_ns()
        if floor_ns is not None and t_ns < floor_ns - GRACE_NS:
            latest_ns = floor_ns if self._last is None else now.mono_ns
            error_ns = max(error_ns, latest_ns - t_ns)
        self._newest_ns = max(t_ns, self._newest_ns or t_ns)
        return When(t_ns=t_ns, wall_s=wall_s, error_ns=error_ns)

    def _wall_s(self, line: Line, now: Look) -> float:
        stamp = line.stamp
        assert stamp is not None
        return stamp.wall_s(now.wall_ns / 1e9) if line.utc is None else stamp.wall_s_beside(line.utc.wall_s(0.0))

    def _doubt(self, t_ns: int, error_ns: int, now: Look) -> str:
        if self._moved_ns():
            return "the wall clock jumped"
        ahead_ns = t_ns - now.mono_ns - error_ns
        if ahead_ns > AHEAD_NS:
            return f"stamps in the log are {ahead_ns / 1e9:.3f} s ahead of this host's clock; {_CAUSES}"
        floor_ns = self._floor_ns()
        late_ns = 0 if floor_ns is None else floor_ns - t_ns
        if late_ns > LATE_MAX_NS:
            return f"a stamp in the log lies {late_ns / 1e9:.3f} s before the line was written; {_CAUSES}"
        return ""

    def _floor_ns(self) -> int | None:
        """The earliest moment at which the line can have been written."""
        bounds = [self._newest_ns, None if self._last is None else self._last.mono_ns]
        return max((bound for bound in bounds if bound is not None), default=None)

    def _moved_ns(self) -> int:
        """By how much the two clocks moved against each other since the last reading; 0 when they did not."""
        if self._last is None or self._now is None:
            return 0
        moved_ns = self._now.difference_ns - self._last.difference_ns
        return moved_ns if abs(moved_ns) > JUMP_NS + self._now.error_ns + self._last.error_ns else 0

    def _by_reading(self, now: Look, doubt: str) -> When:
        """Between the last look and this one; at the first look, any time since this host started."""
        earliest_ns = 0 if self._last is None else self._last.mono_ns - LATE_MAX_NS
        return When(t_ns=now.mono_ns, wall_s=now.wall_ns / 1e9, error_ns=now.mono_ns - max(0, earliest_ns), doubt=doubt)


_CAUSES = "does the job run in another time zone (TZ), or was its wall clock set?"
