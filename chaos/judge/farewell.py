"""Words about an end that was as it should be: no signs that anything is wrong.

The monitor of in-process restart outlives its rank by up to one of its intervals, and says then that its process is
gone, of a rank that has finished as of one that was killed. Which of the two it was is known from the rank's own words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from chaos.model.events import Event

_MONITOR = "in_process_monitor"  # the `source` of what such a monitor says
_FINISHED = "rank_finished"


def without_farewells(said: Sequence[Event], turns: Iterable[Event]) -> list[Event]:
    """What was said, but for the monitors' words about ranks that had finished. `turns`: each start, new entry and
    finish of a rank, in order of time."""
    by_rank: dict[int | None, list[Event]] = {}
    for turn in turns:
        by_rank.setdefault(turn.initial_rank, []).append(turn)
    return [event for event in said if not _is_farewell(event, by_rank.get(event.initial_rank, ()))]


def _is_farewell(event: Event, turns: Sequence[Event]) -> bool:
    if event.data.get("source") != _MONITOR or event.initial_rank is None:
        return False
    index = bisect_right(turns, event.t_ns, key=lambda turn: turn.t_ns)
    return index > 0 and turns[index - 1].kind == _FINISHED
