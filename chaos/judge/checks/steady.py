"""Steady before the fault, steady again after it."""

from __future__ import annotations

from statistics import median

from chaos.judge.case import Case, how_it_ended
from chaos.judge.checks import citing
from chaos.judge.checks.excused import by_cause, refs_of, words_of
from chaos.judge.checks.framework import (
    CONTROLLER,
    GROUPS,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    has_faults,
    passed,
    unknown,
    worst_of,
)
from chaos.judge.checks.times import slower_than
from chaos.judge.detection import DIRECT, is_of_scheduler, stamp_error_ns
from chaos.judge.incident import Incident
from chaos.judge.lineage import Group
from chaos.model.events import Event
from chaos.model.plan import At, Plan

_BEFORE_TRAINING = frozenset({"init", "rendezvous", "checkpoint_load"})


# --- steady_before


def steady_before(case: Case) -> Finding:
    """Never fails: without a steady state before, nothing after it proves anything."""
    fired = case.fired[0] if case.fired else None
    until = fired.t_ns if fired else case.record.observed_until_ns
    own = own_trouble(case, until)
    by_others = [] if fired is None else [outage for outage in case.incidents if outage.begun_ns < fired.t_ns]
    if words_of(by_others):
        return unknown(f"interrupted before the fault: {words_of(by_others)}", *refs_of(by_others))
    if own is not None and (fired is not None or case.plan.faults):
        return unknown(f"restarted or failed by itself before the fault: {own.kind}", own.ref)
    counted = [(steady_steps(group, until), group) for group in case.lineage.groups]
    steps = max((count for count, _ in counted), default=0)
    group = next((group for count, group in counted if count == steps), None)
    last = citing.done_at(group, _last_complete(group, until))
    refs = (*last, *citing.refs([fired] if fired else []))
    if steps < case.plan.steady_steps:
        words, stands = citing.stood(case)
        reason = f"{_end_reason(case)}{words}"
        return unknown(f"never steady: {steps} steps done by all ranks{reason}", *stands, *refs, *citing.ending(case))
    return passed(f"{steps} steps done by all ranks", *refs)


def _last_complete(group: Group | None, until_ns: int) -> int | None:
    """When the last step by then was done by all ranks."""
    times = group.complete_ns.values() if group is not None else ()
    return max((t_ns for t_ns in times if t_ns <= until_ns), default=None)


def own_trouble(case: Case, until_ns: int) -> Event | None:
    """The first restart or interruption before that moment that no fault of ours explains."""
    for event in case.record.of(*DIRECT, "restart_entered", "rank_excluded"):
        # A log's stamp is cut: what can have been after that moment is no trouble before it.
        if event.t_ns + stamp_error_ns(event) < until_ns and not is_of_scheduler(event):
            return event
    return None


def steady_steps(group: Group, until_ns: int) -> int:
    """The longest run of consecutive steps that all ranks of one group had done by then."""
    longest = run = 0
    last: int | None = None
    for step in sorted(step for step, t_ns in group.complete_ns.items() if t_ns <= until_ns):
        run = run + 1 if last is not None and step == last + 1 else 1
        longest, last = max(longest, run), step
    return longest


def _end_reason(case: Case) -> str:
    stopped, finished = case.record.last("stop_requested"), case.record.last("job_finished")
    reason = "" if stopped is None else f"; {stopped.data.get('reason')}"
    return reason if finished is None else f"{reason}; the job ended: {how_it_ended(finished)}"


def before_first_step(at: At) -> bool:
    """Whether a fault is aimed before anything was trained: then there is no steady state to ask for."""
    return at.step == 0 or (at.step is None and at.phase in _BEFORE_TRAINING)


def _asks_steady_before(plan: Plan) -> bool:
    return not any(before_first_step(fault.at) for fault in plan.faults)


# --- steady_after


def steady_after(case: Case) -> Finding:
    findings = [by_cause(_steady_after(case, outage), outage) for outage in case.outages]
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


def _steady_after(case: Case, outage: Incident) -> Finding:
    needed = case.plan.steady_steps
    refs = (*citing.refs(outage.faults), *_after_refs(outage), *citing.ending(case))
    if outage.holding is None:
        return unknown("never recovered", *refs)
    too_early = sum(1 for step in outage.steps_after if step in outage.holding.steps.busy)
    done = len(outage.steps_after) - too_early
    if done < needed:
        words = f"{done} steps beyond the highest one before, {needed} needed"
        if too_early:
            return failed(f"{words}; {too_early} more were reported while the device was still busy", *refs)
        return (
            unknown(f"{words}: {_cut_short(case, outage)}", *refs) if _cut_short(case, outage) else failed(words, *refs)
        )
    return _pace(case, outage, f"{done} steps beyond the highest one before")


def _after_refs(outage: Incident) -> tuple[str, ...]:
    """The first and the last step beyond the highest one before."""
    if outage.holding is None:
        return ()
    ends = dict.fromkeys((*outage.steps_after[:1], *outage.steps_after[-1:]))
    return tuple(ref for step in ends for ref in citing.done_at(outage.holding, outage.holding.complete_ns[step]))


def _cut_short(case: Case, outage: Incident) -> str:
    """Why the job could not show more steps, where that is no fault of the job; empty where it is."""
    if case.record.stop_ns is not None and outage.limit_ns >= case.record.observed_until_ns:
        return "the job was stopped by us"
    if outage.limit_ns < case.record.observed_until_ns:
        return "another outage came first"
    return "the job had done all its steps" if case.all_finished() else ""


def _pace(case: Case, outage: Incident, words: str) -> Finding:
    holding = outage.holding
    assert holding is not None  # the caller has looked
    refs = (*citing.refs(outage.faults), *_after_refs(outage))
    before = step_times(outage.before, until_ns=outage.begun_ns) if outage.before else []
    start, end = holding.complete_ns[outage.steps_after[0]], holding.complete_ns[outage.steps_after[-1]]
    after = step_times(holding, since_ns=start, until_ns=end)
    if not before or not after:
        return passed(f"{words}; no step time before to compare with", *refs)
    pace = slower_than(case, median(before), median(after), len(after), start, end)
    return Finding(outcome=pace.outcome, observed=f"{words}; {pace.observed}", evidence=refs)


def step_times(group: Group, *, since_ns: int = 0, until_ns: int) -> list[float]:
    """Seconds from one step done by all ranks to the next one, in that stretch."""
    done = sorted(step for step, t_ns in group.complete_ns.items() if since_ns <= t_ns <= until_ns)
    times = group.complete_ns
    return [(times[step] - times[step - 1]) / 1e9 for step in done if step - 1 in times and times[step - 1] >= since_ns]


CHECKS = (
    CheckSpec(
        name="steady_before", needs=frozenset({RANKS, CONTROLLER, GROUPS}), stands=True,
        expects=lambda plan: f"{plan.steady_steps} steps by all ranks before the first fault",
        asked=_asks_steady_before, body=steady_before,
    ),
    CheckSpec(
        name="steady_after", needs=frozenset({RANKS, CONTROLLER, GROUPS}), core=True,
        expects=lambda plan: (
            f"{plan.steady_steps} steps beyond catch-up, at most {plan.objective.step_time_ratio:g} times as slow"
        ),
        asked=has_faults, body=steady_after,
    ),
)  # fmt: skip
