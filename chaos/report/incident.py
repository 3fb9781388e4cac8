"""The incident panel: how long detection, each part of the recovery, catch-up and full recovery took, as bars."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.model.plan import ObjectivePlan
from chaos.model.verdict import IncidentVerdict
from chaos.report import words
from chaos.report.clean import one_line
from chaos.report.scales import AxisTick, Scale, axis_ticks

WIDTH = 1080
GUTTER = 116
RIGHT = 96
ROW = 34
LETTER = 6.6
BAR = 18
REST = "not told apart"
SMALLEST_REST_S = 0.005  # below it is rounding, not time that nothing explains


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part in the recovery bar and its row in the table below it."""

    number: int
    name: str
    time: str
    share: str
    bounded_by: str
    x: float
    width: float
    shade: int
    explained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One bar. `objective_x` is where its objective ends, None without one or outside the picture."""

    name: str
    y: float
    width: float
    value: str
    objective_x: float | None
    objective: str
    label_x: float | None
    label_anchor: str
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentBars:
    """All that the template draws."""

    height: float
    rows: tuple[Row, ...]
    segments: tuple[Segment, ...]
    ticks: tuple[AxisTick, ...]


def incident_bars(incident: IncidentVerdict, objective: ObjectivePlan | None = None) -> IncidentBars:
    """The bars of one incident, on one axis that begins at its clock's start."""
    goals = objective or ObjectivePlan()
    times: list[tuple[str, float | None, float | None]] = [
        ("detection", incident.detection_time_s, goals.detection_time_s),
        ("recovery", incident.recovery_time_s, goals.recovery_time_s),
        ("catch-up", incident.catch_up_time_s, None),
        ("full recovery", incident.full_recovery_time_s, goals.full_recovery_time_s),
    ]
    parts_s = sum(part.time_s for part in incident.parts)
    longest = max([parts_s, *(time or 0.0 for _, time, _ in times)])
    near_goals = [goal for _, _, goal in times if goal is not None and goal <= 1.6 * longest]
    scale = Scale(0.0, max([longest, *near_goals]) or 1.0, GUTTER, WIDTH - RIGHT)
    rows = tuple(
        _row(index, name, time, goal, scale, incident, parts_s) for index, (name, time, goal) in enumerate(times)
    )
    return IncidentBars(
        height=24 + ROW * len(rows),
        rows=rows,
        segments=_segments(incident, parts_s, scale),
        ticks=axis_ticks(scale, 8, unit=" s"),
    )


def _row(
    index: int,
    name: str,
    time_s: float | None,
    goal_s: float | None,
    scale: Scale,
    incident: IncidentVerdict,
    parts_s: float,
) -> Row:
    drawn_s = time_s if time_s is not None else (parts_s if name == "recovery" else 0.0)
    bound = name == "detection" and incident.detection_is_bound
    value = words.seconds(time_s, bound=bound) if time_s is not None else words.NOT_SEEN
    objective = "" if goal_s is None else f"objective {goal_s:g} s"
    end_x = scale.clamped(drawn_s)
    goal_x = scale(goal_s) if goal_s is not None and goal_s <= scale.high else None
    label_x, anchor = _label_place(objective, goal_x, end_x)
    return Row(
        name=name,
        y=8 + ROW * index,
        width=max(0.0, end_x - GUTTER),
        value=value,
        objective_x=goal_x,
        objective=objective,
        label_x=label_x,
        label_anchor=anchor,
        over=goal_s is not None and time_s is not None and time_s > goal_s,
    )


def _label_place(label: str, goal_x: float | None, end_x: float) -> tuple[float | None, str]:
    """Beside the objective's line where neither the bar nor the value stands; None where there is no such place."""
    width = LETTER * len(label) + 6
    if goal_x is None:
        return None, ""
    if goal_x > end_x and goal_x + width <= WIDTH - RIGHT + 16:
        return goal_x + 6, "start"
    return (goal_x - 6, "end") if goal_x - width > end_x else (None, "")


def _segments(incident: IncidentVerdict, parts_s: float, scale: Scale) -> tuple[Segment, ...]:
    parts = [(one_line(words.spaced(p.name), 80), p.time_s, one_line(p.bounded_by, 200)) for p in incident.parts]
    whole_s = max(parts_s, incident.recovery_time_s or 0.0)
    rest_s = (incident.recovery_time_s or 0.0) - parts_s
    explained = len(parts)
    if rest_s > SMALLEST_REST_S:
        parts.append((REST, rest_s, ""))
    segments, begin_s = [], 0.0
    for index, (name, time_s, bounded_by) in enumerate(parts):
        x = scale.clamped(begin_s)
        begin_s += time_s
        segments.append(
            Segment(
                number=index + 1,
                name=name,
                time=words.seconds(time_s),
                share=words.share(time_s / whole_s if whole_s > 0 else None),
                bounded_by=bounded_by,
                x=x,
                width=max(0.0, round(scale.clamped(begin_s) - x, 1)),
                shade=index % 2,
                explained=index < explained,
            )
        )
    return tuple(segments)
