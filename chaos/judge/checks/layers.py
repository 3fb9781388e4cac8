"""Which layer brought the job back, how often it restarted, and with how many ranks."""

from __future__ import annotations

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.excused import by_cause
from chaos.judge.checks.framework import (
    CONTROLLER,
    EXIT_STATUS,
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
from chaos.judge.checks.steady import own_trouble
from chaos.judge.descent import LAYERS, UNSEEN_LAYER
from chaos.judge.incident import NO_RESTART, Incident
from chaos.judge.lineage import Group
from chaos.model.plan import Plan

# --- recovered_by


def recovered_by(case: Case) -> Finding:
    wanted = case.plan.objective.recovered_by
    if not wanted:
        return unknown("asked, but the objective names no layer")
    if wanted == (NO_RESTART,):
        return by_cause(_needed_none(case), *_explained(case))
    findings = [by_cause(_by_layer(case, outage, wanted), outage) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


def _needed_none(case: Case) -> Finding:
    """For a job that must not need recovery, any restart and any interruption is one too many."""
    end = case.record.last("rank_finished")
    until = case.record.observed_until_ns if end is None or not case.all_finished() else end.t_ns
    trouble = own_trouble(case, until)
    if trouble is not None:
        return failed(f"{trouble.kind} where nothing had to restart", trouble.ref)
    if case.restart_count or case.lineage.abandoned_restarts:
        count = case.restart_count + case.lineage.abandoned_restarts
        return failed(f"{count} restart(s) where nothing had to restart", *_restarted(case))
    if not case.lineage.groups:
        return unknown("no step was done", *citing.ending(case))
    return passed("no restart, no interruption", *citing.first_steps(case.lineage.groups), *citing.ending(case))


def _by_layer(case: Case, outage: Incident, wanted: tuple[str, ...]) -> Finding:
    refs = (*citing.refs(outage.faults), *citing.first_steps([outage.holding] if outage.holding else []))
    if outage.layer is None:
        return unknown("no layer brought it back", *refs, *citing.ending(case))
    if outage.layer in (UNSEEN_LAYER, ""):
        return unknown("the layer that brought it back was not seen", *refs)
    if outage.layer in wanted:
        return passed(outage.layer, *refs)
    words = "nothing restarted" if outage.layer == NO_RESTART else outage.layer
    return failed(words, *refs)


# --- restart_budget


def restart_budget(case: Case) -> Finding:
    bounds = case.plan.objective.restarts
    if bounds is None:
        return unknown("asked, but the objective bounds no restarts")
    counted = {layer: sum(1 for group in case.lineage.groups if group.layer == layer) for layer in LAYERS}
    unseen = sum(1 for group in case.lineage.groups if group.layer == UNSEEN_LAYER)
    words = ", ".join(f"{layer} {count}" for layer, count in counted.items())
    if case.lineage.abandoned_restarts:
        words += f" (and {case.lineage.abandoned_restarts} that led nowhere)"
    named = [("in_process", bounds.in_process), ("in_job", bounds.in_job)]
    over = {layer: counted[layer] - bound for layer, bound in named if bound is not None and counted[layer] > bound}
    refs = _restarted(case) or citing.ending(case)
    if over:
        enough = all(_excused(case, layer) >= surplus for layer, surplus in over.items())
        return by_cause(failed(words, *refs), *(case.incidents if enough else ()))
    return (
        unknown(f"{words}; {unseen} by a launcher or life that was not seen", *refs) if unseen else passed(words, *refs)
    )


def _restarted(case: Case) -> tuple[str, ...]:
    """What each restart led to: the first step of its group, or the forming of one that never did a step."""
    restarted = [group for group in case.lineage.groups if group.layer]
    led_nowhere = citing.formed(case, *(group.name for group in case.lineage.abandoned))
    entered = citing.refs(case.record.of("restart_entered")) if case.lineage.abandoned_restarts else ()
    return (*citing.first_steps(restarted), *led_nowhere, *entered)


def _excused(case: Case, layer: str) -> int:
    """Restarts by this layer that something outside the job set off."""
    return sum(incident.excused.get(layer, 0) for incident in case.incidents)


def _explained(case: Case) -> list[Incident]:
    """The outages with a cause outside the job, where they account for every restart there was and for its first sign;
    else none."""
    from_outside = [incident for incident in case.incidents if incident.causes]
    restarts = sum(_excused(case, layer) for layer in (*LAYERS, UNSEEN_LAYER))
    trouble = own_trouble(case, case.record.observed_until_ns)
    within = trouble is None or any(each.begun_ns <= trouble.t_ns <= each.limit_ns for each in from_outside)
    return from_outside if within and restarts == case.restart_count else []


def _expects_restarts(plan: Plan) -> str:
    bounds = plan.objective.restarts
    named = (("in_process", bounds.in_process), ("in_job", bounds.in_job)) if bounds else ()
    return ", ".join(f"{layer} at most {bound}" for layer, bound in named if bound is not None)


# --- world_size


def world_size(case: Case) -> Finding:
    groups = case.lineage.groups
    if not groups:
        return unknown("no group did a step", *citing.ending(case))
    unsized = [group for group in groups if group.world_size is None]
    if unsized:
        return unknown(f"the size of group {unsized[0].name} was not seen", *citing.first_steps(unsized))
    refs = citing.formed(case, *(group.name for group in groups))
    sizes = " then ".join(str(group.world_size) for group in groups)
    planned = case.plan.job.world_size
    wrong = [group for group in groups if not _fits(group, planned, case.plan.objective.world_size)]
    if wrong:
        return failed(f"{sizes} ranks, planned {planned}", *citing.formed(case, *(group.name for group in wrong)))
    if case.plan.objective.world_size != "same" and groups[-1].world_size == planned:
        return failed(f"{sizes} ranks: not fewer than {planned}", *refs)
    return passed(f"{sizes} ranks", *refs)


def _fits(group: Group, planned: int, wanted: str) -> bool:
    size = group.world_size or 0
    return size == planned if wanted == "same" else 0 < size <= planned


CHECKS = (
    CheckSpec(
        name="recovered_by", needs=frozenset({RANKS, CONTROLLER, GROUPS, EXIT_STATUS}),
        expects=lambda plan: " or ".join(plan.objective.recovered_by),
        asked=lambda plan: bool(plan.objective.recovered_by), body=recovered_by,
    ),
    CheckSpec(
        name="restart_budget", needs=frozenset({RANKS, CONTROLLER, GROUPS, EXIT_STATUS}),
        expects=_expects_restarts, asked=lambda plan: plan.objective.restarts is not None, body=restart_budget,
    ),
    CheckSpec(
        name="world_size", needs=frozenset({RANKS, GROUPS}),
        expects=lambda plan: f"{plan.objective.world_size} ({plan.job.world_size} ranks planned)",
        asked=always, body=world_size,
    ),
)  # fmt: skip
