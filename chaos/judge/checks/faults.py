"""Was the fault ours and as planned: fired where it should, seen to act, taken back."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import (
    CONTROLLER,
    EXIT_STATUS,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    passed,
    unknown,
    worst_of,
)
from chaos.model.events import Event
from chaos.model.plan import FaultPlan, Plan

DEFAULT_PHASE = "forward"
_EARLY_S = 0.05  # a timer of ours may be read this much apart from its event


# --- faults_fired_as_planned


def fired_as_planned(case: Case) -> Finding:
    planned = {fault.name for fault in case.plan.faults}
    strays = [event for event in case.fired if event.data["fault"] not in planned]
    findings = [failed(f"{event.data['fault']} fired and was not planned", event.ref) for event in strays]
    findings += [_as_planned(case, fault) for fault in case.plan.faults]
    return worst_of(findings, nothing=passed("no fault planned", *citing.ending(case)))


def _as_planned(case: Case, fault: FaultPlan) -> Finding:
    fired = [event for event in case.fired if event.data["fault"] == fault.name]
    if not fired:
        return _never(case, fault, f"{fault.name} never fired")
    findings = list(_wrong(case, fault, fired))
    ranks = {_initial_rank(event) for event in fired}
    missing = sorted(set(fault.ranks) - {rank for rank in ranks if rank is not None})
    if missing and None not in ranks:
        findings.append(_never(case, fault, f"{fault.name} did not fire in rank {missing[0]}"))
    where = ", ".join(describe(event) for event in fired)
    return worst_of(findings, nothing=passed(f"{fault.name} fired once: {where}", *(event.ref for event in fired)))


def _wrong(case: Case, fault: FaultPlan, fired: list[Event]) -> Iterator[Finding]:
    seen: dict[int | None, Event] = {}
    for event in fired:
        rank = _initial_rank(event)
        if rank in seen:
            yield failed(f"{fault.name} fired twice in rank {rank}", seen[rank].ref, event.ref)
        seen[rank] = event
        if rank is None:
            yield unknown(f"{fault.name} fired; in which rank was not recorded", event.ref)
        elif fault.ranks and rank not in fault.ranks:
            allowed = " or ".join(str(rank) for rank in fault.ranks)
            yield failed(f"{fault.name} fired in rank {rank}, planned for rank {allowed}", event.ref)
        yield from _misplaced(case, fault, event)


def _misplaced(case: Case, fault: FaultPlan, event: Event) -> Iterator[Finding]:
    at = fault.at
    if at.step is not None:
        wanted = {"step": at.step, "phase": at.phase or DEFAULT_PHASE, "point": at.point}
        for name, value in wanted.items():
            seen = event.data.get(name)
            if seen is None:
                yield unknown(f"{fault.name} fired; its {name} was not recorded", event.ref)
            elif seen != value:
                yield failed(f"{fault.name} fired at {name} {seen}, planned {value}", event.ref)
    steady = case.record.first("steady_state_met")
    if at.after_s is not None and steady is not None:
        after_s = (event.t_ns - steady.t_ns) / 1e9
        if after_s < at.after_s - _EARLY_S:
            yield failed(
                f"{fault.name} fired {after_s:.2f} s after steady state, planned {at.after_s:g} s",
                steady.ref,
                event.ref,
            )


def _never(case: Case, fault: FaultPlan, words: str) -> Finding:
    """With the last word on why; else only the end of the run shows that it never came."""
    reasons = case.record.of("fault_not_fired", "fault_disarmed")
    told = [event for event in reasons if event.data.get("fault") == fault.name]
    if not told:
        return unknown(words, *citing.ending(case))
    return unknown(f"{words}: {told[-1].data.get('reason', 'no reason given')} ({told[-1].ref})", told[-1].ref)


def _initial_rank(event: Event) -> int | None:
    return event.rank if event.initial_rank is None else event.initial_rank


def describe(event: Event) -> str:
    """Where a fault fired, in words."""
    data = event.data
    words = [
        None if data.get("step") is None else f"step {data['step']}",
        data.get("phase"),
        data.get("point") if data.get("point") != "entry" else None,
        None if _initial_rank(event) is None else f"rank {_initial_rank(event)}",
    ]
    return ", ".join(str(word) for word in words if word) or "at once"


# --- fault_took_effect


def took_effect(case: Case) -> Finding:
    if not case.plan.faults and not case.fired:
        return passed("no fault planned", *citing.ending(case))
    findings = [
        _never(case, fault, f"{fault.name} never fired")
        for fault in case.plan.faults
        if not any(event.data["fault"] == fault.name for event in case.fired)
    ]
    findings += [_effect(case, event) for event in case.fired]
    return worst_of(findings, nothing=unknown("no outside evidence", *citing.ending(case)))


def _effect(case: Case, fired: Event) -> Finding:
    """The word of the outside on one firing: its own life's where it names one."""
    name = fired.data["fault"]
    alone = sum(1 for event in case.fired if event.data["fault"] == name) == 1
    told = [
        event
        for event in case.record.of("fault_confirmed", "fault_not_confirmed")
        if event.data["fault"] == name and (alone or event.life in (None, fired.life))
    ]
    against = [event for event in told if event.kind == "fault_not_confirmed" and event.data.get("contrary") is True]
    if against:
        return failed(f"{name} did not act: {against[0].data.get('reason', '')}", fired.ref, against[0].ref)
    confirmed = [event for event in told if event.kind == "fault_confirmed"]
    elsewhere = [event for event in confirmed if None not in (event.life, fired.life) and event.life != fired.life]
    if elsewhere:
        return failed(f"{name} hit another target: {elsewhere[0].life}", fired.ref, elsewhere[0].ref)
    if confirmed:
        return passed(f"{name}: {confirmed[0].data.get('how') or 'seen from outside'}", confirmed[0].ref)
    why = f": {told[0].data.get('reason', '')}" if told else ""
    return unknown(f"{name}: no outside evidence that it acted{why}", fired.ref, *citing.refs(told))


