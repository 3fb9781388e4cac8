"""Claims about what a running run is shown to be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from report_builders import event, plan

from chaos.model.events import KINDS, Event
from chaos.model.plan import At, FaultPlan, JobPlan, ObjectivePlan
from chaos.report.progress import RunProgress

HANG = FaultPlan(name="hang", fault="process.hang", params={}, ranks=(1,), at=At(step=47), lasts_s=5.0, ends="undone")


def step(number, at_s, rank, life, group, reentry=0):
    return event("step_done", at_s, rank, step=number, loss=(2.5).hex(), life=life, group=group, reentry=reentry)


def fired(at_s=2.0, fault="kill"):
    return event("fault_fired", at_s, 1, fault=fault, step=47, phase="backward")


def seen(*events, **changes):
    progress = RunProgress(plan(**changes))
    return progress, [line for each in events for line in progress.see(each)]


def before():
    return [event("rank_started", 0.5, rank, life=f"{rank}a") for rank in (0, 1)] + [
        step(46, 1.9, rank, f"{rank}a", "first") for rank in (0, 1)
    ]


def test_steps_are_shown_with_loss_and_time():
    progress, _ = seen(step(1, 1.0, 0, "a", "g"), step(2, 1.02, 0, "a", "g"))
    rank = progress.ranks[0]
    assert (rank.step, rank.loss, rank.state) == (2, 2.5, "training")
    assert round(rank.step_time_s, 6) == 0.02


def test_where_steps_are_passed_over_the_time_of_one_is_shown():
    progress, _ = seen(step(1, 1.0, 0, "a", "g"), step(16, 1.3, 0, "a", "g"))
    assert round(progress.ranks[0].step_time_s, 6) == 0.02


def test_what_is_noticed_at_once_is_not_shown_as_never():
    _, lines = seen(*before(), fired(), event("interruption_reported", 2.001, 1))
    assert lines[-1].startswith("detected after <0.01 s")


def test_the_first_step_after_a_restart_is_no_step_time():
    progress, _ = seen(step(1, 1.0, 0, "a", "g"), step(1, 9.0, 0, "b", "h"))
    assert progress.ranks[0].step_time_s is None


def test_a_killed_worker_is_stopped_then_restarting_then_training():
    progress, _ = seen(*before(), fired(), event("process_exited", 2.01, life="1a"))
    assert progress.ranks[1].state == "stopped"
    progress.see(event("rank_started", 3.0, 1, life="1b"))
    assert progress.ranks[1].state == "restarting"
    progress.see(step(40, 4.0, 1, "1b", "second"))
    assert progress.ranks[1].state == "training"


def test_the_end_of_an_old_life_does_not_stop_its_successor():
    progress, _ = seen(*before(), event("rank_started", 3.0, 1, life="1b"), event("process_exited", 3.1, life="1a"))
    assert progress.ranks[1].state == "restarting"


def test_recovery_needs_every_rank():
    progress, _ = seen(*before(), fired(), step(40, 4.0, 0, "0b", "second"))
    assert progress.clock.recovered_ns is None
    assert progress.see(step(40, 4.5, 1, "1b", "second")) == ["all ranks step again 2.50 s after the fault"]


def test_a_ghost_step_in_the_old_group_is_no_recovery():
    progress, _ = seen(*before(), fired(), step(47, 5.0, 0, "0a", "first"), step(47, 5.0, 1, "1a", "first"))
    assert progress.clock.recovered_ns is None


def test_ranks_that_train_in_two_different_groups_have_not_recovered():
    progress, _ = seen(*before(), fired(), step(40, 4.0, 0, "0b", "second"), step(40, 4.0, 1, "1b", "third"))
    assert progress.clock.recovered_ns is None


def test_steps_of_the_new_group_that_arrive_before_the_fault_event_count():
    new = [step(40, 4.0 + rank / 10, rank, f"{rank}b", "second") for rank in (0, 1)]
    progress, lines = seen(*before(), *new, fired())
    assert round(progress.clock.recovery_s(0), 6) == 2.1
    assert lines[-1] == "all ranks step again 2.10 s after the fault"


def test_a_second_fault_before_the_recovery_joins_and_restarts_the_clock():
    progress, _ = seen(*before(), fired(2.0), step(40, 2.5, 0, "0b", "second"), fired(3.0, "again"))
    for rank in (0, 1):
        progress.see(step(40, 4.0, rank, f"{rank}c", "third"))
    assert progress.clock.recovery_s(0) == 1.0
    assert progress.clock.first_fired_ns == int(2e9)


def test_a_new_life_that_stepped_only_before_the_last_fault_does_not_count():
    progress, _ = seen(*before(), fired(2.0), step(40, 2.5, 0, "0b", "second"), fired(3.0, "again"))
    progress.see(step(40, 4.0, 1, "1b", "second"))
    assert progress.clock.recovered_ns is None


def test_a_job_that_needed_no_restart_goes_on_only_after_several_steps_of_all_ranks():
    progress, _ = seen(*before(), fired(fault="hang"), faults=(HANG,), steady_steps=5)
    for number in range(47, 51):
        for rank in (0, 1):
            progress.see(step(number, 3.0 + number / 100, rank, f"{rank}a", "first"))
    progress.see(step(51, 3.51, 0, "0a", "first"))
    assert progress.clock.recovered_ns is None
    progress.see(step(51, 3.51, 1, "1a", "first"))
    assert round(progress.clock.recovery_s(0), 6) == 1.47


def test_a_clock_from_the_undo_begins_there():
    goal = ObjectivePlan(clock_from="undone", recovery_time_s=8.0)
    progress, _ = seen(*before(), fired(fault="hang"), faults=(HANG,), objective=goal)
    assert progress.clock.recovery_s(int(9e9)) is None
    progress.see(event("fault_undone", 4.0, fault="hang"))
    assert progress.clock.recovery_s(int(9e9)) == 5.0


def test_a_job_that_may_shrink_has_recovered_with_the_ranks_of_its_new_group():
    job = JobPlan(run="trainer", shrink=True)
    ready = event("process_group_ready", 3.5, 0, world_size=1)
    progress, lines = seen(*before(), fired(), ready, step(40, 4.0, 0, "0b", "second"), job=job)
    assert lines[-1].startswith("all ranks step again 2.00 s")
    progress, _ = seen(*before(), fired(), ready, step(40, 4.0, 0, "0b", "second"))
    assert progress.clock.recovered_ns is None


def test_detection_counts_once_and_only_after_the_fault():
    early, late = event("worker_failed", 1.0), event("hang_detected", 2.3)
    progress, lines = seen(early, fired(), early, late, event("worker_failed", 2.5))
    assert [line for line in lines if "detected" in line] == ["detected after 0.30 s: the rank monitor saw a hang"]
    assert round(progress.clock.detection_s, 6) == 0.3


def test_a_fault_goes_from_planned_to_undone():
    progress = RunProgress(plan())
    states = [progress.faults["kill"].state]
    for kind in ("fault_armed", "fault_fired", "fault_confirmed", "fault_undone"):
        progress.see(event(kind, 2.0, 1, fault="kill"))
        states.append(progress.faults["kill"].state)
    assert states == ["planned", "armed", "fired", "confirmed", "undone"]


def test_bad_news_about_a_fault_gets_a_line():
    _, lines = seen(
        event("fault_not_fired", 2.0, fault="kill", reason="late"),
        event("undo_failed", 3.0, fault="kill", reason="EPERM"),
    )
    assert lines == ["fault kill not fired: late", "fault kill not undone: EPERM"]


def test_steady_is_told_once():
    steady = event("steady_state_met", 1.0, step=10, step_time_s=0.0212)
    assert seen(steady, steady)[1] == ["steady at step 10, 21.2 ms a step"]


ODD = st.sampled_from([None, True, -1, 10**400, float("nan"), float("inf"), "", "0x1p+1", "1e999", "\x1b[2J", [], {}])


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            Event,
            t_ns=st.integers(0, 10**12),
            wall_s=st.just(0.0),
            kind=st.sampled_from([*KINDS, "tomorrow's kind"]),
            life=st.sampled_from([None, "a", "b"]),
            group=st.sampled_from([None, "g", "h"]),
            rank=st.sampled_from([None, 0, 1, 7]),
            data=st.dictionaries(
                st.sampled_from(["step", "loss", "fault", "world_size", "step_time_s", "reason"]), ODD
            ),
        ),
        max_size=12,
    )
)
def test_no_sequence_of_odd_events_raises(events):
    seen(*events)
