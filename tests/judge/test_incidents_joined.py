"""Several faults in one run: which make one outage, and from when its times count."""

from __future__ import annotations

import pytest
from incident_build import begun, case_of, enter, incidents_of, kill, reentered, restarted, two
from judge_build import FAULT_STEP, STEPS, Story, check_of, fault, life, plan, verdict_of

from chaos.model.plan import At


def twice(name: str = "again", *, between: int = 57) -> Story:
    """Killed in step 47, back, steady, and killed again in step `between`."""
    story = kill(begun())
    restarted(story, "g1", until=between)
    kill(story, name, rank=0, step=between)
    return restarted(story, "g2").finish()


AGAIN = fault("again", ranks=(0,), at=At(step=57, phase="backward", point="in_collective"))


# --- each its own


def test_two_faults_with_a_recovery_between_them_are_two_outages_with_their_own_times():
    first, second = incidents_of(twice(), two(fault(), AGAIN))
    assert (first.names, second.names) == (("kill",), ("again",))
    assert first.seconds_to(first.recovered_ns) == pytest.approx(second.seconds_to(second.recovered_ns))
    assert first.limit_ns == second.begun_ns
    assert (first.before.name, first.holding.name, second.before.name, second.holding.name) == ("g0", "g1", "g1", "g2")


def test_each_outage_has_the_steps_that_it_lost_and_the_restart_that_it_took():
    first, second = incidents_of(twice(), two(fault(), AGAIN))
    assert (first.lost_steps, second.lost_steps) == (7, 17)
    assert first.restarts() == second.restarts() == {"in_process": 0, "in_job": 1, "abandoned": 0}


def test_a_run_of_two_outages_passes_where_the_first_was_steady_again_before_the_second():
    story = kill(begun(Story(steps=80)))
    restarted(story, "g1", until=58)
    story.at += 0.01
    kill(story, "again", rank=0, step=58)
    restarted(story, "g2", until=80).finish()
    again = fault("again", ranks=(0,), at=At(step=58, phase="backward", point="in_collective"))
    checks = verdict_of(story, two(fault(), again)).checks
    told = {check.name: check.outcome for check in checks}
    assert told["steady_after"] == told["recovered_in_time"] == told["recovered_by"] == "pass"


def test_an_outage_that_the_next_one_cut_short_leaves_steady_after_unknown():
    check = check_of("steady_after", twice(between=50), two(fault(), AGAIN))
    assert check.outcome == "unknown" and "another outage came first" in check.observed


def test_the_second_recovery_is_held_to_the_objective_as_the_first_is():
    story = kill(begun())
    restarted(story, "g1", until=57)
    kill(story, "again", rank=0, step=57)
    story.at += 9.0
    restarted(story, "g2").finish()
    check = check_of("recovered_in_time", story, two(fault(), AGAIN))
    assert check.outcome == "fail" and check.observed.startswith("recovered after 10.")


def test_the_same_kind_of_fault_in_the_same_rank_twice_is_two_outages_with_their_own_evidence():
    story = kill(begun())
    restarted(story, "g1", until=57)
    kill(story, "once-more", rank=1, step=57)
    restarted(story, "g2").finish()
    first, second = incidents_of(story, two(fault(), fault("once-more")))
    assert first.detection.event is not second.detection.event
    assert first.faults[0].life == life(1) and second.faults[0].life == life(1, 1)


def test_a_fault_that_the_job_shrugs_off_is_an_outage_of_its_own_though_the_next_one_comes_before_it_is_steady():
    story = begun(until=42)
    story.fire("nudge", rank=0, step=42)
    story.train(42, FAULT_STEP)
    restarted(kill(story), "g1").finish()
    first, second = incidents_of(story, two(fault("nudge", ranks=(0,)), fault()))
    assert (first.layer, second.layer) == ("none", "in_job")
    assert first.holding.name == "g0" and first.recovered_ns < second.begun_ns


def test_a_word_of_nvrx_between_two_faults_makes_them_one_outage_unless_the_job_was_steady():
    story = begun(until=42)
    story.fire("nudge", rank=0, step=42)
    story.rank(1, "interruption_reported", source="in_process", marker="fn_ex", text="x")
    story.train(42, FAULT_STEP)
    restarted(kill(story), "g1").finish()
    assert [found.names for found in incidents_of(story, two(fault("nudge"), fault()))] == [("nudge", "kill")]


# --- joined


def test_a_fault_before_the_first_recovered_step_joins_and_recovery_counts_from_it_detection_from_the_first():
    story = kill(begun())
    first = next(event for event in story.events if event.kind == "fault_fired")
    second = story.fire("again", rank=0)
    restarted(story, "g1").finish()
    (joined,) = incidents_of(story, two(fault(), AGAIN))
    assert (joined.begun_ns, joined.clock_ns) == (first.t_ns, second.t_ns)
    assert joined.detection_s == pytest.approx(0.31)
    assert joined.seconds_to(joined.recovered_ns) == pytest.approx((joined.recovered_ns - second.t_ns) / 1e9)


