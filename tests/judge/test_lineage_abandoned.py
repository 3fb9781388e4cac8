"""Restarts that led nowhere: shown with the outage they belong to, and never counted against a budget."""

from __future__ import annotations

from incident_build import begun, case_of, enter, incidents_of, kill, restarted, two
from judge_build import LAUNCHER, STEPS, Story, check_of, fault, killed, life, plan, verdict_of

from chaos.judge.abandoned import Attempt, count
from chaos.model.plan import At


def lost_restart(story: Story, group: str | None = None) -> Story:
    """New processes that end before they did a step; with a name they had formed a group."""
    story.generation += 1
    story.start()
    if group:
        story.join(group)
    story.exited(0, code=1)
    story.exited(1, signal=15)
    story.at += 0.1
    return story


def test_a_run_without_restarts_that_led_nowhere_has_none():
    assert case_of(killed()).lineage.abandoned_restarts == 0


def test_new_processes_that_died_before_any_group_are_one_restart_however_many_ranks():
    story = restarted(lost_restart(kill(begun())), "g1").finish()
    (found,) = incidents_of(story, two(fault()))
    assert found.restarts() == {"in_process": 0, "in_job": 1, "abandoned": 1}
    assert check_of("restart_budget", story).outcome == "pass"


def test_each_restart_that_led_nowhere_counts():
    story = lost_restart(lost_restart(lost_restart(kill(begun())), "lost"))
    assert incidents_of(restarted(story, "g1").finish(), two(fault()))[0].abandoned == 3


def test_a_group_that_did_no_step_is_not_counted_again_for_its_processes():
    story = restarted(lost_restart(kill(begun()), "lost"), "g1").finish()
    assert incidents_of(story, two(fault()))[0].abandoned == 1


def test_entries_without_a_group_are_one_restart_for_all_ranks():
    story = begun()
    story.fire("boom", verb="raise_error")
    story.at += 0.1
    enter(story).at += 0.1
    enter(story).at += 0.1
    assert incidents_of(restarted(story, "g1").finish(), two(fault("boom")))[0].abandoned == 2


def test_only_processes_that_ended_led_nowhere_and_not_those_that_still_wait():
    story = kill(begun())
    story.generation = 1
    story.start()
    story.at += 20.0
    story.controller("stop_requested", reason="limits.timeout", interrupted=False)
    story.at += 0.1
    story.exited(0, signal=15)
    story.exited(1, signal=15)
    assert incidents_of(story.end(code=None, signal=15), two(fault()))[0].abandoned == 0


def test_the_first_processes_and_the_first_group_of_a_job_are_no_restart():
    story = Story().start().join("never-stepped")
    story.exited(0, code=1)
    story.exited(1, code=1)
    assert case_of(restarted(story, "g0", resume=0).finish()).lineage.abandoned_restarts == 0


def test_a_spare_of_a_new_generation_that_was_never_needed_is_no_restart():
    story = kill(begun())
    story.generation = 1
    story.start()
    for generation in (0, 1):
        story.generation = generation
        story.rank(2, "rank_started", at=story.at if generation else 0.5, pid=1, ppid=50, launcher=LAUNCHER)
    story.join("g1").load(40).train(40, STEPS)
    story.exited(2, signal=15)
    story.controller("process_exited", at=2.2, of=life(2), rank=2, pid=1, role="rank", code=None, signal=15)
    assert case_of(story.finish()).lineage.abandoned_restarts == 0


def test_each_outage_has_the_restarts_that_led_nowhere_in_its_own_time():
    story = restarted(lost_restart(kill(begun())), "g1", until=57)
    story.at += 0.01
    kill(story, "again", step=57)
    lost_restart(lost_restart(story))
    restarted(story, "g4").finish()
    of_plan = two(fault(), fault("again", at=At(step=57, phase="backward", point="in_collective")))
    assert [found.abandoned for found in incidents_of(story, of_plan)] == [1, 2]
    assert [found.restarts["abandoned"] for found in verdict_of(story, of_plan).incidents] == [1, 2]
    assert "(and 3 that led nowhere)" in check_of("restart_budget", story, plan()).observed


def test_of_entries_and_processes_the_rank_with_most_decides():
    two_of_one = [Attempt(1, "entry", "a"), Attempt(2, "entry", "a"), Attempt(2, "entry", "b")]
    assert count(two_of_one) == 2
    assert count([*two_of_one, Attempt(3, "life", 0), Attempt(3, "life", 1), Attempt(4, "group", "g")]) == 4
