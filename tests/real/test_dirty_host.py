"""A run and its watchdog both killed: the next run refuses to start until `heal` has undone and proven it."""

from __future__ import annotations

import os
import signal

import pytest
from real_runs import IN_JOB, NO_CONTROLS, state_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_what_a_dead_run_left_is_healed_before_the_next_one_runs(place):
    hang = place.scenario(
        "hang",
        job={**IN_JOB, "steps": 4000},  # it must outlive the command that waits for its watchdog in vain
        faults=[{"name": "hang", "fault": "process.hang", "target": {"rank": 1}, "at": {"step": 30}}],
        objective={"recovered_by": "in_job", "recovery_time": "20s", "checks": NO_CONTROLS},
    )
    control = place.scenario("control", job=IN_JOB, objective={"recovered_by": "none", "checks": NO_CONTROLS})

    dead = place.start(hang)
    stopped = dead.wait_for("fault_fired").data["pid"]
    dead.wait_for("fault_confirmed")
    controller, watchdog = dead.controller(), dead.watchdog()
    os.kill(controller, signal.SIGSTOP)  # so that neither sees the other die
    os.kill(watchdog, signal.SIGKILL)
    os.kill(controller, signal.SIGKILL)
    assert dead.finish().status == 70
    run_id = dead.run_dir.name
    assert len(dead.job()) >= 3, "nobody is left to stop the job"

    before = {path.name for path in place.out.iterdir()}
    refused = place.run(control)
    assert refused.status == 2, refused.err
    assert "nvrx-chaos heal" in refused.err and run_id in refused.err
    assert {path.name for path in place.out.iterdir()} == before, "a refused run made something"

    listed = place.open_entries()
    assert [each["run_id"] for each in listed] == [run_id]
    assert {"resume", "stop", "wait", "remove"} >= {entry["what"].split()[0] for entry in listed[0]["entries"]}

    healed = place.cli("heal")
    assert healed.status == 0, healed.out + healed.err
    assert state_of(stopped) in ("", "Z")
    assert dead.job() == []
    assert place.open_entries() == []

    assert place.run(control).status == 0