def during(phase: str) -> Story:
    """The second fault hits a new process while the job recovers from the first."""
    story = kill(begun())
    story.generation = 1
    story.start()
    if phase == "checkpoint_load":
        story.join("g1")
    story.ranks("phase_entered", phase=phase, step=None)
    story.fire("again", rank=0, step=None, phase=phase, point="entry")
    story.exited(0, signal=9)
    story.exited(1, signal=15)
    return restarted(story, "g2").finish()


@pytest.mark.parametrize("phase", ["rendezvous", "checkpoint_load"])
def test_a_fault_inside_the_recovery_of_another_joins_it_and_the_restart_it_spoiled_is_counted_apart(phase):
    (joined,) = incidents_of(during(phase), two(fault(), AGAIN))
    assert joined.names == ("kill", "again")
    assert joined.layer == "in_job" and joined.lost_steps == 7
    assert joined.restarts() == {"in_process": 0, "in_job": 1, "abandoned": 1}


def test_a_fault_when_only_one_rank_had_stepped_again_joins():
    story = kill(begun())
    restarted(story, "g1", until=40)
    story.train(40, 41, only=[0])
    story.at += 0.001
    kill(story, "again", rank=0, step=41)
    restarted(story, "g2").finish()
    (joined,) = incidents_of(story, two(fault(), AGAIN))
    assert joined.holding.name == "g2" and joined.restarts()["in_job"] == 2


def test_three_faults_of_which_the_last_two_overlap_are_two_outages():
    story = kill(begun())
    restarted(story, "g1", until=57)
    story.fire("one", rank=0, step=57)
    story.at += 0.1
    kill(story, "two", step=57)
    restarted(story, "g2").finish()
    found = incidents_of(story, two(fault(), fault("one"), fault("two")))
    assert [incident.names for incident in found] == [("kill",), ("one", "two")]


def test_a_fault_in_an_in_process_restart_joins_and_the_entry_that_led_nowhere_is_shown():
    story = begun()
    story.fire("boom", verb="raise_error")
    story.at += 0.2
    enter(story)
    story.ranks("phase_entered", phase="rendezvous", step=None)
    story.fire("again", rank=0, verb="raise_error", step=None, phase="rendezvous", point="entry")
    reentered(story, "g1").finish()
    (joined,) = incidents_of(story, two(fault("boom"), AGAIN, recovered_by=("in_process",)))
    assert joined.layer == "in_process"
    assert joined.restarts() == {"in_process": 1, "in_job": 0, "abandoned": 1}


# --- faults that must cause nothing


def unharmed(*, restart: bool = False) -> Story:
    story = begun()
    story.fire("nudge", rank=0)
    if restart:
        story.rank(0, "interruption_reported", source="in_process", marker="fn_ex", text="x")
        return reentered(story, "g1").finish()
    return story.train(FAULT_STEP, STEPS).finish()


NOTHING = {"recovered_by": ("none",), "recovery_time_s": None, "detection_time_s": None, "restarts": None}


def test_a_fault_that_must_cause_nothing_and_does_passes_and_is_steady_in_the_same_group():
    verdict = verdict_of(unharmed(), plan(fault("nudge", ranks=(0,)), **NOTHING))
    assert verdict.check("recovered_by").outcome == verdict.check("steady_after").outcome == "pass"
    assert verdict.check("recovered_in_time").outcome == "not_asked"
    assert verdict.incidents[0].recovered_by == "none"


def test_a_fault_that_must_cause_nothing_and_causes_a_restart_fails():
    check = check_of("recovered_by", unharmed(restart=True), plan(fault("nudge", ranks=(0,)), **NOTHING))
    assert check.outcome == "fail" and "where nothing had to restart" in check.observed


def test_a_fault_before_the_first_step_that_nothing_had_to_restart_for_is_outlived():
    story = Story().start()
    story.fire("nudge", rank=0, step=None, phase="init", point="entry")
    story.join("g0").train(0, STEPS).finish()
    (found,) = incidents_of(story, two(fault("nudge", at=At(phase="init"))))
    assert found.layer == "none" and found.lost_steps == 0 and found.restarts()["in_job"] == 0


def test_a_job_without_any_fault_has_no_outage():
    story = begun()
    assert incidents_of(story.train(FAULT_STEP, STEPS).finish(), plan()) == ()


# --- the ranks' time order is kept whatever happens


def test_outages_come_in_order_of_time_those_of_nobody_among_them():
    story = kill(begun())
    restarted(story, "g1", until=57)
    story.generation += 1
    story.start().join("g2").load(40).train(40, 58)
    kill(story, "again", rank=0, step=58)
    restarted(story, "g3").finish()
    found = case_of(story, two(fault(), AGAIN)).incidents
    assert [incident.names for incident in found] == [("kill",), (), ("again",)]
    assert [incident.begun_ns for incident in found] == sorted(incident.begun_ns for incident in found)
