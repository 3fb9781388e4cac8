"""The judge: a plan and what happened, to a verdict and a timeline. The same input gives the same verdict, always."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from chaos.judge import case as cases
from chaos.judge import foreseen
from chaos.judge.case import Case
from chaos.judge.checks.faults import describe
from chaos.judge.checks.framework import ask
from chaos.judge.checks.registry import REGISTRY
from chaos.judge.incident import Incident
from chaos.judge.known import versions_seen
from chaos.judge.parts import Part
from chaos.judge.ratios import ettr, goodput
from chaos.judge.record import Record
from chaos.judge.sentence import sentence
from chaos.judge.timeline import draw
from chaos.model.control import ControlRun
from chaos.model.events import Blind, Event
from chaos.model.plan import FaultPlan, Plan
from chaos.model.timeline import Timeline
from chaos.model.verdict import WORD_OF_RUN, FaultVerdict, IncidentVerdict, PartTime, Verdict

HEAL = "nvrx-chaos heal"


def judge(
    plan: Plan, events: Iterable[Event], blind: Sequence[Blind], controls: Sequence[ControlRun], *, run_id: str
) -> tuple[Verdict, Timeline]:
    """Judges one run. `blind`: what the reader could not trust; events that say so themselves are heeded, too."""
    return judge_record(plan, Record(events), blind, controls, run_id=run_id)


def judge_record(
    plan: Plan, record: Record, blind: Sequence[Blind], controls: Sequence[ControlRun], *, run_id: str
) -> tuple[Verdict, Timeline]:
    """Judges what was taken from the events: a reader learns what of it is blind only at the end of its files."""
    unseen = tuple(dict.fromkeys(chain(blind, record.blind)))
    case = cases.build(plan, record, controls)
    groups = tuple(Blind(source="group", reason=problem) for problem in case.lineage.problems)
    unseen += groups
    checks = tuple(ask(spec, case, unseen) for spec in REGISTRY)
    lost = _lost(unseen, record)
    ruling = foreseen.rule(plan, checks, record, lost=lost)
    incidents = tuple(_incident(case, *pair) for pair in zip(case.incidents, case.parts, strict=True))
    simulated = any(fault.fidelity == "simulated" for fault in plan.faults)
    undone = next((check for check in checks if check.name == "undone"), None)
    verdict = Verdict(
        scenario=plan.scenario,
        run_id=run_id,
        seed=plan.seed,
        outcome=WORD_OF_RUN[ruling.outcome],
        known=ruling.known,
        interrupted=record.interrupted,
        sentence=sentence(ruling, checks, incidents, lost, simulated=simulated, interrupted=record.interrupted),
        remedy=HEAL if undone is not None and undone.outcome != "pass" else "",
        fidelity="simulated" if simulated else "real",
        faults=tuple(_fault(case, fault) for fault in plan.faults),
        incidents=incidents,
        checks=checks,
        foreseen=ruling.foreseen,
        goodput=goodput(case),
        ettr=ettr(case),
        controls=tuple(control.path or control.run_id for control in controls),
        settings_seen=dict(case.settings),
        versions={name: told[0] for name, told in versions_seen(record).items()},
        repeat=plan.repeat,
    )  # fmt: skip
    return verdict, draw(case)


def _lost(blind: Sequence[Blind], record: Record) -> str:
    """Why the run cannot be passed, whatever its checks found: something was not seen, or we ended it ourselves."""
    if blind:
        return f"a source of evidence was blind: {blind[0].reason}"
    if record.interrupted or record.stop_ns is not None:
        return "we stopped the run before the job's end"
    return ""


def _incident(case: Case, incident: Incident, parts: Sequence[Part]) -> IncidentVerdict:
    detection = incident.detection
    return IncidentVerdict(
        faults=incident.names,
        recovered_by=incident.layer,
        detection_time_s=incident.detection_s,
        detection_is_bound=detection is not None and detection.is_bound,
        detection_source="" if detection is None else detection.source,
        detection_error_s=0.0 if detection is None else detection.error_ns / 1e9,
        recovery_time_s=incident.seconds_to(incident.recovered_ns),
        catch_up_time_s=incident.seconds_to(incident.caught_up_ns),
        full_recovery_time_s=incident.seconds_to(incident.full_ns),
        parts=tuple(PartTime(name=part.name, time_s=part.time_s, bounded_by=part.bounded_by) for part in parts),
        lost_steps=incident.lost_steps,
        restarts=incident.restarts(),
        cause=incident.cause,
    )


def _fault(case: Case, fault: FaultPlan) -> FaultVerdict:
    """What became of it; an empty word where it did not happen."""
    fired = [event for event in case.fired if event.data["fault"] == fault.name]
    confirmed = [event for event in case.record.of("fault_confirmed") if event.data["fault"] == fault.name]
    undone = [event for event in case.record.of("fault_undone") if event.data["fault"] == fault.name]
    ranks = ", ".join(str(rank) for rank in fault.ranks)
    return FaultVerdict(
        name=fault.name, fault=fault.fault, params=fault.params, target=f"rank {ranks}" if ranks else "",
        fidelity=fault.fidelity, layer=fault.layer, certifies=fault.certifies,
        does_not_certify=fault.does_not_certify,
        fired="; ".join(describe(event) for event in fired),
        confirmed="; ".join(str(event.data.get("how") or "seen from outside") for event in confirmed),
        undone="; ".join(str(event.data.get("how") or "done") for event in undone),
    )  # fmt: skip
