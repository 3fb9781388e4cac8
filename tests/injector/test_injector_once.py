"""A fault fires once, across restarts, whatever is lost on the way."""

from __future__ import annotations

from injector_build import FIRST, SECOND, fault

from chaos.errors import TargetGone
from chaos.model.orders import LEASE_MARGIN_S, LEASE_S


def test_a_rank_that_goes_unfired_hands_its_fault_to_the_next_life(run):
    one = run(fault()).steady()
    one.gone()
    one.ranks.connected[SECOND.id] = 1
    one.ticks(2)
    assert len(one.ranks.orders) == 1  # its last lines may still be on their way
    one.ticks(2)
    assert [order.life for order in one.ranks.orders] == [FIRST.id, SECOND.id]
    assert one.ranks.orders[0].order_id != one.ranks.orders[1].order_id
    # Measured by the guard, not closed on our word.
    assert one.guard.undone == ["e0"] and one.guard.closed == {} and one.guard.open_of("disarm") == ["e1"]


def test_the_order_of_a_rank_that_lives_on_without_its_connection_is_over_with_its_lease_and_nobody_waits(run):
    one = run(fault()).steady()
    one.gone(lives_on=True)
    one.ranks.connected[SECOND.id] = 1
    one.time.advance(LEASE_S)
    one.ticks(5)
    assert len(one.ranks.orders) == 1 and one.guard.undone == []  # it might still fire
    one.time.advance(2 * LEASE_MARGIN_S)
    one.ticks(1)
    assert one.guard.silent_since_ns == int(1000 * 1e9) and one.guard.undone == ["e0"]
    one.ticks(1)
    assert [order.life for order in one.ranks.orders] == [FIRST.id, SECOND.id]


def test_a_fault_that_fired_is_never_armed_again(run):
    one = run(fault()).steady()
    one.gone()
    one.fired()  # read after the connection had ended
    one.ranks.connected[SECOND.id] = 1
    one.ticks(10)
    assert len(one.ranks.orders) == 1 and one.states() == ["fired"]
    assert one.guard.closed == {"e0": "done"}


def test_asking_for_a_fault_again_does_not_fire_it_again(run):
    one = run(fault()).steady()
    one.fired()
    one.injector.arm("kill")
    one.ticks(5)
    assert len(one.ranks.orders) == 1


def test_a_record_of_another_order_does_not_count(run):
    one = run(fault()).steady()
    one.event("fault_fired", fault="kill", order_id="of another run", step=47)
    assert one.states() == ["armed"]


def test_a_rank_that_goes_between_choice_and_sending_is_not_lost(run):
    one = run(fault())

    def gone_already(order):
        raise TargetGone("not connected any more")

    send, one.ranks.send_order = one.ranks.send_order, gone_already
    one.steady()
    one.ranks.send_order = send
    one.time.advance(LEASE_S)
    one.ticks(4)
    assert one.ranks.orders == [] and one.guard.undone == []  # it may have arrived all the same
    one.time.advance(2 * LEASE_MARGIN_S)
    one.ticks(2)
    assert one.guard.silent_since_ns == int(1000 * 1e9)
    assert [order.life for order in one.ranks.orders] == [FIRST.id]


def test_a_rank_that_was_past_its_step_says_so_and_that_is_final(run):
    one = run(fault()).steady()
    one.event("fault_not_fired", fault="kill", reason="rank 1 was already at step 52")
    one.ticks(5)
    assert one.states() == ["not_fired"] and len(one.ranks.orders) == 1
    assert one.guard.open_of("disarm") == [] and one.writer.of("fault_not_fired") == []
    assert one.injector.is_settled


def test_an_order_that_the_rank_dropped_is_said_not_to_have_fired_and_why(run):
    one = run(fault()).steady()
    one.event("fault_disarmed", fault="kill", reason="the lease had run out")
    (said,) = one.writer.of("fault_not_fired")
    assert "the lease had run out" in said["reason"] and one.guard.open_of("disarm") == []


def test_a_dropped_order_of_a_rank_that_is_gone_goes_to_the_next_life(run):
    one = run(fault()).steady()
    one.gone()
    one.event("fault_disarmed", fault="kill", reason="the injector is gone")
    one.ranks.connected[SECOND.id] = 1
    one.ticks(4)
    assert [order.life for order in one.ranks.orders] == [FIRST.id, SECOND.id]


def test_a_kill_in_the_rank_is_confirmed_by_how_it_ended(run):
    one = run(fault()).steady()
    one.fired()
    one.injector.tick()
    assert one.writer.of("fault_confirmed") == [] and not one.injector.is_settled
    one.event("process_exited", pid=FIRST.pid, role="rank", code=None, signal=9, source="child")
    one.injector.tick()
    (said,) = one.writer.of("fault_confirmed")
    assert said["evidence"] == ["rank.jsonl:1"] and one.injector.is_settled
    one.ticks()
    assert len(one.writer.of("fault_confirmed")) == 1


def test_a_rank_that_trains_on_is_evidence_that_the_kill_did_not_act(run, time):
    one = run(fault()).steady()
    one.fired()
    time.advance(1.0)
    one.event("step_done", step=48)
    one.injector.tick()
    (said,) = one.writer.of("fault_not_confirmed")
    assert said["contrary"] is True and one.writer.of("fault_confirmed") == []
