"""Interruptions that no fault of ours began: the job's own count against it, those from outside are said and excuse."""

from __future__ import annotations

import pytest
from incident_build import Told, begun, dies, incidents_of, kill, oom_kills, reentered, restarted, two
from judge_build import FAULT_STEP, Story, changed, check_of, fault, life, plan, plan_of_control, verdict_of, without

from chaos.judge.judge import judge
from chaos.model.plan import At, Restarts


def back() -> Story:
    """Killed by us, and steady again in g1."""
    return restarted(kill(begun()), "g1", until=58)


def again(story: Story) -> Story:
    return restarted(story, "g2").finish()


def crashed() -> Story:
    """A crash of the job's own, after the recovery."""
    return again(dies(back(), signal=None, code=1))


def out_of_memory(*, counts: tuple[int, ...] = (3, 4), signal: int | None = 9) -> Told:
    story = back()
    oom_kills(story, counts[0], at=story.at - 0.3)
    dies(story, signal=signal)
    oom_kills(story, counts[1])
    return again(story)


def preempted() -> Story:
    story = back()
    story.controller("interruption_reported", source="scheduler", marker="preempted", text="preempted by job 9")
    return again(dies(story, signal=15))


ONE = plan()  # in_job: 1


# --- the job's own


def test_a_crash_of_the_jobs_own_after_the_recovery_counts_against_the_restarts():
    check = check_of("restart_budget", crashed(), ONE)
    assert check.outcome == "fail" and "in_job 2" in check.observed
    assert incidents_of(crashed(), ONE)[1].causes == ()


@pytest.mark.parametrize("signal", [11, 6, 7])
def test_a_signal_that_a_process_gives_itself_is_the_jobs_own(signal):
    story = again(dies(back(), signal=signal))
    assert check_of("restart_budget", story, ONE).outcome == "fail"


def test_a_rank_that_nvrx_killed_after_a_hang_is_the_jobs_own():
    story = back()
    story.controller("hang_detected", rank=1, waited_s=3.0, error_ns=0, text="no heartbeat")
    assert check_of("restart_budget", again(dies(story)), ONE).outcome == "fail"


def test_a_rank_that_the_launcher_stopped_after_another_had_failed_is_the_jobs_own():
    story = back()
    story.controller("worker_failed", local_rank=0, pid=110, code=1, error_ns=0, text="failed")
    assert check_of("restart_budget", again(dies(story)), ONE).outcome == "fail"


def test_a_rank_that_in_process_restart_ended_and_told_of_afterwards_is_the_jobs_own():
    story = dies(back())
    story.rank(0, "interruption_reported", source="in_process", marker="term_ex", text="Interruption.HARD_TIMEOUT")
    assert check_of("restart_budget", again(story), ONE).outcome == "fail"


def test_a_crash_and_a_stop_seen_in_one_look_at_the_process_table_are_the_jobs_own():
    story = back()
    story.exited(0, signal=15)
    story.exited(1, code=1)
    restarted(story, "g2").finish()
    assert check_of("restart_budget", story, ONE).outcome == "fail"


def test_an_exit_that_nobody_saw_excuses_nothing():
    story = without(again(dies(back())), "process_exited", where=lambda event: event.life == life(1, 1))
    assert check_of("restart_budget", story, ONE).outcome == "fail"
    unread = again(dies(back(), signal=None, code=None))
    assert check_of("restart_budget", unread, ONE).outcome == "fail"


def test_a_restart_in_the_same_processes_is_the_jobs_own():
    story = back()
    story.rank(1, "interruption_reported", source="in_process", marker="fn_ex", text="RuntimeError")
    check = check_of("restart_budget", reentered(story, "g2").finish(), ONE)
    assert check.outcome == "fail" and "in_process 1" in check.observed


# --- from outside


