"""One history: no two groups trained at the same time, none went on behind its successor's back, none ended twice.

Groups that are not told apart never get here. Which of two results survived is `lineage.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from chaos.judge.case import Case
from chaos.judge.checks.framework import (
    GROUPS,
    RANKS,
    CheckSpec,
    Finding,
    always,
    failed,
    passed,
    unknown,
    worst_of,
)
from chaos.judge.detection import DIRECT
from chaos.judge.incident import GHOST_STEPS_MAX
from chaos.judge.lineage import Group
from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.verdict import Outcome

_INTERRUPTED = ("fault_fired", "restart_entered", *DIRECT)
_WITHIN_ERROR = "within the error of the clocks"


def single_history(case: Case) -> Finding:
    groups = case.lineage.groups
    if not groups:
        return unknown("no group did a step")
    error_ns = clock_error_ns(case.record)
    found = [*_at_once(groups, error_ns), *_late_commits(case, error_ns), *_ended_twice(case)]
    words = ["one group" if len(groups) == 1 else f"{len(groups)} groups, one after another"]
    words += [finding.observed for finding in found if finding.outcome is Outcome.PASS]
    bad = [finding for finding in found if finding.outcome is not Outcome.PASS]
    return worst_of(bad, nothing=passed("; ".join(words), *(group.steps.ref(0) for group in groups)))


def clock_error_ns(record: Record) -> int:
    """By how much events of two clocks can be out of order; 0 where all share one."""
    errors = [event.data.get("error_ns") for event in record.of("clock_offset_measured")]
    return 2 * max((error for error in errors if isinstance(error, int)), default=0)


# --- at the same time


def _at_once(groups: tuple[Group, ...], error_ns: int) -> Iterator[Finding]:
    for older in groups:
        for newer in groups[older.index + 1 :]:
            if newer.first_ns >= older.last_ns:
                break  # groups are in order of their first step: no later one can overlap either
            yield _beside(older, newer, newer.first_ns + error_ns)


def _beside(older: Group, newer: Group, surely_ns: int) -> Finding:
    """What the older group still did when the newer one had surely done its first step."""
    pair = f"groups {older.name} and {newer.name}"
    refs = (_first_ref(newer), older.steps.ref(int(np.argmax(older.steps.t_ns))))
    numbers = np.unique(older.steps.step[older.steps.t_ns > surely_ns]).tolist()
    if not numbers:
        return unknown(f"whether {pair} trained at the same time: {_WITHIN_ERROR}", *refs)
    if len(numbers) <= GHOST_STEPS_MAX and not any(_done_ns(older, step) > surely_ns for step in numbers):
        # A stopped rank that was woken to be killed ends the step it was in; the group as a whole trains no more.
        return passed(f"ghost step {' and '.join(map(str, numbers))} of {older.name} after {newer.name} had begun")
    words = f"step {numbers[0]} to {numbers[-1]} of the first was done after the second had begun"
    return failed(f"{pair} trained at the same time: {words}", *refs)


def _done_ns(group: Group, step: int) -> int:
    """When the last rank of this very group had done that step, a part of a split job being a whole one; -1: not all
    did it."""
    places = group.steps.of_step(step)
    size = _size_of(group)
    ranks = {rank for rank in group.steps.rank[places.start : places.stop].tolist() if rank < size}
    return int(group.steps.t_ns[places.start : places.stop].max()) if len(ranks) == size else -1


def _size_of(group: Group) -> int:
    return group.world_size if group.world_size and group.world_size > 0 else len(group.members)


def _first_ref(group: Group) -> str:
    return group.steps.ref(int(np.argmin(group.steps.t_ns)))


# --- behind the successor's back


def _late_commits(case: Case, error_ns: int) -> Iterator[Finding]:
    by_name = {group.name: group for group in (*case.lineage.groups, *case.lineage.abandoned)}
    by_member = {member: group for group in by_name.values() for member in group.members.values()}
    for event in case.record.of("checkpoint_committed"):
        group = by_name.get(event.group or "") or by_member.get((event.life or "", event.reentry or 0))
        if group is None:
            yield unknown(f"which group committed checkpoint {event.data['step']} was not recorded", event.ref)
            continue
        newer = _successor(case, group)
        if newer is not None and event.t_ns > newer.first_ns:
            yield _late_commit(group, newer, event, surely=event.t_ns > newer.first_ns + error_ns)


def _successor(case: Case, group: Group) -> Group | None:
    """The next group that did a step; of a group that never did one, the next after its beginning."""
    if group.index >= 0:
        return next(iter(case.lineage.groups[group.index + 1 :]), None)
    begun_ns = min(group.ready_ns.values(), default=0)
    return next((each for each in case.lineage.groups if each.first_ns > begun_ns), None)


def _late_commit(group: Group, newer: Group, event: Event, *, surely: bool) -> Finding:
    words = f"{group.name} committed checkpoint {event.data['step']} after its successor {newer.name} had begun"
    refs = (_first_ref(newer), event.ref)
    return failed(words, *refs) if surely else unknown(f"whether {words}: {_WITHIN_ERROR}", *refs)


# --- to the end, twice


def _ended_twice(case: Case) -> Iterator[Finding]:
    last = case.plan.job.steps - 1
    done = [(group, t_ns) for group in case.lineage.groups if (t_ns := _done_ns(group, last)) >= 0]
    for (older, older_ns), (newer, _) in combinations(done, 2):
        refs = tuple(group.steps.ref(group.steps.of_step(last)[-1]) for group in (older, newer))
        words = f"groups {older.name} and {newer.name} both did the last step, {last}"
        interrupted = any(older_ns <= event.t_ns <= newer.first_ns for event in case.record.of(*_INTERRUPTED))
        if _all_said_finished(case, older) or not interrupted:
            yield failed(words, *refs)
        elif case.record.of("rank_finished"):
            yield passed(f"{words}: the first was interrupted before it had ended")
        else:
            yield unknown(f"{words}; whether the first had ended was not seen", *refs)


def _all_said_finished(case: Case, group: Group) -> bool:
    said = {event.rank for event in case.record.of("rank_finished") if event.group == group.name}
    return said >= group.members.keys()


CHECKS = (
    CheckSpec(
        name="single_history", needs=frozenset({RANKS, GROUPS}),
        expects=lambda plan: "one group after another, the last step once", asked=always, body=single_history,
    ),
)  # fmt: skip
