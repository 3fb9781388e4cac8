"""Small made-up verdicts, timelines, plans and events, for the tests of this room and for looking at pages."""

from __future__ import annotations

import math
import random
from typing import Any

from hypothesis import strategies as st

from chaos.model.events import Event
from chaos.model.plan import At, FaultPlan, JobPlan, ObjectivePlan, Plan
from chaos.model.timeline import GroupSpan, Mark, Span, StepMark, Timeline
from chaos.model.verdict import Check, FaultVerdict, IncidentVerdict, PartTime, Verdict

# any character there is, lone surrogates and controls among them
ANY_SIGN = st.integers(0, 0x10FFFF).map(chr)
REPEAT = "nvrx-chaos run scenarios/quick/kill-worker.yaml --seed 7391"
STEP_S = 0.0212


def check(name: str, outcome: str = "pass", expected: str = "as asked", observed: str = "as seen") -> Check:
    return Check(
        name=name, outcome=outcome, expected=expected, observed=observed, evidence=("history/rank1.jsonl:231",)
    )


def fault(**changes: Any) -> FaultVerdict:
    fields: dict[str, Any] = {
        "name": "kill",
        "fault": "process.kill",
        "params": {"signal": "KILL"},
        "target": "rank 1",
        "fidelity": "real",
        "layer": "process",
        "certifies": "the job survives the sudden end of one worker process",
        "does_not_certify": "the loss of a whole host, its memory or its network",
        "fired": "step 47, backward, in the first collective",
        "confirmed": "the process ended with signal 9",
        "undone": "nothing to take back",
    }
    return FaultVerdict(**(fields | changes))


def incident(**changes: Any) -> IncidentVerdict:
    fields: dict[str, Any] = {
        "faults": ("kill",),
        "recovered_by": "in_job",
        "detection_time_s": 0.214,
        "detection_source": "the launcher's log",
        "detection_error_s": 0.001,
        "recovery_time_s": 2.61,
        "catch_up_time_s": 2.78,
        "full_recovery_time_s": 3.02,
        "parts": (
            PartTime(name="detection", time_s=0.214, bounded_by="monitor_interval=0.2"),
            PartTime(name="workers_stopped", time_s=0.31),
            PartTime(name="rendezvous", time_s=0.22),
            PartTime(name="process_start", time_s=1.48, bounded_by="importing torch"),
            PartTime(name="checkpoint_load", time_s=0.09),
            PartTime(name="first_step", time_s=0.296),
        ),
        "lost_steps": 7,
        "restarts": {"in_process": 0, "in_job": 1, "abandoned": 0},
    }
    return IncidentVerdict(**(fields | changes))


def verdict(outcome: str = "passed", **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "scenario": "kill-worker",
        "run_id": "20260301-101500-7391",
        "seed": 7391,
        "outcome": outcome,
        "sentence": "Passed: in_job brought the job back 2.61 s after rank 1 was killed; "
        "state bit for bit that of the control. Not asked: memory_flat, blamed_right.",
        "faults": (fault(),),
        "incidents": (incident(),),
        "checks": (
            check("steady_before", observed="10 steps, median 21.2 ms"),
            check("recovered_in_time", expected="at most 8.00 s", observed="2.61 s"),
            check("state_exact", expected="bit for bit", observed="control: 120 steps; done twice: 7 steps"),
            Check(name="memory_flat", outcome="not_asked"),
        ),
        "goodput": 0.512,
        "ettr": 0.634,
        "controls": ("reports/control/20260301-100100-0", "reports/control/20260301-100200-0"),
        "settings_seen": {"monitor_interval": 0.2, "rank_heartbeat_timeout": 3.0, "checkpoint_every": 20},
        "versions": {"torch": "2.13.0", "nvidia-resiliency-ext": "0.4.1", "python": "3.11.2"},
        "repeat": REPEAT,
    }
    return Verdict(**(fields | changes))


def failed(**changes: Any) -> Verdict:
    checks = (
        check("steady_before", observed="10 steps, median 21.2 ms"),
        check("recovered_in_time", "fail", "at most 2.00 s", "2.61 s; the machine withheld 0.02 s of it"),
        check("state_exact", "fail", "bit for bit", "loss differs from the control from step 41 on"),
    )
    sentence = "Failed: recovery took 2.61 s, objective 2.00 s; the state is not that of the control from step 41 on."
    return verdict(**({"outcome": "failed", "checks": checks, "sentence": sentence} | changes))


def known(**changes: Any) -> Verdict:
    """Failed by nothing but a defect that the scenario knows."""
    checks = (check("steady_before"), check("recovered_in_time", "fail", "at most 2.00 s", "2.61 s"))
    sentence = (
        "failed, as known: recovered_in_time: 2.61 s; known until 2027-03-01 (https://example.org/issues/7). "
        "Not asked: memory_flat."
    )
    fields = {"checks": checks, "sentence": sentence, "known": True, "foreseen": {"recovered_in_time": "known"}}
    return verdict("failed", **(fields | changes))


def unknown(**changes: Any) -> Verdict:
    checks = (
        check("steady_before"),
        check("recovered_in_time", "unknown", "at most 8.00 s", "history/rank1.jsonl ends at line 231"),
    )
    never = incident(
        recovered_by=None, recovery_time_s=None, catch_up_time_s=None, full_recovery_time_s=None, lost_steps=None,
        detection_is_bound=True, parts=(), restarts={},
    )  # fmt: skip
    sentence = "Unknown: the history of rank 1 lost its end, so it cannot be said whether the job came back."
    fields = {"outcome": "unknown", "checks": checks, "sentence": sentence, "incidents": (never,)}
    return verdict(**(fields | changes))


