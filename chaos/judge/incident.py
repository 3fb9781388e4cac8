"""What an outage is: the faults it began with, when the job noticed, which group brought it back, what was lost.

Times are CLOCK_MONOTONIC nanoseconds. `outages.py` finds outages, `parts.py` divides the recovery up, checks judge it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.judge.detection import Detection
from chaos.judge.lineage import Group
from chaos.judge.outside import Cause
from chaos.model.events import Event

NO_RESTART = "none"  # the word for an outage that the same group outlived
GHOST_STEPS_MAX = 2  # steps that a stopped rank, woken to be killed, can still finish with its peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One outage and all that followed, up to the next one or the end.

    `begun_ns`: first fault fired (or first sign, without a fault of ours). `clock_ns`: where the recovery clock
    starts; None when the fault to count from was not undone. `holding`: the group that holds at the end, None = never
    recovered. `layer`: how it came by; `none` = the same group went on. `limit_ns`: until when we looked.
    `causes`: what from outside the job had a part in it; `excused`: the restarts, by layer, that they explain.
    `clock_error_ns`: the error of times from a fault to a step, where both were stamped on different hosts.
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
    abandoned: int = 0  # restarts of this outage that led nowhere
    causes: tuple[Cause, ...] = ()
    excused: Mapping[str, int] = field(default_factory=dict)
    clock_error_ns: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(fault.data["fault"]) for fault in self.faults))

    @property
    def cause(self) -> str:
        """What from outside the job had a part in it, in words; empty where nothing is on record."""
        return "; ".join(dict.fromkeys(cause.text for cause in self.causes))

    def restarts(self) -> dict[str, int]:
        """Restarts of this outage that yielded a step, by layer, and those that led nowhere."""
        counted = {"in_process": 0, "in_job": 0}
        for group in self.restarted:
            counted[group.layer] = counted.get(group.layer, 0) + 1
        return {**counted, "abandoned": self.abandoned}

    def seconds_to(self, t_ns: int | None) -> float | None:
        """Seconds from the recovery clock's start, none where that moment came first; None where one of both was not
        seen."""
        if t_ns is None or self.clock_ns is None:
            return None
        return max(0, t_ns - self.clock_ns) / 1e9

    @property
    def detection_s(self) -> float | None:
        """From the firing, whatever the recovery clock starts with."""
        return None if self.detection is None else (self.detection.t_ns - self.begun_ns) / 1e9
