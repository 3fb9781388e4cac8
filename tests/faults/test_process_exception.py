"""`process.exception` is confirmed when the rank left its training function, and refuted when it went on."""

from __future__ import annotations

from fault_build import PEER, event, exited, fired, step_done

from chaos.faults.process_exception import ExceptionParams, ProcessException

PARAMS = ExceptionParams()
TEXT = "RuntimeError: nvrx-chaos: injected by process.exception of run-7: "


def judge(*events):
    return ProcessException().took_effect(PARAMS, fired(verb="raise_error"), list(events))


def test_an_interruption_that_carries_our_mark_confirms():
    confirmation = judge(event("interruption_reported", 10.1, text=TEXT, source="nvrx", marker="exception"))
    assert confirmation.acted is True
    assert confirmation.evidence == ("history/some.jsonl:1",)


def test_an_interruption_without_our_mark_confirms_nothing():
    assert judge(event("interruption_reported", 10.1, text="RuntimeError: connection reset")).acted is None


def test_a_peers_record_confirms_nothing():
    assert judge(event("interruption_reported", 10.1, PEER, text=TEXT)).acted is None


def test_entering_the_training_function_again_confirms():
    assert judge(event("restart_entered", 10.4, reentry=1)).acted is True


def test_a_restart_recorded_for_the_entry_that_failed_confirms_nothing():
    assert judge(event("restart_entered", 10.4, reentry=0)).acted is None


def test_the_end_of_the_process_with_an_error_confirms():
    assert judge(exited(10.4, code=1)).acted is True
    assert judge(exited(10.4, signal=15)).acted is True


def test_a_clean_exit_is_evidence_against():
    assert judge(exited(10.4, code=0)).acted is False


def test_an_end_that_nobody_could_read_decides_nothing():
    assert judge(exited(10.4)).acted is None


def test_a_step_in_the_same_entry_and_group_is_evidence_against():
    confirmation = judge(step_done(57, 10.3), event("restart_entered", 12.0, reentry=1))
    assert confirmation.acted is False
    assert "step 57" in confirmation.how


def test_a_step_after_reentry_is_recovery_and_no_evidence_against():
    assert judge(step_done(41, 11.0, reentry=1, group="g1")).acted is True
    assert judge(step_done(57, 11.0, reentry=1, group="g1")).acted is True


def test_a_late_record_of_an_earlier_step_says_nothing():
    assert judge(step_done(56, 10.001)).acted is None


def test_the_order_carries_type_and_message():
    params = ExceptionParams(type="OSError", message="disk gone")
    assert ProcessException().verb(params) == ("raise_error", {"type": "OSError", "message": "disk gone"})
