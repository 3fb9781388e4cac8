"""Decides from missed beats whether the controller is hung. Pure: time is handed in."""

from __future__ import annotations

BEAT_S = 1.0
MISSED_BEATS = 5


class Silence:
    """How long nothing was heard, counted in time that *we* were awake for.

    A machine that slept, or a watchdog that was not scheduled, has not proven the controller hung: one look adds at
    most one beat.
    """

    def __init__(self, beat_s: float = BEAT_S) -> None:
        self._beat_ns = int(beat_s * 1e9)
        self._silent_ns = 0
        self._looked_ns: int | None = None

    def heard(self) -> None:
        """Something came from the controller."""
        self._silent_ns = 0

    def is_hung(self, now_ns: int) -> bool:
        """To be asked at least once per beat, after everything that had arrived was read."""
        if self._looked_ns is not None:
            self._silent_ns += min(now_ns - self._looked_ns, self._beat_ns)
        self._looked_ns = now_ns
        return self._silent_ns >= MISSED_BEATS * self._beat_ns
