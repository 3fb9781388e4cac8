"""What a recovery was spent on: every part can name the setting that bounded it, in each layer."""

from __future__ import annotations

from typing import Any

import pytest
from incident_build import begun, enter, incidents_of, restarted, two
from judge_build import FAULT_STEP, STEPS, Story, fault, plan, verdict_of

from chaos.judge.bounds import bounded_by

LAUNCHER = {
    "monitor_interval_s": 0.2, "workers_stop_timeout_s": 15, "rank_heartbeat_timeout": 30,
    "workload_check_interval": 5.0, "rdzv_join_timeout": 40.0, "initial_heartbeat_timeout_s": 60.0,
}  # fmt: skip
PROCESS = {
    "soft_timeout_s": 60.0, "hard_timeout_s": 90.0, "in_process_heartbeat_timeout_s": 30.0, "last_call_wait_s": 1.0,
    "barrier_timeout_s": 120.0, "monitor_thread_interval_s": 0.25, "termination_grace_s": 5.0,
}  # fmt: skip


def told(story: Story, settings: dict[str, Any]) -> Story:
    story.ranks("settings_seen", settings=settings)
    return story


def in_job(*, noticed_s: float, by: str = "hang_detected", teardown_s: float = 0.1, **stretch: float) -> Story:
    """Hit, noticed, torn down, started, met, loaded: each for so long."""
    story = Story()
    story = begun(told(story, {}))
    story.fire("boom", verb="raise_error")
    story.at += noticed_s
    story.controller(by, rank=1, local_rank=1, pid=1, code=1, waited_s=1.0, error_ns=0, text="x")
    story.at += teardown_s
    for rank in (0, 1):
        story.exited(rank, signal=9)
    story.generation = 1
    story.start()
    return onward(story, **stretch)


def in_process(*, noticed_s: float, text: str = "x", teardown_s: float = 0.1, **stretch: float) -> Story:
    story = begun()
    story.fire("boom", verb="raise_error")
    story.at += noticed_s
    story.rank(0, "interruption_reported", source="in_process", marker="term_ex", text=text)
    story.at += teardown_s
    enter(story)
    return onward(story, **stretch)


def onward(
    story: Story, *, start_s: float = 0.1, rendezvous_s: float = 0.1, init_s: float = 0.1, load_s: float = 0.1,
    step_s: float = 0.02,
) -> Story:  # fmt: skip
    story.at += start_s
    story.ranks("phase_entered", phase="rendezvous", step=None)
    story.at += rendezvous_s
    story.group = "g1"
    story.ranks("process_group_ready", world_size=2, backend="gloo")
    story.at += init_s
    story.ranks("phase_entered", phase="checkpoint_load", step=None)
    story.at += load_s
    story.ranks("checkpoint_loaded", step=40, path="step-000040")
    story.at += step_s
    return story.train(40, STEPS).finish()


def bounds(story: Story, settings: dict[str, Any], layer: str) -> dict[str, str]:
    story.events = [event for event in story.events if event.kind != "settings_seen"]
    story.rank(0, "settings_seen", at=0.5, settings=settings)
    verdict = verdict_of(story, plan(fault("boom"), recovered_by=(layer,)))
    assert verdict.incidents[0].recovered_by == layer
    return {part.name: part.bounded_by for part in verdict.incidents[0].parts}


IN_JOB = [
    ("detection", {"noticed_s": 36.2}, "30.0 of 36.2 s: rank_heartbeat_timeout=30"),
    ("detection", {"noticed_s": 28.0}, "28.0 of 28.0 s: rank_heartbeat_timeout=30"),  # silent before the fault
    ("detection", {"noticed_s": 0.1, "by": "worker_failed"}, "0.1 of 0.1 s: monitor_interval_s=0.2"),
    ("detection", {"noticed_s": 9.0, "by": "worker_failed"}, ""),
    ("teardown", {"noticed_s": 0.1, "teardown_s": 15.4}, "15.0 of 15.4 s: workers_stop_timeout_s=15"),
    ("teardown", {"noticed_s": 0.1, "teardown_s": 41.0}, "40.0 of 41.0 s: rdzv_join_timeout=40"),
    ("rendezvous", {"noticed_s": 0.1, "rendezvous_s": 44.0}, "40.0 of 44.0 s: rdzv_join_timeout=40"),
    ("start", {"noticed_s": 0.1, "start_s": 3.0}, ""),
]
IN_PROCESS = [
    ("detection", {"noticed_s": 31.0}, "30.0 of 31.0 s: in_process_heartbeat_timeout_s=30"),
    ("detection", {"noticed_s": 61.0}, "60.0 of 61.0 s: soft_timeout_s=60"),
    ("detection", {"noticed_s": 0.2}, "0.2 of 0.2 s: monitor_thread_interval_s=0.25"),
    ("detection", {"noticed_s": 0.01}, ""),  # at once: no poll had to come round
    ("teardown", {"noticed_s": 0.1, "teardown_s": 1.2}, "1.0 of 1.2 s: last_call_wait_s=1"),
    ("teardown", {"noticed_s": 0.1, "teardown_s": 5.3}, "5.0 of 5.3 s: termination_grace_s=5"),
    # soft at 60 s, and 30 s later hard: both count from the last progress
    ("teardown", {"noticed_s": 60.0, "teardown_s": 30.3}, "30.0 of 30.3 s: hard_timeout_s=90"),
    ("teardown", {"noticed_s": 0.1, "teardown_s": 121.0}, "120.0 of 121.0 s: barrier_timeout_s=120"),
    ("rendezvous", {"noticed_s": 0.1, "rendezvous_s": 121.0}, "120.0 of 121.0 s: barrier_timeout_s=120"),
]
OF_THE_GROUP = {"collective_timeout_s": 60.0, "checkpoint_wait_s": 30.0}
IN_EITHER = [
    ("rendezvous", {"rendezvous_s": 61.0}, "60.0 of 61.0 s: collective_timeout_s=60"),
    ("init", {"init_s": 60.5}, "60.0 of 60.5 s: collective_timeout_s=60"),
    ("checkpoint_load", {"load_s": 30.5}, "30.0 of 30.5 s: checkpoint_wait_s=30"),
    ("first_step", {"step_s": 60.5}, "60.0 of 60.5 s: collective_timeout_s=60"),
]


