"""Which layer brought the job back, how often it restarted, and with how many ranks."""

from __future__ import annotations

from chaos.judge.case import Case
from chaos.judge.checks.framework import (
    CONTROLLER,
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
from chaos.judge.incident import NO_RESTART, Incident
from chaos.judge.descent import LAYERS, UNSEEN_LAYER
from chaos.judge.lineage import Group
from chaos.model.plan import Plan

# --- recovered_by


def recovered_by(case: Case) -> Finding:
    wanted = case.plan.objective.recovered_by
    if not wanted:
        return unknown("asked, but the objective names no layer")
    if wanted == (NO_RESTART,):
        return _needed_none(case)
    findings = [_by_layer(outage, wanted) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired"))


def _needed_none(case: Case) -> Finding:
    """For a job that must not need recovery, any restart and any interruption is one too many."""
    end = case.record.last("rank_finished")
    until = case.record.observed_until_ns if end is None or not case.all_finished() else end.t_ns
    trouble = own_trouble(case, until)
    if trouble is not None:
        return failed(f"{trouble.kind} where nothing had to restart", trouble.ref)
    if case.restart_count or case.lineage.abandoned_restarts:
        return failed(f"{case.restart_count + case.lineage.abandoned_restarts} restart(s) where nothing had to restart")
    if not case.lineage.groups:
        return unknown("no step was done")
    return passed("no restart, no interruption")


def _by_layer(outage: Incident, wanted: tuple[str, ...]) -> Finding:
    refs = tuple(fault.ref for fault in outage.faults)
    if outage.layer is None:
        return unknown("no layer brought it back", *refs)
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
    over = [
        layer
        for layer, bound in (("in_process", bounds.in_process), ("in_job", bounds.in_job))
        if bound is not None and counted[layer] > bound
    ]
    if over:
        return failed(words)
    return unknown(f"{words}; {unseen} by a launcher or life that was not seen") if unseen else passed(words)


def _expects_restarts(plan: Plan) -> str:
    bounds = plan.objective.restarts
    named = (("in_process", bounds.in_process), ("in_job", bounds.in_job)) if bounds else ()
    return ", ".join(f"{layer} at most {bound}" for layer, bound in named if bound is not None)


# --- world_size


def world_size(case: Case) -> Finding:
    groups = case.lineage.groups
    if not groups:
        return unknown("no group did a step")
    unsized = [group for group in groups if group.world_size is None]
    if unsized:
        return unknown(f"the size of group {unsized[0].name} was not seen")
    sizes = " then ".join(str(group.world_size) for group in groups)
    planned = case.plan.job.world_size
    wrong = [group for group in groups if not _fits(group, planned, case.plan.objective.world_size)]
    if wrong:
        return failed(f"{sizes} ranks, planned {planned}")
    if case.plan.objective.world_size != "same" and groups[-1].world_size == planned:
        return failed(f"{sizes} ranks: not fewer than {planned}")
    return passed(f"{sizes} ranks")


def _fits(group: Group, planned: int, wanted: str) -> bool:
    size = group.world_size or 0
    return size == planned if wanted == "same" else 0 < size <= planned


CHECKS = (
    CheckSpec(
        name="recovered_by", needs=frozenset({RANKS, CONTROLLER, GROUPS}),
        expects=lambda plan: " or ".join(plan.objective.recovered_by),
        asked=lambda plan: bool(plan.objective.recovered_by), body=recovered_by,
    ),
    CheckSpec(
        name="restart_budget", needs=frozenset({RANKS, CONTROLLER, GROUPS}),
        expects=_expects_restarts, asked=lambda plan: plan.objective.restarts is not None, body=restart_budget,
    ),
    CheckSpec(
        name="world_size", needs=frozenset({RANKS, GROUPS}),
        expects=lambda plan: f"{plan.objective.world_size} ({plan.job.world_size} ranks planned)",
        asked=always, body=world_size,
    ),
)  # fmt: skip