def test_a_signal_that_neither_we_nor_nvrx_sent_is_said_and_the_budget_is_unknown():
    check = check_of("restart_budget", again(dies(back())), ONE)
    assert check.outcome == "unknown"
    assert "in_job 2" in check.observed and "rank 1 ended by SIGKILL, which neither we nor NVRx sent" in check.observed
    assert check.evidence


def test_the_incident_of_the_verdict_names_the_cause():
    verdict = verdict_of(again(dies(back())), ONE)
    assert verdict.outcome == "unknown"
    ours, from_outside = verdict.incidents
    assert ours.cause == "" and "SIGKILL" in from_outside.cause


@pytest.mark.parametrize(
    "noted",
    [
        {"source": "in_process", "marker": "term_ex", "text": "Interruption.TERMINATED"},
        {"source": "in_process_monitor", "marker": "target_terminated", "text": "target process is terminated"},
    ],
)
def test_nvrx_noting_that_a_process_is_gone_has_not_ended_it(noted):
    story = back()
    story.rank(0, "interruption_reported", **noted)
    assert check_of("restart_budget", again(dies(story)), ONE).outcome == "unknown"


def test_the_launcher_noting_that_the_group_has_failed_has_not_ended_it():
    story = back()
    for pid in (111, None):  # rank 1's, and none: seen by the launcher before we looked at the process table
        story.controller("worker_failed", local_rank=1, pid=pid, code=-9, error_ns=0, text="failed")
    assert check_of("restart_budget", again(dies(story)), ONE).outcome == "unknown"


def test_a_launcher_that_was_ended_from_outside_is_said():
    story = back()
    story.controller("process_exited", of="boot0000-1-50-5", pid=50, role="launcher", code=None, signal=15)
    story.at += 0.2
    for rank in (0, 1):
        story.exited(rank, signal=15)
    check = check_of("restart_budget", again(story), ONE)
    assert "a launcher ended by SIGTERM" in check.observed


def test_the_kernels_count_of_kills_that_grew_in_the_stretch_is_a_cause():
    check = check_of("restart_budget", out_of_memory(), ONE)
    assert check.outcome == "unknown" and "oom_kills 3 to 4, rank 1 ended" in check.observed


def test_the_kernels_count_is_a_cause_where_nobody_saw_how_the_process_ended():
    assert check_of("restart_budget", out_of_memory(signal=None), ONE).outcome == "unknown"


def test_the_kernels_count_is_no_cause_where_the_process_ended_in_another_way():
    story = back()
    oom_kills(story, 3, at=story.at - 0.3)
    dies(story, signal=None, code=1)
    oom_kills(story, 4)
    ended_by_nvrx = changed(again(story), "process_exited", lambda event: event.data["signal"] == 15, signal=6)
    assert check_of("restart_budget", ended_by_nvrx, ONE).outcome == "fail"


def without_signal(told: Story) -> Told:
    """So that only the kernel's count can be a cause: NVRx said that it would kill."""
    story = told
    fired_out = next(event for event in story.events if event.kind == "process_exited" and event.life == life(1, 1))
    story.controller("hang_detected", at=fired_out.t_ns / 1e9 - 1.001, rank=1, waited_s=3.0, error_ns=0, text="x")
    return story


@pytest.mark.parametrize(
    ("counts", "outcome"), [((3, 4), "unknown"), ((3, 3), "fail"), ((4, 3), "fail"), ((None, 4), "fail")]
)
def test_only_a_count_that_was_read_before_and_grew_excuses(counts, outcome):
    assert check_of("restart_budget", without_signal(out_of_memory(counts=counts)), ONE).outcome == outcome


def test_a_count_that_had_grown_before_is_no_cause():
    story = back()
    oom_kills(story, 3, at=2.0)
    oom_kills(story, 4, at=story.at - 0.5)
    told = without_signal(again(oom_kills(dies(story), 4)))
    assert check_of("restart_budget", told, ONE).outcome == "fail"


