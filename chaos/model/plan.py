"""The plan of one run: a scenario with every rank, step, time and seed fixed. Plain values, frozen.

Written once into `experiment.json` (`configuration.plan`); everything after it reads only this.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec

SCHEMA = "nvrx-chaos/plan/1"
# Where one of these is not passed, nothing shows that a fault of ours acted and is gone: no scenario foresees that.
# (`steady_before` never fails.)
NEVER_FORESEEN = ("steady_before", "faults_fired_as_planned", "fault_took_effect", "undone")


class JobPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` names a shipped job ("trainer"); `command` is the user's own. Exactly one is set."""

    run: str | None = None
    command: tuple[str, ...] | None = None
    launcher: str = "ft_launcher"
    where: str = "local"
    nodes: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 1
    ranks_per_node: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 2
    recovery: tuple[str, ...] = ()
    shrink: bool = False
    steps: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 120
    env: dict[str, str] = {}
    args: dict[str, Any] = {}

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a fault is due. Exactly one of `step`, `after_s` (from steady state), `event` is set.

    With `step`: `phase` (default "forward"), `point` (default "entry"), `point_after_s` past that point.
    """

    step: int | None = None
    phase: str | None = None
    point: str = "entry"
    point_after_s: float = 0.0
    after_s: float | None = None
    event: str | None = None


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault with its initial ranks chosen. `lasts_s` only for faults that hold.

    `ends`: undone | by_itself | final (see the catalogue). `layer`, `certifies`, `does_not_certify`
    are copied from the catalogue so that a recorded run can be judged without it.
    """

    name: str
    fault: str
    params: dict[str, Any]
    ranks: tuple[int, ...]
    at: At
    lasts_s: float | None = None
    fidelity: str = "real"
    layer: str = "process"
    ends: str = "final"
    certifies: str = ""
    does_not_certify: str = ""


class Restarts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upper bounds; None = not bounded."""

    in_process: int | None = None
    in_job: int | None = None


class ObjectivePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the job is held to. Times in seconds. `recovered_by` empty = not asked; ("none",) = must not need recovery.

    `state_close` None = exact, bit for bit; else the relative loss difference allowed per step.
    `memory_growth_bytes`: for each restart inside a process. `blamed`: NVRx must name a rank that was hit.
    `dropped` and `added` are check names.
    """

    recovered_by: tuple[str, ...] = ()
    clock_from: str = "fired"
    detection_time_s: float | None = None
    recovery_time_s: float | None = None
    full_recovery_time_s: float | None = None
    lost_steps: int | None = None
    restarts: Restarts | None = None
    parts_s: dict[str, float] = {}
    world_size: str = "same"
    state_close: float | None = None
    step_time_ratio: float = 1.5
    memory_growth_bytes: int | None = None
    blamed: bool = False
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class LimitsPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`timeout_s` bounds the run from job start; `ranks_down` what we hold down at one time."""

    timeout_s: float = 120.0
    ranks_down: int = 1
    nodes_down: int = 0
    faults: int | None = None


class KnownPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect of others, by which `checks` fail. `since`: package → the versions that have it. `ref`: the page that
    tells of it. `until`: the last day (UTC) on which it is not counted."""

    checks: tuple[str, ...]
    since: dict[str, str]
    ref: str
    until: date


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run. `source` is the scenario file as given; `repeat` the command that repeats this run.

    `expect_failed`: checks that must fail, and no others, for the run to pass.
    """

    schema: str = SCHEMA
    scenario: str
    title: str = ""
    why: str = ""
    tags: tuple[str, ...] = ()
    source: str = ""
    seed: int = 0
    repeat: str = ""
    job: JobPlan
    steady_steps: int = 10
    faults: tuple[FaultPlan, ...] = ()
    objective: ObjectivePlan = ObjectivePlan()
    limits: LimitsPlan = LimitsPlan()
    expect_failed: tuple[str, ...] = ()
    known: KnownPlan | None = None

    def __post_init__(self) -> None:
        foreseen = [*self.expect_failed, *(self.known.checks if self.known is not None else ())]
        if len(set(foreseen)) < len(foreseen):
            raise ValueError("a check is foreseen to fail twice")
        if never := [name for name in foreseen if name in NEVER_FORESEEN]:
            raise ValueError(f"{never[0]} cannot be foreseen to fail")

    def fault(self, name: str) -> FaultPlan:
        """The fault of that name; KeyError when the plan has none."""
        for fault in self.faults:
            if fault.name == name:
                return fault
        raise KeyError(name)
