"""Harm from outside: the undo is on disk first, and it falls where it was asked for or not at all."""

from __future__ import annotations

import signal

import pytest
from injector_build import FIRST, SECOND, fault, hang

from chaos.errors import CannotWrite, NotUndone, Refused, TargetGone
from chaos.injector.injector import LOOK_FOR_S
from chaos.model.orders import NOTIFY_WAIT_S
from chaos.model.plan import At
from chaos.model.undo import Undone


def test_undo_then_record_then_harm_then_answer(run):
    one = run(hang()).steady()
    one.log.clear()
    reached = one.reached()
    assert one.log == [
        ("intend", "resume_process"), ("say", "fault_fired"), ("signal", signal.SIGSTOP), ("answer", reached.order_id),
    ]  # fmt: skip
    (said,) = one.writer.of("fault_fired")
    assert (said["step"], said["phase"], said["point"], said["pid"]) == (47, "backward", "in_collective", FIRST.pid)
    assert said["life"] == FIRST.id and one.guard.open_of("disarm") == []
    assert one.killer.sent == [(FIRST.id, signal.SIGSTOP, "run-7")]


def test_the_undo_has_the_faults_own_time_limit_or_the_runs(run):
    one = run(hang(lasts_s=5.0)).steady()
    one.reached()
    other = run(hang(), timeout_s=90.0).steady()
    other.reached()
    assert [each.guard.intents["e1"][2] for each in (one, other)] == [5.0, 90.0]


@pytest.mark.parametrize("waited_s", [NOTIFY_WAIT_S - 0.01, NOTIFY_WAIT_S, 5.0])
def test_a_rank_that_waited_too_long_is_not_harmed_and_its_entry_is_undone(run, time, waited_s):
    one = run(hang()).steady()
    one.reached(at=time.now - waited_s)
    assert one.killer.sent == [] and one.writer.of("fault_fired") == []
    (said,) = one.writer.of("fault_not_fired")
    assert said["reason"].startswith("late")
    assert one.guard.open_of("resume_process") == [] and one.guard.open_of("disarm") == []
    assert one.states() == ["not_fired"]


def test_a_rank_that_withdrew_is_not_harmed(run):
    one = run(hang()).steady()
    one.ranks.withdrawn.add(one.ranks.orders[0].order_id)
    one.reached()
    assert one.killer.sent == [] and one.writer.of("fault_not_fired")[0]["reason"].startswith("late")


def test_harm_that_took_longer_than_the_rank_waits_is_taken_back_and_proves_nothing(run, time):
    one = run(hang()).steady()
    one.killer.time, one.killer.takes_s = time, NOTIFY_WAIT_S + 0.05
    one.reached()
    one.ticks()
    (said,) = one.writer.of("fault_not_confirmed")
    assert said["contrary"] is False and len(one.writer.of("fault_undone")) == 1
    assert one.writer.of("fault_confirmed") == []


@pytest.mark.parametrize("error", [TargetGone("it is gone"), Refused("nothing proves that it is ours")])
def test_harm_that_did_not_happen_is_said_so_and_undone(run, error):
    one = run(hang()).steady()
    one.killer.fails = error
    one.reached()
    (said,) = one.writer.of("fault_not_confirmed")
    assert said == {
        "fault": "hang", "life": FIRST.id, "header_rank": 1, "reason": error.message, "contrary": True,
    }  # fmt: skip
    assert len(one.writer.of("fault_undone")) == 1 and one.guard.open_of("resume_process") == []
    one.ticks()
    assert one.injector.is_settled and one.writer.of("fault_confirmed") == []


def test_an_order_that_nobody_knows_harms_nobody(run):
    one = run(hang()).steady()
    stranger = run(hang()).steady().reached()
    one.injector.on_reached(stranger)
    assert one.killer.sent == []


def test_the_same_wait_told_twice_harms_once(run):
    one = run(hang()).steady()
    one.injector.on_reached(one.reached())
    assert len(one.killer.sent) == 1


