"""A fault-free run as a witness: its losses, digests and settings, or why it can be none."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.judge.case import settings_seen
from chaos.judge.detection import DIRECT
from chaos.judge.lineage import Lineage, trace
from chaos.judge.record import Record
from chaos.judge.steps import told
from chaos.judge.witness import digests_that_survive, losses_that_survive
from chaos.model.control import ControlRun
from chaos.model.events import Blind

_FAULTS = ("fault_armed", "fault_disarmed", "fault_fired", "fault_not_fired", "fault_confirmed", "undo_failed")


def control_of(
    record: Record, blind: Sequence[Blind], *, run_id: str, path: str, world_size: int, steps: int
) -> ControlRun:
    """The witness that a run can bear; `clean` only when nothing at all happened to it."""
    lineage = trace(record, world_size=world_size, may_shrink=False)
    why = _unclean(record, lineage, [*blind, *record.blind], world_size=world_size, steps=steps)
    return ControlRun(
        run_id=run_id,
        path=path,
        clean=not why,
        unclean_why=why,
        losses={step: loss for step, (loss, _) in losses_that_survive(lineage).items()},
        digests={key: digest for key, (digest, _) in sorted(digests_that_survive(record).items())},
        settings=settings_seen(record),
    )


def _unclean(record: Record, lineage: Lineage, blind: Sequence[Blind], *, world_size: int, steps: int) -> str:
    """The first reason why this run proves nothing; empty when it is clean."""
    if blind:
        return f"blind: {blind[0].reason}"
    if lineage.problems:
        return lineage.problems[0]
    fault = next(iter(record.of(*_FAULTS)), None)
    if fault is not None:
        return f"not without faults: {fault.kind} ({fault.ref})"
    finished_ns = max((event.t_ns for event in record.of("rank_finished")), default=record.end_ns)
    for event in record.of("restart_entered", "rank_excluded", *DIRECT):
        if event.t_ns < finished_ns:
            return f"not undisturbed: {event.kind} ({event.ref})"
    if len(lineage.groups) != 1 or lineage.abandoned or lineage.groups[0].layer:
        return f"{len(lineage.groups) + len(lineage.abandoned)} process groups where one was expected, or a restart"
    return _unfinished(record, lineage, world_size=world_size, steps=steps)


def _unfinished(record: Record, lineage: Lineage, *, world_size: int, steps: int) -> str:
    group = lineage.groups[0]
    missing = [step for step in range(steps) if step not in group.complete_ns]
    if missing:
        return f"step {missing[0]} was not done by all ranks"
    if not told(group.steps.loss).all():
        return "its losses were not all seen"
    finished = {event.rank for event in record.of("rank_finished") if event.data["step"] == steps}
    if not finished >= set(range(world_size)):
        return "not every rank said that it had finished"
    ended = record.last("job_finished")
    if ended is None or ended.data.get("code") != 0 or record.stop_ns is not None:
        return "the job did not end by itself with status 0"
    return ""
