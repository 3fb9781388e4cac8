"""When a rank acts on an order, and when it must not."""

from __future__ import annotations

import pytest
from agent_build import enter_rank, events, kinds_of, order

from chaos.model.orders import LEASE_S


def walk(rank, first=1, last=5):
    """Steps as a training loop reports them."""
    for step in range(first, last + 1):
        rank.enter("data", step)
        rank.enter("forward", step)
        rank.enter("backward", step)
        rank.enter("optimizer", step)
        rank.step_returned()
        rank.step_done(step, 1.0, 1.0, 1.0, (0, 1))


def test_it_fires_at_its_step_and_phase_and_nowhere_else(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="backward"))
    with pytest.raises(RuntimeError):
        walk(rank)
    (fired,) = events(run_dir, "fault_fired")
    assert (fired["step"], fired["phase"], fired["point"]) == (3, "backward", "entry")
    assert (fired["fault"], fired["order_id"], fired["verb"], fired["pid"]) == ("boom", "o1", "raise_error", rank.pid)
    assert kinds_of(run_dir)[-1] == "fault_fired"


def test_the_exception_says_who_raised_it(rank):
    rank.orders.take(order(rank, step=3, phase="forward", args={"type": "ValueError", "message": "bang"}))
    with pytest.raises(ValueError, match=r"^nvrx-chaos: injected by process\.exception of run-7: bang$"):
        walk(rank)