def test_a_stop_is_confirmed_by_looking_and_held_until_it_has_lasted(run, time):
    one = run(hang(lasts_s=5.0)).steady()
    one.reached()
    one.injector.tick()
    assert len(one.writer.of("fault_confirmed")) == 1 and not one.injector.is_settled
    time.advance(4.9)
    one.ticks()
    assert one.writer.of("fault_undone") == []
    time.advance(0.2)
    one.ticks()
    (said,) = one.writer.of("fault_undone")
    assert (said["how"], said["measured"]) == ("done", True) and one.injector.is_settled


def test_a_stop_that_nobody_sees_is_not_confirmed_and_not_denied(run, time):
    one = run(hang()).steady()
    one.reader.stopped = False
    one.reached()
    one.injector.tick()
    assert one.writer.of("fault_not_confirmed") == []
    time.advance(LOOK_FOR_S + 0.1)
    one.ticks()
    (said,) = one.writer.of("fault_not_confirmed")
    assert said["contrary"] is False


def test_a_stopped_life_that_ends_is_undone_at_once(run):
    one = run(hang()).steady()
    one.reached()
    one.guard.results = [Undone(how="gone", measured=True)]
    one.event("process_exited", SECOND, pid=SECOND.pid, code=0, signal=None)
    assert one.writer.of("fault_undone") == []
    one.event("process_exited", pid=FIRST.pid, code=None, signal=9)
    assert one.writer.of("fault_undone")[0]["how"] == "gone"


def test_an_undo_that_fails_is_said_once_and_tried_again(run, time):
    one = run(hang(lasts_s=1.0)).steady()
    one.reached()
    failed = Undone(how="failed", measured=True, detail="still stopped")
    one.guard.results = [failed, failed, NotUndone("no answer"), Undone(how="done", measured=True)]
    time.advance(1.5)
    one.ticks(3)
    assert [said["reason"] for said in one.writer.of("undo_failed")] == ["still stopped", "no answer"]
    assert one.writer.of("fault_undone") == []
    one.injector.tick()
    assert len(one.writer.of("fault_undone")) == 1


@pytest.mark.parametrize("error", [CannotWrite("the ledger: disk full"), Refused("the watchdog has ended")])
def test_without_an_undo_on_disk_no_order_is_sent_and_the_session_hears_of_it(run, error):
    one = run(fault(), fault("second"), ranks_down=2)
    one.guard.fails = error
    with pytest.raises(type(error), match=error.message):
        one.steady()
    assert one.ranks.orders == [] and one.killer.sent == []
    assert error.message in one.writer.of("fault_not_fired")[0]["reason"]
    one.ticks()  # told once; and no more harm, although the guard could write again
    one.guard.fails = None
    one.ticks()
    assert one.ranks.orders == [] and one.states() == ["not_fired", "queued"]


@pytest.mark.parametrize("error", [CannotWrite("the ledger: disk full"), Refused("the watchdog has ended")])
def test_without_an_undo_on_disk_a_waiting_rank_is_not_stopped_and_the_pump_hears_of_it(run, error):
    one = run(hang()).steady()
    one.guard.fails = error
    one.reached()  # on the server's thread: an error raised here would reach nobody
    assert one.killer.sent == [] and one.writer.of("fault_fired") == []
    with pytest.raises(type(error), match=error.message):
        one.injector.tick()
    one.ticks()
    assert one.states() == ["not_fired"] and one.guard.open_of("disarm") == []


def test_without_a_record_there_is_no_harm(run):
    one = run(hang()).steady()
    one.writer.fails_on = {"fault_fired": OSError(28, "No space left on device")}
    one.reached()
    assert one.killer.sent == []
    with pytest.raises(OSError):
        one.injector.tick()
    one.writer.fails_on = {}
    one.injector.undo_held()
    assert one.guard.open_of("resume_process") == []


def test_a_signal_from_outside_needs_no_undo(run):
    one = run(fault(at=At(after_s=0.0))).steady()
    assert one.log == [("say", "fault_fired"), ("signal", 9)]
    (said,) = one.writer.of("fault_fired")
    assert said["verb"] == "outside" and said["step"] is None