def test_a_count_that_grew_only_later_is_no_cause():
    told = again(oom_kills(dies(oom_kills(back(), 3)), 3))
    oom_kills(told, 3, at=told.at - 6.0)
    oom_kills(told, 4, at=told.at - 5.5)
    assert check_of("restart_budget", without_signal(told), ONE).outcome == "fail"


def test_the_schedulers_record_of_a_preemption_is_a_cause():
    check = check_of("restart_budget", preempted(), ONE)
    assert check.outcome == "unknown" and "the scheduler interrupted the job: preempted by job 9" in check.observed


def test_a_cause_from_outside_excuses_no_more_restarts_than_it_set_off():
    story = restarted(dies(back()), "g2", until=59)
    dies(story, signal=None, code=1)
    check = check_of("restart_budget", restarted(story, "g3").finish(), ONE)
    assert check.outcome == "fail" and "in_job 3" in check.observed


def test_a_cause_from_outside_does_not_make_a_pass_of_what_is_within_the_budget_unknown():
    within = plan(restarts=Restarts(in_process=0, in_job=2))
    assert check_of("restart_budget", again(dies(back())), within).outcome == "pass"


# --- inside the outage of a fault of ours


def spoiled_recovery(*, grown: bool = True, hit: str = "kill") -> Story:
    """While the job recovers from our fault, the kernel kills a new process for want of memory."""
    story = begun()
    oom_kills(story, 3, at=story.at - 0.3)
    kill(story, hit)
    story.generation = 1
    story.start()
    story.exited(0, signal=9)
    oom_kills(story, 4 if grown else 3)
    story.exited(1, signal=15)
    story.at += 9.0
    return restarted(story, "g1").finish()


def test_a_recovery_that_the_kernel_spoiled_is_unknown_and_says_so():
    check = check_of("recovered_in_time", spoiled_recovery())
    assert check.outcome == "unknown" and "oom_kills 3 to 4" in check.observed and "recovered after" in check.observed


def test_a_recovery_as_slow_that_nothing_spoiled_fails():
    assert check_of("recovered_in_time", spoiled_recovery(grown=False)).outcome == "fail"


def test_a_memory_fault_of_ours_makes_the_kernels_count_grow_and_excuses_nothing():
    ours = plan(fault("kill", fault="memory.host_oom"))
    assert check_of("recovered_in_time", spoiled_recovery(), ours).outcome == "fail"


def test_the_kill_of_our_own_target_is_no_kill_by_the_kernel():
    story = begun()
    oom_kills(story, 3, at=story.at - 0.3)
    kill(story)
    oom_kills(story, 4)
    story.at += 9.0
    assert check_of("recovered_in_time", restarted(story, "g1").finish()).outcome == "fail"


def test_a_second_restart_inside_an_outage_is_excused_by_a_cause_of_its_own():
    story = restarted(kill(begun()), "g1", until=44)  # back, and not yet steady
    check = check_of("restart_budget", again(dies(story)), ONE)
    assert check.outcome == "unknown" and "SIGKILL" in check.observed
    own = restarted(kill(begun()), "g1", until=44)
    assert check_of("restart_budget", again(dies(own, signal=None, code=1)), ONE).outcome == "fail"


def test_a_notice_in_a_group_that_went_on_until_the_next_fault_ended_nothing():
    story = restarted(kill(begun()), "g1", until=50)
    story.controller("interruption_reported", source="scheduler", marker="preempted", text="in 30 s")
    kill(story.train(50, 52), "again", step=52)
    again_of = fault("again", at=At(step=52, phase="backward", point="in_collective"))
    first, second = incidents_of(restarted(story, "g2").finish(), two(fault(), again_of))
    assert first.causes == second.causes == ()


# --- before the first fault


def before_the_fault(**how: object) -> Story:
    story = dies(begun(until=30), **how)
    restarted(story, "g1", resume=20, until=FAULT_STEP)
    return restarted(kill(story), "g2").finish()


