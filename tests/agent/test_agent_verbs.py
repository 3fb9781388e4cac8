"""Each verb: the record is on disk before the harm, and there is no harm without the record."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from agent_build import enter_rank, events, kinds_of, lines_now, order, run_rank

import chaos.agent
from chaos.agent.verbs.notify import notify
from chaos.history.writer import Writer
from chaos.model.orders import NOTIFY_WAIT_S


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV"])
def test_a_signal_ends_the_rank_and_its_record_was_there_before(run_dir, name):
    script = f"rank.orders.take(order('signal_self', signal={name!r}))\n"
    script += "agent.step_done(2, loss=1.0, lr=1.0, grad_norm=1.0, samples=(0, 1))\n"
    ended = run_rank(run_dir, script + "agent.enter('forward', 3)\ntime.sleep(30)\n")
    assert ended.returncode == -signal.Signals[f"SIG{name}"]
    (fired,) = events(run_dir, "fault_fired")
    assert fired["verb"] == "signal_self" and (fired["step"], fired["phase"]) == (3, "forward")
    before = ["rank_started", "settings_seen", "phase_entered", "step_done", "phase_entered", "phase_entered"]
    assert kinds_of(run_dir) == [*before, "fault_fired"]


VERBS = [("signal_self", {"signal": "KILL"}), ("raise_error", {"type": "RuntimeError"}), ("notify", {})]


@pytest.fixture
def harm(rank, monkeypatch):
    """What was done or asked for: signals sent, and what the injector was told. An exception shows by itself."""
    done = []
    monkeypatch.setattr("os.kill", lambda *call: done.append(call))
    rank.channel = Waiting()
    rank.channel.said = done
    return done


def close_file(rank):
    rank._writer.close()


def fill_disk(rank):
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), rank._writer._fd)


@pytest.mark.parametrize("breaks", [close_file, fill_disk])
@pytest.mark.parametrize("verb, args", VERBS)
def test_what_cannot_be_recorded_is_not_done(rank, harm, verb, args, breaks):
    rank.orders.take(order(rank, verb=verb, args=args, step=3, phase="forward"))
    assert rank.settled()
    breaks(rank)
    rank.enter("forward", 3)
    assert harm == [] and rank.recorder is None


@pytest.mark.parametrize("verb, args", VERBS)
def test_the_disk_that_fails_at_the_last_line_before_a_harm_keeps_it_from_being_done(
    rank, run_dir, harm, monkeypatch, verb, args
):
    """The disk fills up between what came before and the last line."""
    rank.orders.take(order(rank, verb=verb, args=args, step=3, phase="forward"))
    put, last = Writer.put, '"forward"' if verb == "notify" else '"fault_fired"'

    def full(self, lines):
        if last in lines:
            raise OSError(28, "No space left on device")
        put(self, lines)

    monkeypatch.setattr(Writer, "put", full)
    rank.enter("forward", 3)
    assert harm == [] and rank.recorder is None
    assert events(run_dir, "fault_fired") == [] and "No space left" in events(run_dir, "source_blind")[0]["reason"]


@pytest.mark.parametrize("verb, args", VERBS)
def test_a_disk_that_hangs_keeps_the_harm_from_being_done_and_leaves_the_rank_blind(
    rank, run_dir, harm, monkeypatch, verb, args
):
    """The record reaches the disk after all, when the rank has gone on without the harm: nobody may trust it."""
    assert rank.settled()
    goes_on, put = threading.Event(), Writer.put
    monkeypatch.setattr(Writer, "put", lambda self, lines: (goes_on.wait(20), put(self, lines)))
    monkeypatch.setattr("chaos.agent.recorder.SETTLE_S", 0.05)
    rank.orders.take(order(rank, verb=verb, args=args, step=3, phase="forward"))
    rank.enter("forward", 3)
    rank.enter("backward", 3)
    assert harm == [] and rank.recorder is None
    goes_on.set()
    (blind,) = events(run_dir, "source_blind")
    assert blind["source"] == "rank" and "not written within" in blind["reason"]
    assert [line["phase"] for line in events(run_dir, "phase_entered")] == ["init", "forward"]


def test_an_exception_is_raised_only_when_its_record_is_in_the_file(rank, run_dir):
    rank.orders.take(order(rank, step=3, phase="forward"))
    with pytest.raises(RuntimeError):
        rank.enter("forward", 3)
    assert [line["kind"] for line in lines_now(run_dir)][-2:] == ["phase_entered", "fault_fired"]


def test_the_injector_hears_of_a_point_only_when_what_led_there_is_in_the_file(rank, run_dir):
    class Looking(Waiting):
        def reached(self, order, **where):
            self.said = lines_now(run_dir)

    rank.channel = Looking(answer_at=1)
    rank.orders.take(order(rank, verb="notify", args={}, step=3, phase="forward"))
    rank.enter("forward", 3)
    assert (rank.channel.said[-1]["kind"], rank.channel.said[-1]["phase"]) == ("phase_entered", "forward")


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
