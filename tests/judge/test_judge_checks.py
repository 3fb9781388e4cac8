"""For every check a run where it passes, one where it fails, one where it is unknown, and where it is not asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from judge_build import (
    EVERY,
    FAULT_STEP,
    STEPS,
    Story,
    changed,
    check_of,
    control_run,
    controls,
    excepted,
    fault,
    healthy,
    hung,
    killed,
    life,
    loss_of,
    outlived,
    pid,
    plan,
    plan_for,
    plan_of_control,
    verdict_of,
    without,
)
from test_checks_agree import CASES as OF_RANKS
from test_checks_blame import CASES as OF_BLAME
from test_checks_history import CASES as OF_HISTORY
from test_checks_memory import CASES as OF_MEMORY

from chaos.judge.checks.registry import REGISTRY
from chaos.model.control import ControlRun
from chaos.model.events import Event
from chaos.model.plan import At, Restarts

Told = Story | list[Event]


def after_restart(event: Event) -> bool:
    return event.group == "g1"


def step(number: int) -> Callable[[Event], bool]:
    return lambda event: event.data.get("step") == number


# --- whole runs


@pytest.mark.parametrize(
    ("story", "of_plan"),
    [
        (healthy, plan_of_control()),
        (killed, plan()),
        (excepted, plan_for("boom")),
        (hung, plan_for("hang")),
        (outlived, plan_for("hang", recovered_by=("none",), clock_from="undone", detection_time_s=None)),
    ],
    ids=["control", "kill", "exception", "hang", "outlived"],
)
def test_a_run_that_went_as_it_should_is_passed(story, of_plan):
    verdict = verdict_of(story(), of_plan)
    assert verdict.outcome == "passed", verdict.sentence
    assert {check.outcome for check in verdict.checks} == {"pass", "not_asked"}


def test_a_passed_sentence_says_what_recovered_it_what_state_rests_on_and_what_was_not_asked():
    sentence = verdict_of(killed()).sentence
    assert "kill: recovered by in_job in 1.96 s, noticed after 0.49 s, 7 steps done again" in sentence
    assert "the run itself over 7 steps done twice" in sentence and "two fault-free runs over 60 steps" in sentence
    assert sentence.endswith("Not asked: parts_in_time, blamed_right, memory_flat.")


def test_what_was_noticed_at_once_is_not_told_as_never():
    story = excepted()
    fired = next(event for event in story.events if event.kind == "fault_fired")
    story.events = [
        replace(event, t_ns=fired.t_ns + 2_000_000) if event.kind == "interruption_reported" else event
        for event in story.events
    ]
    assert "noticed after <0.01 s" in verdict_of(story, plan_for("boom")).sentence


# --- one check at a time: (check, outcome, run, plan, words that the observation must have)

CASES: list[tuple[str, str, Callable[[], Told], Any, str]] = [
    # steady_before
    ("steady_before", "pass", killed, plan(), "47 steps"),
    ("steady_before", "unknown", killed, plan(steady_steps=48), "never steady: 47 steps"),
    ("steady_before", "unknown", lambda: restarted_before_the_fault(), plan(), "by itself before the fault"),
    ("steady_before", "pass", killed, plan(steady_steps=FAULT_STEP), "47 steps"),
    ("steady_before", "unknown", lambda: interrupted_for_nothing(), plan(), "by itself before the fault"),
    ("steady_before", "pass", killed, plan(fault(at=At(after_s=1.0))), "47 steps"),
    ("steady_before", "pass", lambda: logged_before_the_fault(by_s=0.001), plan(), "47 steps"),
    ("steady_before", "unknown", lambda: logged_before_the_fault(by_s=0.003), plan(), "by itself before the fault"),
    ("steady_before", "not_asked", killed, plan(fault(at=At(step=0))), ""),
    ("steady_before", "not_asked", killed, plan(fault(at=At(phase="rendezvous"))), ""),
    # faults_fired_as_planned
    ("faults_fired_as_planned", "pass", killed, plan(), "fired once: step 47, backward, in_collective, rank 1"),
    ("faults_fired_as_planned", "pass", healthy, plan_of_control(), "no fault planned"),
    ("faults_fired_as_planned", "unknown", healthy, plan(), "never fired"),
    ("faults_fired_as_planned", "unknown", lambda: armed_too_late(), plan(), "was already at step 52"),
    ("faults_fired_as_planned", "fail", killed, plan(fault(at=At(step=46, phase="backward"))), "step 47, planned 46"),
    ("faults_fired_as_planned", "fail", killed, plan(fault(at=At(step=FAULT_STEP))), "phase backward, planned forward"),
    ("faults_fired_as_planned", "fail", killed, plan(fault(ranks=(0,))), "in rank 1, planned for rank 0"),
    ("faults_fired_as_planned", "fail", lambda: fired_twice(), plan(), "fired twice"),
    ("faults_fired_as_planned", "fail", killed, plan_of_control(), "not planned"),
    ("faults_fired_as_planned", "unknown", killed, plan(fault(ranks=(0, 1))), "did not fire in rank 0"),
    ("faults_fired_as_planned", "unknown", lambda: changed(killed(), "fault_fired", step=None), plan(), "not recorded"),
    (
        "faults_fired_as_planned", "fail", killed, plan(fault(at=At(after_s=5.0))), "after steady state, planned 5 s",
    ),
    # fault_took_effect
    ("fault_took_effect", "pass", killed, plan(), "exited with signal 9"),
    ("fault_took_effect", "unknown", lambda: without(killed(), "fault_confirmed"), plan(), "no outside evidence"),
    ("fault_took_effect", "unknown", healthy, plan(), "never fired"),
    ("fault_took_effect", "unknown", lambda: not_confirmed(contrary=False), plan(), "process unseen"),
    ("fault_took_effect", "fail", lambda: not_confirmed(contrary=True), plan(), "did not act"),
    ("fault_took_effect", "fail", lambda: changed(killed(), "fault_confirmed", life=life(0)), plan(), "another target"),
    # undone
    ("undone", "pass", killed, plan(), "nothing left"),
    ("undone", "fail", lambda: changed(killed(), "run_concluded", open_entries=2), plan(), "2 of ours still there"),
    ("undone", "unknown", lambda: changed(killed(), "run_concluded", measured=False), plan(), "not measured"),
    ("undone", "unknown", lambda: changed(killed(), "run_concluded", open_entries=None), plan(), "not recorded"),
    ("undone", "unknown", lambda: without(killed(), "run_concluded"), plan(), "nobody measured"),
    # detected_in_time
    ("detected_in_time", "pass", killed, plan(), "0.49 s by worker_failed"),
    ("detected_in_time", "fail", killed, plan(detection_time_s=0.4), "0.49 s"),
    ("detected_in_time", "unknown", killed, plan(detection_time_s=0.489), "give or take"),
    ("detected_in_time", "pass", lambda: without(killed(), "worker_failed"), plan(), "rank_started"),
    (
        "detected_in_time", "unknown", lambda: without(killed(), "worker_failed"), plan(detection_time_s=0.4),
        "noticed at the latest",
    ),
    ("detected_in_time", "unknown", outlived, plan_for("hang", recovered_by=("none",)), "no word of NVRx"),
    ("detected_in_time", "not_asked", killed, plan(detection_time_s=None), ""),
    # recovered_in_time
    ("recovered_in_time", "pass", killed, plan(), "1.96 s"),
    ("recovered_in_time", "fail", killed, plan(recovery_time_s=1.9), "recovered after 1.96 s"),
    ("recovered_in_time", "fail", lambda: never_back(watched_s=30), plan(), "not recovered in 30"),
    ("recovered_in_time", "unknown", lambda: never_back(watched_s=3), plan(), "not recovered in the"),
    ("recovered_in_time", "fail", lambda: killed(resumed=False).end(code=1), plan(), "having recovered: status 1"),
    ("recovered_in_time", "unknown", healthy, plan(), "no fault fired"),
    ("recovered_in_time", "fail", killed, plan(full_recovery_time_s=2.0), "steady again after 2.28 s"),
    ("recovered_in_time", "pass", killed, plan(full_recovery_time_s=3.0), "recovered after 1.96 s"),
    ("recovered_in_time", "unknown", killed, plan(fault(ends="undone"), clock_from="undone"), "no undo was seen"),
    ("recovered_in_time", "pass", killed, plan(clock_from="undone"), "1.96 s"),
    ("recovered_in_time", "pass", hung, plan_for("hang", clock_from="undone", recovery_time_s=1.6), "1.57 s"),
    ("recovered_in_time", "unknown", lambda: fired_in_the_last_step(), plan(fault(at=At(step=59))), "before it could"),
    ("recovered_in_time", "not_asked", healthy, plan_of_control(), ""),
    # parts_in_time
    ("parts_in_time", "pass", killed, plan(parts_s={"rendezvous": 3.0}), "rendezvous took 0.20 s of 3 s"),
    ("parts_in_time", "fail", killed, plan(parts_s={"start": 0.5, "rendezvous": 3.0}), "start took 1.00 s"),
    (
        "parts_in_time", "unknown",
        lambda: without(killed(), "checkpoint_loaded"), plan(parts_s={"checkpoint_load": 1.0}), "was not seen",
    ),
    ("parts_in_time", "not_asked", killed, plan(), ""),
    # steady_after
    ("steady_after", "pass", killed, plan(), "13 steps beyond"),
    ("steady_after", "pass", killed, plan(steady_steps=13), "13 steps beyond"),
    ("steady_after", "unknown", killed, plan(steady_steps=14), "the job had done all its steps"),
    ("steady_after", "fail", lambda: died_after_recovery(), plan(), "5 steps beyond the highest one before"),
    ("steady_after", "fail", lambda: slow_afterwards(), plan(), "40.0 ms a step after, 20.0 ms before"),
    ("steady_after", "pass", lambda: slow_afterwards(), plan(step_time_ratio=2.1), "40.0 ms"),
    ("steady_after", "unknown", lambda: never_back(watched_s=30), plan(), "never recovered"),
    ("steady_after", "not_asked", healthy, plan_of_control(), ""),
    # recovered_by
    ("recovered_by", "pass", excepted, plan_for("boom"), "in_process"),
    ("recovered_by", "pass", killed, plan(recovered_by=("in_process", "in_job")), "in_job"),
    ("recovered_by", "fail", killed, plan(recovered_by=("in_process",)), "in_job"),
    ("recovered_by", "fail", excepted, plan_for("boom", recovered_by=("none",)), "where nothing had to restart"),
    ("recovered_by", "fail", outlived, plan_for("hang"), "nothing restarted"),
    ("recovered_by", "unknown", lambda: changed(killed(), "rank_started", launcher=None), plan(), "was not seen"),
    ("recovered_by", "unknown", lambda: never_back(watched_s=30), plan(), "no layer brought it back"),
    ("recovered_by", "fail", lambda: by_a_new_launcher(), plan(), "new_job"),
    ("recovered_by", "fail", killed, plan_of_control(), "where nothing had to restart"),
    ("recovered_by", "fail", lambda: interrupted_for_nothing(), plan_of_control(), "interruption_reported"),
    ("recovered_by", "pass", lambda: trouble_after_the_end(), plan_of_control(), "no restart"),
    ("recovered_by", "not_asked", killed, plan(recovered_by=()), ""),
    # restart_budget
    ("restart_budget", "pass", killed, plan(), "in_process 0, in_job 1"),
    ("restart_budget", "fail", killed, plan(restarts=Restarts(in_job=0)), "in_job 1"),
    ("restart_budget", "unknown", lambda: changed(killed(), "rank_started", launcher=None), plan(), "not seen"),
    ("restart_budget", "fail", lambda: restarted_once_more(), plan(), "in_job 2"),
    ("restart_budget", "not_asked", killed, plan(restarts=None), ""),
    # world_size
    ("world_size", "pass", killed, plan(), "2 then 2"),
    (
        "world_size", "fail",
        lambda: changed(killed(), "process_group_ready", after_restart, world_size=1), plan(), "2 then 1 ranks",
    ),
    ("world_size", "unknown", lambda: without(killed(), "process_group_ready"), plan(), "was not seen"),
    ("world_size", "fail", killed, plan(world_size="shrunk"), "not fewer than 2"),
    (
        "world_size", "unknown",
        lambda: changed(killed(), "process_group_ready", after_restart, group="g0"), plan(), "not told apart",
    ),
    # lost_work
    ("lost_work", "pass", killed, plan(), "7 steps done again"),
    ("lost_work", "pass", hung, plan_for("hang"), "8 steps done again"),
    ("lost_work", "fail", killed, plan(lost_steps=6), "7 steps done again"),
    ("lost_work", "fail", lambda: killed(resume_at=20), plan(lost_steps=100), "checkpoint 40 was committed and not"),
    ("lost_work", "pass", lambda: older_taken_after_refusal(), plan(lost_steps=100), "27 steps done again"),
    ("lost_work", "pass", lambda: committed_while_loading(), plan(lost_steps=100), "27 steps done again"),
    ("lost_work", "fail", lambda: began_anew(), plan(lost_steps=100), "went back to the beginning"),
    ("lost_work", "unknown", lambda: never_back(watched_s=30), plan(), "never recovered"),
    ("lost_work", "unknown", lambda: died_before_catching_up(), plan(), "before it had caught up"),
    ("lost_work", "unknown", lambda: Story().start().end(code=1), plan(), "no step was done"),
    ("lost_work", "not_asked", killed, plan(run=None, lost_steps=None), ""),
    # data_exactly_once
    ("data_exactly_once", "pass", killed, plan(), "samples 0 to 479, each once"),
    (
        "data_exactly_once", "fail",
        lambda: moved_data(by=-8), plan(), "used twice",
    ),
    ("data_exactly_once", "fail", lambda: moved_data(by=8), plan(), "were never used"),
    (
        "data_exactly_once", "unknown",
        lambda: changed(killed(), "step_done", step(50), samples=None), plan(), "were not seen",
    ),
    ("data_exactly_once", "unknown", lambda: Story().start().end(code=1), plan(), "no step"),
    ("data_exactly_once", "not_asked", killed, plan(run=None), ""),
    # checkpoint_integrity
    ("checkpoint_integrity", "pass", killed, plan(), "2 committed"),
    ("checkpoint_integrity", "unknown", lambda: Story().start().join("g0").train(0, 15), plan(), "no checkpoint"),
    (
        "checkpoint_integrity", "fail",
        lambda: without(killed(), "checkpoint_staged", where=lambda e: e.rank == 1 and e.data["step"] == 40), plan(),
        "before rank 1 had staged",
    ),
    (
        "checkpoint_integrity", "fail",
        lambda: changed(killed(), "checkpoint_staged", lambda e: e.rank == 1, t_ns=10**12), plan(),
        "before rank 1 had staged",
    ),
    (
        "checkpoint_integrity", "fail",
        lambda: changed(killed(), "checkpoint_staged", lambda e: e.rank == 1, group="g9"), plan(), "mixes parts",
    ),
    (
        "checkpoint_integrity", "fail",
        lambda: changed(killed(), "checkpoint_committed", step(40), files=1), plan(), "1 files for 2 ranks",
    ),
    (
        "checkpoint_integrity", "fail",
        lambda: changed(killed(), "checkpoint_committed", step(40), files=3), plan(), "has 3 files, others have 5",
    ),
    (
        "checkpoint_integrity", "unknown",
        lambda: changed(killed(), "checkpoint_committed", step(40), files=None), plan(), "was not recorded",
    ),
    ("checkpoint_integrity", "pass", lambda: changed(killed(), "checkpoint_committed", files=2), plan(), "2 committed"),
    ("checkpoint_integrity", "pass", excepted, plan_for("boom"), "2 committed"),
    ("checkpoint_integrity", "pass", lambda: killed(resume_at=20), plan(), "3 committed"),
    ("checkpoint_integrity", "fail", lambda: loaded_what_never_counted(), plan(), "had never been committed"),
    ("checkpoint_integrity", "pass", lambda: writer_died_unsaid(digests=True), plan(), "1 committed"),
    ("checkpoint_integrity", "unknown", lambda: writer_died_unsaid(digests=False), plan(), "its writer died"),
    (
        "checkpoint_integrity", "fail",
        lambda: changed(killed(), "checkpoint_loaded", lambda e: e.rank == 0, step=20, path="step-000020"), plan(),
        "loaded different checkpoints: 20 and 40",
    ),
    (
        "checkpoint_integrity", "fail",
        lambda: without(killed(), "checkpoint_loaded", where=lambda e: e.rank == 0), plan(), "rank 0 loaded no",
    ),
    ("checkpoint_integrity", "fail", lambda: pruned(20, at_step=30), plan(), "none was left"),
    ("checkpoint_integrity", "pass", lambda: pruned(20, at_step=42), plan(), "2 committed"),
    ("checkpoint_integrity", "fail", lambda: pruned(40, at_step=42), plan(), "no newer one was committed"),
    ("checkpoint_integrity", "fail", lambda: older_taken_after_refusal(), plan(), "could not be loaded: checksum"),
    ("checkpoint_integrity", "not_asked", killed, plan(run=None), ""),
    # no_residue
    ("no_residue", "pass", killed, plan(), "nothing left"),
    (
        "no_residue", "fail",
        lambda: changed(killed(), "residue_measured", processes=["pid 77 sleep"]), plan(), "1 process (pid 77 sleep)",
    ),
    ("no_residue", "unknown", lambda: changed(killed(), "residue_measured", readable=False), plan(), "not be read"),
    ("no_residue", "unknown", lambda: without(killed(), "residue_measured"), plan(), "not measured"),
    (
        "no_residue", "unknown",
        lambda: changed(killed(), "residue_measured", ports=[80], after_s=1.0), plan(), "too early",
    ),
    (
        "no_residue", "unknown",
        lambda: changed(Story().start().end(code=None, signal=9), "residue_measured", ports=[80]), plan_of_control(),
        "1 port (80); but the job was ended from outside, by SIGKILL",
    ),
    (
        "no_residue", "fail",
        lambda: changed(Story().start().end(code=1), "residue_measured", ports=[80]), plan_of_control(), "(80), 5.1",
    ),
    ("no_residue", "unknown", lambda: changed(killed(), "residue_measured", ports=None), plan(), "of port nothing"),
    ("undone", "unknown", lambda: changed(killed(), "run_concluded", open_entries=-1), plan(), "not recorded"),
    ("undone", "unknown", lambda: changed(killed(), "run_concluded", open_entries=False), plan(), "not recorded"),
    # job_finished
    ("job_finished", "fail", lambda: Story().start().end(code=None, signal=[9]), plan_of_control(), "ended early"),
    ("job_finished", "pass", killed, plan(), "status 0"),
    ("job_finished", "fail", lambda: changed(killed(), "job_finished", code=1), plan(), "though every rank"),
    ("job_finished", "fail", lambda: without(killed(), "rank_finished"), plan(), "not every rank"),
    ("job_finished", "fail", lambda: changed(killed(), "rank_finished", step=STEPS - 1), plan(), "not every rank"),
    ("job_finished", "fail", lambda: changed(killed(), "rank_finished", group="g0"), plan(), "not every rank"),
    ("job_finished", "unknown", lambda: without(killed(), "rank_finished"), plan(run=None), "no rank said"),
    ("job_finished", "fail", lambda: killed(resumed=False).end(code=1), plan(), "ended early: status 1"),
    ("job_finished", "unknown", lambda: dies_at_start(), plan(), "before any fault had fired"),
    ("job_finished", "fail", lambda: dies_at_start(), plan_of_control(), "ended early: status 1, no such module"),
    ("job_finished", "fail", lambda: never_back(watched_s=30), plan(), "hung: no step in the last 30"),
    ("job_finished", "unknown", lambda: never_back(watched_s=3), plan(), "stopped by us: limits.timeout"),
    ("job_finished", "unknown", lambda: without(killed(), "job_finished"), plan(), "was not seen"),
    ("job_finished", "unknown", lambda: Story().start().end(code=None, signal=15), plan(), "from outside"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outcome", "run", "of_plan", "words"), CASES)
def test_a_check_finds_what_the_run_shows(name, outcome, run, of_plan, words):
    check = check_of(name, run(), of_plan)
    assert (check.outcome, words in check.observed) == (outcome, True), check


def test_every_check_is_shown_to_pass_to_be_unknown_and_all_but_one_to_fail():
    shown = {(name, outcome) for name, outcome, *_ in CASES} | STATE_SHOWN | SHOWN_ELSEWHERE
    missing = {(spec.name, outcome) for spec in REGISTRY for outcome in ("pass", "fail", "unknown")} - shown
    assert missing == {("steady_before", "fail")}  # a precondition: it never fails


def test_a_core_check_cannot_be_dropped_and_another_can():
    verdict = verdict_of(killed(), plan(dropped=("undone", "no_residue")))
    assert verdict.check("undone").outcome == "pass"
    assert verdict.check("no_residue").outcome == "not_asked" and "no_residue" in verdict.sentence


# --- state_exact: two witnesses

STATE_SHOWN = {("state_exact", outcome) for outcome in ("pass", "fail", "unknown")}
SHOWN_ELSEWHERE = {(name, outcome) for name, outcome, *_ in (*OF_BLAME, *OF_HISTORY, *OF_RANKS, *OF_MEMORY)}


def test_state_is_exact_by_both_witnesses():
    check = check_of("state_exact", killed())
    assert check.outcome == "pass"
    assert "itself over 7 steps" in check.observed and "fault-free runs over 60 steps" in check.observed


def test_state_is_exact_by_the_run_itself_where_there_is_no_control():
    check = check_of("state_exact", killed(), with_controls=[])
    assert check.outcome == "pass" and "fault-free" not in check.observed


def test_state_is_exact_by_the_controls_where_nothing_was_done_twice():
    check = check_of("state_exact", healthy(), plan_of_control())
    assert check.outcome == "pass" and "itself" not in check.observed


def test_without_control_and_with_nothing_done_twice_state_is_unknown():
    assert check_of("state_exact", healthy(), plan_of_control(), with_controls=[]).outcome == "unknown"


def test_one_fault_free_run_alone_shows_nothing():
    check = check_of("state_exact", healthy(), plan_of_control(), with_controls=[control_run()])
    assert check.outcome == "unknown" and "only one fault-free run" in check.observed


def test_a_step_done_twice_with_another_loss_fails_and_names_the_step():
    run = changed(killed(), "step_done", lambda e: after_restart(e) and step(43)(e), loss=loss_of(44))
    check = check_of("state_exact", run, with_controls=[])
    assert check.outcome == "fail" and "step 43 done twice" in check.observed
    assert len(check.evidence) == 2


def test_a_step_beyond_the_fault_that_differs_from_the_controls_fails():
    run = changed(killed(), "step_done", step(55), loss=loss_of(56))
    check = check_of("state_exact", run)
    assert check.outcome == "fail" and "differs from control-1 at step 55" in check.observed


def test_optimizer_state_that_was_not_restored_fails_by_its_digest_after_loading():
    run = changed(killed(), "digest_taken", lambda e: e.data["purpose"] == "loaded" and e.rank == 1, shards="other")
    check = check_of("state_exact", run, with_controls=[])
    assert check.outcome == "fail" and "what was loaded is not what was saved" in check.observed


def test_an_end_digest_unlike_the_controls_fails():
    run = changed(killed(), "digest_taken", lambda e: e.data["purpose"] == "end" and e.rank == 1, shards="other")
    assert "shard digest end/1" in check_of("state_exact", run).observed
    assert check_of("state_exact", run).outcome == "fail"


def controls_that_part_at(number: int) -> list[Any]:
    other = Story(steps=STEPS)
    other.events = changed(healthy(), "step_done", step(number), loss="0x1.0p+3")
    return [control_run(run_id="control-1"), control_run(other, run_id="control-2")]


def test_controls_that_disagree_make_state_unknown_and_name_the_first_difference():
    check = check_of("state_exact", killed(), with_controls=controls_that_part_at(5))
    assert check.outcome == "unknown" and "not repeatable here" in check.observed and "step 5" in check.observed


def test_where_controls_disagree_later_a_contradiction_of_the_run_itself_still_fails():
    run = changed(killed(), "step_done", lambda e: after_restart(e) and step(43)(e), loss=loss_of(44))
    assert check_of("state_exact", run, with_controls=controls_that_part_at(50)).outcome == "fail"


def test_where_controls_disagree_earlier_two_results_of_one_step_prove_nothing():
    run = changed(killed(), "step_done", lambda e: after_restart(e) and step(43)(e), loss=loss_of(44))
    assert check_of("state_exact", run, with_controls=controls_that_part_at(5)).outcome == "unknown"


def test_a_contradiction_at_the_very_step_where_controls_part_proves_nothing():
    run = changed(killed(), "step_done", lambda e: after_restart(e) and step(43)(e), loss=loss_of(44))
    assert check_of("state_exact", run, with_controls=controls_that_part_at(43)).outcome == "unknown"


def test_a_control_with_other_settings_is_refused():
    run = changed(killed(), "settings_seen", settings={"heartbeat_timeout_s": 9.0})
    check = check_of("state_exact", run)
    assert (
        "refused: other settings (heartbeat_timeout_s" in check.observed
        and "fault-free runs over" not in check.observed
    )


def test_a_run_that_needed_recovery_is_no_control():
    witness = control_run(killed(), run_id="dirty")
    assert not witness.clean and "fault" in witness.unclean_why
    assert "dirty refused" in check_of("state_exact", killed(), with_controls=[witness, witness]).observed


def test_one_fault_free_run_given_twice_is_one():
    check = check_of("state_exact", healthy(), plan_of_control(), with_controls=[control_run(), control_run()])
    assert check.outcome == "unknown" and "given twice" in check.observed and "only one" in check.observed


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_equal_losses_that_are_no_numbers_show_no_state(loss):
    run = changed(killed(), "step_done", lambda event: event.data["step"] >= 50, loss=loss)
    witnesses = [
        msgspec.structs.replace(
            each, losses={step: loss if int(step) >= 50 else told for step, told in each.losses.items()}
        )
        for each in controls()
    ]
    check = check_of("state_exact", run, with_controls=witnesses)
    assert check.outcome == "unknown" and f"the loss of step 50 is {loss}" in check.observed
    assert check_of("state_exact", run).outcome == "fail"


@pytest.mark.parametrize("step", ["x", "", "-1", "1e3", "9" * 20, "\u0663"])
def test_a_fault_free_run_with_a_loss_of_no_step_cannot_be_read(step):
    with pytest.raises(msgspec.ValidationError, match="a loss of no step"):
        msgspec.convert({"run_id": "c", "path": "c", "clean": True, "losses": {step: "0x1p+0"}}, ControlRun)


def test_a_control_that_ends_before_the_run_leaves_state_unknown():
    short = [control_run(healthy(steps=50), run_id=f"c{n}") for n in range(2)]
    assert "has no loss for step 50" in check_of("state_exact", killed(), with_controls=short).observed
    assert check_of("state_exact", killed(), with_controls=short).outcome == "unknown"


def test_within_a_tolerance_small_differences_pass_and_large_ones_fail():
    nearly = (4.0 / 57 * 1.0005).hex()
    run = changed(killed(), "step_done", step(55), loss=nearly)
    assert check_of("state_exact", run, plan(state_close=1e-3)).outcome == "pass"
    assert check_of("state_exact", run, plan(state_close=1e-4)).outcome == "fail"


def test_a_tolerance_proves_nothing_where_the_controls_differ_by_more_than_half_of_it():
    check = check_of("state_exact", killed(), plan(state_close=1e-3), with_controls=controls_that_part_at(50))
    assert check.outcome == "unknown" and "not repeatable" in check.observed


def test_lost_steps_alone_fail_neither_state_nor_data():
    verdict = verdict_of(killed(), plan(lost_steps=0))
    failed = [check.name for check in verdict.checks if check.outcome == "fail"]
    assert failed == ["lost_work"]


# --- runs told for one check


def restarted_before_the_fault() -> Story:
    story = killed()
    story.rank(0, "interruption_reported", at=0.5, source="in_process", marker="fn_ex", text="x")
    return story


def logged_before_the_fault(*, by_s: float) -> Story:
    """What the fault caused, read in a log whose stamps are cut by up to two milliseconds."""
    story = killed()
    at = next(event.t_ns for event in story.events if event.kind == "fault_fired") / 1e9 - 1
    story.controller("worker_failed", at=at - by_s, local_rank=1, pid=pid(1), code=-9, log="l:1", error_ns=2_000_000)
    return story


def interrupted_for_nothing() -> Story:
    story = healthy()
    story.rank(0, "interruption_reported", at=1.8, source="in_process", marker="fn_ex", text="x")
    return story


def trouble_after_the_end() -> Story:
    story = healthy()
    end = next(event for event in story.events if event.kind == "job_finished")
    at = end.t_ns / 1e9 - 1
    story.controller("worker_failed", at=at - 0.1, local_rank=0, pid=1, code=1, log="l:1", error_ns=0, text="")
    return story


def committed_while_loading() -> Story:
    """Checkpoint 40 came to count only when the choice of 20 had been made."""
    story = killed(resume_at=20)
    chosen = min(event.t_ns for event in story.events if event.data.get("phase") == "checkpoint_load")
    is_late = lambda event: event.data["step"] == 40 and event.group == "g0"  # noqa: E731 - shorter than its name
    story.events = changed(story, "checkpoint_committed", is_late, t_ns=chosen + 1_000_000)
    return story


def armed_too_late() -> Story:
    story = healthy()
    story.rank(1, "fault_not_fired", at=2.0, fault="kill", reason="rank 1 was already at step 52")
    return story


def fired_twice() -> Story:
    story = killed()
    story.fire("kill")
    return story


def not_confirmed(*, contrary: bool) -> list[Event]:
    story = killed()
    story.controller(
        "fault_not_confirmed", of=life(1), rank=1, fault="kill", reason="process unseen", contrary=contrary
    )
    return without(story, "fault_confirmed")


def never_back(*, watched_s: float) -> Story:
    story = killed(resumed=False)
    story.at = story.events[-1].t_ns / 1e9 - 1 + watched_s - 0.6
    story.controller("stop_condition_met", condition="timeout")
    story.controller("stop_requested", reason="limits.timeout", interrupted=False)
    story.at += 1.0
    return story.end(code=None, signal=15)


def fired_in_the_last_step() -> Story:
    story = Story().start().join("g0").train(0, STEPS - 1).steady()
    fired = story.fire("kill", step=59, phase="forward", point="entry")
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="kill", how="x")
    return without_late_steps(story.train(STEPS - 1, STEPS).finish())


def without_late_steps(story: Story) -> Story:
    """As if the last step had been done just before the fault."""
    fired = next(event for event in story.events if event.kind == "fault_fired")
    story.events = changed(story, "step_done", step(STEPS - 1), t_ns=fired.t_ns - 1)
    return story


def died_after_recovery() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    return story.start().join("g1").load(40).train(40, FAULT_STEP + 5).end(code=1)


def died_before_catching_up() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    return story.start().join("g1").load(40).train(40, 44).end(code=1)


def slow_afterwards() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    return story.start().join("g1").load(40).train(40, STEPS, step_s=0.04).finish()


def by_a_new_launcher() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    return story.start(launcher="boot0000-1-60-6").join("g1").load(40).train(40, STEPS).finish()


def restarted_once_more() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 58)
    story.controller("worker_failed", local_rank=0, pid=1, code=1, log="l:1", error_ns=0, text="")
    story.generation = 2
    return story.start().join("g2").load(40).train(40, STEPS).finish()


def older_taken_after_refusal() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1")
    story.ranks("phase_entered", phase="checkpoint_load", step=None)
    story.rank(0, "checkpoint_refused", step=40, path="step-000040", reason="checksum")
    return story.load(EVERY).train(EVERY, STEPS).finish()


def began_anew() -> Story:
    story = killed(resumed=False)
    story.generation = 1
    return story.start().join("g1").train(0, STEPS).finish()


def moved_data(*, by: int) -> list[Event]:
    """After the restart every position is moved: the batch of a step was read again, or one was skipped."""
    story = killed()
    return [
        changed_samples(event, by) if event.kind == "step_done" and after_restart(event) else event
        for event in story.events
    ]


def changed_samples(event: Event, by: int) -> Event:
    first, end = event.data["samples"]
    return replace(event, data={**event.data, "samples": [first + by, end + by]})


def loaded_what_never_counted() -> list[Event]:
    return without(killed(), "checkpoint_committed", "digest_taken", where=step(40))


def writer_died_unsaid(*, digests: bool) -> list[Event]:
    """Rank 0 published checkpoint 40 and was gone before it said so."""
    story = killed()
    commit = next(event for event in story.events if event.kind == "checkpoint_committed" and event.data["step"] == 40)
    story.rank(0, "phase_entered", at=commit.t_ns / 1e9 - 1, phase="checkpoint_commit", step=40)
    story.events[-1] = changed_life(story.events[-1])
    gone = ("checkpoint_committed",) if digests else ("checkpoint_committed", "digest_taken")
    return without(story, *gone, where=step(40))


def changed_life(event: Event) -> Event:
    return replace(event, life=life(0), group="g0")


def pruned(number: int, *, at_step: int) -> Story:
    story = killed()
    at = next(event.t_ns for event in story.events if event.kind == "step_done" and step(at_step)(event)) / 1e9 - 1
    story.rank(0, "checkpoint_pruned", at=at, step=number, path=f"step-{number:06d}")
    return story


def dies_at_start() -> Story:
    return Story().start().end(code=1, reason="no such module")