def test_an_interruption_before_the_first_fault_makes_steady_before_unknown():
    check = check_of("steady_before", before_the_fault(signal=None, code=1), two())
    assert check.outcome == "unknown" and "by itself before the fault" in check.observed


def test_an_interruption_from_outside_before_the_first_fault_is_said_to_be_that():
    check = check_of("steady_before", before_the_fault(), two())
    assert check.outcome == "unknown" and "SIGKILL, which neither we nor NVRx sent" in check.observed


# --- a job that never came back


def gone(**how: object) -> Story:
    return dies(back(), **how).end(code=1)


def test_a_job_that_ends_by_its_own_crash_after_the_recovery_has_an_outage_nobody_recovered():
    incidents = incidents_of(gone(signal=None, code=1), ONE)
    assert [(found.names, found.layer) for found in incidents] == [(("kill",), "in_job"), ((), None)]
    assert check_of("job_finished", gone(signal=None, code=1), ONE).outcome == "fail"


def test_a_job_that_was_ended_from_outside_after_the_recovery_is_unknown():
    check = check_of("job_finished", gone(), ONE)
    assert check.outcome == "unknown" and "SIGKILL" in check.observed


def test_trouble_after_every_rank_had_finished_is_no_outage():
    story = restarted(kill(begun()), "g1").finish()
    finished = next(event for event in story.events if event.kind == "job_finished")
    story.controller("worker_failed", at=finished.t_ns / 1e9 - 1.1, local_rank=0, pid=1, code=1, error_ns=0, text="")
    assert len(incidents_of(story, ONE)) == 1


# --- a job that must need no recovery

NO_FAULT = plan_of_control()


def test_a_control_that_restarts_by_itself_fails():
    story = restarted(dies(begun(), signal=None, code=1), "g1").finish()
    assert check_of("recovered_by", story, NO_FAULT).outcome == "fail"


def test_a_control_that_was_interrupted_from_outside_is_unknown():
    check = check_of("recovered_by", restarted(dies(begun()), "g1").finish(), NO_FAULT)
    assert check.outcome == "unknown" and "SIGKILL" in check.observed


def test_a_control_that_restarts_once_from_outside_and_once_by_itself_fails():
    story = restarted(dies(begun()), "g1", until=55)
    story = restarted(dies(story, signal=None, code=1), "g2").finish()
    assert check_of("recovered_by", story, NO_FAULT).outcome == "fail"


def test_a_schedulers_notice_that_nothing_followed_is_no_interruption():
    story = begun()
    story.controller("interruption_reported", source="scheduler", marker="preempted", text="in 30 s")
    story.train(FAULT_STEP, 60).finish()
    assert check_of("recovered_by", story, NO_FAULT).outcome == "pass"
    assert incidents_of(story, NO_FAULT) == ()


# --- what people read


def test_a_passed_verdict_names_an_interruption_that_no_fault_of_ours_began():
    within = plan(restarts=Restarts(in_process=0, in_job=2))
    verdict = verdict_of(again(dies(back())), within)
    assert verdict.check("restart_budget").outcome == "pass"
    assert "interrupted once more, by no fault of ours (rank 1 ended by SIGKILL, which" in verdict.sentence
    assert verdict.outcome == "passed"


def test_the_picture_of_an_interruption_from_outside_names_its_cause():
    _, timeline = judge(ONE, again(dies(back())).events, (), [], run_id="r")
    (span,) = [span for span in timeline.spans if span.name == "outage without a fault of ours"]
    assert span.detail.startswith("recovered by in_job; rank 1 ended by SIGKILL")


def test_a_schedulers_word_is_no_detection_by_nvrx():
    story = begun()
    story.fire("kill")
    story.at += 0.1
    story.controller("interruption_reported", source="scheduler", marker="preempted", text="in 30 s")
    (found,) = incidents_of(restarted(kill(story), "g1").finish(), plan(fault()))[:1]
    assert found.detection.event.kind == "worker_failed"
