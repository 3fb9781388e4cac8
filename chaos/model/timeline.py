"""What happened, in seconds from the job's start: what pictures are drawn from.

Built by `judge/`, read by `report/`.
"""

from __future__ import annotations

import msgspec


class StepMark(msgspec.Struct, frozen=True, kw_only=True):
    """A step finished by one rank. `group` is an index into `Timeline.groups` (-1: group unknown)."""

    step: int
    rank: int
    group: int
    t_s: float
    loss: float | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took time. `lane` is "rank 0", "rank 1", "launcher" or "job"; `kind` one of
    life | steps | fault | detection | recovery_part | hold; `detail` is shown on hover."""

    lane: str
    kind: str
    name: str
    start_s: float
    end_s: float
    detail: str = ""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment: fault_fired, fault_confirmed, fault_undone, detected, recovered,
    checkpoint_committed, checkpoint_loaded, process_exited, steady_state_met ..."""

    lane: str
    kind: str
    name: str
    t_s: float
    detail: str = ""
    ref: str = ""


class GroupSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One process group. `lives` maps rank to life."""

    index: int
    name: str
    world_size: int
    first_step: int | None
    last_step: int | None
    start_s: float | None
    end_s: float | None
    layer: str = ""
    lives: dict[int, str] = {}


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """`t0_ns` is the zero of all times here. `control_loss` is the fault-free run's loss per step."""

    t0_ns: int
    end_s: float
    ranks: tuple[int, ...]
    groups: tuple[GroupSpan, ...] = ()
    steps: tuple[StepMark, ...] = ()
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    control_loss: dict[int, float] = {}
