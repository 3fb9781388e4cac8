"""Times held to an objective: detection, recovery, its parts. The noise rule is applied here."""

from __future__ import annotations

from chaos.judge.case import Case, how_it_ended
from chaos.judge.checks.framework import (
    CONTROLLER,
    GROUPS,
    LAUNCHER_LOG,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    passed,
    unknown,
    worst_of,
)
from chaos.judge.incident import Incident
from chaos.judge.noise import excuse_s, hold_to
from chaos.model.plan import Plan
from chaos.model.verdict import Outcome


def seconds(value: float) -> str:
    """A time as people read it: two decimals below ten seconds."""
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


# --- detected_in_time


def detected_in_time(case: Case) -> Finding:
    objective_s = case.plan.objective.detection_time_s
    if objective_s is None:
        return unknown("asked, but the objective names no detection_time")
    findings = [_detected(case, outage, objective_s) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired"))


def _detected(case: Case, outage: Incident, objective_s: float) -> Finding:
    detection, took_s = outage.detection, outage.detection_s
    if detection is None or took_s is None:
        return unknown("no word of NVRx or of the job that it noticed", *(fault.ref for fault in outage.faults))
    error_s = detection.error_ns / 1e9
    by = f"{seconds(took_s)} by {detection.source}"
    if took_s + error_s <= objective_s:
        return passed(by, detection.event.ref)
    if detection.is_bound:
        return unknown(f"noticed at the latest after {by}; when exactly was not seen", detection.event.ref)
    if took_s - error_s <= objective_s:
        return unknown(f"{by}, give or take {seconds(error_s)}", detection.event.ref)
    excused_s = excuse_s(case.record, outage.begun_ns, detection.t_ns)
    outcome, why = hold_to(objective_s, took_s - error_s, excused_s)
    return Finding(outcome=outcome, observed=f"{by}{': ' + why if why else ''}", evidence=(detection.event.ref,))


# --- recovered_in_time


def recovered_in_time(case: Case) -> Finding:
    findings = [_recovered(case, outage) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired"))


def _recovered(case: Case, outage: Incident) -> Finding:
    objective = case.plan.objective
    refs = tuple(fault.ref for fault in outage.faults)
    if outage.clock_ns is None:
        return unknown("the clock was to start at the undo, and no undo was seen", *refs)
    took_s = outage.seconds_to(outage.recovered_ns)
    if took_s is None:
        return _not_recovered(case, outage, refs)
    first = _held(case, outage, "recovered", objective.recovery_time_s, outage.recovered_ns, took_s)
    if objective.full_recovery_time_s is None:
        return first
    full_s = outage.seconds_to(outage.full_ns)
    if full_s is None:
        return worst_of([first, unknown("recovered, but never steady again", *refs)], nothing=first)
    full = _held(case, outage, "steady again", objective.full_recovery_time_s, outage.full_ns, full_s)
    return worst_of([first, full], nothing=first)


def _held(
    case: Case, outage: Incident, what: str, objective_s: float | None, end_ns: int | None, took_s: float
) -> Finding:
    refs = tuple(fault.ref for fault in outage.faults)
    observed = f"{what} after {seconds(took_s)}"
    if objective_s is None:
        return unknown(f"{observed}; the objective names no time", *refs)
    if outage.clock_ns is None or end_ns is None:
        return unknown(f"{what}: not seen", *refs)
    outcome, why = hold_to(objective_s, took_s, excuse_s(case.record, outage.clock_ns, end_ns))
    return Finding(outcome=outcome, observed=f"{observed}{': ' + why if why else ''}", evidence=refs)


def _not_recovered(case: Case, outage: Incident, refs: tuple[str, ...]) -> Finding:
    """The wait ran out, or the job ended: that is a failure. Where we cut it short before its time, it is unknown."""
    assert outage.clock_ns is not None  # the caller has looked
    objective_s = case.plan.objective.recovery_time_s
    watched_s = max(0, outage.limit_ns - outage.clock_ns) / 1e9
    finished = case.record.last("job_finished")
    if case.record.stop_ns is None and finished is not None:
        if case.all_finished() and finished.data.get("code") == 0:
            return unknown("the job had done all its steps before it could show that it recovered", *refs, finished.ref)
        return failed(f"the job ended without having recovered: {how_it_ended(finished)}", *refs, finished.ref)
    if objective_s is None:
        return unknown(f"not recovered in {seconds(watched_s)}; the objective names no time", *refs)
    if watched_s - excuse_s(case.record, outage.clock_ns, outage.limit_ns) > objective_s:
        return failed(f"not recovered in {seconds(watched_s)}", *refs)
    return unknown(f"not recovered in the {seconds(watched_s)} that it was watched", *refs)


# --- parts_in_time


def parts_in_time(case: Case) -> Finding:
    findings = []
    for outage, parts in zip(case.incidents, case.parts, strict=True):
        if not outage.faults:
            continue
        by_name = {part.name: part for part in parts}
        for name, limit_s in sorted(case.plan.objective.parts_s.items()):
            part = by_name.get(name)
            if part is None:
                findings.append(unknown(f"{name}: this part was not seen"))
                continue
            outcome, why = hold_to(limit_s, part.time_s, excuse_s(case.record, part.start_ns, part.end_ns))
            observed = f"{name} took {seconds(part.time_s)} of {limit_s:g} s{': ' + why if why else ''}"
            findings.append(Finding(outcome=outcome, observed=observed))
    return worst_of(findings, nothing=unknown("no fault fired"))


# --- steady_after's clock: how long steps took


def slower_than(case: Case, before_s: float, after_s: float, steps: int, start_ns: int, end_ns: int) -> Finding:
    """Median step time after against before. Noise is taken off as its share of each step."""
    ratio = case.plan.objective.step_time_ratio
    excused_s = excuse_s(case.record, start_ns, end_ns) / max(1, steps)
    outcome, _ = hold_to(before_s * ratio, after_s, excused_s)
    words = f"{after_s * 1e3:.1f} ms a step after, {before_s * 1e3:.1f} ms before"
    if outcome is Outcome.UNKNOWN:
        words += f": the machine withheld {excused_s * 1e3:.1f} ms of each"
    return Finding(outcome=outcome, observed=words)


def _expects_recovery(plan: Plan) -> str:
    objective = plan.objective
    words = [] if objective.recovery_time_s is None else [f"at most {objective.recovery_time_s:g} s"]
    if objective.full_recovery_time_s is not None:
        words.append(f"steady again after at most {objective.full_recovery_time_s:g} s")
    return ", ".join(words) + (" from the undo" if objective.clock_from == "undone" else "")


def _asks_recovery(plan: Plan) -> bool:
    """Not for a fault that the job must shrug off, unless a time was given all the same."""
    return bool(plan.faults) and (
        plan.objective.recovered_by != ("none",) or plan.objective.recovery_time_s is not None
    )


CHECKS = (
    CheckSpec(
        name="detected_in_time", needs=frozenset({RANKS, CONTROLLER, LAUNCHER_LOG}), stands=True,
        expects=lambda plan: (
            "" if plan.objective.detection_time_s is None else f"at most {plan.objective.detection_time_s:g} s"
        ),
        asked=lambda plan: plan.objective.detection_time_s is not None, body=detected_in_time,
    ),
    CheckSpec(
        name="recovered_in_time", needs=frozenset({RANKS, CONTROLLER, GROUPS}), core=True, stands=True,
        expects=_expects_recovery, asked=_asks_recovery, body=recovered_in_time,
    ),
    CheckSpec(
        name="parts_in_time", needs=frozenset({RANKS, CONTROLLER, GROUPS}), stands=True,
        expects=lambda plan: ", ".join(f"{name} {limit:g} s" for name, limit in sorted(plan.objective.parts_s.items())),
        asked=lambda plan: bool(plan.objective.parts_s), body=parts_in_time,
    ),
)  # fmt: skip
