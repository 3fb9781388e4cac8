"""Time as a door: the real clock, and a fake one for tests. Nothing else may call `time.sleep`
on a path that tests want to drive."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic and wall time. Monotonic is CLOCK_MONOTONIC, which no fault of ours shifts."""

    def monotonic_ns(self) -> int: ...

    def wall_s(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealClock:
    """The clocks of this host."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_s(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock:
    """A clock that moves only when told to; `sleep` moves it at once."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self._now_ns = int(start_s * 1e9)
        self._wall_offset_s = 1.7e9

    def monotonic_ns(self) -> int:
        return self._now_ns

    def wall_s(self) -> float:
        return self._wall_offset_s + self._now_ns / 1e9

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time runs forward")
        self._now_ns += int(seconds * 1e9)
