"""What the machine withheld from the job on a stretch of time: the only excuse there is.

The excuse is the largest run delay of a rank (all its threads) on that stretch, capped by steal plus the CPU time that
others used meanwhile. Between two samples a delay can have fallen anywhere; on a stretch that begins or ends inside
such an interval it is at most the overlap. A figure that was not read excuses nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.verdict import Outcome


def excuse_s(record: Record, start_ns: int, end_ns: int) -> float:
    """Seconds that noise can explain between the two moments."""
    ranks = _ranks_of_lives(record)
    births: dict[str | None, int] = {
        event.life: event.t_ns for event in record.of("process_appeared", "rank_started") if event.life
    }
    withheld_s = 0.0
    delays: dict[Any, float] = {}
    for before, after, overlap_s in _intervals(record, start_ns, end_ns):
        taken_s = _growth(before, after, "steal_s") + _growth(before, after, "foreign_cpu_s")
        withheld_s += taken_s
        for life, delay_s in _delays(before, after, births):
            rank = ranks.get(life, life)
            delays[rank] = delays.get(rank, 0.0) + min(delay_s, overlap_s)
    return min(max(delays.values(), default=0.0), withheld_s)


def hold_to(objective_s: float, observed_s: float, excused_s: float) -> tuple[Outcome, str]:
    """The noise rule: within is a pass, over even without the excuse is a failure, between is unknown."""
    if observed_s <= objective_s:
        return Outcome.PASS, ""
    if observed_s - excused_s > objective_s:
        return Outcome.FAIL, ""
    return Outcome.UNKNOWN, f"the machine withheld {excused_s:.1f} s of {observed_s:.1f} s"


def _intervals(record: Record, start_ns: int, end_ns: int) -> Iterator[tuple[Event, Event, float]]:
    samples = record.of("machine_measured")
    first = max(0, bisect_right(samples, start_ns, key=lambda sample: sample.t_ns) - 1)
    for before, after in pairwise(islice(samples, first, None)):
        if before.t_ns >= end_ns:
            return
        overlap_ns = min(after.t_ns, end_ns) - max(before.t_ns, start_ns)
        if overlap_ns > 0:
            yield before, after, overlap_ns / 1e9


def _growth(before: Event, after: Event, name: str) -> float:
    old, new = before.data.get(name), after.data.get(name)
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return 0.0
    return max(0.0, float(new) - float(old))


def _delays(before: Event, after: Event, births: dict[str | None, int]) -> Iterator[tuple[str, float]]:
    old, new = before.data.get("run_delay_s"), after.data.get("run_delay_s")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    for life, value in new.items():
        if not isinstance(value, int | float):
            continue
        if isinstance(old.get(life), int | float):
            yield life, max(0.0, float(value) - float(old[life]))
        elif life not in old and births.get(life, 0) > before.t_ns:
            yield life, float(value)  # born since the last sample: all its delay fell after that


def _ranks_of_lives(record: Record) -> dict[str, int]:
    return {
        event.life: event.rank
        for event in record.of("rank_started")
        if event.life is not None and event.rank is not None
    }
