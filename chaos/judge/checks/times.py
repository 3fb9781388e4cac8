"""Times held to an objective: detection, recovery, its parts. The noise rule is applied here."""

from __future__ import annotations

from chaos.judge.case import Case, how_it_ended
from chaos.judge.checks import citing
from chaos.judge.checks.excused import by_cause, by_promise
from chaos.judge.checks.framework import (
    CONTROLLER,
    EXIT_STATUS,
    GROUPS,
    NVRX_WORDS,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    passed,
    unknown,
    worst_of,
)
from chaos.judge.detection import DIRECT
from chaos.judge.incident import Incident
from chaos.judge.noise import excuse_s, hold_to
from chaos.judge.parts import Part
from chaos.model.events import Event
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
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


def _detected(case: Case, outage: Incident, objective_s: float) -> Finding:
    detection, took_s, fired = outage.detection, outage.detection_s, citing.refs(outage.faults)
    if detection is None or took_s is None:
        return unknown("no word of NVRx or of the job that it noticed", *fired, *citing.ending(case))
    refs = (*fired, detection.event.ref, *_log_line(detection.event))
    error_s = detection.error_ns / 1e9
    by = f"{seconds(took_s)} by {detection.source}"
    if took_s + error_s <= objective_s:
        return passed(by, *refs)
    if detection.is_bound:
        return unknown(f"noticed at the latest after {by}; when exactly was not seen", *refs)
    if took_s - error_s <= objective_s:
        return unknown(f"{by}, give or take {seconds(error_s)}", *refs)
    excused_s = excuse_s(case.record, outage.begun_ns, detection.t_ns)
    outcome, why = hold_to(objective_s, took_s - error_s, excused_s)
    return Finding(outcome=outcome, observed=f"{by}{': ' + why if why else ''}", evidence=refs)


def _log_line(event: Event) -> tuple[str, ...]:
    """The line of the log that said it, where it was a log that did."""
    log = event.data.get("log")
    return (log,) if isinstance(log, str) and log else ()


# --- recovered_in_time


def recovered_in_time(case: Case) -> Finding:
    findings = [by_cause(by_promise(case, outage, _recovered(case, outage)), outage) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


def _recovered(case: Case, outage: Incident) -> Finding:
    objective = case.plan.objective
    refs = citing.refs(outage.faults)
    if outage.clock_ns is None:
        return unknown("the clock was to start at the undo, and no undo was seen", *refs, *citing.ending(case))
    took_s = outage.seconds_to(outage.recovered_ns)
    if took_s is None:
        return _not_recovered(case, outage, refs)
    first = _held(case, outage, "recovered", objective.recovery_time_s, outage.recovered_ns, took_s)
    if objective.full_recovery_time_s is None:
        return first
    full_s = outage.seconds_to(outage.full_ns)
    if full_s is None:
        return worst_of(
            [first, unknown("recovered, but never steady again", *refs, *citing.ending(case))], nothing=first
        )
    full = _held(case, outage, "steady again", objective.full_recovery_time_s, outage.full_ns, full_s)
    return worst_of([first, full], nothing=first)


def _held(
    case: Case, outage: Incident, what: str, objective_s: float | None, end_ns: int | None, took_s: float
) -> Finding:
    refs = (*citing.refs(outage.faults), *_clock_refs(case, outage), *citing.done_at(outage.holding, end_ns))
    observed = f"{what} after {seconds(took_s)}"
    if objective_s is None:
        return unknown(f"{observed}; the objective names no time", *refs)
    if outage.clock_ns is None or end_ns is None:
        return unknown(f"{what}: not seen", *refs)
    error_s = outage.clock_error_ns / 1e9
    if took_s - error_s <= objective_s < took_s + error_s:
        return unknown(f"{observed}, give or take {seconds(error_s)} between the hosts' clocks", *refs)
    outcome, why = hold_to(objective_s, took_s - error_s, excuse_s(case.record, outage.clock_ns, end_ns))
    return Finding(outcome=outcome, observed=f"{observed}{': ' + why if why else ''}", evidence=refs)


def _clock_refs(case: Case, outage: Incident) -> tuple[str, ...]:
    """The undo that the clock starts with, where it does."""
    return () if outage.clock_ns is None else citing.at_moment(case, outage.clock_ns, "fault_undone")


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
    words, stands = citing.stood(case)
    refs = (*refs, *stands, *citing.ending(case))
    if objective_s is None:
        return unknown(f"not recovered in {seconds(watched_s)}; the objective names no time", *refs)
    if watched_s - excuse_s(case.record, outage.clock_ns, outage.limit_ns) > objective_s:
        return failed(f"not recovered in {seconds(watched_s)}{words}", *refs)
    return unknown(f"not recovered in the {seconds(watched_s)} that it was watched{words}", *refs)


# --- parts_in_time


def parts_in_time(case: Case) -> Finding:
    findings = []
    for outage, parts in zip(case.incidents, case.parts, strict=True):
        if not outage.faults:
            continue
        by_name = {part.name: part for part in parts}
        fired = citing.refs(outage.faults)
        for name, limit_s in sorted(case.plan.objective.parts_s.items()):
            part = by_name.get(name)
            if part is None:
                findings.append(unknown(f"{name}: this part was not seen", *fired))
                continue
            outcome, why = hold_to(limit_s, part.time_s, excuse_s(case.record, part.start_ns, part.end_ns))
            observed = f"{name} took {seconds(part.time_s)} of {limit_s:g} s{': ' + why if why else ''}"
            refs = (*fired, *_borders(case, outage, part))
            findings.append(by_cause(Finding(outcome=outcome, observed=observed, evidence=refs), outage))
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


_BORDERS = (
    *DIRECT, "process_appeared", "rank_started", "restart_entered", "phase_entered", "process_group_ready",
    "checkpoint_loaded",
)  # fmt: skip


def _borders(case: Case, outage: Incident, part: Part) -> tuple[str, ...]:
    """What the part begins and ends with."""
    ends = (part.start_ns, part.end_ns)
    return tuple(
        ref
        for t_ns in ends
        for ref in (*citing.at_moment(case, t_ns, *_BORDERS)[:1], *citing.done_at(outage.holding, t_ns))
    )


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
        name="detected_in_time", needs=NVRX_WORDS | {RANKS, CONTROLLER}, stands=True,
        expects=lambda plan: (
            "" if plan.objective.detection_time_s is None else f"at most {plan.objective.detection_time_s:g} s"
        ),
        asked=lambda plan: plan.objective.detection_time_s is not None, body=detected_in_time,
    ),
    CheckSpec(
        name="recovered_in_time", needs=frozenset({RANKS, CONTROLLER, GROUPS, EXIT_STATUS}), core=True,
        stands=True, expects=_expects_recovery, asked=_asks_recovery, body=recovered_in_time,
    ),
    CheckSpec(
        name="parts_in_time", needs=frozenset({RANKS, CONTROLLER, GROUPS}), stands=True,
        expects=lambda plan: ", ".join(f"{name} {limit:g} s" for name, limit in sorted(plan.objective.parts_s.items())),
        asked=lambda plan: bool(plan.objective.parts_s), body=parts_in_time,
    ),
)  # fmt: skip
