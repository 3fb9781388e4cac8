"""How far apart the time stamps of different processes may be: nothing by one clock, the measured error by several.

Stamps are not corrected: an offset counts as error, so that what is called sure is sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chaos.judge.record import Record

NEVER_COMPARED = 1 << 62  # nanoseconds; longer than any run


class Clocks:
    """The clocks of a run: one for each boot of a host, and one for each place whose offset was measured."""

    def __init__(self, record: Record) -> None:
        self._error_ns: dict[str, int] = {}
        for event in record.of("clock_offset_measured"):
            if event.life is not None:
                place = _place(event.life)
                error = _size(event.data.get("offset_ns")) + _size(event.data.get("error_ns"))
                self._error_ns[place] = max(self._error_ns.get(place, 0), error)

    def of(self, lives: Iterable[str]) -> frozenset[str]:
        """The clocks that stamp what these processes write."""
        return frozenset(self._clock(life) for life in lives)

    def apart_ns(self, clocks: frozenset[str]) -> int:
        """The most that two stamps by these clocks can be apart for the same moment."""
        if len(clocks) < 2:
            return 0
        if len(clocks - self._error_ns.keys()) > 1:  # one may be what the others were measured against
            return NEVER_COMPARED
        return sum(sorted(self._error_ns.get(clock, 0) for clock in clocks)[-2:])

    def _clock(self, life: str) -> str:
        place = _place(life)
        return place if place in self._error_ns else place.split("-")[0]


def _place(life: str) -> str:
    """Boot and namespace of a life's text form; processes of one place read one clock."""
    parts = life.split("-")
    return "-".join(parts[:2]) if len(parts) == 4 else ""


def _size(value: Any) -> int:
    """What was measured and cannot be read bounds nothing."""
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) else NEVER_COMPARED
