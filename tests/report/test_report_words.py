"""Claims about words, harmless text and JSON."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_builders import ANY_SIGN, check, failed, incident, known, not_run, unknown, verdict

from chaos.model.verdict import Verdict
from chaos.report import words
from chaos.report.clean import one_line, visible
from chaos.report.json import verdict_json


def test_the_summary_counts_every_outcome_even_when_there_is_none_of_it():
    assert words.summary_line([verdict()] * 7) == "7 passed, 0 failed, 0 unknown, 0 not run"
    assert words.summary_line([]) == "0 passed, 0 failed, 0 unknown, 0 not run"


def test_a_known_failure_is_counted_apart_and_not_as_failed():
    line = words.summary_line([known(), failed(), unknown(), not_run()])
    assert line == "0 passed, 1 failed, 1 known, 1 unknown, 1 not run"


def test_a_known_failure_is_told_with_the_page_to_read_and_looks_like_no_other_outcome():
    assert words.decided_by(known()) == known().sentence
    assert words.deciding_check(known()).name == "recovered_in_time"
    assert (words.shown_as(known()), words.outcome_words(known())) == ("known", "failed (known)")
    assert [words.shown_as(each) for each in (verdict(), failed(), not_run())] == ["passed", "failed", "not_run"]


def test_a_foreseen_failure_does_not_decide_what_another_one_decided():
    mixed = failed(foreseen={"recovered_in_time": "expected"})
    assert words.deciding_check(mixed).name == "state_exact"
    assert words.check_words(mixed, mixed.checks[1]) == "fail (expected)"
    assert words.check_words(mixed, mixed.checks[2]) == "fail"


def test_a_pass_that_rests_on_expected_failures_says_how_many():
    marks = dict.fromkeys(("recovered_in_time", "state_exact"), "expected")
    assert words.outcome_words(failed(outcome="passed", foreseen=marks)) == "passed (2 expected failures)"
    assert words.outcome_words(failed(foreseen=marks)) == "failed"


def test_where_no_check_decided_the_sentence_does():
    missing = failed(
        foreseen=dict.fromkeys(("recovered_in_time", "state_exact"), "expected"), sentence="lost_work passed"
    )
    assert words.deciding_check(missing) is None and words.decided_by(missing) == "lost_work passed"


def test_a_failed_check_decides_before_an_unknown_one_that_stands_earlier():
    checks = (check("undone", "unknown"), check("lost_work", "fail", "at most 20", "31 steps"))
    assert words.decided_by(failed(checks=checks)) == "lost work: 31 steps (expected: at most 20)"


def test_nothing_decides_against_a_passed_run():
    assert words.deciding_check(verdict(checks=(check("x", "unknown"),))) is None


def test_a_recovery_that_was_not_seen_is_not_called_failed():
    assert words.recovered_by(unknown()) == "not seen"


def test_the_incident_shown_is_the_one_that_never_recovered_else_the_slowest():
    slow, never = incident(recovery_time_s=9.0), incident(recovery_time_s=None)
    assert words.worst_incident(verdict(incidents=(incident(), slow, incident()))) is slow
    assert words.worst_incident(verdict(incidents=(slow, never, slow))) is never


@pytest.mark.parametrize(
    ("value", "bound", "shown"),
    [
        (None, False, "–"),
        (0.0, False, "0.00 s"),
        (0.0003, False, "<0.01 s"),
        (0.01, False, "0.01 s"),
        (2.614, False, "2.61 s"),
        (0.3, True, "≤ 0.30 s"),
        (123.45, False, "123.5 s"),
    ],
)
def test_seconds_carry_their_unit_and_bound(value, bound, shown):
    assert words.seconds(value, bound=bound) == shown


def test_runs_of_one_scenario_are_one_family():
    assert words.family("kill-worker[rank=0,phase=forward]") == words.family("kill-worker") == "kill-worker"


def test_an_escape_sequence_becomes_text_that_can_be_seen():
    assert visible("\x1b[31mred\x07\x9b2J") == "\\x1b[31mred\\x07\\x9b2J"
    assert visible("tab\tand\nline stay") == "tab\tand\nline stay"


@settings(deadline=None)
@given(st.text(ANY_SIGN, max_size=200))
def test_harmless_text_can_be_encoded_and_holds_no_control_character(text):
    shown = one_line(text, 100)
    shown.encode("utf-8")
    assert len(shown) <= 100
    assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 or sign in "\u202e\u2066" for sign in shown)


def test_the_json_reads_back_as_the_same_verdict():
    for each in (verdict(), failed(), unknown(), not_run()):
        assert msgspec.json.decode(verdict_json(each), type=Verdict) == each


def test_the_json_is_the_same_whatever_the_order_of_free_mappings():
    one = verdict(versions={"a": "1", "b": "2"})
    other = verdict(versions={"b": "2", "a": "1"})
    assert verdict_json(one) == verdict_json(other)


def test_the_json_begins_with_its_schema_and_is_indented():
    lines = verdict_json(verdict()).splitlines()
    assert lines[1] == '  "schema": "nvrx-chaos/verdict/1",'
    assert list(json.loads(verdict_json(verdict()))) == list(Verdict.__struct_fields__)
