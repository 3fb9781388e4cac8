"""What happened, in seconds from the job's start, for pictures. Adds no judgement of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from chaos.judge.case import Case
from chaos.judge.checks.faults import describe
from chaos.judge.incident import Incident
from chaos.judge.lineage import Group
from chaos.judge.parts import Part
from chaos.judge.steps import float_of
from chaos.model.control import ControlRun
from chaos.model.events import Event
from chaos.model.timeline import GroupSpan, Mark, Span, StepMark, Timeline

STEP_MARKS_MAX = 50_000
_MARKED = (
    "fault_armed", "fault_fired", "fault_not_fired", "fault_confirmed", "fault_not_confirmed", "fault_undone",
    "undo_failed", "checkpoint_committed", "checkpoint_loaded", "checkpoint_refused", "process_exited",
    "steady_state_met", "restart_entered", "interruption_reported", "worker_failed", "hang_detected", "rank_finished",
    "job_finished", "stop_requested", "stop_condition_met",
)  # fmt: skip


class _Clock:
    """Seconds from the zero of the picture."""

    def __init__(self, zero_ns: int) -> None:
        self.zero_ns = zero_ns

    def s(self, t_ns: int) -> float:
        return round((t_ns - self.zero_ns) / 1e9, 6)


def draw(case: Case) -> Timeline:
    """The whole run."""
    record = case.record
    clock = _Clock(record.start_ns)
    spans = [
        *_lives(case, clock), *_step_spans(case, clock), *_fault_spans(case, clock), *_recovery_spans(case, clock),
    ]  # fmt: skip
    return Timeline(
        t0_ns=record.start_ns,
        end_s=clock.s(record.end_ns),
        ranks=tuple(sorted({*range(case.plan.job.world_size), *_ranks_that_stepped(case)})),
        groups=tuple(_group_span(group, clock) for group in case.lineage.groups),
        steps=tuple(sorted(_step_marks(case, clock), key=lambda mark: (mark.t_s, mark.rank, mark.step, mark.group))),
        spans=tuple(sorted(spans, key=lambda span: (span.start_s, span.lane, span.kind, span.name))),
        marks=tuple(_marks(case, clock)),
        control_loss=_control_loss(case.controls),
    )  # fmt: skip


def _ranks_that_stepped(case: Case) -> set[int]:
    return {track.rank for steps in case.record.steps.values() for track in steps.tracks}


def _step_marks(case: Case, clock: _Clock) -> Iterator[StepMark]:
    """Every step of every rank; of a long run of many ranks only every n-th step, with the first and the last one of
    each group, so that a picture can be drawn at all."""
    index = {group.name: group.index for group in case.lineage.groups}
    every = math.ceil(sum(len(steps) for steps in case.record.steps.values()) / STEP_MARKS_MAX)
    for name, steps in case.record.steps.items():
        shown = np.isin(steps.step, [steps.lowest, steps.highest]) | (steps.step % max(1, every) == 0)
        for place in np.flatnonzero(shown).tolist():
            yield StepMark(
                step=int(steps.step[place]), rank=int(steps.rank[place]), group=index.get(name or "", -1),
                t_s=clock.s(int(steps.t_ns[place])), loss=_finite(float_of(int(steps.loss[place]))),
            )  # fmt: skip
        for done in steps.repeated:
            yield StepMark(
                step=done.step, rank=done.rank, group=index.get(name or "", -1), t_s=clock.s(done.t_ns),
                loss=_number(done.loss),
            )  # fmt: skip


def _number(loss: str | None) -> float | None:
    try:
        value = None if loss is None else float.fromhex(loss)
    except (ValueError, OverflowError):
        return None
    return None if value is None else _finite(value)


def _finite(value: float) -> float | None:
    """None also for a loss that was not told: it is kept as a NaN."""
    return value if math.isfinite(value) else None


def _control_loss(controls: Sequence[ControlRun]) -> dict[int, float]:
    """Of the first fault-free run that can bear witness."""
    for control in controls:
        if control.clean:
            losses = {int(step): _number(loss) for step, loss in control.losses.items() if step.isdigit()}
            return {step: loss for step, loss in sorted(losses.items()) if loss is not None}
    return {}


def _group_span(group: Group, clock: _Clock) -> GroupSpan:
    return GroupSpan(
        index=group.index, name=group.name, world_size=group.world_size or len(group.members),
        first_step=group.steps.lowest, last_step=group.steps.highest, start_s=clock.s(group.first_ns),
        end_s=clock.s(group.last_ns), layer=group.layer,
        lives={rank: life for rank, (life, _) in group.members.items()},
    )  # fmt: skip


def _lane(event: Event) -> str:
    if event.rank is not None:
        return f"rank {event.rank}"
    role = event.data.get("role")
    by_launcher = role == "launcher" or event.kind in ("worker_failed", "hang_detected")
    return "launcher" if by_launcher else "job"


def _lives(case: Case, clock: _Clock) -> Iterator[Span]:
    """From when a process was first seen to when it was last."""
    started: dict[str, Event] = {}
    for event in case.record.of("process_appeared", "rank_started"):
        if event.life is not None and (event.rank is not None or event.data.get("role") == "launcher"):
            started.setdefault(event.life, event)
    ended = {event.life: event for event in case.record.of("process_exited")}
    for life, event in started.items():
        end = ended.get(life)
        detail = "" if end is None else f"exit code {end.data.get('code')}, signal {end.data.get('signal')}"
        end_ns = case.record.end_ns if end is None else max(end.t_ns, event.t_ns)
        start_ns = max(event.t_ns, case.record.start_ns)  # the launcher is made just before its start is told
        yield Span(
            lane=_lane(event), kind="life", name=life, start_s=clock.s(start_ns), end_s=clock.s(end_ns), detail=detail
        )


def _step_spans(case: Case, clock: _Clock) -> Iterator[Span]:
    for group in case.lineage.groups:
        steps = group.steps
        order = np.lexsort([steps.step, steps.rank])
        ranks, begins, counts = np.unique(steps.rank[order], return_index=True, return_counts=True)
        for rank, begin, count in zip(ranks.tolist(), begins.tolist(), counts.tolist(), strict=True):
            first, last = int(order[begin]), int(order[begin + count - 1])
            yield Span(
                lane=f"rank {rank}", kind="steps", name=f"steps {steps.step[first]} to {steps.step[last]}",
                start_s=clock.s(int(steps.t_ns[first])), end_s=clock.s(int(steps.t_ns[last])),
                detail=f"group {group.index}, {count} steps",
            )  # fmt: skip


def _fault_spans(case: Case, clock: _Clock) -> Iterator[Span]:
    """A fault that holds has a span, to its undo; one that does not is a mark."""
    for fired in case.fired:
        undone = next(
            (
                event
                for event in case.record.of("fault_undone")
                if event.data["fault"] == fired.data["fault"] and event.t_ns >= fired.t_ns
            ),
            None,
        )
        if undone is not None:
            yield Span(
                lane=_lane(fired), kind="hold", name=str(fired.data["fault"]), start_s=clock.s(fired.t_ns),
                end_s=clock.s(undone.t_ns), detail=f"undone: {undone.data.get('how', '')}",
            )  # fmt: skip


def _recovery_spans(case: Case, clock: _Clock) -> Iterator[Span]:
    for incident, parts in zip(case.incidents, case.parts, strict=True):
        yield from _incident_spans(incident, parts, clock)


def _incident_spans(incident: Incident, parts: tuple[Part, ...], clock: _Clock) -> Iterator[Span]:
    if incident.detection is not None:
        yield Span(
            lane="job", kind="detection", name="detection", start_s=clock.s(incident.begun_ns),
            end_s=clock.s(incident.detection.t_ns), detail=incident.detection.source,
        )  # fmt: skip
    end_ns = max(incident.recovered_ns or incident.limit_ns, incident.begun_ns)
    name = ", ".join(incident.names) or "outage without a fault of ours"
    by = f"recovered by {incident.layer}" if incident.layer else "not recovered"
    yield Span(
        lane="job", kind="fault", name=name, start_s=clock.s(incident.begun_ns), end_s=clock.s(end_ns),
        detail="; ".join(filter(None, [by, incident.cause])),
    )  # fmt: skip
    for part in parts:
        yield Span(
            lane="job", kind="recovery_part", name=part.name, start_s=clock.s(part.start_ns),
            end_s=clock.s(part.end_ns), detail=part.bounded_by,
        )  # fmt: skip


def _marks(case: Case, clock: _Clock) -> Iterator[Mark]:
    for event in case.record.of(*_MARKED):
        if _is_plain_end_of_helper(event):
            continue
        yield Mark(
            lane=_lane(event), kind=event.kind, name=_name(event), t_s=clock.s(event.t_ns), detail=_detail(event),
            ref=event.ref,
        )  # fmt: skip
    for incident in case.incidents:
        if incident.detection is not None:
            event = incident.detection.event
            yield Mark(
                lane=_lane(event), kind="detected", name="detected", t_s=clock.s(incident.detection.t_ns),
                detail=incident.detection.source, ref=event.ref,
            )  # fmt: skip
        if incident.recovered_ns is not None:
            detail = f"by {incident.layer}"
            yield Mark(
                lane="job", kind="recovered", name="recovered", t_s=clock.s(incident.recovered_ns), detail=detail
            )


def _is_plain_end_of_helper(event: Event) -> bool:
    """A checkpoint writer lives for a moment, at each checkpoint two of them: only one that failed is news."""
    helper = event.kind == "process_exited" and event.data.get("role") not in (None, "rank", "launcher")
    return helper and event.data.get("code") == 0


def _name(event: Event) -> str:
    named = event.data.get("fault")
    return str(named) if named else event.kind.replace("_", " ")


def _detail(event: Event) -> str:
    if event.kind == "fault_fired":
        return describe(event)
    for key in ("how", "reason", "text", "condition"):
        if event.data.get(key):
            return str(event.data[key])
    step = event.data.get("step")
    if event.kind == "process_exited":
        return f"code {event.data.get('code')}, signal {event.data.get('signal')}"
    return "" if step is None else f"step {step}"
