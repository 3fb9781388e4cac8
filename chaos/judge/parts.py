"""Divides a recovery into contiguous parts that add up to it, each with the setting that its time was spent on.

A boundary that was not seen is left out: its part's time then belongs to the next one, never to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.judge.bounds import bounded_by
from chaos.judge.incident import NO_RESTART, Incident
from chaos.judge.stages import ENTERED, LOADED, Stages

PARTS = ("detection", "teardown", "start", "rendezvous", "init", "checkpoint_load", "first_step")


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


def divide(stages: Stages, incident: Incident, settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """The parts from the clock's start to the first new step of all ranks; empty without a recovery."""
    if incident.clock_ns is None or incident.recovered_ns is None or incident.holding is None:
        return ()
    ends = _in_order([(name, t_ns) for name, t_ns in _ends(stages, incident) if t_ns is not None])
    parts: list[Part] = []
    at = incident.clock_ns
    for name, t_ns in ends:
        end = min(max(at, t_ns), max(at, incident.recovered_ns))
        if end > at or name == "first_step":
            bound = bounded_by(name, at, end, incident, settings)
            parts.append(Part(name=name, start_ns=at, end_ns=end, bounded_by=bound))
        at = end
    return tuple(parts)


def _in_order(ends: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """No part ends after a later one: what was noticed too late (the process table is polled) ends with the next."""
    ordered: list[tuple[str, int]] = []
    for name, t_ns in reversed(ends):
        ordered.append((name, min(t_ns, ordered[-1][1]) if ordered else t_ns))
    return ordered[::-1]


def _ends(stages: Stages, incident: Incident) -> list[tuple[str, int | None]]:
    """Where each part ends, in the order of PARTS; None = not seen."""
    detected = None if incident.detection is None else incident.detection.t_ns
    holding = incident.holding
    if holding is None or incident.layer == NO_RESTART:
        return [("detection", detected), ("first_step", incident.recovered_ns)]
    entered, rendezvous = stages.last(holding, ENTERED), stages.last(holding, "rendezvous")
    return [
        ("detection", detected),
        ("teardown", stages.appeared(holding, incident.before) or entered),
        ("start", rendezvous if rendezvous is not None else entered),
        ("rendezvous", max(holding.ready_ns.values(), default=None)),
        ("init", stages.last(holding, "checkpoint_load")),
        ("checkpoint_load", stages.last(holding, LOADED)),
        ("first_step", incident.recovered_ns),
    ]
