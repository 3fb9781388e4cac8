"""What the pictures draw, drawn from a timeline: step times, losses, steps done twice, incident windows. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from chaos.model.timeline import Span, StepMark, Timeline
from chaos.model.verdict import IncidentVerdict, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long one step took on one rank: from the end of the step before it in the same group."""

    step: int
    rank: int
    group: int
    t_s: float
    time_s: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """The stretch of time around an incident, in seconds from the job's start. `parts` are its recovery's, in order:
    pictures number them as the incident's own table does."""

    start_s: float
    end_s: float
    number: int = 1
    parts: tuple[str, ...] = ()


class Series:
    """Everything derived from one timeline, each piece computed once."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    @cached_property
    def steps(self) -> list[StepMark]:
        return sorted(self.timeline.steps, key=lambda mark: mark.t_s)

    @cached_property
    def steps_of_lane(self) -> dict[str, list[StepMark]]:
        """Lane name → its rank's steps in order of time."""
        lanes: dict[str, list[StepMark]] = {f"rank {rank}": [] for rank in self.timeline.ranks}
        for mark in self.steps:
            lanes.setdefault(f"rank {mark.rank}", []).append(mark)
        return lanes

    @cached_property
    def fault_times_s(self) -> list[float]:
        return sorted(mark.t_s for mark in self.timeline.marks if mark.kind == "fault_fired")

    @cached_property
    def step_times(self) -> list[StepTime]:
        """Of consecutive steps only: the first step of a group, and one after a gap in the record, have none; a
        ghost step has none either, for its time is the outage's."""
        times: list[StepTime] = []
        before: dict[tuple[int, int], StepMark] = {}
        for mark in self.steps:
            last = before.get((mark.rank, mark.group))
            if last is not None and mark.step == last.step + 1 and not self.is_ghost(mark):
                spent = mark.t_s - last.t_s
                times.append(StepTime(step=mark.step, rank=mark.rank, group=mark.group, t_s=mark.t_s, time_s=spent))
            before[mark.rank, mark.group] = mark
        return times

    @cached_property
    def slowest_times(self) -> dict[int, list[StepTime]]:
        """Group → per step the slowest rank's time, in step order: a step is as slow as its slowest rank."""
        slowest: dict[tuple[int, int], StepTime] = {}
        for time in self.step_times:
            key = (time.group, time.step)
            if key not in slowest or time.time_s > slowest[key].time_s:
                slowest[key] = time
        groups: dict[int, list[StepTime]] = defaultdict(list)
        for key in sorted(slowest):
            groups[key[0]].append(slowest[key])
        return dict(groups)

    @cached_property
    def median_before_s(self) -> float | None:
        """Median step time before the first fault, over all ranks; of the whole run where there was none."""
        end_s = self.fault_times_s[0] if self.fault_times_s else float("inf")
        before = [time.time_s for time in self.step_times if time.t_s <= end_s]
        return median(before) if before else None

    @cached_property
    def losses(self) -> dict[int, list[tuple[int, float]]]:
        """Group → (step, loss) in step order. The loss is reduced over ranks: the lowest rank that has it speaks."""
        first: dict[tuple[int, int], tuple[int, float]] = {}
        for mark in self.steps:
            key = (mark.group, mark.step)
            if mark.loss is not None and (key not in first or mark.rank < first[key][0]):
                first[key] = (mark.rank, mark.loss)
        groups: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for group, step in sorted(first):
            groups[group].append((step, first[group, step][1]))
        return dict(groups)

    @cached_property
    def done_twice(self) -> list[int]:
        """Steps that more than one group did."""
        groups: dict[int, set[int]] = defaultdict(set)
        for mark in self.timeline.steps:
            groups[mark.step].add(mark.group)
        return sorted(step for step, by in groups.items() if len(by) > 1)

    def is_ghost(self, mark: StepMark) -> bool:
        """Whether it ended after a fault, in a group that was then given up for a later one."""
        return mark.t_s > self._given_up_s.get(mark.group, float("inf"))

    @cached_property
    def _given_up_s(self) -> dict[int, float]:
        """Group → when the fault fired that it was given up after; only for groups that have a successor."""
        given_up: dict[int, float] = {}
        groups = sorted(group for group in self._first_step_s if group >= 0)
        for group, *later in (groups[index:] for index in range(len(groups) - 1)):
            until_s = min(self._first_step_s[each] for each in later)
            faults = [time_s for time_s in self.fault_times_s if self._first_step_s[group] <= time_s < until_s]
            if faults:
                given_up[group] = faults[0]
        return given_up

    @cached_property
    def _first_step_s(self) -> dict[int, float]:
        starts: dict[int, float] = {}
        for mark in self.steps:
            starts.setdefault(mark.group, mark.t_s)
        return starts

    def incident_windows(self, verdict: Verdict) -> list[Window]:
        """One window per incident, a little wider than it; incidents whose faults left no mark have none."""
        outages = [span for span in self.timeline.spans if span.kind == "fault" and span.lane == "job"]
        begins = [self._begin_s(incident, outages) for incident in verdict.incidents]
        windows = []
        for index, (incident, begin_s) in enumerate(zip(verdict.incidents, begins, strict=True)):
            if begin_s is None:
                continue
            later = [begin for begin in begins[index + 1 :] if begin is not None]
            windows.append(self._window(index + 1, incident, begin_s, later[0] if later else self.timeline.end_s))
        return windows

    def _begin_s(self, incident: IncidentVerdict, outages: list[Span]) -> float | None:
        """From the marks of its faults; an outage without a fault of ours has only its span (taken off the list)."""
        name = ", ".join(incident.faults)
        fired = {mark.name for mark in self.timeline.marks if mark.kind == "fault_fired"}
        own = next((span for span in outages if (span.name == name if name else span.name not in fired)), None)
        if own is not None:
            outages.remove(own)
            return own.start_s
        return min(
            (m.t_s for m in self.timeline.marks if m.kind == "fault_fired" and m.name in incident.faults), default=None
        )

    def _window(self, number: int, incident: IncidentVerdict, begin_s: float, next_s: float) -> Window:
        times = (incident.detection_time_s, incident.recovery_time_s, incident.catch_up_time_s)
        ends = [begin_s + time for time in (*times, incident.full_recovery_time_s) if time is not None]
        shown = ("recovered", "detected", "fault_undone", "fault_confirmed")
        ends += [mark.t_s for mark in self.timeline.marks if mark.kind in shown and begin_s <= mark.t_s < next_s]
        spans = ("detection", "recovery_part", "fault", "hold")
        ends += [s.end_s for s in self.timeline.spans if s.kind in spans and begin_s <= s.start_s < next_s]
        # an outage without an end is looked at to the end of what is known
        end_s = max(ends) if ends and incident.recovery_time_s is not None else max([*ends, next_s])
        margin_s = max(0.08 * (end_s - begin_s), 6 * (self.median_before_s or 0.0), 0.02)
        return Window(
            start_s=max(0.0, begin_s - margin_s),
            end_s=max(end_s, min(end_s + margin_s, self.timeline.end_s)),
            number=number,
            parts=tuple(part.name for part in incident.parts),
        )
