"""Finds the outages of a run: which faults belong together, which restarts they explain, and when the job was back.

Every index is built once; an outage costs what its own groups cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest, nsmallest
from itertools import pairwise

from chaos.judge.detection import Signs
from chaos.judge.held import Held
from chaos.judge.incident import GHOST_STEPS_MAX, NO_RESTART, Incident
from chaos.judge.lineage import Group, Lineage
from chaos.judge.outside import Cause, Outside
from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.plan import Plan

STALL_RATIO = 3  # a standstill is so many times as long as a step before it
_OWN_DOING = "memory."  # faults of this family make the kernel's count grow


def find(record: Record, lineage: Lineage, plan: Plan) -> tuple[Incident, ...]:
    """All outages in order of time, those without a fault of ours among them."""
    finder = _Finder(record, lineage, plan)
    batches = finder.batches()
    found: list[Incident] = []
    begins = [batch[0].t_ns for batch in batches]
    found += finder.unprovoked(lineage.groups[0] if lineage.groups else None, begins[0] if begins else None)
    for index, batch in enumerate(batches):
        limit = begins[index + 1] if index + 1 < len(begins) else None
        incident = finder.of_faults(batch, limit)
        found.append(incident)
        if incident.full_ns is not None:
            found += finder.unprovoked(incident.holding, limit)
    return tuple(found)


class _Finder:
    def __init__(self, record: Record, lineage: Lineage, plan: Plan) -> None:
        self.record, self.lineage, self.plan = record, lineage, plan
        self.end_ns = record.observed_until_ns
        self.signs = Signs(record)
        self.outside = Outside(record, self.signs)
        self.held = Held(record, plan)
        self.from_undo = plan.objective.clock_from == "undone"
        self._finished: dict[str | None, set[int | None]] = {}
        for event in record.of("rank_finished"):
            self._finished.setdefault(event.group, set()).add(event.rank)

    # --- which faults belong together

    def batches(self) -> list[list[Event]]:
        """One fired before the previous outage's first recovered step joins it."""
        batches: list[list[Event]] = []
        for fault in self.record.of("fault_fired"):
            if batches and not self._was_back(batches[-1], fault.t_ns):
                batches[-1].append(fault)
            else:
                batches.append([fault])
        return batches

    def _was_back(self, faults: Sequence[Event], t_ns: int) -> bool:
        """Whether all ranks had stepped again by then: in a later group, or in the same one that had gone on."""
        last = faults[-1].t_ns
        since = self.held.last_ns(faults) if self.from_undo else last
        if since > t_ns:
            return False
        before = self.lineage.group_at(last)
        later = self._later(before, last, t_ns)
        if before is not None and not later and self._went_on(before, later, since, t_ns, next_fault=True):
            return True
        times = [group.first_complete_after(since) for group in later]
        return any(back is not None and back <= t_ns for back in times)

    # --- outages that faults of ours began

    def of_faults(self, faults: Sequence[Event], limit: int | None) -> Incident:
        end = self.end_ns if limit is None else limit
        begun, last = faults[0].t_ns, faults[-1].t_ns
        over = self.held.last_ns(faults)
        over = over if over <= end else last
        before = self.lineage.group_at(begun)
        later = self._later(before, begun, end)
        same = before is not None and self._went_on(before, later, over, end, next_fault=limit is not None)
        holding = before if same else self._holding(later, last, over, end)
        incident = Incident(
            faults=tuple(faults), begun_ns=begun, clock_ns=self.held.all_over_ns(faults) if self.from_undo else last,
            limit_ns=end, before=before, restarted=_up_to(holding, later), holding=holding,
            layer=self._layer(before, holding, same=same), detection=None,
            highest_before=self._highest_before(holding, begun, same=same),
        )  # fmt: skip
        # In the same group a step counts from when the clock starts; a later one has none before its time.
        since = (incident.clock_ns or last) if same else last
        return self._blame(self._timed(incident, since))

    def _layer(self, before: Group | None, holding: Group | None, *, same: bool) -> str | None:
        if holding is None:
            return None
        began_the_job = before is None and holding.index == 0 and not holding.layer
        return NO_RESTART if same or began_the_job else holding.layer

    def _later(self, before: Group | None, begun: int, end: int) -> list[Group]:
        index = -1 if before is None else before.index
        return [group for group in self.lineage.groups[index + 1 :] if begun < group.first_ns <= end]

    def _holding(self, later: Sequence[Group], last: int, over: int, end: int) -> Group | None:
        """The first later group that was steady again once the faults were over; else the last one in which all ranks
        stepped."""
        for group in later:
            highest = self._highest_before(group, last, same=False)
            if self._steady_beyond(group, highest, over, end):
                return group
        stepped = [group for group in later if (group.first_complete_after(last) or end + 1) <= end]
        return stepped[-1] if stepped else None

    def _went_on(self, group: Group, later: Sequence[Group], since: int, end: int, *, next_fault: bool) -> bool:
        """Whether the same group trained on for good: NVRx wakes a stopped rank before it kills it, and the step
        that it then finishes is a ghost. Where the next fault cut it short, more steps than ghosts and no word of NVRx
        must do."""
        until = min(end, later[0].first_ns) if later else end
        quiet = next_fault and not later and not self.signs.between(since, end)
        needed = GHOST_STEPS_MAX + 1 if quiet else max(self.plan.steady_steps, GHOST_STEPS_MAX + 1)
        highest = group.highest_by(since)
        if self._count_beyond(group, highest, since, until) >= needed:
            return True
        return not later and self._has_finished(group)

    def _has_finished(self, group: Group) -> bool:
        return bool(group.needed) and self._finished.get(group.name, set()) >= set(group.needed)

    # --- outages that no fault of ours explains

    def unprovoked(self, held: Group | None, limit: int | None) -> list[Incident]:
        """Restarts after `held`, until `limit`, one outage each; and the end of a group that no other one followed."""
        end = self.end_ns if limit is None else limit
        groups = [] if held is None else [g for g in self.lineage.groups[held.index :] if g.first_ns <= end]
        if not groups:
            return []
        found = []
        for index, (before, after) in enumerate(pairwise(groups)):
            later = groups[index + 2] if index + 2 < len(groups) else None
            begun = self._first_sign(before, after.first_ns) or before.last_ns
            found.append(self._of_none(before, after, begun, end if later is None else later.first_ns))
        begun_last = self._first_sign(groups[-1], end)
        if limit is None and begun_last is not None and not self._has_finished(groups[-1]):
            found.append(self._of_none(groups[-1], None, begun_last, end))
        return found

    def _of_none(self, before: Group, after: Group | None, begun: int, end: int) -> Incident:
        whole = None if after is None else after.first_whole_ns
        holding = after if whole is not None and whole <= end else None
        incident = Incident(
            faults=(), begun_ns=begun, clock_ns=begun, limit_ns=end, before=before,
            restarted=() if after is None else (after,), holding=holding,
            layer=None if holding is None else holding.layer, detection=None,
            highest_before=self._highest_before(holding, begun, same=False),
        )  # fmt: skip
        return self._blame(self._timed(incident, begun))

    def _first_sign(self, group: Group, until: int) -> int | None:
        """When the end of a group began: at the first word of it, at the latest with its last step; None: no word."""
        signs = self.signs.between(group.last_whole_ns, until)
        return min(signs[0].t_ns, group.last_ns) if signs else None

    # --- what every outage has

    def _timed(self, incident: Incident, since: int) -> Incident:
        holding, end = incident.holding, incident.limit_ns
        recovered = None if holding is None else holding.first_complete_after(since)
        if holding is not None and holding is incident.before and recovered is not None:
            recovered = _after_stall(holding, since, recovered)
        beyond = self._steps_beyond(incident)
        n = self.plan.steady_steps
        lives = {fault.life for fault in incident.faults if fault.life is not None}
        return replace(
            incident,
            recovered_ns=recovered,
            caught_up_ns=holding.complete_ns[beyond[0]] if holding is not None and beyond else None,
            full_ns=holding.complete_ns[beyond[n - 1]] if holding is not None and len(beyond) >= n else None,
            steps_after=beyond,
            lost_steps=None if holding is None else sum(group.done_again for group in incident.restarted),
            detection=self.signs.detect(after_ns=incident.begun_ns, before_ns=end if recovered is None else recovered),
            abandoned=self.lineage.abandoned_in(incident.begun_ns, end),
            clock_error_ns=self._clock_error_ns(lives | (set() if holding is None else holding.lives())),
        )

    def _clock_error_ns(self, lives: set[str]) -> int:
        clocks = self.lineage.clocks
        return clocks.apart_ns(clocks.of(lives))

    def _highest_before(self, holding: Group | None, begun: int, *, same: bool) -> int | None:
        """The highest step that any rank had done before this outage's recovery, ghost steps among them. What an old
        group still does after its successor began is not ahead of it."""
        if same and holding is not None:
            return holding.highest_by(begun)
        groups = self.lineage.groups if holding is None else self.lineage.groups[: holding.index]
        until = self.end_ns if holding is None else holding.first_ns
        done = [highest for group in groups if (highest := group.highest_by(until)) is not None]
        return max(done, default=None)

    def _steady_beyond(self, group: Group, highest: int | None, since: int, end: int) -> bool:
        return self._count_beyond(group, highest, since, end) >= self.plan.steady_steps

    def _count_beyond(self, group: Group, highest: int | None, since: int, end: int) -> int:
        """Steps that all ranks did in that stretch, beyond that one."""
        times = group.complete_ns.items()
        return sum(1 for step, t_ns in times if since < t_ns <= end and (highest is None or step > highest))

    def _steps_beyond(self, incident: Incident) -> tuple[int, ...]:
        if incident.holding is None:
            return ()
        highest = incident.highest_before
        done = incident.holding.complete_ns
        return tuple(
            step for step in sorted(done) if (highest is None or step > highest) and done[step] <= incident.limit_ns
        )

    # --- what others had a part in

    def _blame(self, incident: Incident) -> Incident:
        """Adds what kernel and scheduler recorded of the group ends that no fault of ours explains."""
        causes: list[Cause] = []
        excused: dict[str, int] = {}
        groups = [incident.before, *incident.restarted]
        for before, after in pairwise(groups):
            cause = None if before is None else self._cause(incident, before, after)
            if cause is not None and after is not None:
                causes.append(cause)
                excused[after.layer] = excused.get(after.layer, 0) + 1
        causes += self._at_the_end(incident, groups[-1])
        if incident.faults:
            causes += self._beside_our_own(incident)
        return replace(incident, causes=tuple(dict.fromkeys(causes)), excused=excused)

    def _cause(self, incident: Incident, before: Group, after: Group | None) -> Cause | None:
        end = incident.limit_ns if after is None else after.first_ns
        if any(before.first_ns < fault.t_ns <= end for fault in incident.faults):
            return None  # ours
        return self.outside.ended(before, end)

    def _at_the_end(self, incident: Incident, last: Group | None) -> list[Cause]:
        """Where the outage was not over by the end of the run, the end of its last group counts as well."""
        if last is None or incident.full_ns is not None or self._has_finished(last) or incident.limit_ns < self.end_ns:
            return []
        cause = self._cause(incident, last, None)
        return [] if cause is None else [cause]

    def _beside_our_own(self, incident: Incident) -> list[Cause]:
        """The kernel killed for want of memory while the job was recovering from a fault of ours."""
        kinds = {fault.name: fault.fault for fault in self.plan.faults}
        if any(kinds.get(name, "").startswith(_OWN_DOING) for name in incident.names):
            return []
        until = incident.limit_ns if incident.recovered_ns is None else incident.recovered_ns
        spared = {fault.life for fault in incident.faults}
        cause = self.outside.out_of_memory(incident.begun_ns, until, spared=spared)
        return [] if cause is None else [cause]


def _after_stall(group: Group, since: int, first: int) -> int:
    """A step that was under way when the fault came may still end: where the job stood still only after that, it was
    back when the standstill was over."""
    times = group.complete_ns.values()
    newest = nlargest(2, (t_ns for t_ns in times if t_ns <= since))
    back, longest = first, max([first - since, *(after - before for after, before in pairwise(newest))])
    for done in nsmallest(GHOST_STEPS_MAX + 1, (t_ns for t_ns in times if t_ns > first)):
        if done - back > STALL_RATIO * longest:
            return done
        back, longest = done, max(longest, done - back)
    return first


def _up_to(holding: Group | None, later: Sequence[Group]) -> tuple[Group, ...]:
    """The groups on the way to the one that holds; all of them where none does."""
    return tuple(group for group in later if holding is None or group.index <= holding.index)
