"""Ctrl-C and SIGTERM at the moments that matter: faults undone, job stopped, `unknown: interrupted`, nothing left."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from real_runs import IN_JOB, NO_CONTROLS, Running, all_words, check, command_of, marked, state_of, traceback_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SECOND_SIGNAL_AFTER_S = 0.2
ENDS_WITHIN_S = 45.0  # undoing and stopping is bounded by 10 s; judging and a busy machine come on top


def hang(place, name: str = "hang"):
    return place.scenario(
        name,
        job=IN_JOB,
        faults=[{"name": "hang", "fault": "process.hang", "target": {"rank": 1}, "at": {"step": 30}}],
        objective={"recovered_by": "in_job", "recovery_time": "20s", "checks": NO_CONTROLS},
    )


def before_steps(run: Running) -> None:
    run.wait_for("job_started")


def while_stopped(run: Running) -> None:
    fired = run.wait_for("fault_fired")
    run.wait_for("fault_confirmed")
    assert state_of(fired.data["pid"]) == "T"


def while_recovering(run: Running) -> None:
    """NVRx has noticed, and the job has not done a step since."""
    run.wait_for("hang_detected")


MOMENTS = {"before it steps": before_steps, "while a rank is stopped": while_stopped, "recovering": while_recovering}
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
IN_CI = {("before it steps", "SIGTERM"), ("while a rank is stopped", "SIGINT"), ("recovering", "SIGTERM")}
CASES = [
    pytest.param(moment, which, marks=() if (moment, which) in IN_CI else pytest.mark.slow, id=f"{which} {moment}")
    for moment in MOMENTS
    for which in SIGNALS
]


def assert_interrupted(run: Running) -> dict[str, Any]:
    ended = run.finish(within_s=ENDS_WITHIN_S)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (3, "unknown"), ended.err + all_words(verdict)
    assert verdict["sentence"].startswith("interrupted"), verdict["sentence"]
    assert check(verdict, "undone")["outcome"] == "pass", all_words(verdict)
    assert not traceback_in(ended)
    assert json.loads((run.run_dir / "verdict.json").read_text()) == verdict
    return verdict


@pytest.mark.parametrize(("moment", "which"), CASES)
def test_an_interrupted_run_undoes_everything_and_is_unknown(place, moment, which):
    run = place.start(hang(place))
    MOMENTS[moment](run)
    run.process.send_signal(SIGNALS[which])
    assert f"interrupted by {which}" in all_words(assert_interrupted(run))
    assert place.left() == []


def test_a_second_signal_does_not_skip_the_undo(place):
    run = place.start(hang(place))
    while_stopped(run)
    run.process.send_signal(signal.SIGINT)
    time.sleep(SECOND_SIGNAL_AFTER_S)  # nothing announces the moment: the undo is then under way
    run.process.send_signal(signal.SIGINT)
    assert_interrupted(run)
    assert place.left() == []


@pytest.mark.parametrize("which", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_a_signal_to_the_runner_itself_and_a_second_one_are_no_shortcut(place, which):
    run = place.start(hang(place))
    while_stopped(run)
    group = os.getpgid(run.controller())
    os.killpg(group, SIGNALS[which])
    time.sleep(SECOND_SIGNAL_AFTER_S)
    os.killpg(group, SIGNALS[which])
    assert_interrupted(run)
    assert place.left() == []


def until(claim, what: str) -> None:
    end_s = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < end_s, what
        time.sleep(0.002)


def runners(place) -> list[int]:
    return [pid for pid in marked(place.mark) if b"chaos.runner" in command_of(pid)]


def assert_never_began(run: Running, place) -> None:
    ended = run.finish(within_s=ENDS_WITHIN_S)
    assert (ended.status, ended.verdict["outcome"]) == (3, "unknown"), ended.err + all_words(ended.verdict)
    assert ended.verdict["sentence"].startswith("interrupted"), ended.verdict["sentence"]
    assert ended.verdict["interrupted"]
    assert not traceback_in(ended)
    assert place.left() == []


def test_a_signal_before_the_runs_own_process_is_there_starts_nothing(place):
    run = place.start(hang(place))
    until(lambda: list(place.out.glob("*/*/experiment.json")), "no run folder")
    run.process.send_signal(signal.SIGTERM)
    assert_never_began(run, place)


@pytest.mark.parametrize("after_s", [0.0, 0.1, pytest.param(0.3, marks=pytest.mark.slow)])
def test_a_signal_while_the_runs_own_process_is_starting_is_not_lost(place, after_s):
    """It has no handlers yet, and then those of its libraries: neither may end it without a verdict."""
    run = place.start(hang(place))
    until(lambda: runners(place), "no runner")
    time.sleep(after_s)
    run.process.send_signal(signal.SIGTERM)
    assert_never_began(run, place)


def test_an_interrupted_suite_starts_no_further_run(place):
    run = place.start(hang(place, "first"), hang(place, "second"))
    run.wait_for("job_started")
    run.process.send_signal(signal.SIGINT)
    assert_interrupted(run)
    assert not list(place.out.glob("second/*"))