@pytest.mark.parametrize(("part", "times", "words"), IN_JOB)
def test_a_part_of_a_restart_by_the_launcher_names_what_it_waited_for(part, times, words):
    assert bounds(in_job(**times), LAUNCHER, "in_job")[part] == words


@pytest.mark.parametrize(("part", "times", "words"), IN_PROCESS)
def test_a_part_of_an_in_process_restart_names_what_it_waited_for(part, times, words):
    assert bounds(in_process(**times), PROCESS, "in_process")[part] == words


@pytest.mark.parametrize(("part", "times", "words"), IN_EITHER)
@pytest.mark.parametrize("layer", ["in_job", "in_process"])
def test_a_wait_inside_the_process_group_is_named_in_either_layer(layer, part, times, words):
    story = in_job(noticed_s=0.1, **times) if layer == "in_job" else in_process(noticed_s=0.1, **times)
    found = bounds(story, OF_THE_GROUP, layer)[part]
    assert found.split(" of ")[0] == words.split(" of ")[0] and found.split(": ")[1] == words.split(": ")[1]


def test_the_last_call_of_the_in_process_wrapper_is_not_named_for_a_restart_by_the_launcher():
    settings = {"last_call_wait_s": 0.25, "monitor_interval_s": 0.2}
    found = bounds(in_job(noticed_s=0.1, teardown_s=0.3), settings, "in_job")
    assert found["teardown"] == "0.2 of 0.3 s: monitor_interval_s=0.2"
    found = bounds(in_job(noticed_s=0.1, teardown_s=0.3), {"rdzv_last_call_timeout": 0.25}, "in_job")
    assert found["teardown"] == "0.2 of 0.3 s: rdzv_last_call_timeout=0.25"


def test_of_a_timeout_and_a_poll_that_explain_as_much_the_timeout_is_named():
    settings = {"last_call_wait_s": 0.25, "progress_watchdog_interval_s": 0.25}
    found = bounds(in_process(noticed_s=0.1, teardown_s=0.3), settings, "in_process")
    assert found["teardown"] == "0.2 of 0.3 s: last_call_wait_s=0.25"


def test_a_collective_that_ran_into_its_timeout_explains_the_detection():
    found = bounds(in_job(noticed_s=62.0, by="worker_failed"), OF_THE_GROUP, "in_job")
    assert found["detection"] == "60.0 of 62.0 s: collective_timeout_s=60"


def test_a_timeout_that_cannot_have_run_out_explains_nothing():
    assert bounds(in_job(noticed_s=10.0), LAUNCHER, "in_job")["detection"] == "5.0 of 10.0 s: workload_check_interval=5"
    without_poll = {"rank_heartbeat_timeout": 30}
    assert bounds(in_job(noticed_s=10.0), without_poll, "in_job")["detection"] == ""


def test_a_setting_of_the_other_layer_explains_nothing():
    assert bounds(in_job(noticed_s=31.0), PROCESS, "in_job")["detection"] == ""
    assert bounds(in_process(noticed_s=31.0), LAUNCHER, "in_process")["detection"] == ""


@pytest.mark.parametrize("junk", [None, "30", True, [30.0, 31.0], -30.0, 0])
def test_a_setting_that_is_no_length_of_time_explains_nothing(junk):
    assert bounds(in_job(noticed_s=31.0), {"rank_heartbeat_timeout": junk}, "in_job")["detection"] == ""


def test_a_part_that_took_no_time_was_spent_on_nothing():
    (found,) = incidents_of(restarted(begun_and_hit(), "g1").finish(), two(fault("boom")))
    assert bounded_by("init", 5, 5, found, OF_THE_GROUP) == ""


def begun_and_hit() -> Story:
    story = begun()
    story.fire("boom", verb="raise_error")
    story.at += 0.1
    return story


def test_an_outage_that_the_same_group_outlived_has_a_detection_and_a_first_step_that_add_up():
    story = begun_and_hit()
    story.controller("hang_detected", rank=1, waited_s=1.0, error_ns=0, text="x")
    story.at += 1.0
    story.train(FAULT_STEP, STEPS).finish()
    parts = verdict_of(story, plan(fault("boom"), recovered_by=("none",))).incidents[0].parts
    assert [part.name for part in parts] == ["detection", "first_step"]
    assert sum(part.time_s for part in parts) == pytest.approx(1.12)
