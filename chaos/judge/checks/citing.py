"""What a check cites besides the events it found: how the run ended, a step at a moment, where the ranks stood.

References are `FILE:LINE` inside the run's folder; whoever reads a verdict can look them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from chaos.judge.case import Case
from chaos.judge.lineage import Group
from chaos.model.events import Blind, Event

_AT_THE_END = re.compile(r"\(([\w.-]+:\d+)\)$")
PLACES_TOLD, RANKS_TOLD = 3, 3  # in words; the lines of all are cited


def ending(case: Case) -> tuple[str, ...]:
    """How the run ended: for a check that looked for something until then and did not find it."""
    record = case.record
    found = [event for event in (record.first("stop_requested"), record.last("job_finished")) if event is not None]
    if not found:
        found = [event for event in (record.last("run_concluded") or record.first("job_started"),) if event is not None]
    return refs(found)


def refs(events: Iterable[Event]) -> tuple[str, ...]:
    return tuple(event.ref for event in events)


def done_at(group: Group | None, t_ns: int | None) -> tuple[str, ...]:
    """The step that a rank of this group had done at exactly that moment: the last rank's, for a step of all."""
    if group is None or t_ns is None:
        return ()
    return tuple(group.steps.ref(int(place)) for place in np.flatnonzero(group.steps.t_ns == t_ns)[:1])


def first_steps(groups: Iterable[Group]) -> tuple[str, ...]:
    """The first step of each of these groups."""
    return tuple(ref for group in groups for ref in done_at(group, group.first_ns))


def formed(case: Case, *names: str | None) -> tuple[str, ...]:
    """Where the first member of each of these groups said that it was ready."""
    first: dict[str | None, str] = {}
    for event in case.record.of("process_group_ready"):
        if event.group in names:
            first.setdefault(event.group, event.ref)
    return tuple(first.values())


def at_moment(case: Case, t_ns: int, *kinds: str) -> tuple[str, ...]:
    """The events of these kinds at exactly that moment: what a border of time was taken from."""
    return tuple(event.ref for event in case.record.of(*kinds) if event.t_ns == t_ns)


def of_blind(unseen: Iterable[Blind]) -> tuple[str, ...]:
    """Where the sources went blind, as far as that is a place. A group that could not be told apart is no file: the
    line that showed it stands at the end of the reason."""
    places = (blind.ref or _AT_THE_END.findall(blind.reason) for blind in unseen)
    return tuple(ref for place in places for ref in ([place] if isinstance(place, str) else place))


def stood(case: Case) -> tuple[str, tuple[str, ...]]:
    """Where the processes stood when a wait ran out: in words that can follow others, and the lines that show it. Those
    who stood where few others did come first: with them the search begins."""
    captured = case.record.last("evidence_captured")
    if captured is None:
        return "", ()
    stands = captured.data.get("stands")
    found = [each for each in stands if _is_stand(each)] if isinstance(stands, list) else []
    places = _by_place([each for each in found if _is_rank(each)] or found)
    words = [f"{_whom(there)} stood in {there[0]['text']}" for there in places]
    more = f" and others in {len(words) - PLACES_TOLD} more places" if len(words) > PLACES_TOLD else ""
    told = f"; {', '.join(words[:PLACES_TOLD])}{more}" if words else ""
    told_of = [each for there in places for each in there]
    lines = [str(each["ref"]) for each in (*told_of, *(each for each in found if each not in told_of))]
    return told, (*lines, captured.ref)


_Stand = dict[str, Any]


def _by_place(stands: list[_Stand]) -> list[list[_Stand]]:
    """Those in one place together, the smallest groups first."""
    places: dict[str, list[_Stand]] = {}
    for each in stands:
        places.setdefault(each["text"], []).append(each)
    return sorted(places.values(), key=len)


def _is_stand(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("ref"), str) and isinstance(each.get("text"), str)


def _is_rank(stand: _Stand) -> bool:
    return isinstance(stand.get("rank"), int)


def _whom(there: list[_Stand]) -> str:
    if not _is_rank(there[0]):
        return f"the {there[0].get('who', 'process')}"
    ranks = [str(each["rank"]) for each in there]
    more = f" and {len(ranks) - RANKS_TOLD} more" if len(ranks) > RANKS_TOLD else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks[:RANKS_TOLD])}{more}"
