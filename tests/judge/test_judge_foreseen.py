"""Failures that a scenario foresees: what they do to a verdict, and what they never do."""

from __future__ import annotations

import dataclasses
from datetime import date

import pytest
from foreseen_build import DAY, FAILED, KNOWN, LOST, PASSED, REF, SLOW, UNKNOWN, expecting, knowing, told
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_build import (
    Story,
    changed,
    healthy,
    killed,
    plan,
    plan_of_control,
    verdict_of,
    without,
)
from msgspec.structs import replace

from chaos.judge.foreseen import rule
from chaos.judge.record import Record
from chaos.model.events import Blind
from chaos.model.plan import NEVER_FORESEEN, Plan
from chaos.model.verdict import Check, Outcome


def stopped(story: Story, at: float, *, interrupted: bool) -> Story:
    """Ended by us at that moment: what came later did not happen."""
    story.events = [event for event in story.events if event.t_ns <= 1_000_000_000 + round(at * 1e9)]
    story.at = at
    story.controller("stop_requested", reason="SIGINT", interrupted=interrupted)
    return story.end(code=None, signal=15)


# --- expect_failed


def test_a_run_in_which_exactly_the_expected_check_fails_is_passed_and_says_so_first():
    verdict = verdict_of(killed(), expecting("lost_work", **LOST))
    assert told(verdict) == PASSED and verdict.sentence.startswith("lost_work failed as expected: ")
    assert verdict.check("lost_work").outcome == "fail" and verdict.foreseen == {"lost_work": "expected"}


def test_without_the_entry_the_same_run_is_failed():
    assert told(verdict_of(killed(), plan(**LOST))) == FAILED


def test_an_expected_failure_that_did_not_come_fails_the_run():
    verdict = verdict_of(killed(), expecting("lost_work"))
    assert told(verdict) == FAILED and verdict.foreseen == {}
    assert "lost_work was expected to fail and passed" in verdict.sentence


def test_of_two_expected_failures_both_must_come():
    verdict = verdict_of(killed(), expecting("lost_work", "state_exact", **LOST))
    assert told(verdict) == FAILED and "state_exact was expected to fail and passed" in verdict.sentence


def test_another_failure_beside_the_expected_one_fails_the_run_and_is_named_first():
    verdict = verdict_of(killed(), expecting("lost_work", **LOST, **SLOW))
    assert told(verdict) == FAILED and verdict.sentence.startswith("failed: recovered_in_time: ")
    assert "lost_work failed as expected" in verdict.sentence


def test_an_expected_failure_that_cannot_be_seen_is_unknown():
    verdict = verdict_of(killed(), expecting("lost_work", **LOST), blind=[Blind(source="group", reason="no store")])
    assert told(verdict) == UNKNOWN and "lost_work was expected to fail" in verdict.sentence


def test_an_expected_failure_that_was_not_asked_is_unknown():
    verdict = verdict_of(killed(), expecting("detected_in_time", detection_time_s=None))
    assert told(verdict) == UNKNOWN and "detected_in_time was expected to fail and was not asked" in verdict.sentence


def test_another_check_that_is_unknown_beside_the_expected_failure_leaves_the_run_unknown():
    verdict = verdict_of(without(killed(), "residue_measured"), expecting("lost_work", **LOST))
    assert told(verdict) == UNKNOWN and verdict.sentence.startswith("unknown: no_residue: ")


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_run_that_was_stopped_is_not_passed_by_an_expected_failure(interrupted):
    late = stopped(killed(), 4.6, interrupted=interrupted)
    dropped = ("job_finished", "no_residue", "data_exactly_once", "steady_after", "state_exact")
    held_to = expecting("lost_work", **LOST, dropped=dropped)
    assert verdict_of(late, held_to).check("lost_work").outcome in ("fail", "unknown")
    assert told(verdict_of(late, held_to)) == UNKNOWN