def not_run(**changes: Any) -> Verdict:
    sentence = "Not run: this kernel has no PIDFD_GET_INFO and the launcher keeps no record."
    fields = {
        "outcome": "not_run",
        "checks": (),
        "incidents": (),
        "sentence": sentence,
        "remedy": "Linux 6.15 or later",
    }
    return verdict(**(fields | changes))


def loss_at(step: int) -> float:
    return 2.2 + 3.4 * math.exp(-step / 35) + 0.05 * math.sin(step * 1.7)


def timeline(*, ranks: int = 2, steps: int = 120, kill_at: int = 47, resume_at: int = 41, off: float = 0.0) -> Timeline:
    """Ranks step evenly, rank 1 is killed, a later group resumes at a checkpoint; `off` is added to its losses."""
    rng = random.Random(1)
    marks: list[StepMark] = []
    start_s, now_s = 3.1, 3.1
    for step in range(kill_at):
        now_s += STEP_S * (1 + 0.12 * rng.random())
        marks += [_step(step, rank, 0, now_s + rank * 0.0004, 0.0) for rank in range(ranks)]
    fired_s = now_s + 0.4 * STEP_S
    marks.append(_step(kill_at, 0, 0, fired_s + 0.05, 0.0))  # a ghost
    back_s = fired_s + 2.61
    now_s = back_s
    for step in range(resume_at, steps):
        marks += [_step(step, rank, 1, now_s + rank * 0.0004, off) for rank in range(ranks)]
        now_s += STEP_S * (1 + 0.12 * rng.random())
    return Timeline(
        t0_ns=10**12,
        end_s=now_s + 0.6,
        ranks=tuple(range(ranks)),
        groups=(
            GroupSpan(index=0, name="5f1c9a", world_size=ranks, first_step=0, last_step=kill_at, start_s=start_s,
                      end_s=fired_s),
            GroupSpan(index=1, name="b07d22", world_size=ranks, first_step=resume_at, last_step=steps - 1,
                      start_s=back_s, end_s=now_s, layer="in_job"),
        ),
        steps=tuple(marks),
        spans=tuple(_spans(ranks, fired_s, now_s)),
        marks=tuple(_marks(fired_s, back_s)),
        control_loss={step: loss_at(step) for step in range(steps)},
    )  # fmt: skip


def _step(step: int, rank: int, group: int, t_s: float, off: float) -> StepMark:
    return StepMark(step=step, rank=rank, group=group, t_s=t_s, loss=loss_at(step) + off)


def _spans(ranks: int, fired_s: float, end_s: float) -> list[Span]:
    spans = []
    for rank in range(ranks):
        lane, gone_s = f"rank {rank}", fired_s + (0.001 if rank == 1 else 0.524)
        spans.append(Span(lane=lane, kind="life", name=f"pid {4000 + rank}", start_s=0.4, end_s=gone_s))
        spans.append(Span(lane=lane, kind="life", name=f"pid {4100 + rank}", start_s=fired_s + 0.744, end_s=end_s))
    at_s = fired_s
    spans.append(Span(lane="job", kind="detection", name="detection", start_s=at_s, end_s=at_s + 0.214))
    for part in incident().parts:
        bounded = f"bounded by {part.bounded_by}" if part.bounded_by else ""
        spans.append(
            Span(
                lane="job", kind="recovery_part", name=part.name, start_s=at_s, end_s=at_s + part.time_s, detail=bounded
            )
        )
        at_s += part.time_s
    return spans


def _marks(fired_s: float, back_s: float) -> list[Mark]:
    return [
        Mark(lane="job", kind="steady_state_met", name="steady", t_s=3.4),
        Mark(lane="rank 0", kind="checkpoint_committed", name="checkpoint 20", t_s=3.6),
        Mark(lane="rank 0", kind="checkpoint_committed", name="checkpoint 40", t_s=4.0),
        Mark(lane="rank 1", kind="fault_fired", name="kill", t_s=fired_s, ref="history/rank1.jsonl:231"),
        Mark(lane="rank 1", kind="process_exited", name="signal 9", t_s=fired_s + 0.001),
        Mark(lane="rank 1", kind="fault_confirmed", name="kill", t_s=fired_s + 0.03),
        Mark(lane="job", kind="detected", name="detected", t_s=fired_s + 0.214),
        Mark(lane="rank 0", kind="checkpoint_loaded", name="checkpoint 40", t_s=back_s - 0.3),
        Mark(lane="rank 1", kind="checkpoint_loaded", name="checkpoint 40", t_s=back_s - 0.3),
        Mark(lane="job", kind="recovered", name="recovered", t_s=back_s + 0.0004),
    ]


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "scenario": "kill-worker",
        "title": "A worker is SIGKILLed while gradients are being reduced",
        "why": "host OOM killer or operator error",
        "seed": 7391,
        "repeat": REPEAT,
        "job": JobPlan(run="trainer", recovery=("in_job",)),
        "faults": (
            FaultPlan(
                name="kill",
                fault="process.kill",
                params={"signal": "KILL"},
                ranks=(1,),
                at=At(step=47, phase="backward"),
            ),
        ),
        "objective": ObjectivePlan(recovered_by=("in_job",), detection_time_s=2.0, recovery_time_s=8.0, lost_steps=20),
    }
    return Plan(**(fields | changes))


def event(kind: str, at_s: float, rank: int | None = None, **changes: Any) -> Event:
    """`life`, `reentry` and `group` go to the header, everything else to the kind's own fields."""
    header = {name: changes.pop(name) for name in ("life", "reentry", "group") if name in changes}
    return Event(
        kind=kind, t_ns=int(at_s * 1e9), wall_s=1.7e9 + at_s, rank=rank, initial_rank=rank, data=changes, **header
    )
