"""What a job promises to survive, and harm that goes beyond it: a recovery that fails then proves nothing against it.

Rests on the layers that are switched on, on the restarts that they may make, and on the ranks that they may lose.
Only processes that our faults ended count: those that a failing recovery takes down with it are the job's own loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from chaos.judge.incident import NO_RESTART, Incident
from chaos.judge.lineage import Lineage
from chaos.judge.record import Record
from chaos.model.plan import Plan

_RESTARTS_MAX = ("max_restarts", "max_restarts_in_job")  # how many the launcher may make, where the job says so


def beyond(plan: Plan, record: Record, lineage: Lineage, settings: Mapping[str, Any], outage: Incident) -> str:
    """Why the job never promised to come back from this, in words; empty where it did."""
    layers = {*plan.job.recovery, *plan.objective.recovered_by} - {NO_RESTART}
    if not layers:
        return "" if plan.objective.recovered_by else "no layer of NVRx was to bring it back"
    if "new_job" in layers:
        return ""
    if "in_job" in layers:
        return _no_restart_left(record, settings, outage)
    return _too_many_down(plan, record, lineage, settings, outage)


def _no_restart_left(record: Record, settings: Mapping[str, Any], outage: Incident) -> str:
    allowed = next((settings[name] for name in _RESTARTS_MAX if name in settings), None)
    if not isinstance(allowed, int) or isinstance(allowed, bool):
        return ""
    processes = Counter(
        event.rank if event.initial_rank is None else event.initial_rank
        for event in record.of("rank_started")
        if event.t_ns < outage.begun_ns
    )
    made = max(processes.values(), default=1) - 1
    return f"its launcher had made all {allowed} restarts that it may" if made >= allowed else ""


def _too_many_down(plan: Plan, record: Record, lineage: Lineage, settings: Mapping[str, Any], outage: Incident) -> str:
    down = _down(record, outage)
    size = outage.before.world_size if outage.before is not None else None
    size = plan.job.world_size if size is None else size
    can_go = size - _size_min(plan, settings, size)
    spares = _waiting(record, lineage, outage)
    if len(down) <= can_go + spares:
        return ""
    ranks = "1 rank was" if len(down) == 1 else f"{len(down)} ranks were"
    spare = f"{spares} spare{'' if spares == 1 else 's'}"
    return f"{ranks} down at once; in-process restart had {spare} and could do without {can_go}"


def _size_min(plan: Plan, settings: Mapping[str, Any], size: int) -> int:
    told = settings.get("min_world_size")
    if isinstance(told, int) and not isinstance(told, bool):
        return min(told, size)
    return 1 if plan.job.shrink or plan.objective.world_size != "same" else size


def _down(record: Record, outage: Incident) -> set[str]:
    """Processes in which our faults fired and that ended by a signal, or at once by the fault's own doing."""
    until = outage.limit_ns if outage.recovered_ns is None else outage.recovered_ns
    verbs = {fired.life: fired.data.get("verb") for fired in outage.faults if fired.life is not None}
    return {
        event.life
        for event in record.of("process_exited")
        if event.life in verbs
        and outage.begun_ns <= event.t_ns <= until
        and (event.data.get("signal") is not None or verbs[event.life] == "exit_now")
    }


def _waiting(record: Record, lineage: Lineage, outage: Incident) -> int:
    """Spares: ranks that were there and had been in no group when the outage began."""
    if outage.before is None:
        return 0
    gone = {event.life for event in record.of("process_exited") if event.t_ns < outage.begun_ns}
    started = {event.life for event in record.of("rank_started") if event.t_ns < outage.before.first_ns}
    used = {life for group in lineage.groups[: outage.before.index + 1] for life in group.lives()}
    return len(started - gone - used)
