"""Whom NVRx blames: its records, each turned into the processes that it means.

Ranks are renumbered, local ranks count on each host, and process numbers are used again: a claim is worth something
only where it leads to one life. What leads to none names nobody. Whether a claim is right is for the check.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from chaos.judge.detection import stamp_error_ns
from chaos.judge.record import Record
from chaos.model.events import Event

# The wrapped function of this very rank raised: NVRx names the rank by who says it, not by a list.
_OF_ITSELF = frozenset({"fn_ex", "other_ex"})


@dataclass(frozen=True, slots=True)
class Claim:
    """One record of NVRx that names processes."""

    event: Event
    lives: frozenset[str]


class Lives:
    """Which life a rank, a process number or a local rank meant at a moment."""

    def __init__(self, record: Record) -> None:
        self._started = record.of("rank_started")
        self._rank_of_life = {
            event.life: event.rank for event in self._started if event.rank is not None and event.life is not None
        }
        self._by_rank: dict[int, list[tuple[int, str]]] = {}
        self._by_pid: dict[int, list[tuple[int, str]]] = {}
        for event in record.of("rank_started", "process_group_ready"):
            if event.rank is not None and event.life is not None:
                self._by_rank.setdefault(event.rank, []).append((event.t_ns, event.life))
        for event in record.of("rank_started", "process_appeared"):
            pid = event.data.get("pid")
            if _is_number(pid) and event.life in self._rank_of_life:
                self._by_pid.setdefault(pid, []).append((event.t_ns, str(event.life)))

    def of_rank(self, rank: int, t_ns: int) -> str | None:
        """The life that had this number then."""
        return _latest(self._by_rank.get(rank, []), t_ns)

    def of_pid(self, pid: int, t_ns: int) -> str | None:
        return _latest(self._by_pid.get(pid, []), t_ns)

    def of_local_rank(self, local_rank: int, t_ns: int, launcher: str | None) -> str | None:
        """The one rank with that place under this launcher (under any, where it is not known); None if several."""
        newest = {event.rank: event for event in self._started if event.t_ns <= t_ns}
        launchers = [event.data.get("launcher") for event in newest.values()]
        found = [
            event.life
            for event in newest.values()
            if event.data.get("local_rank") == local_rank
            and (launcher not in launchers or event.data.get("launcher") == launcher)
        ]
        return found[0] if len(found) == 1 else None

    def named(self, lives: Iterable[str]) -> str:
        """Ranks in words."""
        numbers = sorted({str(self._rank_of_life.get(life, f"of life {life}")) for life in lives})
        return f"rank {' and '.join(numbers)}"


def claims(record: Record, lives: Lives, *, since_ns: int, until_ns: int) -> list[Claim]:
    """What NVRx claimed in that stretch, in order of time. A log's stamp counts as late as its error allows."""
    found = []
    for event in record.of("interruption_reported", "worker_failed", "hang_detected"):
        at_ns = event.t_ns + stamp_error_ns(event)
        if since_ns <= at_ns and event.t_ns <= until_ns:
            meant = frozenset(life for life in _meant(event, lives, at_ns) if life is not None)
            if meant:
                found.append(Claim(event, meant))
    return found


def _meant(event: Event, lives: Lives, at_ns: int) -> Iterator[str | None]:
    data = event.data
    if event.kind == "worker_failed":
        pid, local_rank = data.get("pid"), data.get("local_rank")
        if _is_number(pid):
            # A process that never was a rank we know: its local rank would lead to an earlier one in its place.
            yield lives.of_pid(pid, at_ns)
        elif _is_number(local_rank):
            yield lives.of_local_rank(local_rank, at_ns, event.life)
        return
    ranks = data.get("ranks")
    if isinstance(ranks, list):
        yield from (lives.of_rank(rank, at_ns) for rank in ranks if _is_number(rank))
    elif event.rank is not None and (event.kind == "hang_detected" or str(data.get("marker")) in _OF_ITSELF):
        yield lives.of_rank(event.rank, at_ns)


def _latest(known: list[tuple[int, str]], t_ns: int) -> str | None:
    index = bisect_right(known, t_ns, key=lambda each: each[0])
    return known[index - 1][1] if index else None


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
