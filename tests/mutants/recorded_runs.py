"""The runs that are recorded: jobs of scenarios/quick, held to more, so that every check has something to say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real"))

from real_runs import IN_JOB

IN_PROCESS = {**IN_JOB, "recovery": ["in_process"]}
LIMITS = {"timeout": "120s"}
STEP_TIME_RATIO = 3  # generous, so that a busy machine leaves a twin its pass
TIMES = {
    "detection_time": "5s", "recovery_time": "60s", "full_recovery_time": "90s", "parts": {"checkpoint_load": "2s"},
}  # fmt: skip


def _exception(name: str, step: int) -> dict[str, Any]:
    at = {"step": step, "phase": "backward"}
    params = {"type": "RuntimeError"}
    return {"name": name, "fault": "process.exception", "params": params, "target": {"rank": 1}, "at": at}


# Runs in which nothing but the fault is wrong.
TWINS: Mapping[str, Mapping[str, Any]] = {
    "healthy": {
        "job": IN_JOB,
        "objective": {"recovered_by": "none", "restarts": {"in_process": 0, "in_job": 0}},
    },
    "kill": {
        "job": IN_JOB,
        "faults": [
            {
                "name": "kill", "fault": "process.kill", "params": {"signal": "KILL"}, "target": {"rank": 1},
                "at": {"step": 57, "phase": "backward", "point": "in_collective"},
            }
        ],
        "objective": {
            "recovered_by": "in_job", **TIMES, "restarts": {"in_process": 0, "in_job": 1}, "blamed": "right",
        },
    },
    "hang": {
        "job": IN_JOB,
        "faults": [
            {
                "name": "hang", "fault": "process.hang", "target": {"rank": 1},
                "at": {"step": 57, "phase": "backward"},
            }
        ],
        "objective": {
            "recovered_by": "in_job", "detection_time": "10s", "recovery_time": "60s",
            "restarts": {"in_process": 0, "in_job": 1},
        },
    },
    "shrugged-off": {
        "job": IN_JOB,
        "faults": [
            {
                "name": "hang", "fault": "process.hang", "target": {"rank": 1}, "lasts": "1s",
                "at": {"step": 57, "phase": "backward"},
            }
        ],
        "objective": {
            "recovered_by": "none", "recovery_time": "10s", "clock_from": "undone",
            "restarts": {"in_process": 0, "in_job": 0},
        },
    },
    "exception": {
        "job": IN_PROCESS,
        "faults": [_exception("exception", 57)],
        "objective": {"recovered_by": "in_process", **TIMES, "restarts": {"in_process": 1, "in_job": 0}},
    },
    "exceptions": {
        "job": IN_PROCESS,
        "faults": [_exception("first", 33), _exception("second", 57), _exception("third", 93)],
        "objective": {
            "recovered_by": "in_process", **TIMES, "restarts": {"in_process": 3, "in_job": 0},
            "memory_growth": "32MiB",
        },
    },
}  # fmt: skip


def keys_of(twin: str) -> dict[str, Any]:
    """The scenario's keys but its name."""
    objective = {"step_time_ratio": STEP_TIME_RATIO, **TWINS[twin]["objective"]}
    return {**TWINS[twin], "objective": objective, "limits": LIMITS}