def test_a_run_that_was_stopped_does_not_fail_for_a_failure_that_had_not_come():
    early = stopped(healthy(), 1.6, interrupted=False)
    of_plan = expecting("world_size", of=plan_of_control())
    verdict = verdict_of(early, of_plan)
    assert verdict.check("world_size").outcome == "pass" and told(verdict) == UNKNOWN
    assert "world_size was expected to fail and was not seen to" in verdict.sentence


def test_state_found_wrong_as_expected_is_not_said_to_be_not_asked():
    run = changed(killed(), "step_done", lambda event: event.group == "g1" and event.data["step"] == 45, loss="0x1p9")
    verdict = verdict_of(run, expecting("state_exact"))
    assert told(verdict) == PASSED, verdict.sentence
    assert verdict.sentence.startswith("state_exact failed as expected: ") and "state not" not in verdict.sentence


# --- known


@pytest.mark.parametrize("names", [("lost_work",), ("lost_work", "state_exact")], ids=["exactly", "a part of them"])
def test_a_known_defect_leaves_the_run_failed_and_known_with_the_page_to_read(names):
    verdict = verdict_of(killed(), knowing(*names, **LOST))
    assert told(verdict) == KNOWN and verdict.foreseen == {"lost_work": "known"}
    assert verdict.sentence.startswith("failed, as known: lost_work: ")
    assert f"known until 2023-11-14 ({REF})" in verdict.sentence and "Not asked: " in verdict.sentence


def test_another_failure_beside_the_known_one_is_plainly_failed():
    verdict = verdict_of(killed(), knowing("lost_work", **LOST, **SLOW))
    assert told(verdict) == FAILED and verdict.sentence.startswith("failed: recovered_in_time: ")
    assert f"lost_work failed, too, as known ({REF})" in verdict.sentence


def test_a_known_failure_that_is_gone_fails_the_run():
    verdict = verdict_of(killed(), knowing("lost_work"))
    assert told(verdict) == FAILED and "known failure is gone, remove the entry: lost_work passed" in verdict.sentence


def test_the_last_day_still_counts_and_the_day_after_it_does_not():
    assert told(verdict_of(killed(), knowing("lost_work", **LOST, until=DAY))) == KNOWN
    verdict = verdict_of(killed(), knowing("lost_work", **LOST, until=date(2023, 11, 13)))
    assert told(verdict) == FAILED and verdict.foreseen == {}
    assert "it counted until 2023-11-13, and the run is of 2023-11-14" in verdict.sentence


def test_past_its_day_and_gone_the_entry_is_to_be_removed():
    verdict = verdict_of(killed(), knowing("lost_work", until=date(2023, 11, 13)))
    assert told(verdict) == FAILED and "remove the entry" in verdict.sentence


def test_the_clock_of_a_rank_does_not_move_the_day():
    run = killed()
    run.events = [event if event.rank is None else _dated(event, 4e9) for event in run.events]
    run.events = [_dated(event, 1.7e9) if event.file.startswith("controller") else event for event in run.events]
    assert told(verdict_of(run, knowing("lost_work", **LOST))) == KNOWN


@pytest.mark.parametrize("wall_s", [1e300, -1e300])
def test_a_day_that_is_none_makes_the_failure_count(wall_s):
    run = [_dated(event, wall_s) for event in killed().events]
    verdict = verdict_of(run, knowing("lost_work", **LOST))
    assert told(verdict) == FAILED and "the day of the run was not seen" in verdict.sentence


def _dated(event, wall_s):
    return dataclasses.replace(event, wall_s=wall_s)


def test_with_other_versions_a_failure_counts_and_its_absence_is_as_it_should_be():
    verdict = verdict_of(killed(), knowing("lost_work", since="<2.13", **LOST))
    assert told(verdict) == FAILED and "known for torch <2.13, and this run had 2.13.0" in verdict.sentence
    assert told(verdict_of(killed(), knowing("lost_work", since="<2.13"))) == PASSED


