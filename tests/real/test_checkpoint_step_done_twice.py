"""A checkpoint step among the steps done twice: weights and optimizer state of both times have the same bits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from real_runs import IN_JOB, check, events

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

STEP = 60


def test_a_rank_killed_before_it_publishes_a_checkpoint_makes_the_same_one_again(place_with_controls):
    place = place_with_controls
    scenario = place.scenario(
        "killed-before-publishing",
        job=IN_JOB,
        faults=[
            {
                "name": "kill",
                "fault": "process.kill",
                "params": {"signal": "KILL"},
                "target": {"rank": 0},
                "at": {"step": STEP, "phase": "checkpoint_commit", "point": "before_rename"},
            }
        ],
        objective={"recovered_by": "in_job", "recovery_time": "15s"},
    )
    ended = place.run_until_decided(scenario, timeout=400)
    run_dir, verdict = Path(ended.runs[-1]["run_dir"]), ended.verdict
    assert (ended.status, verdict["outcome"]) == (0, "passed"), verdict["sentence"]

    observed = check(verdict, "state_exact")["observed"]
    twice = re.search(r"the run itself over (\d+) steps done twice and (\d+) checkpoint digests, equal bits", observed)
    assert twice is not None and int(twice[1]) >= 5 and int(twice[2]) >= 2, observed
    assert "two fault-free runs over 120 steps" in observed

    taken = [event for event in events(run_dir) if event.kind == "digest_taken"]
    of_step = [each for each in taken if each.data["step"] == STEP and each.data["purpose"] == "checkpoint"]
    for rank in (0, 1):
        found = [each.data["shards"] for each in of_step if each.rank == rank]
        assert len(found) == 2 and len(set(found)) == 1, f"rank {rank}: {found}"
