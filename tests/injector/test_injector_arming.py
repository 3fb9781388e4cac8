"""When an order is sent, and to whom."""

from __future__ import annotations

import pytest
from injector_build import FIRST, OTHER, SECOND, fault, hang

from chaos.model.orders import LEASE_S
from chaos.model.plan import At


def test_nothing_is_armed_before_steady_state(run):
    one = run(fault())
    one.injector.arm("kill")
    one.ticks()
    assert one.log == [] and one.states() == ["queued"]
    one.injector.steady_state_met()
    one.injector.tick()
    assert one.states() == ["armed"]


def test_nothing_is_armed_that_the_experiment_did_not_ask_for(run):
    one = run(fault(), fault("other"))
    one.steady("other")
    assert one.states() == ["planned", "armed"]


def test_the_way_back_is_on_disk_before_the_order_is_said_and_sent(run):
    one = run(fault()).steady()
    assert one.log == [("intend", "disarm"), ("say", "fault_armed"), ("order", "signal_self")]
    (undo, name, _), (order,) = one.guard.intents["e0"], one.ranks.orders
    assert undo.args["lease_s"] == LEASE_S and undo.args["life"]["pid"] == FIRST.pid and name == "kill"
    assert (order.life, order.fault, order.kind) == (FIRST.id, "kill", "process.kill")
    assert (order.trigger.step, order.trigger.phase, order.trigger.point) == (47, "backward", "in_collective")


def test_no_more_ranks_are_aimed_at_than_may_be_down_at_once(run):
    one = run(fault(ranks=(0, 1)), ranks_down=1).steady()
    one.ticks()
    assert one.states() == ["armed", "queued"]
    one.event("fault_fired", OTHER, 0, fault="kill", order_id=one.ranks.orders[0].order_id, step=47)
    one.injector.tick()
    assert one.states() == ["fired", "armed"]


def test_two_ranks_down_allowed_arms_both(run):
    assert run(fault(ranks=(0, 1)), ranks_down=2).steady().states() == ["armed", "armed"]


def test_a_held_rank_counts_as_down_until_it_is_taken_back(run, time):
    one = run(hang(ranks=(1,), at=At(after_s=0.0), lasts_s=5.0), fault(ranks=(0,))).steady()
    one.ticks()
    assert one.states() == ["fired", "queued"]
    time.advance(5.0)
    one.ticks(2)
    assert one.states() == ["fired", "armed"] and len(one.writer.of("fault_undone")) == 1


def test_no_more_faults_fire_than_the_limit_says(run):
    one = run(fault("one"), fault("two"), faults=1, ranks_down=2).steady()
    one.fired(0)
    one.ticks()
    assert one.states() == ["fired", "queued"]


def test_a_rank_that_is_not_up_is_waited_for(run):
    one = run(fault())
    one.ranks.connected.pop(FIRST.id)
    one.steady()
    assert one.states() == ["queued"]
    one.ranks.connected[SECOND.id] = 1
    one.injector.tick()
    assert one.ranks.orders[0].life == SECOND.id


def test_a_connected_life_whose_pid_is_another_process_by_now_gets_nothing(run):
    one = run(fault())
    one.reader.processes[FIRST.pid] = SECOND
    one.steady()
    assert one.states() == ["queued"] and one.log == []


def test_after_seconds_from_steady_state(run, time):
    one = run(fault(at=At(after_s=5.0))).steady()
    time.advance(4.99)
    one.injector.tick()
    assert one.killer.sent == []
    time.advance(0.02)
    one.injector.tick()
    assert one.killer.sent == [(FIRST.id, 9, "run-7")]


@pytest.mark.parametrize("before", [True, False])
def test_an_event_counts_from_steady_state_on(run, before):
    one = run(fault(at=At(event="restart_entered")))
    if before:
        one.event("restart_entered")
    one.steady()
    assert one.killer.sent == []
    one.event("restart_entered")
    one.injector.tick()
    assert one.killer.sent == [(FIRST.id, 9, "run-7")]


def test_refuse_more_stops_what_is_queued_and_what_would_be_asked_for(run):
    one = run(fault(), fault("later"))
    one.injector.steady_state_met()
    one.injector.arm("kill")
    one.injector.refuse_more()
    one.injector.arm("later")
    one.ticks()
    assert one.log == [] and one.states() == ["queued", "planned"]


def test_after_refuse_more_a_waiting_rank_is_left_alone(run):
    one = run(hang()).steady()
    one.injector.refuse_more()
    one.reached()
    assert one.killer.sent == [] and one.guard.open_of("resume_process") == []
