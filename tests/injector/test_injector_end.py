"""The end of a run: held and armed is taken back, and every planned fault has a last word."""

from __future__ import annotations

from injector_build import FIRST, fault, hang

from chaos.model.plan import At


def test_what_is_held_is_taken_back_before_what_is_armed(run):
    one = run(fault("order", ranks=(0,)), hang(at=At(after_s=0.0)), ranks_down=2).steady()
    one.log.clear()
    one.injector.undo_held()
    assert one.log == [("undo", "resume_process"), ("say", "fault_undone"), ("say", "fault_not_fired")]
    # The rank has not answered: the entry stays open, for the guard to measure at the end.
    assert len(one.ranks.cancelled) == 1 and len(one.guard.open_of("disarm")) == 1
    assert one.writer.of("fault_not_fired")[0]["fault"] == "order"


def test_undoing_twice_says_it_once(run):
    one = run(hang(at=At(after_s=0.0))).steady()
    one.injector.undo_held()
    one.injector.undo_held()
    assert len(one.writer.of("fault_undone")) == 1


def test_nothing_new_begins_once_the_end_has_begun(run):
    one = run(fault(), fault("second"))
    one.injector.steady_state_met()
    one.injector.arm("kill")
    one.injector.undo_held()
    one.injector.arm("second")
    one.ticks()
    assert one.ranks.orders == []


def test_every_planned_fault_has_a_last_word(run):
    plan = [fault("planned"), fault("queued"), fault("armed", ranks=(0,)), fault("fired"), hang(at=At(after_s=0.0))]
    one = run(*plan, ranks_down=3)
    one.injector.steady_state_met()
    for name in ("fired", "armed", "hang"):
        one.injector.arm(name)
        one.injector.tick()
    one.fired(0)
    one.ranks.connected.clear()
    one.injector.arm("queued")
    one.ticks()
    one.injector.finish()
    assert [said["fault"] for said in one.writer.of("fault_not_fired")] == ["planned", "queued", "armed"]
    assert all("the run ended" in said["reason"] for said in one.writer.of("fault_not_fired"))
    (unproven,) = one.writer.of("fault_not_confirmed")
    assert (unproven["fault"], unproven["contrary"]) == ("fired", False)
    assert [said["fault"] for said in one.writer.of("fault_confirmed")] == ["hang"]


def test_evidence_that_came_at_the_very_end_still_counts(run):
    one = run(fault()).steady()
    one.fired()
    one.event("process_exited", pid=FIRST.pid, code=None, signal=9, source="child")
    one.injector.finish()
    assert len(one.writer.of("fault_confirmed")) == 1 and one.writer.of("fault_not_confirmed") == []


def test_a_last_word_is_said_once(run):
    one = run(fault()).steady()
    one.injector.finish()
    one.injector.finish()
    assert len(one.writer.of("fault_not_fired")) == 1


def test_a_run_is_settled_only_when_each_of_its_faults_is(run):
    one = run(fault(), hang(at=At(after_s=0.0)))
    assert not one.injector.is_settled
    one.steady("hang")
    one.ticks()
    assert not one.injector.is_settled
    one.injector.undo_held()
    one.injector.finish()
    assert one.injector.is_settled