def test_it_fires_once_although_its_step_comes_again(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward"))
    with pytest.raises(RuntimeError):
        walk(rank)
    enter_rank(rank)
    walk(rank)
    assert len(events(run_dir, "fault_fired")) == 1


def test_it_does_not_fire_again_when_the_same_order_comes_twice(rank, run_dir):
    one = order(rank, step=3, phase="forward")
    rank.orders.take(one)
    rank.orders.take(one)
    with pytest.raises(RuntimeError):
        walk(rank)
    rank.orders.take(one)
    walk(rank)
    assert len(events(run_dir, "fault_fired")) == 1


def test_an_order_that_comes_while_another_fires_is_neither_lost_nor_makes_that_one_fire_again(rank, run_dir, clock):
    second = order(rank, order_id="o2", step=4, phase="forward")
    clock.on_sleep = lambda: rank.orders.take(second)  # the channel's thread, in the middle of the first
    rank.orders.take(order(rank, step=3, phase="forward", after_s=0.001))
    with pytest.raises(RuntimeError):
        walk(rank)
    clock.on_sleep = None
    with pytest.raises(RuntimeError):
        walk(rank)
    walk(rank)
    assert [line["order_id"] for line in events(run_dir, "fault_fired")] == ["o1", "o2"]


@pytest.mark.parametrize("late_s", [LEASE_S, 60.0])
def test_without_a_fresh_lease_there_is_no_harm(rank, run_dir, clock, late_s):
    rank.orders.take(order(rank, step=3, phase="forward"))
    clock.advance(late_s)
    walk(rank)
    assert events(run_dir, "fault_fired") == []
    assert [line["reason"] for line in events(run_dir, "fault_disarmed")] == ["the lease had run out"]


def test_a_lease_renewed_in_time_still_holds(rank, run_dir, clock):
    rank.orders.take(order(rank, step=3, phase="forward"))
    for _ in range(4):
        clock.advance(LEASE_S * 0.9)
        rank.orders.renew()
    with pytest.raises(RuntimeError):
        walk(rank)


def test_a_lease_that_has_run_out_is_not_brought_back_by_a_renewal(rank, run_dir, clock):
    rank.orders.take(order(rank, step=3, phase="forward"))
    clock.advance(LEASE_S + 0.1)
    rank.orders.renew()  # from an injector that was stopped meanwhile, and whose watchdog has undone everything
    walk(rank)
    assert events(run_dir, "fault_fired") == []
    assert [line["reason"] for line in events(run_dir, "fault_disarmed")] == ["the lease had run out"]


def test_the_lease_is_looked_at_after_the_wait_past_the_point(rank, run_dir, clock):
    rank.orders.take(order(rank, step=3, phase="forward", after_s=LEASE_S + 0.1))
    walk(rank)
    assert events(run_dir, "fault_fired") == []
    assert [line["reason"] for line in events(run_dir, "fault_disarmed")] == ["the lease had run out"]


def test_after_s_is_waited_past_the_point(rank, run_dir, clock):
    began = clock.now_ns
    rank.orders.take(order(rank, step=3, phase="forward", after_s=0.005))
    with pytest.raises(RuntimeError):
        walk(rank)
    entered = [line for line in events(run_dir, "phase_entered") if (line["step"], line["phase"]) == (3, "forward")]
    (fired,) = events(run_dir, "fault_fired")
    assert entered[0]["t_ns"] == began and fired["t_ns"] == began + 5_000_000


@pytest.mark.parametrize("how", ["cancel", "drop_all"])
def test_what_is_taken_back_while_it_waits_past_its_point_does_no_harm(rank, run_dir, clock, how):
    def take_back():
        rank.orders.cancel("o1") if how == "cancel" else rank.orders.drop_all("the injector is gone")

    clock.on_sleep = take_back
    rank.orders.take(order(rank, step=3, phase="forward", after_s=0.5))
    walk(rank)
    assert events(run_dir, "fault_fired") == []
    assert len(events(run_dir, "fault_disarmed")) == 1


def test_an_order_for_another_life_is_refused(rank, run_dir):
    rank.orders.take(order(rank, life="0123abcd-1-2-3", step=3, phase="forward"))
    walk(rank)
    assert events(run_dir, "fault_fired") == []
    assert [line["reason"] for line in events(run_dir, "fault_not_fired")] == ["the order is for another life"]


@pytest.mark.parametrize("trigger", [{"step": 3, "phase": "optimizer"}, {"step": 4, "phase": "forward"}])
def test_an_order_that_comes_too_late_is_refused_with_where_the_rank_was(rank, run_dir, trigger):
    walk(rank, 1, 3)
    rank.enter("data", 4)
    rank.enter("forward", 4)
    rank.enter("backward", 4)
    rank.orders.take(order(rank, **trigger))
    assert [line["reason"] for line in events(run_dir, "fault_not_fired")] == ["rank 1 was already at step 4"]
    assert rank.orders.held == ()


def test_a_cancelled_order_does_not_fire(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward"))
    rank.orders.take(order(rank, order_id="o2", step=4, phase="forward"))
    rank.orders.cancel("o1")
    with pytest.raises(RuntimeError):
        walk(rank)
    assert [line["order_id"] for line in events(run_dir, "fault_fired")] == ["o2"]
    assert [line["reason"] for line in events(run_dir, "fault_disarmed")] == ["taken back"]


def test_taking_back_what_has_fired_says_nothing(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward"))
    with pytest.raises(RuntimeError):
        walk(rank)
    rank.orders.cancel("o1")
    rank.orders.drop_all("the injector is gone")
    assert events(run_dir, "fault_disarmed") == []


def test_orders_that_are_over_are_let_go_at_the_next_renewal(rank):
    rank.orders.take(order(rank, step=3, phase="forward"))
    with pytest.raises(RuntimeError):
        walk(rank)
    rank.orders.renew()
    assert rank.orders.held == ()


def test_the_exit_of_a_phase_comes_when_the_next_one_begins(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward", point="exit"))
    with pytest.raises(RuntimeError):
        walk(rank)
    (fired,) = events(run_dir, "fault_fired")
    assert (fired["step"], fired["phase"], fired["point"]) == (3, "forward", "exit")
    assert [line["phase"] for line in events(run_dir, "phase_entered")][-1] == "forward"


def test_a_phase_that_an_interruption_ended_has_no_exit(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward", point="exit"))
    rank.enter("forward", 3)
    enter_rank(rank)  # NVRx brought it back to the beginning
    assert events(run_dir, "fault_fired") == []


def test_a_point_inside_a_phase_fires_there(rank, run_dir):
    rank.orders.take(order(rank, step=4, phase="checkpoint_commit", point="after_rename"))
    rank.enter("checkpoint_commit", 4)
    rank.point("before_rename")
    with pytest.raises(RuntimeError):
        rank.point("after_rename")
    assert events(run_dir, "fault_fired")[0]["point"] == "after_rename"


def test_in_collective_is_due_in_its_phase_only_and_once(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="backward", point="in_collective"))
    rank.enter("forward", 3)
    assert rank.orders.due_in_collective() is None
    rank.enter("backward", 3)
    due = rank.orders.due_in_collective()
    assert due is not None
    with pytest.raises(RuntimeError):
        rank.orders.act_in_collective(due)
    assert rank.orders.due_in_collective() is None
    assert events(run_dir, "fault_fired")[0]["point"] == "in_collective"


def test_an_order_without_a_step_is_due_at_once(rank, run_dir):
    rank.orders.take(order(rank))
    with pytest.raises(RuntimeError):
        rank.enter("forward", 2)
