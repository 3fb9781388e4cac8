"""The names of the checks that an objective can add or drop. What each asks is the judge's."""

from __future__ import annotations

# Dropping one of these would let a run pass that proves nothing.
CORE: tuple[str, ...] = (
    "faults_fired_as_planned", "fault_took_effect", "undone", "recovered_in_time", "steady_after",
)  # fmt: skip

# name -> the objective that says what it is held to; asking for the check without it says nothing
NEEDS_OBJECTIVE: dict[str, str] = {
    "detected_in_time": "detection_time",
    "parts_in_time": "parts",
    "recovered_by": "recovered_by",
    "restart_budget": "restarts",
    "blamed_right": "blamed",
    "memory_flat": "memory_growth",
}

KNOWN: tuple[str, ...] = (
    "steady_before", *CORE, *NEEDS_OBJECTIVE, "world_size", "lost_work", "single_history", "ranks_agree",
    "state_exact", "data_exactly_once", "checkpoint_integrity", "no_residue", "job_finished",
)  # fmt: skip
