"""Does each restart inside a living process leave memory behind? Resident memory of each rank, restart by restart.

A new process begins with new memory, so only restarts that a process lived through say anything.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import CONTROLLER, GROUPS, RANKS, CheckSpec, Finding, failed, passed, unknown
from chaos.judge.lineage import Group
from chaos.model.events import Event
from chaos.model.plan import Plan

RESTARTS_MIN = 3  # with fewer, memory that is taken once and kept looks like memory that is lost each time
MIB = 1 << 20


@dataclass(slots=True, kw_only=True)
class _Lived:
    """One process: how often it went through a restart and trained again, and the most memory that it had while it
    trained after so many restarts, with the event that says so."""

    life: str
    rank: int
    restarts: int = -1
    most: dict[int, tuple[int, Event]] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        return len(self.most) > RESTARTS_MIN

    @property
    def growth_bytes(self) -> float:
        """For each restart: the median over the slopes between all pairs of stretches. A cache that the first restart
        fills and the later ones use does not move it, as it would a mean or a line of least squares; a leak in
        every second restart does, which the median of single differences would not see."""
        points = [(restarts, rss) for restarts, (rss, _) in sorted(self.most.items())]
        return median((y - x) / (j - i) for (i, x), (j, y) in combinations(points, 2))

    def told(self) -> tuple[str, tuple[str, ...]]:
        """In words, and where it stands."""
        first, last = min(self.most), max(self.most)
        (from_bytes, from_event), (to_bytes, to_event) = self.most[first], self.most[last]
        words = f"rank {self.rank}: {self.growth_bytes / MIB:.2f} MiB more for each of {last - first} restarts"
        span = f"{from_bytes / MIB:.1f} MiB before the first, {to_bytes / MIB:.1f} MiB after the last"
        return f"{words} ({span})", (from_event.ref, to_event.ref)


def memory_flat(case: Case) -> Finding:
    """The worst process counts; one that cannot be judged keeps the others from passing."""
    bound = case.plan.objective.memory_growth_bytes
    if bound is None:
        return unknown("asked, but the objective names no memory_growth")
    lived = [each for each in _lived(case) if each.restarts >= RESTARTS_MIN]
    worst = max((each for each in lived if each.is_measured), key=lambda each: each.growth_bytes, default=None)
    if worst is not None and worst.growth_bytes > bound:
        words, refs = worst.told()
        return failed(words, *refs)
    unseen = next((each for each in lived if not each.is_measured), None)
    if unseen is not None:
        words = f"rank {unseen.rank} trained after {unseen.restarts} restarts, measured in {len(unseen.most)} stretches"
        refs = citing.refs(event for _, event in unseen.most.values()) or citing.first_steps(case.lineage.groups)
        return unknown(f"{words}, {RESTARTS_MIN + 1} needed", *refs)
    if worst is None:
        most = max((each.restarts for each in _lived(case)), default=0)
        refs = citing.first_steps(case.lineage.groups) or citing.ending(case)
        return unknown(f"{most} restarts inside one living process, {RESTARTS_MIN} needed", *refs)
    words, refs = worst.told()
    return passed(words, *refs)


def _lived(case: Case) -> list[_Lived]:
    """The processes that trained, in order of their first step."""
    measured = case.record.of("memory_measured")
    times = [event.t_ns for event in measured]
    lived: dict[str, _Lived] = {}
    for group in case.lineage.groups:
        low, high = _trained(group)
        within = measured[bisect_left(times, low) : bisect_right(times, high)]
        for rank, (life, reentry) in group.members.items():
            each = lived.setdefault(life, _Lived(life=life, rank=rank))
            each.restarts += 1
            samples = [(rss, event) for event in within if (rss := _rss(event, life)) is not None]
            if samples:
                each.most[reentry] = max(samples, key=lambda sample: sample[0])
    return list(lived.values())


def _trained(group: Group) -> tuple[int, int]:
    """From the first step that all had done, when memory for a step has been taken, to the last step."""
    done = group.complete_ns.values()
    return (min(done), max(done)) if done else (1, 0)


def _rss(event: Event, life: str) -> int | None:
    told = event.data.get("rss_bytes")
    value = told.get(life) if isinstance(told, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _expects(plan: Plan) -> str:
    bound = plan.objective.memory_growth_bytes
    return "" if bound is None else f"at most {bound / MIB:g} MiB more for each restart inside a process"


CHECKS = (
    CheckSpec(
        name="memory_flat", needs=frozenset({RANKS, CONTROLLER, GROUPS}), expects=_expects,
        asked=lambda plan: plan.objective.memory_growth_bytes is not None, body=memory_flat,
    ),
)  # fmt: skip
