"""Rules that hold over all checks: noise, blindness, interruption, joining of faults, determinism."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_build import (
    FAULT_STEP,
    STEPS,
    Story,
    changed,
    check_of,
    controls,
    excepted,
    fault,
    healthy,
    hung,
    killed,
    life,
    outlived,
    plan,
    plan_for,
    plan_of_control,
    verdict_of,
    without,
)

from chaos.judge.checks.registry import REGISTRY
from chaos.judge.judge import judge
from chaos.model.events import Blind
from chaos.model.plan import At, Plan

# --- noise can excuse only what it can explain


def under_load(*, delay_s: float, foreign_s: float, steal_s: float = 0.0, rank: int = 0) -> Story:
    """`killed()`, whose recovery takes 1.96 s from 1.95 s on; meanwhile a rank of the new lives waited for a CPU."""
    story = killed()
    story.events = without(story, "machine_measured")
    for at, share in ((1.9, 0.0), (2.9, 0.5), (3.9, 1.0)):
        delays = {life(rank, 1): delay_s * share} if at > 2 else {}
        story.controller(
            "machine_measured", at=at, steal_s=steal_s * share, foreign_cpu_s=foreign_s * share, run_delay_s=delays
        )
    return story


def recovery_check(story: Story, objective_s: float):
    check = check_of("recovered_in_time", story, plan(recovery_time_s=objective_s))
    return check.outcome, check.observed


def test_an_objective_of_a_tenth_of_the_recovery_fails_on_an_idle_machine():
    assert recovery_check(killed(), 0.196)[0] == "fail"


def test_an_objective_of_a_tenth_of_the_recovery_fails_on_a_loaded_machine_that_explains_too_little():
    assert recovery_check(under_load(delay_s=0.6, foreign_s=4.0), 0.196)[0] == "fail"


def test_between_objective_and_excuse_it_is_unknown_and_says_what_was_withheld():
    outcome, words = recovery_check(under_load(delay_s=0.6, foreign_s=4.0), 1.5)
    assert outcome == "unknown" and "the machine withheld 0.6 s of 2.0 s" in words


def test_a_run_delay_that_others_did_not_cause_excuses_nothing():
    assert recovery_check(under_load(delay_s=0.6, foreign_s=0.0), 1.5)[0] == "fail"


def test_steal_excuses_as_foreign_cpu_does():
    assert recovery_check(under_load(delay_s=0.6, foreign_s=0.0, steal_s=1.0), 1.5)[0] == "unknown"


def test_foreign_cpu_without_any_run_delay_excuses_nothing():
    assert recovery_check(under_load(delay_s=0.0, foreign_s=9.0), 1.5)[0] == "fail"


def test_an_unread_sample_excuses_nothing():
    story = under_load(delay_s=0.6, foreign_s=4.0)
    story.events = changed(story, "machine_measured", lambda event: event.data["foreign_cpu_s"] > 0, foreign_cpu_s=None)
    assert recovery_check(story, 1.5)[0] == "fail"


def test_without_samples_nothing_is_excused():
    story = killed()
    story.events = without(story, "machine_measured")
    assert recovery_check(story, 1.9)[0] == "fail"


def test_noise_before_the_fault_excuses_nothing():
    story = killed()
    story.events = without(story, "machine_measured")
    for at, spent in ((0.1, 0.0), (1.0, 5.0), (1.9, 5.0), (9.9, 5.0)):
        delays = {life(0): spent / 2}
        story.controller("machine_measured", at=at, steal_s=0.0, foreign_cpu_s=spent, run_delay_s=delays)
    assert recovery_check(story, 1.5)[0] == "fail"


def test_noise_never_fails_what_is_within_the_objective():
    assert recovery_check(under_load(delay_s=0.6, foreign_s=4.0), 2.0)[0] == "pass"


def test_a_slow_machine_after_the_recovery_is_no_slow_job():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40)
    story.sample(foreign=0.0, delay=0.0)
    story.train(40, STEPS, step_s=0.04)
    story.sample(foreign=2.0, delay=0.8)
    check = check_of("steady_after", story.finish())
    assert check.outcome == "unknown" and "the machine withheld" in check.observed


# --- blindness


@pytest.mark.parametrize("source", ["rank", "controller", "manifest", "group", "launcher_log", "control", "whatever"])
def test_with_any_source_blind_a_run_is_never_passed(source):
    verdict = verdict_of(killed(), blind=[Blind(source=source, reason="rank-1.jsonl is cut before line 7")])
    assert verdict.outcome == "unknown"
    assert "rank-1.jsonl is cut before line 7" in verdict.sentence


@pytest.mark.parametrize("spec", [spec for spec in REGISTRY if spec.body], ids=lambda spec: spec.name)
def test_a_check_without_its_source_is_unknown_with_the_reason(spec):
    for source in spec.needs:
        verdict = verdict_of(killed(), plan(added=(spec.name,)), blind=[Blind(source=source, reason="why it is blind")])
        check = verdict.check(spec.name)
        assert check.outcome == "unknown" and "why it is blind" in check.observed


def test_a_blind_source_is_named_once_with_the_checks_that_it_concerns():
    sentence = verdict_of(killed(), blind=[Blind(source="manifest", reason="the manifest is missing")]).sentence
    assert sentence.count("the manifest is missing") == 1
    assert sentence.startswith("unknown: steady_before, faults_fired_as_planned, fault_took_effect and ")


def test_the_manifest_missing_leaves_no_check_that_rests_on_files():
    verdict = verdict_of(killed(), blind=[Blind(source="manifest", reason="missing")])
    assert {check.outcome for check in verdict.checks} == {"unknown", "not_asked"}


def test_a_source_that_says_itself_that_it_is_blind_is_heeded():
    story = killed()
    story.rank(0, "source_blind", source="rank", reason="cannot write events: no space")
    check = check_of("recovered_in_time", story)
    assert check.outcome == "unknown" and "no space" in check.observed


def test_an_event_without_what_it_is_for_blinds_its_source():
    run = changed(killed(), "step_done", lambda event: event.data["step"] == 50, step="fifty")
    assert verdict_of(run).outcome == "unknown"
    assert "without a usable 'step'" in check_of("lost_work", run).observed


def test_a_step_of_a_nameless_group_leaves_groups_not_told_apart():
    run = changed(killed(), "step_done", lambda event: event.data["step"] == 50, group=None)
    assert "in a group without a name" in check_of("recovered_by", run).observed


# --- the job that never gets there


def test_a_job_that_dies_at_start_is_unknown_for_the_fault_and_the_sentence_carries_its_reason():
    verdict = verdict_of(Story().start().end(code=1, reason="ModuleNotFoundError: torch"))
    assert verdict.outcome == "unknown"
    assert "never steady" in verdict.sentence and "ModuleNotFoundError: torch" in verdict.sentence


def test_the_last_lines_of_a_job_that_died_are_in_the_verdict():
    story = Story().start().end(code=1, reason="ended by itself")
    run = changed(story, "job_finished", last_lines=["Traceback", "", "ImportError: torch"])
    assert "Traceback | ImportError: torch" in verdict_of(run).sentence


def test_a_control_that_dies_at_start_is_failed():
    assert verdict_of(Story().start().end(code=1), plan_of_control()).outcome == "failed"


def test_a_run_without_any_event_is_unknown():
    assert verdict_of([]).outcome == "unknown"


# --- interruption


def cut_short(story: Story, at: float, *, interrupted: bool = True) -> Story:
    """Someone ended the run at that moment: what came later did not happen."""
    limit = 1_000_000_000 + round(at * 1e9)
    story.events = [event for event in story.events if event.t_ns <= limit]
    story.at = at
    story.controller("stop_requested", reason="SIGINT", interrupted=interrupted)
    story.at += 0.5
    story.controller("worker_failed", local_rank=0, pid=1, code=-15, log="l:1", error_ns=0, text="stopped")
    return story.end(code=None, signal=15)


def test_a_run_that_we_stopped_is_never_passed_whatever_was_dropped():
    base = plan()
    held_to = msgspec.structs.replace(base.objective, dropped=("job_finished", "no_residue", "data_exactly_once"))
    stopped = cut_short(killed(), 4.6, interrupted=False)
    verdict = verdict_of(stopped, msgspec.structs.replace(base, objective=held_to))
    assert {check.outcome for check in verdict.checks} == {"pass", "not_asked"}
    assert verdict.outcome == "unknown" and "we stopped the run" in verdict.sentence


def test_an_interrupted_run_is_unknown_and_its_sentence_begins_with_it():
    verdict = verdict_of(cut_short(killed(), 2.2))
    assert verdict.interrupted and verdict.outcome == "unknown"
    assert verdict.sentence.startswith("interrupted")
    assert "interrupted" in verdict.check("steady_after").observed


def test_what_was_decided_before_an_interruption_stands():
    verdict = verdict_of(cut_short(killed(), 4.0), plan(recovery_time_s=1.0))
    assert verdict.outcome == "failed" and verdict.sentence.startswith("interrupted")
    assert verdict.check("recovered_in_time").outcome == "fail"
    assert verdict.check("fault_took_effect").outcome == "pass"


def test_an_interruption_before_the_fault_fails_nothing():
    verdict = verdict_of(cut_short(killed(), 1.6))
    assert [check.name for check in verdict.checks if check.outcome == "fail"] == []


def test_what_the_job_does_after_we_stopped_it_is_not_held_against_it():
    verdict = verdict_of(cut_short(healthy(), 2.0), plan_of_control())
    assert [check.name for check in verdict.checks if check.outcome == "fail"] == []


def test_an_interruption_after_the_end_is_still_no_pass():
    story = killed()
    story.controller("stop_requested", reason="SIGINT", interrupted=True)
    verdict = verdict_of(story)
    assert verdict.outcome == "unknown" and verdict.sentence.startswith("interrupted")


# --- incidents


def test_a_ghost_step_of_the_stopped_rank_is_no_recovery():
    verdict = verdict_of(hung(), plan_for("hang"))
    assert verdict.incidents[0].recovered_by == "in_job"
    assert verdict.incidents[0].recovery_time_s == pytest.approx(4.694)
    assert verdict.incidents[0].lost_steps == 8


def test_a_ghost_step_and_nothing_after_it_is_no_recovery():
    story = hung()
    story.events = [event for event in story.events if event.group != "g1"]
    assert verdict_of(story, plan_for("hang")).incidents[0].recovered_by is None


def test_a_fault_that_the_same_group_outlives_recovers_in_the_same_group():
    incident = verdict_of(outlived(), plan_for("hang", recovered_by=("none",))).incidents[0]
    assert incident.recovered_by == "none" and incident.restarts["in_job"] == 0
    assert incident.recovery_time_s == pytest.approx(1.024)


def test_a_fault_before_the_first_recovered_step_joins_the_outage_and_restarts_its_clock():
    story = killed()
    joined = plan(fault(), fault("kill2", ranks=(0,)))
    story.fire("kill2", rank=0)
    late = story.events.pop()
    first = next(event for event in story.events if event.kind == "fault_fired")
    story.events.append(replace(late, t_ns=first.t_ns + 300_000_000))
    incidents = verdict_of(story, joined).incidents
    assert [incident.faults for incident in incidents] == [("kill", "kill2")]
    assert incidents[0].recovery_time_s == pytest.approx(1.664)


def test_a_fault_before_the_first_step_is_recovered_by_the_first_group_that_steps():
    story = Story().start()
    fired = story.fire("kill", step=None, phase="init", point="entry")
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="kill", how="x")
    story.generation = 1
    story.start().join("g0").train(0, STEPS).finish()
    early = plan(fault(at=At(phase="init")), detection_time_s=None)
    incident = verdict_of(story, early).incidents[0]
    assert incident.recovered_by == "in_job" and incident.lost_steps == 0
    assert incident.recovery_time_s == pytest.approx(1.224)


def test_a_group_in_which_only_one_rank_stepped_is_no_recovery():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, STEPS, only=[0]).end(code=1)
    incident = verdict_of(story).incidents[0]
    assert incident.recovered_by is None and incident.recovery_time_s is None
    assert incident.restarts["in_job"] == 1


def test_a_job_that_shrinks_recovers_with_the_ranks_that_are_left():
    story = killed(resumed=False)
    story.generation, story.world_size = 1, 1
    story.start().join("g1").load(40).train(40, STEPS).finish()
    verdict = verdict_of(story, plan(world_size="shrunk"))
    assert verdict.incidents[0].recovered_by == "in_job"
    assert verdict.check("world_size").outcome == "pass"
    assert verdict.check("job_finished").outcome == "pass"
    assert verdict_of(story).check("world_size").outcome == "fail"


def test_a_group_of_one_old_and_one_new_process_came_by_the_dearer_layer():
    story = killed()
    story.events = [
        replace(event, life=life(0), reentry=1)
        if (event.life, event.rank) == (life(0, 1), 0) and event.group == "g1"
        else event
        for event in story.events
    ]
    assert verdict_of(story).incidents[0].recovered_by == "in_job"


def test_of_two_faults_the_one_without_evidence_is_unknown():
    story = killed()
    story.fire("other", rank=0)
    story.events[-1] = replace(story.events[-1], t_ns=1_000_000_000 + round(2.2e9))
    check = check_of("fault_took_effect", story, plan(fault(), fault("other", ranks=(0,))))
    assert check.outcome == "unknown" and "other: no outside evidence" in check.observed


def test_a_fault_after_recovery_is_an_outage_of_its_own():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 58)
    story.fire("again", step=58)
    story.generation = 2
    story.start().join("g2").load(40).train(40, STEPS).finish()
    incidents = verdict_of(
        story,
        plan(fault(), fault("again")),
    ).incidents
    assert [incident.faults for incident in incidents] == [("kill",), ("again",)]
    assert [incident.recovered_by for incident in incidents] == ["in_job", "in_job"]
    assert [incident.lost_steps for incident in incidents] == [7, 18]


def test_a_restart_that_no_fault_explains_is_an_outage_of_its_own_and_counts():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 58)
    story.generation = 2
    verdict = verdict_of(story.start().join("g2").load(40).train(40, STEPS).finish())
    assert [incident.faults for incident in verdict.incidents] == [("kill",), ()]
    assert verdict.check("restart_budget").outcome == "fail"


def test_a_restart_that_led_to_no_step_is_abandoned_and_not_counted():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("lost")
    story.generation = 2
    verdict = verdict_of(story.start().join("g1").load(40).train(40, STEPS).finish())
    assert verdict.incidents[0].restarts == {"in_process": 0, "in_job": 1, "abandoned": 1}
    assert verdict.check("restart_budget").outcome == "pass"


@pytest.mark.parametrize(
    ("story", "of_plan"), [(killed(), plan()), (excepted(), plan_for("boom")), (hung(), plan_for("hang"))]
)
def test_parts_are_contiguous_and_add_up_to_the_recovery(story, of_plan):
    verdict, timeline = judge(of_plan, story.events, (), controls(), run_id="r")
    incident = verdict.incidents[0]
    assert sum(part.time_s for part in incident.parts) == pytest.approx(incident.recovery_time_s)
    spans = [span for span in timeline.spans if span.kind == "recovery_part"]
    assert all(one.end_s == pytest.approx(other.start_s) for one, other in pairwise(spans))
    assert spans[0].name == "detection" and spans[-1].name == "first_step"


def test_a_hang_s_detection_names_the_heartbeat_timeout_it_was_spent_on():
    parts = {part.name: part for part in verdict_of(hung(), plan_for("hang")).incidents[0].parts}
    assert parts["detection"].bounded_by == "3.0 of 3.1 s: heartbeat_timeout_s=3"
    assert parts["start"].bounded_by == ""


def test_a_process_that_was_noticed_late_takes_no_time_from_the_parts_after_it():
    story = killed()
    is_new = lambda event: event.life in (life(0, 1), life(1, 1))  # noqa: E731 - shorter than its name
    story.events = changed(story, "process_appeared", is_new, t_ns=1_000_000_000 + round(9e9))
    parts = {part.name: part.time_s for part in verdict_of(story).incidents[0].parts}
    assert parts["rendezvous"] == pytest.approx(0.2) and parts["checkpoint_load"] == pytest.approx(0.1)


def test_a_timeout_of_silence_that_began_before_the_fault_still_explains_the_detection():
    story = hung()
    settings_seen = {"heartbeat_timeout_s": 3.3}
    story.events = changed(story, "settings_seen", settings=settings_seen)
    parts = {part.name: part for part in verdict_of(story, plan_for("hang")).incidents[0].parts}
    assert parts["detection"].bounded_by == "3.1 of 3.1 s: heartbeat_timeout_s=3.3"


def test_a_part_whose_end_was_not_seen_gives_its_time_to_the_next_one():
    story = killed()
    story.events = without(story, "process_appeared")
    incident = verdict_of(story).incidents[0]
    assert sum(part.time_s for part in incident.parts) == pytest.approx(incident.recovery_time_s)


# --- the verdict as a whole


def test_a_simulated_fault_is_said_first():
    verdict = verdict_of(killed(), plan(fault(fidelity="simulated")))
    assert verdict.fidelity == "simulated" and verdict.sentence.startswith("simulated fault: ")


def test_goodput_counts_steps_done_twice_once():
    verdict = verdict_of(killed())
    first, last = (
        next(event for event in story if event.kind == kind)
        for story, kind in ((killed().events, "job_started"), (killed().events, "job_finished"))
    )
    total_s = (last.t_ns - first.t_ns) / 1e9
    assert verdict.goodput == pytest.approx(STEPS * 0.02 / total_s, abs=1e-3)
    assert verdict.ettr == pytest.approx((STEPS * 0.02 - 2 * 0.002) / total_s, abs=1e-3)


def test_undone_not_proven_names_heal():
    assert verdict_of(without(killed(), "run_concluded")).remedy == "nvrx-chaos heal"
    assert verdict_of(killed()).remedy == ""


def test_the_fault_s_verdict_says_where_it_fired_and_how_it_was_seen():
    told = verdict_of(hung(), plan_for("hang")).faults[0]
    assert told.fired == "step 47, backward, in_collective, rank 1"
    assert (told.confirmed, told.undone) == ("state T", "gone")


def test_the_timeline_shows_both_groups_all_steps_and_the_controls_loss():
    _, timeline = judge(plan(), killed().events, (), controls(), run_id="r")
    assert [(group.first_step, group.last_step, group.layer) for group in timeline.groups] == [
        (0, 46, ""),
        (40, 59, "in_job"),
    ]
    assert len(timeline.steps) == 2 * (FAULT_STEP + 20) and len(timeline.control_loss) == STEPS
    assert {"fault_fired", "detected", "recovered", "fault_confirmed"} <= {mark.kind for mark in timeline.marks}
    assert all(0 <= span.start_s <= span.end_s <= timeline.end_s + 10 for span in timeline.spans)


def test_a_verdict_becomes_json_and_back():
    verdict, timeline = judge(plan(), killed().events, (), controls(), run_id="r")
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=type(verdict)) == verdict
    assert msgspec.json.decode(msgspec.json.encode(timeline), type=type(timeline)) == timeline


# --- properties

RUNS: list[tuple[Story, Plan]] = [
    (healthy(), plan_of_control()),
    (killed(), plan()),
    (excepted(), plan_for("boom")),
    (hung(), plan_for("hang")),
]


@pytest.mark.parametrize(("story", "of_plan"), RUNS)
def test_the_same_events_give_the_same_verdict_in_any_order(story, of_plan):
    told = judge(of_plan, story.events, (), controls(), run_id="r")
    shuffled = list(story.events)
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        # the order inside a file is given by its lines, so the reader's order is only one of many
        assert judge(of_plan, shuffled, (), controls(), run_id="r") == told


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_losing_any_stretch_of_events_never_raises_and_never_invents_a_recovery(data):
    story, of_plan = data.draw(st.sampled_from(RUNS))
    first = data.draw(st.integers(0, len(story.events)))
    last = data.draw(st.integers(first, len(story.events)))
    verdict = verdict_of(story.events[:first] + story.events[last:], of_plan, with_controls=[])
    for incident in verdict.incidents:
        if incident.recovery_time_s is not None:
            assert incident.recovered_by is not None


@pytest.mark.parametrize("size", [None, 0, -5, True, "2", 10**9, 10**30])
def test_a_group_of_no_size_that_can_be_is_not_known(size):
    run = changed(killed(), "process_group_ready", world_size=size)
    for of_plan in (plan(), plan(world_size="shrunk")):
        check = check_of("world_size", run, of_plan, with_controls=[])
        assert check.outcome == "unknown" and "the size of group g0 was not told" in check.observed


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["step_done", "fault_fired", "process_group_ready", "checkpoint_committed", "run_concluded"]),
    junk=st.sampled_from([None, "x", -1, 1.5, [], {}, True, [1, 2, 3], "0x", 10**30]),
    name=st.sampled_from(["step", "loss", "samples", "world_size", "files", "open_entries", "fault", "entries"]),
)
def test_junk_in_a_field_is_never_a_traceback(kind, junk, name):
    verdict_of(changed(killed(), kind, **{name: junk}))