def test_one_rank_of_another_version_is_enough_to_make_the_failure_count():
    versions = {"torch": "2.12.1"}
    run = changed(killed(), "rank_started", lambda event: event.rank == 1, versions=versions)
    assert told(verdict_of(run, knowing("lost_work", **LOST))) == FAILED


@pytest.mark.parametrize("versions", [None, {}, {"torch": "not installed"}, "2.13"])
def test_versions_that_were_not_seen_excuse_nothing_and_leave_open_whether_it_is_gone(versions):
    run = changed(killed(), "rank_started", versions=versions)
    verdict = verdict_of(run, knowing("lost_work", **LOST))
    assert told(verdict) == FAILED and "the version of torch was not seen" in verdict.sentence
    gone = verdict_of(run, knowing("lost_work"))
    assert told(gone) == UNKNOWN and "whether the known failure is gone cannot be told" in gone.sentence


def test_a_build_on_the_way_to_an_affected_version_counts_as_affected():
    run = changed(killed(), "rank_started", versions={"torch": "2.14.0.dev1+cpu"})
    assert told(verdict_of(run, knowing("lost_work", **LOST))) == KNOWN


def test_a_check_that_is_unknown_beside_a_known_failure_keeps_it_from_being_counted_as_known():
    verdict = verdict_of(without(killed(), "residue_measured"), knowing("lost_work", **LOST))
    assert told(verdict) == FAILED
    assert verdict.sentence.startswith("failed: lost_work: ") and "because no_residue is unknown" in verdict.sentence


def test_a_named_check_that_is_unknown_is_part_of_the_known_failure_once_another_named_one_fails():
    run = without(killed(), "residue_measured")
    assert told(verdict_of(run, knowing("lost_work", "no_residue", **LOST))) == KNOWN
    alone = verdict_of(run, knowing("lost_work", "no_residue"))
    assert told(alone) == UNKNOWN and "cannot be told: no_residue is unknown" in alone.sentence


@pytest.mark.parametrize("blind", [[Blind(source="launcher_log", reason="cut before line 7")], []], ids=["blind", ""])
def test_a_run_that_is_blind_or_was_stopped_is_not_known_and_nothing_is_said_to_be_gone(blind):
    run = killed() if blind else stopped(killed(), 4.6, interrupted=False)
    base = plan(dropped=("job_finished", "no_residue", "data_exactly_once"), detection_time_s=None, **LOST)
    why = "cut before line 7" if blind else "we stopped the run"
    verdict = verdict_of(run, knowing("lost_work", of=base), blind=blind)
    assert verdict.check("lost_work").outcome == "fail"
    assert told(verdict) == FAILED and "not counted as known, because" in verdict.sentence and why in verdict.sentence
    gone = verdict_of(run, knowing("world_size", of=replace(base, objective=plan().objective)), blind=blind)
    assert told(gone) == UNKNOWN


def test_what_is_not_proven_undone_keeps_a_known_failure_from_being_counted_as_known():
    verdict = verdict_of(without(killed(), "run_concluded"), knowing("lost_work", **LOST))
    assert told(verdict) == FAILED and verdict.remedy == "nvrx-chaos heal"


# --- both


def test_an_expected_and_a_known_failure_go_together_and_the_run_is_known():
    both = expecting("recovered_in_time", of=knowing("lost_work", **LOST, **SLOW))
    verdict = verdict_of(killed(), both)
    assert told(verdict) == KNOWN and "recovered_in_time failed as expected" in verdict.sentence
    assert verdict.foreseen == {"lost_work": "known", "recovered_in_time": "expected"}


def test_an_expected_failure_that_did_not_come_is_not_covered_by_a_known_one():
    both = expecting("recovered_in_time", of=knowing("lost_work", **LOST))
    verdict = verdict_of(killed(), both)
    assert told(verdict) == FAILED and "recovered_in_time was expected to fail and passed" in verdict.sentence


