"""The closed set, in the order in which people read it. Names not built yet are there, so that a verdict names them."""

from __future__ import annotations

from chaos.judge.checks import checkpoints, data, faults, job, layers, state, steady, times
from chaos.judge.checks.framework import CheckSpec, never

NOT_BUILT = ("blamed_right", "single_history", "ranks_agree", "memory_flat")

_ORDER = (
    "steady_before", "faults_fired_as_planned", "fault_took_effect", "undone", "detected_in_time", "recovered_in_time",
    "parts_in_time", "steady_after", "recovered_by", "restart_budget", "world_size", "blamed_right", "lost_work",
    "single_history", "ranks_agree", "state_exact", "data_exactly_once", "checkpoint_integrity", "memory_flat",
    "no_residue", "job_finished",
)  # fmt: skip

_BUILT = (
    *faults.CHECKS, *times.CHECKS, *steady.CHECKS, *layers.CHECKS, *state.CHECKS, *data.CHECKS, *checkpoints.CHECKS,
    *job.CHECKS,
)  # fmt: skip
_LATER = tuple(
    CheckSpec(name=name, needs=frozenset(), expects=lambda plan: "", body=None, asked=never) for name in NOT_BUILT
)
BY_NAME = {spec.name: spec for spec in (*_BUILT, *_LATER)}
assert set(BY_NAME) == set(_ORDER) and len(BY_NAME) == len(_BUILT) + len(_LATER), "a check is listed twice or nowhere"

REGISTRY: tuple[CheckSpec, ...] = tuple(BY_NAME[name] for name in _ORDER)
