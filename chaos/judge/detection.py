"""When the job noticed: the first word of NVRx or of the job itself. Our own process table never counts."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.judge.record import Record
from chaos.model.events import Event

DIRECT = (
    "interruption_reported", "worker_failed", "hang_detected", "abort_began", "health_check_failed",
    "health_check_passed",
)  # fmt: skip
BOUNDS = ("restart_entered", "rank_started")  # by then it had noticed; when exactly, they do not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """`is_bound`: noticed at the latest then. `error_ns` is the error of the time stamp itself."""

    t_ns: int
    is_bound: bool
    error_ns: int
    source: str
    event: Event


def detect(record: Record, *, after_ns: int, before_ns: int) -> Detection | None:
    """The first evidence of that stretch; direct evidence wins over a bound that is not earlier."""
    direct = _first(record, DIRECT, after_ns, before_ns, is_bound=False)
    bound = _first(record, BOUNDS, after_ns, before_ns, is_bound=True)
    if direct is None or (bound is not None and bound.t_ns < direct.t_ns - direct.error_ns):
        return bound
    return direct


def _first(
    record: Record, kinds: tuple[str, ...], after_ns: int, before_ns: int, *, is_bound: bool
) -> Detection | None:
    for event in record.of(*kinds):
        error = event.data.get("error_ns") or 0
        error_ns = error if isinstance(error, int) else 0
        # A log's stamp may be early by its error: what can have been after the firing counts as after it.
        if after_ns - error_ns <= event.t_ns <= before_ns:
            at_ns = max(event.t_ns, after_ns)
            return Detection(t_ns=at_ns, is_bound=is_bound, error_ns=error_ns, source=_source(event), event=event)
    return None


def _source(event: Event) -> str:
    where = event.data.get("log") or event.data.get("source") or ""
    return f"{event.kind} ({where})" if where else event.kind