@pytest.mark.parametrize("name", NEVER_FORESEEN)
def test_a_plan_that_foresees_what_a_pass_rests_on_does_not_exist(name):
    with pytest.raises(ValueError, match=name):
        expecting(name)
    with pytest.raises(ValueError, match=name):
        knowing(name)


def test_a_plan_that_foresees_one_check_twice_does_not_exist():
    with pytest.raises(ValueError, match="twice"):
        expecting("lost_work", of=knowing("lost_work"))


# --- over all outcomes

NAMES = ("lost_work", "state_exact", "world_size", "job_finished", "undone")
SOME = st.frozensets(st.sampled_from(NAMES))
OUTCOMES = st.sampled_from(["pass", "fail", "unknown", "not_asked"])
SETS = st.lists(st.sampled_from(NAMES[:-1]), unique=True, max_size=3)
VERSIONS = st.sampled_from([">=2", ">=3", "nonsense"])
STARTED = Record(killed().events)


def checks_of(outcomes: dict[str, str], evidence: frozenset[str] = frozenset(NAMES)) -> list[Check]:
    return [
        Check(name=name, outcome=outcome, observed="seen", evidence=("f:1",) if name in evidence else ())
        for name, outcome in outcomes.items()
    ]


def planned(expected: list[str], known: list[str], since: str, until: date) -> Plan:
    names = tuple(name for name in known if name not in expected)
    base = expecting(*expected)
    return knowing(*names, of=base, since=since, until=until) if names else base


PLANS = st.builds(planned, SETS, SETS, VERSIONS, st.sampled_from([DAY, date(2023, 1, 1)]))
ALL_OUTCOMES = st.fixed_dictionaries(dict.fromkeys(NAMES[:-1], OUTCOMES) | {"undone": st.just("pass")})


def good(of_plan: Plan, checks: list[Check], lost: str = "") -> bool:
    ruling = rule(of_plan, checks, STARTED, lost=lost)
    assert not ruling.known or ruling.outcome is Outcome.FAIL
    return ruling.known or ruling.outcome is Outcome.PASS


@settings(max_examples=300, deadline=None)
@given(of_plan=PLANS, outcomes=ALL_OUTCOMES)
def test_a_run_is_passed_or_known_only_if_nothing_unforeseen_failed_or_is_unknown(of_plan, outcomes):
    checks = checks_of(outcomes)
    known = set(of_plan.known.checks) if of_plan.known else set()
    if good(of_plan, checks):
        failing = {name for name, outcome in outcomes.items() if outcome == "fail"}
        assert failing >= set(of_plan.expect_failed) and failing <= {*of_plan.expect_failed, *known}
        assert {name for name, outcome in outcomes.items() if outcome == "unknown"} <= known
    elif not of_plan.expect_failed and not known:
        assert set(outcomes.values()) & {"fail", "unknown"}


@settings(max_examples=300, deadline=None)
@given(
    of_plan=PLANS, outcomes=ALL_OUTCOMES, name=st.sampled_from(NAMES), evidence=st.frozensets(st.sampled_from(NAMES))
)
def test_losing_what_a_check_rests_on_never_makes_a_run_passed_or_known(of_plan, outcomes, name, evidence):
    if good(of_plan, checks_of(outcomes)):
        assert not good(of_plan, checks_of(outcomes), lost="a file is cut")
        return
    assert not good(of_plan, checks_of(outcomes | {name: "unknown"}))
    assert not good(of_plan, checks_of(outcomes, evidence))


def test_an_expected_failure_without_evidence_to_point_to_is_unknown():
    outcomes = dict.fromkeys(NAMES, "pass") | {"lost_work": "fail"}
    assert good(expecting("lost_work"), checks_of(outcomes))
    ruling = rule(expecting("lost_work"), checks_of(outcomes, frozenset()), STARTED, lost="")
    assert ruling.outcome is Outcome.UNKNOWN and "no evidence to point to" in ruling.because[0]
