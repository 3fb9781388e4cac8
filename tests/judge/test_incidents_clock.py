"""From when the recovery of a fault that holds is counted, and what it is held to."""

from __future__ import annotations

import pytest
from incident_build import begun, incidents_of, kill, restarted, two
from judge_build import FAULT_STEP, STEPS, Story, check_of, fault, life, plan

from chaos.model.plan import At, FaultPlan, Plan

HELD_S = 2.0


def hold(story: Story, name: str = "cut", *, rank: int = 1, step: int = FAULT_STEP) -> Story:
    story.at += 0.01
    fired = story.fire(name, rank=rank, by_rank=False, verb="outside", step=step)
    story.controller("fault_confirmed", of=fired.life, rank=rank, fault=name, how="seen", evidence=[])
    return story


def release(story: Story, name: str = "cut", *, of: str | None = None, at: float | None = None) -> Story:
    story.controller("fault_undone", at=at, of=of, fault=name, how="done", measured=True)
    return story


def cut_plan(*more: FaultPlan, clock_from: str = "undone", recovery_time_s: float | None = 1.0, **changes) -> Plan:
    of_plan = {"recovered_by": ("in_job",), "restarts": None, "detection_time_s": None} | changes
    return plan(
        fault("cut", ends="undone", lasts_s=HELD_S), *more, clock_from=clock_from, recovery_time_s=recovery_time_s,
        **of_plan,
    )  # fmt: skip


def outlived(*, slow_s: float = 0.0) -> Story:
    """Held for two seconds; the same group goes on, after a while."""
    story = hold(begun())
    story.at += HELD_S
    release(story)
    story.at += slow_s
    return story.train(FAULT_STEP, STEPS).finish()


def restarted_after(*, slow_s: float = 0.0) -> Story:
    """Held for two seconds, and only then does the launcher bring the ranks back."""
    story = hold(begun())
    story.at += HELD_S
    release(story)
    for rank in (0, 1):
        story.exited(rank, signal=15)
    story.at += slow_s
    return restarted(story, "g1").finish()


def restarted_meanwhile() -> Story:
    """The job did not wait for us: it was back and steady while the fault still held."""
    story = hold(begun())
    story.exited(1, signal=9)
    restarted(story, "g1", until=50)
    release(story)
    return story.train(50, STEPS).finish()


# --- each outcome


def test_a_recovery_within_the_objective_from_the_undo_passes_though_the_fault_held_longer_than_that():
    assert check_of("recovered_in_time", outlived(), cut_plan()).outcome == "pass"
    assert check_of("recovered_in_time", outlived(), cut_plan(clock_from="fired")).outcome == "fail"


def test_a_restart_after_the_undo_is_counted_from_it():
    check = check_of("recovered_in_time", restarted_after(), cut_plan(recovery_time_s=1.4))
    assert (check.outcome, check.observed) == ("pass", "recovered after 1.37 s")


@pytest.mark.parametrize("story", [outlived(slow_s=1.5), restarted_after(slow_s=1.5)], ids=["same", "later group"])
def test_a_recovery_over_the_objective_from_the_undo_fails(story):
    assert check_of("recovered_in_time", story, cut_plan()).outcome == "fail"


def test_a_recovery_before_the_undo_took_no_time_from_it_and_keeps_its_own_from_the_firing():
    (found,) = incidents_of(restarted_meanwhile(), cut_plan())
    assert found.seconds_to(found.recovered_ns) == 0.0 and found.recovered_ns < found.clock_ns
    check = check_of("recovered_in_time", restarted_meanwhile(), cut_plan(clock_from="fired", recovery_time_s=9.0))
    assert check.observed.startswith("recovered after 1.3")


def test_without_an_undo_that_was_seen_the_time_is_unknown():
    story = hold(begun())
    story.at += HELD_S
    story.train(FAULT_STEP, STEPS).finish()
    check = check_of("recovered_in_time", story, cut_plan())
    assert check.outcome == "unknown" and "no undo was seen" in check.observed


def test_a_job_that_never_comes_back_after_the_undo_fails():
    story = hold(begun())
    story.at += HELD_S
    release(story).at += 5.0
    story.controller("stop_requested", reason="limits.timeout", interrupted=False)
    story.at += 1.0
    story.end(code=None, signal=15)
    assert check_of("recovered_in_time", story, cut_plan()).outcome == "fail"


def test_a_job_that_was_not_watched_long_enough_after_the_undo_is_unknown():
    story = hold(begun())
    story.at += HELD_S
    release(story).at += 0.5
    story.controller("stop_requested", reason="limits.timeout", interrupted=False)
    story.at += 1.0
    story.end(code=None, signal=15)
    assert check_of("recovered_in_time", story, cut_plan()).outcome == "unknown"


def test_a_time_from_the_undo_is_not_asked_of_a_job_that_must_need_no_recovery():
    check = check_of("recovered_in_time", outlived(), cut_plan(recovered_by=("none",), recovery_time_s=None))
    assert check.outcome == "not_asked"


