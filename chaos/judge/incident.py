"""Outages: which faults each began with, when the job noticed, which group brought it back, and what was lost.

Reads record and lineage. Times are CLOCK_MONOTONIC nanoseconds; `parts.py` divides the recovery up, checks judge it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from chaos.judge.detection import DIRECT, Detection, detect
from chaos.judge.lineage import Group, Lineage
from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.plan import Plan

NO_RESTART = "none"  # the word for an outage that the same group outlived
GHOST_STEPS_MAX = 2  # steps that a stopped rank, woken to be killed, can still finish with its peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One outage and all that followed, up to the next one or the end.

    `begun_ns`: first fault fired (or first sign, without a fault of ours). `clock_ns`: where the recovery clock
    starts; None when the fault to count from was not undone. `holding`: the group that holds at the end, None = never
    recovered. `layer`: how it came by; `none` = the same group went on. `limit_ns`: until when we looked.
    """

    faults: tuple[Event, ...]
    begun_ns: int
    clock_ns: int | None
    limit_ns: int
    before: Group | None
    restarted: tuple[Group, ...]
    holding: Group | None
    layer: str | None
    detection: Detection | None
    highest_before: int | None
    recovered_ns: int | None = None
    caught_up_ns: int | None = None
    full_ns: int | None = None
    lost_steps: int | None = None
    steps_after: tuple[int, ...] = field(default=())  # done beyond the highest one before, in the holding group

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(fault.data["fault"]) for fault in self.faults))

    def restarts(self) -> dict[str, int]:
        """Restarts of this outage that yielded a step, by layer."""
        counted = {"in_process": 0, "in_job": 0}
        for group in self.restarted:
            counted[group.layer] = counted.get(group.layer, 0) + 1
        return counted

    def seconds_to(self, t_ns: int | None) -> float | None:
        """Seconds from the recovery clock's start; None where one of both was not seen."""
        if t_ns is None or self.clock_ns is None:
            return None
        return max(0, t_ns - self.clock_ns) / 1e9

    @property
    def detection_s(self) -> float | None:
        """From the firing, whatever the recovery clock starts with."""
        return None if self.detection is None else (self.detection.t_ns - self.begun_ns) / 1e9


def find(record: Record, lineage: Lineage, plan: Plan) -> tuple[Incident, ...]:
    """All outages in order of time, those without a fault of ours among them."""
    finder = _Finder(record, lineage, plan)
    batches = finder.batches()
    found: list[Incident] = []
    begins = [batch[0].t_ns for batch in batches]
    found += finder.unprovoked(lineage.groups[0] if lineage.groups else None, begins[0] if begins else None)
    for index, batch in enumerate(batches):
        limit = begins[index + 1] if index + 1 < len(begins) else None
        incident = finder.incident(batch, limit)
        found.append(incident)
        if incident.full_ns is not None:
            found += finder.unprovoked(incident.holding, limit)
    return tuple(found)


