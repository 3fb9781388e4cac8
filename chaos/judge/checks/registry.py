"""The closed set, in the order in which people read it."""

from __future__ import annotations

from chaos.judge.checks import (
    agree,
    blame,
    checkpoints,
    data,
    faults,
    history,
    job,
    layers,
    memory,
    state,
    steady,
    times,
)
from chaos.judge.checks.framework import CheckSpec

_ORDER = (
    "steady_before", "faults_fired_as_planned", "fault_took_effect", "undone", "detected_in_time", "recovered_in_time",
    "parts_in_time", "steady_after", "recovered_by", "restart_budget", "world_size", "blamed_right", "lost_work",
    "single_history", "ranks_agree", "state_exact", "data_exactly_once", "checkpoint_integrity", "memory_flat",
    "no_residue", "job_finished",
)  # fmt: skip

_ALL = (
    *faults.CHECKS, *times.CHECKS, *steady.CHECKS, *layers.CHECKS, *blame.CHECKS, *history.CHECKS, *agree.CHECKS,
    *state.CHECKS, *data.CHECKS, *checkpoints.CHECKS, *memory.CHECKS, *job.CHECKS,
)  # fmt: skip
BY_NAME = {spec.name: spec for spec in _ALL}
assert set(BY_NAME) == set(_ORDER) and len(BY_NAME) == len(_ALL), "a check is listed twice or nowhere"

REGISTRY: tuple[CheckSpec, ...] = tuple(BY_NAME[name] for name in _ORDER)
