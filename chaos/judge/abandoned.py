"""Restarts that led nowhere: groups in which nothing was done, entries without a group, processes that died before one.

They are shown and not counted against a budget: polling intervals decide how many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.judge.record import Record

Member = tuple[str, int]  # a life and its reentry


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rank's part in a restart that led nowhere. `what`: group | entry | life; `who` had it: a group has itself, an
    entry its life, a life its initial rank."""

    t_ns: int
    what: str
    who: str | int


def count(attempts: Iterable[Attempt]) -> int:
    """How many restarts that were: all ranks take part in each, so of entries and lives the rank with most decides."""
    of_who = {what: Counter[str | int]() for what in ("group", "entry", "life")}
    for attempt in attempts:
        of_who[attempt.what][attempt.who] += 1
    return len(of_who["group"]) + sum(max(of_who[what].values(), default=0) for what in ("entry", "life"))


def attempts(
    record: Record, *, members: Collection[Member], first_steps_ns: Sequence[int], stillborn: Iterable[tuple[str, int]]
) -> tuple[Attempt, ...]:
    """`members` of any group; `first_steps_ns` of the groups that did a step, in order; `stillborn`: name and begin of
    each group that did none."""
    found = [Attempt(t_ns, "group", name) for name, t_ns in stillborn]
    for event in record.of("restart_entered"):
        if event.life is not None and (event.life, event.reentry or 0) not in members:
            found.append(Attempt(event.t_ns, "entry", event.life))
    found += _lives(record, {life for life, _ in members}, first_steps_ns)
    return tuple(sorted(found, key=lambda attempt: attempt.t_ns))


def _lives(record: Record, grouped: Collection[str], first_steps_ns: Sequence[int]) -> Iterator[Attempt]:
    """New processes that ended before they were in any group. A spare waits, and is none of them: a group began to step
    while it lived."""
    exits: dict[str | None, int] = {}
    for event in record.of("process_exited"):
        exits.setdefault(event.life, event.t_ns)
    for seat, starts in _by_seat(record).items():
        for index, (t_ns, life) in enumerate(starts[1:], start=1):  # a rank's first process is no restart
            replaced = starts[index + 1][0] if index + 1 < len(starts) else None
            end = exits.get(life, replaced)
            if life in grouped or end is None or end > record.observed_until_ns:
                continue
            next_step = bisect_left(first_steps_ns, t_ns)
            if next_step == len(first_steps_ns) or first_steps_ns[next_step] >= end:
                yield Attempt(t_ns, "life", seat)


def _by_seat(record: Record) -> dict[int, list[tuple[int, str]]]:
    """initial rank -> its processes, in order of their start."""
    seats: dict[int, list[tuple[int, str]]] = {}
    for event in record.of("rank_started"):
        seat = event.rank if event.initial_rank is None else event.initial_rank
        if event.life is not None and seat is not None:
            seats.setdefault(seat, []).append((event.t_ns, event.life))
    return seats