class _Finder:
    def __init__(self, record: Record, lineage: Lineage, plan: Plan) -> None:
        self.record, self.lineage, self.plan = record, lineage, plan

    def batches(self) -> list[list[Event]]:
        """Faults that belong together: one fired before the previous outage's first recovered step joins it."""
        batches: list[list[Event]] = []
        for fault in self.record.of("fault_fired"):
            recovered = self._first_recovered(batches[-1][-1].t_ns) if batches else None
            if batches and (recovered is None or fault.t_ns < recovered):
                batches[-1].append(fault)
            else:
                batches.append([fault])
        return batches

    def incident(self, faults: list[Event], limit: int | None) -> Incident:
        begun = faults[0].t_ns
        return self._close(tuple(faults), begun, self._clock(faults, limit), limit)

    def unprovoked(self, held: Group | None, limit: int | None) -> list[Incident]:
        """Restarts after `held`, until `limit`, that no fault of ours explains: one outage each."""
        if held is None:
            return []
        end = self.record.observed_until_ns if limit is None else limit
        found = []
        groups = [group for group in self.lineage.groups if group.index >= held.index and group.first_ns <= end]
        for before, after in pairwise(groups):
            begun = self._first_sign(before, after.first_ns)
            next_sign = next((later.first_ns for later in groups if later.index > after.index), limit)
            found.append(self._close((), begun, begun, next_sign, only=after))
        return found

    # --- one outage

    def _close(
        self, faults: tuple[Event, ...], begun: int, clock: int | None, limit: int | None, only: Group | None = None
    ) -> Incident:
        end = self.record.observed_until_ns if limit is None else limit
        before = self.lineage.group_at(begun)
        later = self._later(before, begun, end) if only is None else [only]
        same = only is None and before is not None and self._went_on(before, later, clock or begun, end)
        holding = before if same else self._holding(before, later, clock or begun, end)
        restarted = tuple(group for group in later if holding is None or group.index <= holding.index)
        highest = self._highest_before(before, holding, begun, same=same)
        incident = Incident(
            faults=faults, begun_ns=begun, clock_ns=clock, limit_ns=end, before=before, restarted=restarted,
            holding=holding, layer=None if holding is None else NO_RESTART if same else holding.layer,
            detection=None, highest_before=highest,
        )  # fmt: skip
        return self._with_times(incident)

    def _with_times(self, incident: Incident) -> Incident:
        holding, end = incident.holding, incident.limit_ns
        recovered = None
        if holding is not None:
            recovered = holding.first_complete_after(incident.clock_ns or incident.begun_ns)
        beyond = self._steps_beyond(incident)
        n = self.plan.steady_steps
        full = holding.complete_ns[beyond[n - 1]] if holding is not None and len(beyond) >= n else None
        detection = detect(self.record, after_ns=incident.begun_ns, before_ns=end if recovered is None else recovered)
        return Incident(
            faults=incident.faults, begun_ns=incident.begun_ns, clock_ns=incident.clock_ns, limit_ns=end,
            before=incident.before, restarted=incident.restarted, holding=holding, layer=incident.layer,
            detection=detection, highest_before=incident.highest_before, recovered_ns=recovered,
            caught_up_ns=holding.complete_ns[beyond[0]] if holding is not None and beyond else None,
            full_ns=full, lost_steps=self._lost(incident), steps_after=beyond,
        )  # fmt: skip

    def _clock(self, faults: list[Event], limit: int | None) -> int | None:
        """Where the recovery clock starts: the last fault of the outage fired, or undone where that was asked for."""
        if self.plan.objective.clock_from != "undone":
            return faults[-1].t_ns
        names = {fault.data["fault"] for fault in faults}
        undone = [
            event.t_ns
            for event in self.record.of("fault_undone")
            if event.data["fault"] in names and (limit is None or event.t_ns < limit)
        ]
        return max(undone, default=None)

    def _later(self, before: Group | None, begun: int, end: int) -> list[Group]:
        index = -1 if before is None else before.index
        return [group for group in self.lineage.groups if group.index > index and begun < group.first_ns <= end]

    def _holding(self, before: Group | None, later: list[Group], clock: int, end: int) -> Group | None:
        """The first later group that was steady again; else the last one in which all ranks stepped."""
        for group in later:
            if self._steady_beyond(group, self._highest_before(before, group, clock, same=False), end):
                return group
        stepped = [group for group in later if (group.first_complete_after(clock) or end + 1) <= end]
        return stepped[-1] if stepped else None

    def _went_on(self, group: Group, later: list[Group], clock: int, end: int) -> bool:
        """Whether the same group trained on for good: NVRx wakes a stopped rank before it kills it, and the step
        that it then finishes is a ghost."""
        highest = self._highest_before(group, group, clock, same=True)
        until = min(end, later[0].first_ns) if later else end
        if self._steady_beyond(group, highest, until, at_least=GHOST_STEPS_MAX + 1):
            return True
        finished = {event.rank for event in self.record.of("rank_finished") if event.group == group.name}
        return not later and finished >= set(group.needed) and bool(group.needed)

    def _steady_beyond(self, group: Group, highest: int | None, end: int, *, at_least: int = 1) -> bool:
        done = [step for step, t_ns in group.complete_ns.items() if t_ns <= end and (highest is None or step > highest)]
        return len(done) >= max(self.plan.steady_steps, at_least)

    def _highest_before(self, before: Group | None, holding: Group | None, begun: int, *, same: bool) -> int | None:
        """The highest step that any rank had done before this outage's recovery, ghost steps among them."""
        if before is None:
            return None
        if same:
            return before.steps.highest_by(begun)
        end = len(self.lineage.groups) if holding is None else holding.index
        return max(group.steps.highest for group in self.lineage.groups[:end]) if end else None

    def _steps_beyond(self, incident: Incident) -> tuple[int, ...]:
        if incident.holding is None:
            return ()
        highest = incident.highest_before
        done = incident.holding.complete_ns
        return tuple(
            step for step in sorted(done) if (highest is None or step > highest) and done[step] <= incident.limit_ns
        )

    def _lost(self, incident: Incident) -> int | None:
        """Steps that all ranks of a group had done and that a later group of this outage did again: counted."""
        if incident.holding is None:
            return None
        lost = 0
        for group in incident.restarted:
            earlier = {step for old in self.lineage.groups[: group.index] for step in old.complete_ns}
            lost += len(earlier & group.steps.numbers)
        return lost

    def _first_recovered(self, fired: int) -> int | None:
        """When all ranks had stepped again after this firing, in a later group, or in the same that went on."""
        before, end = self.lineage.group_at(fired), self.record.observed_until_ns
        later = self._later(before, fired, end)
        if before is not None and self._went_on(before, later, fired, end):
            return before.first_complete_after(fired)
        times = [t_ns for group in later if (t_ns := group.first_complete_after(fired)) is not None]
        return min(times, default=None)

    def _first_sign(self, before: Group, until: int) -> int:
        """When an outage without a fault of ours began: the first sign of it, at the latest the group's last step."""
        signs = [event.t_ns for event in self.record.of(*DIRECT) if before.first_ns < event.t_ns <= until]
        return min([*signs, before.last_ns])
