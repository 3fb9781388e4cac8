"""Goodput and effective training time ratio of one run.

Goodput = productive training time / total job time, steps done twice counted once.
ETTR = productive run time / wall-clock time of the job; time that checkpoints held up training is not productive.
Source of the ETTR's definition: Kokolis et al., HPCA 2025. Both are shares of the job's time, 0 to 1.
"""

from __future__ import annotations

from statistics import median

from chaos.judge.case import Case
from chaos.judge.lineage import Group


def goodput(case: Case) -> float | None:
    """None where no step time or no job time was seen."""
    return _share(case, _productive_s(case))


def ettr(case: Case) -> float | None:
    """None where no step time or no job time was seen."""
    productive_s = _productive_s(case)
    return _share(case, None if productive_s is None else max(0.0, productive_s - _stalled_s(case)))


def _share(case: Case, productive_s: float | None) -> float | None:
    total_s = (case.record.end_ns - case.record.start_ns) / 1e9
    return None if productive_s is None or total_s <= 0 else round(min(1.0, productive_s / total_s), 4)


def _productive_s(case: Case) -> float | None:
    """The time of every surviving step. A group's first one began at no moment that was seen: the median stands in."""
    times = [_step_s(group, step) for step, group in case.lineage.surviving.items()]
    seen = [time_s for time_s in times if time_s is not None]
    return sum(seen) + (len(times) - len(seen)) * median(seen) if seen else None


def _step_s(group: Group, step: int) -> float | None:
    before = group.complete_ns.get(step - 1)
    return None if before is None else (group.complete_ns[step] - before) / 1e9


def _stalled_s(case: Case) -> float:
    """What saving cost the training thread of the slowest rank, over the checkpoints of surviving steps."""
    stalls: dict[int, float] = {}
    for event in case.record.of("checkpoint_staged"):
        step, stall = event.data["step"], event.data.get("stall_s")
        # a checkpoint of step n is the state after n steps: it belongs to the group whose step n-1 survives
        group = case.lineage.surviving.get(step - 1)
        if group is not None and event.group == group.name and isinstance(stall, int | float):
            stalls[step] = max(stalls.get(step, 0.0), float(stall))
    return sum(stalls.values())
