"""`process.hang` is confirmed by looking: state T, right after the harm."""

from __future__ import annotations

import signal

from fault_build import VICTIM, FakeHost, exited, fired, step_done

from chaos.faults.process_hang import HangParams, ProcessHang
from chaos.model.identity import Life

PARAMS = HangParams()


def test_a_stopped_process_confirms():
    host = FakeHost()
    ProcessHang().harm(PARAMS, VICTIM, host, "run-7")
    assert host.sent == [(VICTIM.id, int(signal.SIGSTOP), "run-7")]
    assert ProcessHang().looks_right(PARAMS, VICTIM, host).acted is True


def test_a_process_that_still_runs_is_looked_at_again():
    confirmation = ProcessHang().looks_right(PARAMS, VICTIM, FakeHost())
    assert confirmation.acted is None
    assert confirmation.how == "it still runs"


def test_a_process_that_is_gone_confirms_nothing():
    host = FakeHost()
    host.state[VICTIM.id] = None
    confirmation = ProcessHang().looks_right(PARAMS, VICTIM, host)
    assert confirmation.acted is None
    assert "gone" in confirmation.how


def test_later_events_speak_for_neither_side():
    events = [step_done(57, 13.0), exited(13.5, signal=9)]
    assert ProcessHang().took_effect(PARAMS, fired(verb="notify"), events).acted is None


def test_the_undo_resumes_that_very_life():
    undo = ProcessHang().undo(PARAMS, VICTIM)
    assert undo.verb == "resume_process"
    assert Life(**undo.args["life"]) == VICTIM
