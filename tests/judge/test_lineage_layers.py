"""How each group came to be: with both layers on, spares that take over, ranks renumbered, launchers of their own."""

from __future__ import annotations

import pytest
from incident_build import Cast, Told, begun, case_of, dies, enter, incidents_of, kill, restarted, with_job
from judge_build import LAUNCHER, STEPS, Story, changed, check_of, fault, life, plan

from chaos.model.plan import Plan, Restarts


def layers(told: Told, of_plan: Plan | None = None) -> list[str]:
    return [group.layer for group in case_of(told, of_plan).lineage.groups]


def both(**changes) -> Plan:
    return with_job(plan(**({"restarts": None} | changes)), recovery=("in_process", "in_job"))


# --- both layers on: a killed worker starts both


def survivor_entered_first() -> Story:
    """The survivor's in-process restart began, and led nowhere: the launcher started both ranks anew."""
    story = begun()
    story.at += 0.01
    fired = story.fire("kill")
    story.exited(1, signal=9)
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="kill", how="x", evidence=[])
    story.at += 0.25
    story.reentry, story.group = 1, None
    story.rank(0, "restart_entered", reported_restart={"iteration": 1})
    story.controller("worker_failed", local_rank=1, pid=101, code=-9, error_ns=0, text="failed")
    story.exited(0, signal=15)
    return restarted(story, "g1").finish()


def survivor_trained_alone() -> Story:
    """A slow launcher: the survivor trained on with a world of one before both were started anew."""
    story = begun()
    story.fire("kill")
    story.exited(1, signal=9)
    story.at += 0.25
    story.reentry = 1
    story.rank(0, "restart_entered", reported_restart={"iteration": 1})
    story.at += 0.1
    story.group = "alone"
    story.rank(0, "process_group_ready", world_size=1, backend="gloo")
    story.train(40, 50, only=[0])
    story.controller("worker_failed", local_rank=1, pid=101, code=-9, error_ns=0, text="failed")
    story.exited(0, signal=15)
    return restarted(story, "g1").finish()


def test_where_both_layers_began_the_launcher_brought_the_job_back_and_the_lost_entry_is_shown():
    (found,) = incidents_of(survivor_entered_first(), both())
    assert found.layer == "in_job"
    assert found.restarts() == {"in_process": 0, "in_job": 1, "abandoned": 1}
    bounded = plan(restarts=Restarts(in_process=0, in_job=1))
    assert check_of("restart_budget", survivor_entered_first(), bounded).outcome == "pass"


def test_a_survivor_that_trained_alone_has_not_recovered_the_job_and_its_restart_counts():
    (found,) = incidents_of(survivor_trained_alone(), both())
    assert (found.layer, found.holding.name) == ("in_job", "g1")
    assert found.restarts() == {"in_process": 1, "in_job": 1, "abandoned": 0}
    assert check_of("world_size", survivor_trained_alone(), both()).outcome == "fail"
    assert check_of("recovered_by", survivor_trained_alone(), both(recovered_by=("in_process",))).outcome == "fail"


def test_steps_that_the_survivor_did_alone_have_to_be_passed_before_the_job_is_steady():
    (found,) = incidents_of(survivor_trained_alone(), both())
    assert found.highest_before == 49 and found.steps_after[0] == 50


# --- spares


def with_spare(*, spare_starts_at: float = 0.5) -> Cast:
    """Ranks 0 and 1 train; a third process waits, and takes rank 1's place when that is killed."""
    story = Cast()
    story.seats[2] = (life(2), 2)
    story.rank(2, "rank_started", at=spare_starts_at, pid=1, ppid=50, launcher=LAUNCHER, local_rank=2, world_size=3)
    begun(story)
    story.fire("kill")
    story.exited(1, signal=9)
    story.at += 0.25
    story.rank(0, "interruption_reported", source="in_process", marker="term_ex", text="TERMINATED")
    story.seats[1] = (life(2), 2)
    story.reentries = {life(0): 1, life(2): 0}
    story.group = None
    story.at += 0.1
    story.rank(0, "restart_entered", reported_restart={"iteration": 1})
    return story.join("g1").load(40).train(40, STEPS).finish()


@pytest.mark.parametrize("starts_at", [0.5, 1.002, 1.3], ids=["before the ranks", "between them", "after them"])
def test_a_spare_that_waited_and_takes_over_comes_by_in_process_restart(starts_at):
    case = case_of(with_spare(spare_starts_at=starts_at), both(recovered_by=("in_process",)))
    assert [group.layer for group in case.lineage.groups] == ["", "in_process"]
    assert case.incidents[0].layer == "in_process" and case.lineage.abandoned_restarts == 0


