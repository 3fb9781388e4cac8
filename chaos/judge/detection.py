"""When the job noticed: the first word of NVRx or of the job itself. Our own process table never counts.

Sorted once for a run, so that each outage costs a look-up and no pass over the events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from chaos.judge.record import Record
from chaos.model.events import Event

DIRECT = (
    "interruption_reported", "worker_failed", "hang_detected", "abort_began", "health_check_failed",
    "health_check_passed",
)  # fmt: skip
BOUNDS = ("restart_entered", "rank_started")  # by then it had noticed; when exactly, they do not say
SCHEDULER = "scheduler"  # the `source` of an interruption that neither NVRx nor the job is behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """`is_bound`: noticed at the latest then. `error_ns` is the error of the time stamp itself."""

    t_ns: int
    is_bound: bool
    error_ns: int
    source: str
    event: Event


class Signs:
    """All that shows that a job noticed something."""

    def __init__(self, record: Record) -> None:
        self.direct = [event for event in record.of(*DIRECT) if not is_of_scheduler(event)]
        self._bounds = record.of(*BOUNDS)
        # A log's stamp may be early by its error: what can have been after the firing counts as after it.
        self._error_max_ns = max(map(stamp_error_ns, self.direct), default=0)

    def detect(self, *, after_ns: int, before_ns: int) -> Detection | None:
        """The first evidence of that stretch; direct evidence wins over a bound that is not earlier."""
        direct = _first(self.direct, after_ns, before_ns, self._error_max_ns, is_bound=False)
        bound = _first(self._bounds, after_ns, before_ns, 0, is_bound=True)
        if direct is None or (bound is not None and bound.t_ns < direct.t_ns - direct.error_ns):
            return bound
        return direct

    def between(self, start_ns: int, end_ns: int) -> Sequence[Event]:
        """What NVRx or the job said in that stretch, its ends among it."""
        low = bisect_left(self.direct, start_ns, key=_time)
        return self.direct[low : bisect_right(self.direct, end_ns, key=_time)]


def is_of_scheduler(event: Event) -> bool:
    """Whether it is a scheduler's record, of a preemption for example: no word of NVRx's."""
    return event.kind == "interruption_reported" and event.data.get("source") == SCHEDULER


def _first(
    events: Sequence[Event], after_ns: int, before_ns: int, error_max_ns: int, *, is_bound: bool
) -> Detection | None:
    for index in range(bisect_left(events, after_ns - error_max_ns, key=_time), len(events)):
        event = events[index]
        if event.t_ns > before_ns:
            return None
        error_ns = stamp_error_ns(event)
        if event.t_ns >= after_ns - error_ns:
            event = _sharpest(events, index)
            at_ns = max(event.t_ns, after_ns)
            return Detection(
                t_ns=at_ns, is_bound=is_bound, error_ns=stamp_error_ns(event), source=_source(event), event=event
            )
    return None


def _sharpest(events: Sequence[Event], index: int) -> Event:
    """The same word with the smaller error: it may have been heard where it was said, and read in a log as well."""
    first = events[index]
    error_ns = stamp_error_ns(first)
    for other in islice(events, index + 1, None):
        if other.t_ns > first.t_ns + error_ns:
            break
        if stamp_error_ns(other) < error_ns and _word(other) == _word(first):
            return other
    return first


def _word(event: Event) -> tuple[object, ...]:
    return event.kind, event.rank, event.data.get("text")


def _time(event: Event) -> int:
    return event.t_ns


def stamp_error_ns(event: Event) -> int:
    error = event.data.get("error_ns")
    return max(0, error) if isinstance(error, int) and not isinstance(error, bool) else 0


def _source(event: Event) -> str:
    where = event.data.get("log") or event.data.get("source") or ""
    return f"{event.kind} ({where})" if where else event.kind
