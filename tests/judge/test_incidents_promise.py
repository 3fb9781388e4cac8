"""Harm beyond what the job promises to survive: a recovery that fails then is unknown, and says why."""

from __future__ import annotations

import pytest
from incident_build import Cast, begun, kill, restarted, with_job
from judge_build import Story, changed, check_of, fault, life, plan

from chaos.model.plan import Plan


def never_back(story: Story | None = None, *, ranks: tuple[int, ...] = (1,), verb: str = "signal_self") -> Story:
    """Our faults end these ranks, and the job ends without having recovered."""
    story = begun(story)
    for rank in ranks:
        story.fire(f"kill{rank}", rank=rank, verb=verb)
        story.exited(rank, signal=9)
    story.at += 0.3
    return story.end(code=1)


def spare_waits(*, count: int = 1) -> Cast:
    """Ranks that were started with the others and are in no group."""
    story = Cast()
    for seat in range(2, 2 + count):
        story.seats[seat] = (life(seat), seat)
        story.rank(seat, "rank_started", at=0.5, pid=1, ppid=50, launcher="boot0000-1-50-5", local_rank=seat)
    return story


def promised(*ranks: int, recovery: tuple[str, ...] = ("in_process",), shrink: bool = False, **changes) -> Plan:
    """A plan for `never_back`: the layers that are switched on are those that must bring the job back."""
    faults = [fault(f"kill{rank}", ranks=(rank,)) for rank in ranks or (1,)]
    base = plan(*faults, **({"recovered_by": recovery} | changes))
    return with_job(base, recovery=recovery, shrink=shrink)


def recovered(story: Story | list, of_plan: Plan) -> tuple[str, str]:
    check = check_of("recovered_in_time", story, of_plan)
    return check.outcome, check.observed


# --- in-process restart


def test_a_rank_lost_for_good_is_more_than_in_process_restart_of_full_size_promises():
    outcome, words = recovered(never_back(), promised())
    assert outcome == "unknown"
    assert "1 rank was down at once; in-process restart had 0 spares and could do without 0" in words


def test_a_rank_lost_for_good_is_what_a_job_that_may_shrink_promises_to_survive():
    assert recovered(never_back(), promised(shrink=True))[0] == "fail"


def test_a_rank_lost_for_good_is_what_a_spare_is_there_for():
    assert recovered(never_back(spare_waits()), promised())[0] == "fail"


def test_two_ranks_gone_with_one_spare_left_is_unknown():
    outcome, words = recovered(never_back(spare_waits(), ranks=(0, 1)), promised(0, 1))
    assert outcome == "unknown" and "2 ranks were down at once; in-process restart had 1 spare and" in words


def test_a_spare_that_had_died_before_is_none():
    story = spare_waits()
    story.controller("process_exited", at=0.9, of=life(2), rank=2, pid=1, role="rank", code=1, signal=None)
    assert recovered(never_back(story), promised())[0] == "unknown"


def test_the_smallest_size_that_the_job_tells_counts():
    told = changed(never_back(), "settings_seen", settings={"min_world_size": 1})
    assert recovered(told, promised())[0] == "fail"
    assert recovered(changed(never_back(), "settings_seen", settings={"min_world_size": 2}), promised())[0] == "unknown"


def test_ranks_that_a_failing_recovery_takes_down_itself_are_no_harm_of_ours():
    story = begun()
    story.fire("kill1", verb="raise_error")
    for rank in (0, 1):
        story.exited(rank, code=1)
    story.at += 0.3
    assert recovered(story.end(code=1), promised())[0] == "fail"


def test_a_rank_that_our_fault_ended_by_itself_counts_as_down():
    story = begun()
    story.fire("kill1", verb="exit_now")
    story.exited(1, code=7)
    story.at += 0.3
    assert recovered(story.end(code=1), promised())[0] == "unknown"


# --- the launcher's restarts


def with_restarts_left(count: int) -> list:
    """Back after one kill; the second is the end of the job."""
    story = restarted(kill(begun()), "g1", until=57)
    kill(story, "again", step=57)
    return changed(story.end(code=1), "settings_seen", settings={"max_restarts": count})


def test_a_launcher_that_had_made_all_its_restarts_promised_no_more():
    of_plan = plan(fault(), fault("again"), restarts=None)
    outcome, words = recovered(with_restarts_left(1), of_plan)
    assert outcome == "unknown" and "its launcher had made all 1 restarts that it may" in words


def test_a_launcher_that_had_restarts_left_is_held_to_the_recovery():
    assert recovered(with_restarts_left(2), plan(fault(), fault("again"), restarts=None))[0] == "fail"


def test_restarts_that_were_used_up_in_the_outage_itself_excuse_nothing():
    """A loop of restarts that never trains is a failed recovery."""
    story = kill(begun())
    for _ in range(3):
        story.generation += 1
        story.start()
        story.exited(0, code=1)
        story.exited(1, signal=15)
    told = changed(story.end(code=1), "settings_seen", settings={"max_restarts": 3})
    assert recovered(told, plan())[0] == "fail"


def test_a_launcher_whose_bound_is_not_known_is_held_to_the_recovery():
    assert recovered(kill(begun()).end(code=1), plan())[0] == "fail"


# --- whatever the promise


def test_a_recovery_that_was_not_promised_and_came_in_time_passes():
    story = restarted(kill(begun()), "g1").finish()
    assert recovered(story, with_job(plan(recovered_by=("in_process",)), recovery=("in_process",)))[0] == "pass"


def test_a_job_without_any_layer_promises_nothing():
    outcome, words = recovered(kill(begun()).end(code=1), plan(recovered_by=()))
    assert outcome == "unknown" and "no layer of NVRx was to bring it back" in words


def test_a_layer_that_the_objective_names_is_promised():
    assert recovered(kill(begun()).end(code=1), plan(recovered_by=("in_job",)))[0] == "fail"


def test_a_job_that_must_need_no_recovery_is_held_to_the_time_that_it_is_given():
    of_plan = plan(recovered_by=("none",), recovery_time_s=1.0)
    assert recovered(kill(begun()).end(code=1), of_plan)[0] == "fail"


@pytest.mark.parametrize("layer", ["new_job", "in_job"])
def test_any_number_of_ranks_is_what_a_restart_of_all_processes_survives(layer):
    assert recovered(never_back(ranks=(0, 1)), promised(0, 1, recovery=(layer,)))[0] == "fail"


def test_a_run_that_was_cut_short_stays_unknown_for_that_reason():
    story = begun()
    story.fire("kill1", rank=1)
    story.exited(1, signal=9)
    story.at += 0.3
    story.controller("stop_requested", reason="limits.timeout", interrupted=False)
    story.at += 0.5
    outcome, words = recovered(story.end(code=None, signal=15), promised())
    assert outcome == "unknown" and "that it was watched" in words
