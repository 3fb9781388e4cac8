"""Broken jobs, each with one defect planted in it (broken/sitecustomize.py): the check for it fails, and only that.

The same kill that a sound job recovers from shows most of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_runs import BROKEN, IN_JOB, NO_CONTROLS, all_words, check, cpu_hogs, events, outcomes

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

STEP = 47  # a few steps after the checkpoint of step 40
SOUND = {
    "steady_before", "faults_fired_as_planned", "fault_took_effect", "undone", "recovered_in_time", "recovered_by",
    "world_size", "job_finished",
}  # fmt: skip


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


def assert_only(verdict: dict[str, Any], *failing: str, sound: set[str]) -> None:
    found = outcomes(verdict)
    assert {name for name in failing if found[name] != "fail"} == set(), all_words(verdict)
    assert {name: found[name] for name in sound if found[name] != "pass"} == {}, all_words(verdict)


def test_an_optimizer_that_is_not_restored_fails_the_state(place):
    ended = place.run(kill_scenario(place, "optimizer-not-restored", defect="optimizer_not_restored"), timeout=300)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert_only(
        verdict,
        "state_exact",
        sound=SOUND | {"data_exactly_once", "checkpoint_integrity", "no_residue", "lost_work"},
    )


@pytest.mark.slow
def test_a_batch_repeated_after_a_resume_fails_the_data(place):
    # The losses of a batch read twice are other losses: the state differs as well, rightly.
    ended = place.run(kill_scenario(place, "batch-repeated", defect="batch_repeated"), timeout=300)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert_only(verdict, "data_exactly_once", sound=SOUND | {"checkpoint_integrity", "no_residue", "lost_work"})
    assert "used twice" in check(verdict, "data_exactly_once")["observed"]


@pytest.mark.slow
def test_a_checkpoint_published_before_it_is_complete_fails_its_integrity(place):
    ended = place.run(kill_scenario(place, "published-early", defect="published_early"), timeout=300)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert_only(
        verdict,
        "checkpoint_integrity",
        sound=SOUND | {"state_exact", "data_exactly_once", "no_residue", "lost_work"},
    )
    assert "checkpoint 40" in check(verdict, "checkpoint_integrity")["observed"]


@pytest.mark.slow
def test_a_child_left_behind_by_the_job_fails_and_is_then_ended(place):
    scenario = kill_scenario(place, "child-left-behind", defect="child_left_behind", checks=NO_CONTROLS)
    ended = place.run(scenario)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert_only(verdict, "no_residue", sound=SOUND | {"data_exactly_once", "checkpoint_integrity", "lost_work"})
    assert "sleep 300" in check(verdict, "no_residue")["observed"]
    assert place.left() == []


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
    assert_only(verdict, "recovered_in_time", sound=SOUND - {"recovered_in_time"})


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