# --- undone


def undone(case: Case) -> Finding:
    concluded = case.record.last("run_concluded")
    if concluded is None:
        return unknown("nobody measured at the end what is left of ours", *citing.ending(case))
    still_open = concluded.data.get("open_entries")
    if not isinstance(still_open, int) or isinstance(still_open, bool) or still_open < 0:
        return unknown("the count of open entries was not recorded", concluded.ref)
    if still_open > 0:
        return failed(f"{still_open} of ours still there", concluded.ref)
    if concluded.data.get("measured") is not True:
        return unknown("nothing open by our own book, but not measured", concluded.ref)
    entries = concluded.data.get("entries")
    count = len(entries) if isinstance(entries, list | dict) else entries
    return passed(f"measured: nothing left of {count} entries" if count else "measured: nothing left", concluded.ref)


def _expects_fired(plan: Plan) -> str:
    return "; ".join(f"{fault.name}: {describe_plan(fault)}, once" for fault in plan.faults) or "no fault"


def describe_plan(fault: FaultPlan) -> str:
    """Where and when a fault is due, in words."""
    at = fault.at
    ranks = "rank " + ", ".join(str(rank) for rank in fault.ranks) if fault.ranks else "any rank"
    if at.step is not None:
        point = "" if at.point == "entry" else f", {at.point}"
        return f"step {at.step}, {at.phase or DEFAULT_PHASE}{point}, {ranks}"
    return f"{at.after_s:g} s after steady state, {ranks}" if at.after_s is not None else f"at {at.event}, {ranks}"


CHECKS = (
    CheckSpec(
        name="faults_fired_as_planned", needs=frozenset({RANKS, CONTROLLER}), core=True, stands=True,
        expects=_expects_fired, body=fired_as_planned,
    ),
    CheckSpec(
        name="fault_took_effect", needs=frozenset({RANKS, CONTROLLER, EXIT_STATUS}), core=True, stands=True,
        expects=lambda plan: "seen from outside to act" if plan.faults else "no fault", body=took_effect,
    ),
    CheckSpec(
        name="undone", needs=frozenset({CONTROLLER}), core=True, stands=True,
        expects=lambda plan: "nothing of ours left, measured", body=undone,
    ),
)  # fmt: skip
