"""The process that runs a run is SIGKILLed in mid-injection: one rank is stopped, an order is armed in the other.

What is promised: the rank resumed within its time limit and two seconds, the job stopped within ten, the armed
order never carried out, nothing left, and a verdict from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

import pytest
from real_runs import IN_JOB, NO_CONTROLS, Running, all_words, check, command_of, events, state_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LASTS_S = 5
UNDONE_WITHIN_S = LASTS_S + 2.0
STOPPED_WITHIN_S = 10.0
HANG_STEP, KILL_STEP = 30, 60
# In-process restart adds a monitor for each rank that leaves its session, its parent and our mark behind.
LAYERS = (["in_job"], ["in_process", "in_job"])
TIMES = [pytest.param(number, marks=() if number < 2 else pytest.mark.slow) for number in range(20)]


def two_faults(place, **job):
    return place.scenario(
        "two-faults",
        job={**IN_JOB, **job},
        faults=[
            {
                "name": "hang",
                "fault": "process.hang",
                "target": {"rank": 1},
                "at": {"step": HANG_STEP, "phase": "backward"},
                "lasts": f"{LASTS_S}s",
            },
            {
                "name": "kill",
                "fault": "process.kill",
                "params": {"signal": "KILL"},
                "target": {"rank": 0},
                "at": {"step": KILL_STEP, "phase": "backward"},
            },
        ],
        objective={"recovered_by": "in_job", "recovery_time": "20s", "clock_from": "fired", "checks": NO_CONTROLS},
        limits={"ranks_down": 2, "timeout": "120s"},
    )


def killed_in_mid_injection(run: Running) -> tuple[int, int, float]:
    """SIGKILLs the controller; gives the stopped rank, the watchdog, and when."""
    run.wait_for(lambda event: event.kind == "fault_armed" and event.data["fault"] == "kill")
    fired = run.wait_for(lambda event: event.kind == "fault_fired" and event.data["fault"] == "hang")
    stopped = fired.data["pid"]
    run.wait_for("fault_confirmed")
    assert state_of(stopped) == "T"
    assert len(run.job()) >= 3, "launcher and two ranks"
    watchdog, controller = run.watchdog(), run.controller()
    os.kill(controller, signal.SIGKILL)
    return stopped, watchdog, time.monotonic()


def until(claim, end_s: float, what: str) -> None:
    while not claim():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def assert_ends(pid: int, within_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            assert select.select([handle], [], [], within_s)[0], command_of(pid)
        finally:
            os.close(handle)


def firings(run: Running, fault: str) -> list[str]:
    return [event.ref for event in events(run.run_dir) if event.kind == "fault_fired" and event.data["fault"] == fault]


@pytest.mark.parametrize("time_of_20", TIMES)
def test_a_killed_controller_leaves_nothing_and_no_order_is_carried_out(place, time_of_20):
    run = place.start(two_faults(place, recovery=LAYERS[time_of_20 % 2]))
    stopped, watchdog, killed_s = killed_in_mid_injection(run)
    until(lambda: state_of(stopped) != "T", killed_s + UNDONE_WITHIN_S, "the rank is still stopped")
    while run.job():
        assert time.monotonic() < killed_s + STOPPED_WITHIN_S, "the job still runs"
        assert run.process.poll() is None, "the next run of a suite would begin beside what is left of this one"
    assert_ends(watchdog, STOPPED_WITHIN_S)
    ended = run.finish(within_s=60)
    assert place.left() == []
    assert firings(run, "kill") == []
    assert len(firings(run, "hang")) == 1
    assert ended.status == 70, ended.err
    assert ended.verdict["outcome"] == "unknown", all_words(ended.verdict)
    assert (run.run_dir / "verdict.json").is_file() and (run.run_dir / "ledger.jsonl").is_file()
    assert place.open_entries() == [], "the host is dirty"


def test_a_killed_watchdog_ends_the_run_and_nothing_is_left(place):
    """Nobody would undo it if we died too: so everything is undone now, and no new harm begins."""
    run = place.start(two_faults(place))
    run.wait_for(lambda event: event.kind == "fault_armed" and event.data["fault"] == "kill")
    stopped = run.wait_for(lambda event: event.kind == "fault_fired" and event.data["fault"] == "hang").data["pid"]
    os.kill(run.watchdog(), signal.SIGKILL)
    ended = run.finish(within_s=60)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (3, "unknown"), ended.err + all_words(verdict)
    assert "the watchdog has died" in all_words(verdict)
    assert check(verdict, "undone")["outcome"] == "pass", all_words(verdict)
    assert firings(run, "kill") == []
    assert state_of(stopped) in ("", "Z")
    assert place.left() == []
    assert place.open_entries() == [], "the host is dirty"


@pytest.mark.slow
def test_a_run_goes_on_to_its_verdict_when_the_command_that_shows_it_is_killed(place):
    run = place.start(two_faults(place))
    run.wait_for("steady_state_met")
    controller = run.controller()
    run.process.kill()
    assert_ends(controller, 120)
    assert json.loads((run.run_dir / "verdict.json").read_text())["run_id"] == run.run_dir.name
    assert place.left() == []


def test_a_kept_job_trains_past_the_armed_step_unharmed(place):
    run = place.start(two_faults(place, steps=4000), "--keep-job")
    stopped, watchdog, killed_s = killed_in_mid_injection(run)
    job = run.job()
    until(lambda: state_of(stopped) != "T", killed_s + UNDONE_WITHIN_S, "the rank is still stopped")
    for rank in (0, 1):
        run.wait_for(
            lambda event, rank=rank: (
                event.kind == "step_done" and event.rank == rank and event.data["step"] > KILL_STEP + 20
            ),
            job_goes_on=True,
        )
    assert_ends(watchdog, STOPPED_WITHIN_S)
    assert run.finish(within_s=60).status == 70
    assert set(run.job()) >= {pid for pid in job if b"trainer" in command_of(pid)}, "the job was not kept as it was"
    assert firings(run, "kill") == []
    assert not [event for event in events(run.run_dir) if event.kind == "restart_entered"]
    assert place.open_entries() == [], "the host is dirty"
    launcher = min(job)
    os.kill(launcher, signal.SIGTERM)
    until(lambda: not run.job(), time.monotonic() + 30, "the kept job does not end")
