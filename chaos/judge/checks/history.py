"""One history: no two groups trained at the same time, none went on behind its successor's back, none ended twice.

Groups that are not told apart never get here. Which of two results survived is `lineage.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from chaos.judge.case import Case
from chaos.judge.checks import citing
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
from chaos.model.events import Event
from chaos.model.verdict import Outcome

_INTERRUPTED = ("fault_fired", "restart_entered", *DIRECT)


def single_history(case: Case) -> Finding:
    groups = case.lineage.groups
    if not groups:
        return unknown("no group did a step", *citing.ending(case))
    found = [_beside(case, older, newer) for older, newer in case.lineage.at_once]
    found += [*_late_commits(case), *_ended_twice(case)]
    words = ["one group" if len(groups) == 1 else f"{len(groups)} groups, one after another"]
    words += [finding.observed for finding in found if finding.outcome is Outcome.PASS]
    bad = [finding for finding in found if finding.outcome is not Outcome.PASS]
    return worst_of(bad, nothing=passed("; ".join(words), *citing.first_steps(groups)))


# --- at the same time


def _beside(case: Case, older: Group, newer: Group) -> Finding:
    """Two groups that surely stepped at the same time: what did the older one still do, once the newer had begun?"""
    surely_ns = newer.first_ns + _apart_ns(case, older.lives() | newer.lives())
    late = older.steps.step[older.steps.t_ns >= surely_ns]
    first, last = int(late.min()), int(late.max())
    refs = (*citing.first_steps([newer]), *citing.done_at(older, older.last_ns))
    numbers = np.unique(late).tolist()
    if len(numbers) <= GHOST_STEPS_MAX and not any(_done_ns(older, step) >= surely_ns for step in numbers):
        # A stopped rank that was woken to be killed ends the step it was in; the group as a whole trains no more.
        return passed(f"ghost step {' and '.join(map(str, numbers))} of {older.name} after {newer.name} had begun")
    words = f"step {first} to {last} of the first was done after the second had begun"
    return failed(f"groups {older.name} and {newer.name} trained at the same time: {words}", *refs)


def _apart_ns(case: Case, lives: set[str]) -> int:
    """By how much the clocks of these processes can differ."""
    return case.lineage.clocks.apart_ns(case.lineage.clocks.of(lives))


def _done_ns(group: Group, step: int) -> int:
    """When the last rank of this very group had done that step, a part of a split job being a whole one; -1: not all
    did it."""
    places = group.steps.of_step(step)
    size = _size_of(group)
    ranks = {rank for rank in group.steps.rank[places.start : places.stop].tolist() if rank < size}
    return int(group.steps.t_ns[places.start : places.stop].max()) if len(ranks) == size else -1


def _size_of(group: Group) -> int:
    return group.world_size if group.world_size and group.world_size > 0 else len(group.members)


# --- behind the successor's back


def _late_commits(case: Case) -> Iterator[Finding]:
    groups = (*case.lineage.groups, *case.lineage.abandoned)
    by_member = {member: group for group in groups for member in group.members.values()}
    for event in case.record.of("checkpoint_committed"):
        group = by_member.get((event.life or "", event.reentry or 0))
        if group is None:
            yield unknown(f"which group committed checkpoint {event.data['step']} was not recorded", event.ref)
            continue
        newer = _successor(case, group)
        if newer is not None and event.t_ns > newer.first_ns:
            yield _late_commit(case, group, newer, event)


def _successor(case: Case, group: Group) -> Group | None:
    """The next group that did a step; of a group that never did one, the next after its beginning."""
    if group.index >= 0:
        return next(iter(case.lineage.groups[group.index + 1 :]), None)
    begun_ns = min(group.ready_ns.values(), default=0)
    return next((each for each in case.lineage.groups if each.first_ns > begun_ns), None)


def _late_commit(case: Case, group: Group, newer: Group, event: Event) -> Finding:
    words = f"{group.name} committed checkpoint {event.data['step']} after its successor {newer.name} had begun"
    refs = (*citing.first_steps([newer]), event.ref)
    writer = {event.life} if event.life is not None else group.lives()
    if event.t_ns - newer.first_ns > _apart_ns(case, writer | newer.lives()):
        return failed(words, *refs)
    return unknown(f"whether {words}: within what their clocks can differ", *refs)


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
