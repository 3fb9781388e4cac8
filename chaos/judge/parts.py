"""Divides a recovery into contiguous parts that add up to it, each with the setting that its time was spent on.

A boundary that was not seen is left out: its part's time then belongs to the next one, never to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.judge.incident import NO_RESTART, Incident
from chaos.judge.lineage import Group
from chaos.judge.record import Record
from chaos.model.events import Event

PARTS = ("detection", "teardown", "start", "rendezvous", "init", "checkpoint_load", "first_step")

# Words in the names of settings that can bound a part: by who noticed, or by the layer that brought the job back.
_NOTICED_BY: Mapping[str, tuple[str, ...]] = {
    "hang_detected": ("heartbeat_timeout", "section_timeout", "workload_check"),
    "worker_failed": ("monitor_interval",),
    "interruption_reported": ("soft_timeout", "hard_timeout", "monitor_thread", "monitor_process"),
}
_BOUNDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("teardown", "in_process"): ("last_call_wait", "hard_timeout", "soft_timeout", "termination_grace"),
    ("teardown", "in_job"): ("workers_stop_timeout", "monitor_interval", "termination_grace"),
    ("rendezvous", "in_process"): ("barrier_timeout",),
    ("rendezvous", "in_job"): ("rdzv", "rendezvous"),
}
_SHARE_MIN = 0.3  # a setting that explains less than this of a part does not explain it
_SHARE_MAX = 1.02  # a timer may end a little early by another clock
_SILENCE_SHARE_MAX = 1.15  # a timeout of silence counts from the last heartbeat, which was before the fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stretch of a recovery."""

    name: str
    start_ns: int
    end_ns: int
    bounded_by: str = ""

    @property
    def time_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def divide(record: Record, incident: Incident, settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """The parts from the clock's start to the first new step of all ranks; empty without a recovery."""
    if incident.clock_ns is None or incident.recovered_ns is None or incident.holding is None:
        return ()
    ends = _in_order([(name, t_ns) for name, t_ns in _ends(record, incident) if t_ns is not None])
    parts: list[Part] = []
    at = incident.clock_ns
    for name, t_ns in ends:
        end = min(max(at, t_ns), max(at, incident.recovered_ns))
        if end > at or name == "first_step":
            part = Part(name=name, start_ns=at, end_ns=end)
            bound = _bounded_by(part, incident, settings)
            parts.append(Part(name=name, start_ns=at, end_ns=end, bounded_by=bound))
        at = end
    return tuple(parts)


def _in_order(ends: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """No part ends after a later one: what was noticed too late (the process table is polled) ends with the next."""
    ordered: list[tuple[str, int]] = []
    for name, t_ns in reversed(ends):
        ordered.append((name, min(t_ns, ordered[-1][1]) if ordered else t_ns))
    return ordered[::-1]


def _ends(record: Record, incident: Incident) -> list[tuple[str, int | None]]:
    """Where each part ends, in the order of PARTS; None = not seen."""
    detected = None if incident.detection is None else incident.detection.t_ns
    holding = incident.holding
    if holding is None or incident.layer == NO_RESTART:
        return [("detection", detected), ("first_step", incident.recovered_ns)]
    entered = _last_of_group(record, holding, "restart_entered", "rank_started", where=_is_entry)
    rendezvous = _last_of_group(record, holding, "phase_entered", where=_is_phase("rendezvous"))
    load_ends = _last_of_group(record, holding, "checkpoint_loaded", where=lambda event: True)
    return [
        ("detection", detected),
        ("teardown", _appeared(record, holding, incident) or entered),
        ("start", rendezvous if rendezvous is not None else entered),
        ("rendezvous", max(holding.ready_ns.values(), default=None)),
        ("init", _last_of_group(record, holding, "phase_entered", where=_is_phase("checkpoint_load"))),
        ("checkpoint_load", load_ends),
        ("first_step", incident.recovered_ns),
    ]


def _last_of_group(record: Record, group: Group, *kinds: str, where: Callable[[Event], bool]) -> int | None:
    members = set(group.members.values())
    times = [event.t_ns for event in record.of(*kinds) if (event.life, event.reentry or 0) in members and where(event)]
    return max(times, default=None)


def _is_entry(event: Event) -> bool:
    # A life's first entry is its start; each later one says restart_entered.
    return event.kind == "restart_entered" or not event.reentry


def _is_phase(phase: str) -> Callable[[Event], bool]:
    return lambda event: event.data.get("phase") == phase


def _appeared(record: Record, group: Group, incident: Incident) -> int | None:
    """When the last new process of the group was there; None where the same processes went on."""
    new = group.lives() - (incident.before.lives() if incident.before else set())
    times = [event.t_ns for event in record.of("process_appeared") if event.life in new]
    return max(times, default=None)


def _bounded_by(part: Part, incident: Incident, settings: Mapping[str, Any]) -> str:
    """The largest setting that fits into the part and explains a good share of it."""
    words, share_max = _BOUNDS.get((part.name, incident.layer or ""), ()), _SHARE_MAX
    if part.name == "detection" and incident.detection is not None:
        words, share_max = _NOTICED_BY.get(incident.detection.event.kind, ()), _SILENCE_SHARE_MAX
    fitting = [
        (float(value), name)
        for name, value in settings.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and any(word in name for word in words)
        and _SHARE_MIN * part.time_s <= value <= share_max * part.time_s
    ]
    if not fitting or part.time_s <= 0:
        return ""
    value, name = max(fitting)
    return f"{min(value, part.time_s):.1f} of {part.time_s:.1f} s: {name}={value:g}"