def test_a_spare_has_the_rank_that_it_took_over_in_the_new_group():
    group = case_of(with_spare()).lineage.groups[1]
    assert group.members == {0: (life(0), 1), 1: (life(2), 0)}
    assert not case_of(with_spare()).lineage.problems


def test_a_process_that_was_started_for_the_restart_is_no_spare():
    story = with_spare(spare_starts_at=2.1)
    told = changed(story, "rank_started", lambda event: event.life == life(2), initial_rank=1)
    assert layers(told) == ["", "in_job"]


# --- shrinking


def shrunk() -> Cast:
    """Three ranks; rank 1 is killed, and the others go on as ranks 0 and 1 of two."""
    story = Cast(world_size=3)
    begun(story)
    story.fire("kill")
    story.exited(1, signal=9)
    story.at += 0.25
    story.rank(0, "interruption_reported", source="in_process", marker="term_ex", text="TERMINATED")
    story.seats[1] = (life(2), 2)
    story.world_size = 2
    enter(story)
    story.join("g1").load(40).train(40, STEPS).finish()
    story.seats = {}
    return story


def three(**changes) -> Plan:
    return with_job(plan(**({"recovered_by": ("in_process",), "restarts": None} | changes)), ranks_per_node=3)


def test_renumbered_ranks_of_a_shrunk_job_are_the_same_processes_in_their_next_entry():
    case = case_of(shrunk(), three(world_size="shrunk"))
    assert [group.layer for group in case.lineage.groups] == ["", "in_process"]
    assert case.lineage.groups[1].members[1] == (life(2), 1)
    assert not case.lineage.problems
    assert case.incidents[0].layer == "in_process" and case.incidents[0].lost_steps == 7


@pytest.mark.parametrize(("wanted", "outcome"), [("shrunk", "pass"), ("same", "fail")])
def test_a_shrunk_world_is_what_was_asked_for_or_not(wanted, outcome):
    check = check_of("world_size", shrunk(), three(world_size=wanted))
    assert check.outcome == outcome and "3 then 2" in check.observed


def test_a_job_that_must_keep_its_size_has_not_recovered_with_fewer_ranks():
    assert incidents_of(shrunk(), three())[0].holding is None


def test_a_name_that_outlived_the_group_is_found_out_though_the_ranks_were_renumbered():
    told = changed(shrunk(), "process_group_ready", lambda event: event.group == "g1", group="g0")
    assert "groups are not told apart: g0" in case_of(told, three()).lineage.problems[0]


# --- launchers


def test_a_new_process_under_a_launcher_that_stood_by_is_a_restart_of_the_job():
    story = kill(begun())
    story.controller("process_appeared", at=0.2, of="boot0000-1-60-6", pid=60, ppid=1, role="launcher", command="x")
    story.generation = 1
    assert layers(story.start(launcher="boot0000-1-60-6").join("g1").train(40, STEPS).finish())[1] == "in_job"


def test_a_new_process_under_a_launcher_that_came_after_is_a_new_job():
    story = kill(begun())
    story.controller("process_appeared", of="boot0000-1-60-6", pid=60, ppid=1, role="launcher", command="x")
    story.generation = 1
    assert layers(story.start(launcher="boot0000-1-60-6").join("g1").train(40, STEPS).finish())[1] == "new_job"


def test_one_launcher_for_each_rank_restarts_only_its_own_and_that_is_the_dearer_layer():
    story = Cast()
    begun(story)
    story.fire("kill")
    story.exited(1, signal=9)
    story.at += 0.3
    story.seats = {0: (life(0), 0), 1: (life(1, 1), 1)}
    story.rank(1, "rank_started", pid=1, ppid=50, launcher=LAUNCHER, local_rank=0, world_size=2)
    story.reentries = {life(0): 1, life(1, 1): 0}
    story.group = None
    story.rank(0, "restart_entered", reported_restart={})
    assert layers(story.join("g1").load(40).train(40, STEPS).finish()) == ["", "in_job"]


def test_a_process_whose_start_was_not_seen_came_by_a_layer_that_was_not_seen():
    told = [
        e for e in restarted(kill(begun()), "g1").finish().events if (e.kind, e.life) != ("rank_started", life(1, 1))
    ]
    assert layers(told) == ["", "unknown"]
    assert check_of("recovered_by", told).outcome == "unknown"


def test_a_third_group_of_the_processes_of_the_second_is_an_in_process_restart():
    story = restarted(kill(begun()), "g1", until=57)
    story.rank(1, "interruption_reported", source="in_process", marker="fn_ex", text="x")
    enter(story)
    assert layers(story.join("g2").load(40).train(40, STEPS).finish()) == ["", "in_job", "in_process"]


def test_a_job_that_was_restarted_before_its_first_step_says_so():
    story = dies(Story().start(), signal=None, code=1)
    assert layers(restarted(story, "g0", resume=0).finish(), plan(fault())) == ["in_job"]
