"""All that a check may look at: the plan, what happened, and what was made of it. Built once, changed by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.judge import lineage as lineages
from chaos.judge import outages
from chaos.judge.incident import Incident
from chaos.judge.lineage import Lineage
from chaos.judge.parts import Part, divide
from chaos.judge.record import Record
from chaos.judge.stages import Stages
from chaos.model.control import ControlRun
from chaos.model.events import Event
from chaos.model.plan import Plan

REFERENCE_JOB = "trainer"
LAST_LINES_MAX, LINE_LENGTH_MAX = 3, 200  # enough to see why a job died; the rest is in its log


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run before the judge."""

    plan: Plan
    record: Record
    lineage: Lineage
    incidents: tuple[Incident, ...]
    parts: tuple[tuple[Part, ...], ...]  # of each incident, in the same order
    settings: Mapping[str, Any]
    controls: Sequence[ControlRun]

    @property
    def fired(self) -> list[Event]:
        return self.record.of("fault_fired")

    @property
    def outages(self) -> list[Incident]:
        """The incidents that faults of ours began."""
        return [incident for incident in self.incidents if incident.faults]

    @property
    def restart_count(self) -> int:
        """Restarts that yielded a step, over the whole run."""
        return sum(1 for group in self.lineage.groups if group.layer)

    def all_finished(self) -> bool:
        """Whether every rank of the last group said that it had done all steps."""
        if not self.lineage.groups:
            return False
        last = self.lineage.groups[-1]
        finished = {
            event.rank
            for event in self.record.of("rank_finished")
            if event.data["step"] == self.plan.job.steps and (event.group in (None, last.name))
        }
        return bool(last.needed) and finished >= set(last.needed)


def how_it_ended(finished: Event) -> str:
    """Status and last words of the job, as the controller recorded them."""
    code, ended_by = finished.data.get("code"), finished.data.get("signal")
    words = [f"signal {ended_by}"] if ended_by else [f"status {code}"] if code is not None else []
    if finished.data.get("reason"):
        words.append(str(finished.data["reason"]))
    lines = finished.data.get("last_lines")
    said = [str(line).strip() for line in lines if str(line).strip()] if isinstance(lines, list) else []
    if said:
        words.append("its last lines: " + " | ".join(line[:LINE_LENGTH_MAX] for line in said[-LAST_LINES_MAX:]))
    return ", ".join(words)


def build(plan: Plan, record: Record, controls: Sequence[ControlRun]) -> Case:
    """Lineage first, then incidents, then the parts of each recovery."""
    lineage = lineages.trace(record, world_size=plan.job.world_size, may_shrink=plan.objective.world_size != "same")
    found = outages.find(record, lineage, plan)
    settings = settings_seen(record)
    stages = Stages(record)
    parts = tuple(divide(stages, incident, settings) for incident in found)
    return Case(
        plan=plan, record=record, lineage=lineage, incidents=found, parts=parts, settings=settings, controls=controls
    )  # fmt: skip


def settings_seen(record: Record) -> dict[str, Any]:
    """Every interval and size in force. Where ranks disagree, all values seen, so that nothing else equals them."""
    values: dict[str, list[Any]] = {}
    for event in record.of("settings_seen"):
        settings = event.data.get("settings")
        for name, value in settings.items() if isinstance(settings, dict) else ():
            known = values.setdefault(str(name), [])
            if value not in known:
                known.append(value)
    return {name: known[0] if len(known) == 1 else known for name, known in sorted(values.items())}