def test_a_step_that_was_under_way_when_the_fault_came_is_no_recovery_from_the_standstill_after_it():
    story = hold(begun())
    story.train(FAULT_STEP, FAULT_STEP + 1, step_s=0.005)  # its collectives were through
    story.at += HELD_S
    release(story).train(FAULT_STEP + 1, STEPS).finish()
    (found,) = incidents_of(story, cut_plan(clock_from="fired"))
    assert found.seconds_to(found.recovered_ns) > HELD_S


def test_steps_that_follow_each_other_after_a_fault_count_from_the_first():
    story = hold(begun(), "nudge")
    story.at -= 0.015  # the step was nearly done
    (found,) = incidents_of(story.train(FAULT_STEP, STEPS).finish(), two(fault("nudge")))
    assert found.seconds_to(found.recovered_ns) == pytest.approx(0.009)


# --- which undo


def test_a_fault_that_nothing_takes_back_is_over_as_it_fires_even_where_the_clock_is_from_the_undo():
    (found,) = incidents_of(restarted(kill(begun()), "g1").finish(), two(fault(), clock_from="undone"))
    assert found.clock_ns == found.faults[0].t_ns


def test_of_two_ranks_that_one_fault_holds_the_clock_starts_with_the_later_undo():
    story = hold(hold(begun(), rank=0), rank=1)
    story.at += 1.0
    release(story, of=life(0))
    story.at += 1.0
    release(story, of=life(1))
    (found,) = incidents_of(story.train(FAULT_STEP, STEPS).finish(), cut_plan())
    assert found.clock_ns - found.begun_ns == pytest.approx(2.01e9)


def test_of_two_ranks_that_one_fault_holds_both_undos_must_be_seen():
    story = hold(hold(begun(), rank=0), rank=1)
    story.at += 1.0
    release(story, of=life(0))
    (found,) = incidents_of(story.train(FAULT_STEP, STEPS).finish(), cut_plan())
    assert found.clock_ns is None


def test_the_undo_of_an_earlier_outage_starts_no_clock_of_a_later_one():
    story = hold(begun())
    story.at += HELD_S
    release(story)
    story.train(FAULT_STEP, 58)
    hold(story, "cut2", step=58)
    story.at += HELD_S
    release(story, "cut2")
    story.train(58, STEPS).finish()
    second = fault("cut2", ends="undone", at=At(step=58))
    first, last = incidents_of(story, cut_plan(second))
    assert first.clock_ns < last.begun_ns < last.clock_ns


def test_a_fault_that_fires_again_under_its_name_has_an_undo_for_each_firing():
    story = Story(steps=80)
    for step in (FAULT_STEP, 62):
        begun(story) if step == FAULT_STEP else story.train(FAULT_STEP, step)
        hold(story, step=step).at += HELD_S
        release(story)
    first, last = incidents_of(story.train(62, 80).finish(), cut_plan())
    assert first.clock_ns - first.begun_ns == last.clock_ns - last.begun_ns == pytest.approx(2e9)


def test_a_fault_that_fires_while_another_still_holds_joins_it_where_the_clock_is_from_the_undo():
    def told() -> Story:
        story = hold(begun())
        story.exited(1, signal=9)
        restarted(story, "g1", until=54)
        kill(story, "kill", rank=0, step=54)
        release(story)
        return restarted(story, "g2").finish()

    of_fault = (fault("kill", ranks=(0,)),)
    assert [found.names for found in incidents_of(told(), cut_plan(*of_fault))] == [("cut", "kill")]
    fired = incidents_of(told(), cut_plan(*of_fault, clock_from="fired"))
    assert [found.names for found in fired] == [("cut",), ("kill",)]


def test_a_restart_that_the_undo_sets_off_belongs_to_the_fault():
    """The job was steady again while it was cut off; when it is healed all ranks start anew."""
    story = hold(begun())
    story.exited(1, signal=9)
    restarted(story, "g1", until=58)
    release(story)
    story.at += 0.2
    (found,) = incidents_of(restarted(story, "g2").finish(), cut_plan())
    assert found.holding.name == "g2" and found.restarts()["in_job"] == 2


def test_a_hang_that_nvrx_ended_counts_from_when_it_was_seen_to_be_gone():
    story = hold(begun(), "hang")
    story.at += 3.0
    story.controller("hang_detected", rank=1, waited_s=3.0, error_ns=0, text="no heartbeat")
    story.exited(1, signal=9)
    story.controller("fault_undone", of=life(1), fault="hang", how="gone", measured=True)
    restarted(story, "g1").finish()
    (found,) = incidents_of(story, two(fault("hang"), clock_from="undone"))
    assert found.seconds_to(found.recovered_ns) == pytest.approx(1.374)
    assert found.detection_s == pytest.approx(3.0)
