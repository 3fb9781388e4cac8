"""`process.kill` is confirmed by the death of that very process, by that very signal, and by nothing else."""

from __future__ import annotations

import signal

import pytest
from fault_build import PEER, VICTIM, FakeHost, event, exited, fired, step_done

from chaos.faults.process_kill import KillParams, ProcessKill

KILL = KillParams(signal="KILL")


def judge(*events, params=KILL, firing=None):
    return ProcessKill().took_effect(params, firing or fired(), list(events))


@pytest.mark.parametrize("shape", [{"signal": 9}, {"signal": "SIGKILL"}, {"signal": "KILL"}, {"code": -9}])
def test_the_death_of_the_target_by_the_signal_confirms(shape):
    confirmation = judge(exited(10.2, **shape))
    assert confirmation.acted is True
    assert "SIGKILL" in confirmation.how
    assert confirmation.evidence == ("history/some.jsonl:1",)


def test_death_by_another_signal_is_evidence_against():
    confirmation = judge(exited(10.2, signal=15))
    assert confirmation.acted is False
    assert confirmation.how == "the process ended by SIGTERM, not by SIGKILL"


def test_an_exit_code_is_evidence_against():
    confirmation = judge(exited(10.2, code=1), params=KillParams(signal="TERM"))
    assert confirmation.acted is False
    assert "exit code 1" in confirmation.how


def test_a_further_step_of_the_target_is_evidence_against():
    assert judge(step_done(57, 10.3), exited(20.0, signal=9)).acted is False


def test_a_step_after_the_target_entered_its_function_again_is_evidence_against():
    assert judge(step_done(41, 10.3, reentry=1, group="g1"), exited(20.0, signal=9)).acted is False


def test_the_step_before_the_fault_may_still_be_reported_after_it():
    assert judge(step_done(56, 10.001), exited(10.2, signal=9)).acted is True


def test_the_end_of_another_process_says_nothing():
    assert judge(exited(10.2, signal=9, life=PEER)).acted is None


def test_steps_of_the_others_say_nothing():
    assert judge(step_done(58, 10.3, life=PEER)).acted is None


def test_an_exit_before_the_firing_says_nothing():
    assert judge(exited(9.9, signal=9)).acted is None


def test_an_exit_that_nobody_could_read_decides_nothing():
    confirmation = judge(exited(10.2, source="none"))
    assert confirmation.acted is None
    assert "could not be read" in confirmation.how


def test_the_launchers_record_stands_in_where_the_kernel_could_not_be_asked():
    record = event("worker_failed", 10.4, PEER, pid=VICTIM.pid, code=-9, local_rank=1, line=2)
    confirmation = judge(exited(10.2, source="none"), record)
    assert confirmation.acted is True
    assert confirmation.evidence == ("history/some.jsonl:1", "history/some.jsonl:2")


def test_the_launchers_record_of_another_process_does_not_stand_in():
    record = event("worker_failed", 10.4, PEER, pid=PEER.pid, code=-9, local_rank=0)
    assert judge(exited(10.2, source="none"), record).acted is None


def test_from_outside_a_step_may_end_between_the_record_and_the_signal():
    outside = fired(verb="send", step=None)
    assert judge(step_done(57, 10.05), exited(10.2, signal=9), firing=outside).acted is True
    assert judge(step_done(99, 12.0), exited(20.0, signal=9), firing=outside).acted is False


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "SEGV", "ABRT"])
def test_every_signal_goes_out_as_itself(name):
    host = FakeHost()
    fault = ProcessKill()
    fault.harm(KillParams(signal=name), VICTIM, host, "run-7")
    assert host.sent == [(VICTIM.id, int(signal.Signals[f"SIG{name}"]), "run-7")]
    assert fault.verb(KillParams(signal=name)) == ("signal_self", {"signal": name})
