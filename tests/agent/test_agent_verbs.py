"""Each verb: the record is on disk before the harm, and there is no harm without the record."""

from __future__ import annotations

import signal
import threading

import pytest
from agent_build import enter_rank, events, order, run_rank

import chaos.agent
from chaos.agent.verbs.notify import notify
from chaos.model.orders import NOTIFY_WAIT_S


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV"])
def test_a_signal_ends_the_rank_and_its_record_was_there_before(run_dir, name):
    ended = run_rank(
        run_dir, f"rank.orders.take(order('signal_self', signal={name!r}))\nagent.enter('forward', 3)\ntime.sleep(30)\n"
    )
    assert ended.returncode == -signal.Signals[f"SIG{name}"]
    (fired,) = events(run_dir, "fault_fired")
    assert fired["verb"] == "signal_self" and (fired["step"], fired["phase"]) == (3, "forward")


@pytest.mark.parametrize("verb, args", [("signal_self", {"signal": "KILL"}), ("raise_error", {"type": "RuntimeError"})])
def test_what_cannot_be_recorded_is_not_done(rank, monkeypatch, verb, args):
    killed = []
    monkeypatch.setattr("os.kill", lambda *call: killed.append(call))
    rank.orders.take(order(rank, verb=verb, args=args, step=3, phase="forward"))
    rank.writer.close()
    rank.enter("forward", 3)
    assert killed == [] and rank.writer is None


def test_the_record_is_written_even_when_it_is_the_first_line_that_fails(rank, run_dir, monkeypatch):
    """The disk fills up between the phase and the record: still no harm."""
    write = rank.writer.write

    def full(kind, fields=None):
        if kind == "fault_fired":
            raise OSError(28, "No space left on device")
        write(kind, fields)

    monkeypatch.setattr("chaos.history.writer.Writer.write", lambda self, kind, fields=None: full(kind, fields))
    rank.orders.take(order(rank, step=3, phase="forward"))
    rank.enter("forward", 3)
    assert events(run_dir, "fault_fired") == [] and rank.writer is None


class Waiting:
    """A channel whose answer comes at the n-th look, or never."""

    def __init__(self, answer_at=None):
        self.said, self.looks, self.answer_at = [], 0, answer_at

    def reached(self, order, **where):
        self.said.append(("reached", order.order_id, where))

    def withdraw(self, order):
        self.said.append(("withdraw", order.order_id))

    def was_answered(self, order_id):
        self.looks += 1
        return self.answer_at is not None and self.looks >= self.answer_at


def test_a_notified_injector_that_answers_lets_the_rank_go_on_at_once(rank, run_dir):
    rank.channel = Waiting(answer_at=3)
    rank.enter("backward", 3)
    notify(rank, order(rank, verb="notify", args={}), "entry")
    assert rank.channel.said == [("reached", "o1", {"step": 3, "phase": "backward", "point": "entry"})]
    assert events(run_dir, "fault_fired") == []  # the injector's to write


def test_a_silent_injector_is_waited_for_no_longer_than_agreed_and_told_so(rank, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    rank.channel = Waiting()
    notify(rank, order(rank, verb="notify", args={}), "entry")
    assert [said[0] for said in rank.channel.said] == ["reached", "withdraw"]
    assert now[0] - 100.0 == pytest.approx(NOTIFY_WAIT_S, abs=0.01)


def test_a_rank_over_a_real_channel_reports_its_point_and_obeys(run_dir, injector, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    monkeypatch.setenv("NVRX_CHAOS_TOKEN", "t0")
    enter_rank(chaos.agent)
    agent = chaos.agent._agent
    hello = injector.greet()
    assert (hello["say"], hello["token"], hello["life"], hello["initial_rank"]) == ("hello", "t0", agent.life, 1)
    injector.say(say="order", order=order(agent, verb="notify", args={}, step=3, phase="forward").to_json())
    wait_until(lambda: agent.orders.held)
    training = threading.Thread(target=agent.enter, args=("forward", 3))
    training.start()
    reached = injector.hear()
    assert (reached["say"], reached["step"], reached["phase"], reached["point"]) == ("reached", 3, "forward", "entry")
    injector.say(say="done", order_id=reached["order_id"])
    training.join()
    chaos.agent.finished(3)
    assert injector.hear()["say"] == "bye"  # and no withdrawal before it


def test_an_answer_that_comes_too_late_changes_nothing(run_dir, injector, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    enter_rank(chaos.agent)
    agent = chaos.agent._agent
    injector.greet()
    agent.orders.take(order(agent, verb="notify", args={}, step=3, phase="forward"))
    agent.enter("forward", 3)
    assert [injector.hear()["say"], injector.hear()["say"]] == ["reached", "withdraw"]
    injector.say(say="done", order_id="o1")
    agent.enter("backward", 3)
    assert [line["phase"] for line in events(run_dir, "phase_entered")][-1] == "backward"


def test_the_end_of_the_channel_disarms(run_dir, injector, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    enter_rank(chaos.agent)
    agent = chaos.agent._agent
    injector.greet()
    injector.say(say="order", order=order(agent, step=3, phase="forward").to_json())
    wait_until(lambda: agent.orders.held)
    injector.hang_up()
    wait_until(lambda: not agent.orders.held)
    agent.enter("forward", 3)
    assert events(run_dir, "fault_fired") == []
    assert [line["reason"] for line in events(run_dir, "fault_disarmed")] == ["the injector is gone"]


@pytest.mark.parametrize(
    "raw", [b"garbage\n", b"[]\n", b'{"say":"order","order":{"verb":"rm"}}\n', b'{"say":"jump"}\n']
)
def test_a_message_that_is_none_is_ignored_and_said(run_dir, injector, monkeypatch, raw):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    enter_rank(chaos.agent)
    agent = chaos.agent._agent
    injector.greet()
    injector.say_raw(raw)
    injector.say(say="order", order=order(agent, step=3, phase="forward").to_json())
    wait_until(lambda: agent.orders.held)
    (blind,) = events(run_dir, "source_blind")
    assert blind["source"] == "control_channel" and "a message was ignored" in blind["reason"]


def test_a_message_without_an_end_ends_the_channel(run_dir, injector, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    monkeypatch.setattr("chaos.agent.channel.MESSAGE_BYTES_MAX", 1000)
    enter_rank(chaos.agent)
    agent = chaos.agent._agent
    injector.greet()
    injector.say(say="order", order=order(agent, step=3, phase="forward").to_json())
    wait_until(lambda: agent.orders.held)
    injector.say_raw(b"x" * 2000)
    wait_until(lambda: not agent.orders.held)
    assert injector.hear() is None


def wait_until(claim):
    """For what the channel's own thread does."""
    ready = threading.Event()
    for _ in range(2000):
        if claim():
            return
        ready.wait(0.005)
    raise AssertionError("it never came true")
