"""What must not pass, and is no broken job: a fault that came too late, and an objective that cannot be met.

Broken jobs are those of tests/mutants; `test_broken_jobs.py` runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_runs import BROKEN, IN_JOB, NO_CONTROLS, all_words, check, cpu_hogs, events, outcomes

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

STEP = 47  # a few steps after the checkpoint of step 40


def kill_scenario(place, name: str, *, defect: str | None = None, step: int = STEP, **objective: Any) -> Path:
    """A worker is killed; the job carries that defect."""
    job: dict[str, Any] = {**IN_JOB, "steps": 80}
    if defect is not None:
        job["env"] = {"PYTHONPATH": str(BROKEN), "NVRX_BROKEN": defect}
    return place.scenario(
        name,
        job=job,
        faults=[
            {
                "name": "kill",
                "fault": "process.kill",
                "params": {"signal": "KILL"},
                "target": {"rank": 1},
                "at": {"step": step, "phase": "backward", "point": "in_collective"},
            }
        ],
        objective={"recovered_by": "in_job", "recovery_time": "20s", **objective},
    )


def test_a_fault_armed_past_its_step_is_unknown_and_says_so(place):
    """The rank can be reached only after the step: no timing decides it."""
    scenario = kill_scenario(place, "armed-too-late", defect="rank_connects_late", step=30, checks=NO_CONTROLS)
    ended = place.run(scenario)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (3, "unknown"), all_words(verdict)
    observed = check(verdict, "faults_fired_as_planned")["observed"]
    assert "was already at step" in observed and "was already at step" in verdict["sentence"]
    assert not [event for event in events(Path(ended.runs[-1]["run_dir"])) if event.kind == "fault_fired"]
    assert "fail" not in outcomes(verdict).values(), all_words(verdict)


def too_strict(place) -> Path:
    """A recovery by the launcher starts new processes: a tenth of a second is never enough."""
    return kill_scenario(place, "too-strict", recovery_time="100ms", checks=NO_CONTROLS)


def test_an_objective_far_below_what_a_recovery_takes_fails(place):
    ended = place.run(too_strict(place))
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert [name for name, outcome in outcomes(verdict).items() if outcome == "fail"] == ["recovered_in_time"]


@pytest.mark.slow
def test_a_busy_machine_does_not_excuse_it(place):
    with cpu_hogs(2):
        ended = place.run(too_strict(place), timeout=300)
    verdict = ended.verdict
    timing = check(verdict, "recovered_in_time")
    assert verdict["outcome"] in ("failed", "unknown") and timing["outcome"] in ("fail", "unknown"), all_words(verdict)
    if timing["outcome"] == "unknown":
        assert "the machine withheld" in timing["observed"]
    else:
        assert ended.status == 1
