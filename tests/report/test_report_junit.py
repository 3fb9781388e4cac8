"""Claims about junit.xml."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st
from report_builders import ANY_SIGN, failed, incident, known, not_run, unknown, verdict

from chaos.report.junit import junit_xml


def cases(*verdicts, **options):
    return list(ET.fromstring(junit_xml(verdicts, **options)).iter("testcase"))


def properties(case):
    return {each.get("name"): each.get("value") for each in case.iter("property")}


def test_each_outcome_has_its_own_child_and_passed_has_none():
    tags = [[child.tag for child in case] for case in cases(verdict(), failed(), unknown(), not_run())]
    ends = [[tag for tag in each if tag in ("failure", "error", "skipped")] for each in tags]
    assert ends == [[], ["failure"], ["error"], ["skipped"]]


def test_unknown_is_an_error_of_type_unknown():
    error = cases(unknown())[0].find("error")
    assert error is not None and error.get("type") == "unknown"


def test_an_outcome_nobody_knows_is_never_a_pass():
    assert cases(verdict("splendid"))[0].find("error") is not None


def test_a_known_failure_does_not_make_ci_red():
    skipped = cases(known())[0].find("skipped")
    assert skipped is not None and skipped.get("type") == "known"
    assert "known until 2027-03-01 (https://example.org/issues/7)" in skipped.get("message")
    assert "recovered_in_time: fail (known); expected at most 2.00 s" in skipped.text
    (suite,) = ET.fromstring(junit_xml([known()])).iter("testsuite")
    assert (suite.get("skipped"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")


def test_a_run_that_passed_with_expected_failures_is_a_pass():
    (case,) = cases(failed(outcome="passed", foreseen=dict.fromkeys(("recovered_in_time", "state_exact"), "expected")))
    assert [child.tag for child in case] == ["properties", "system-out"]


def test_a_suite_is_a_family_and_a_case_is_a_run():
    runs = [verdict(scenario="kill[rank=0]"), failed(scenario="hang"), verdict(scenario="kill[rank=1]")]
    suites = {suite.get("name"): suite for suite in ET.fromstring(junit_xml(runs)).iter("testsuite")}
    assert {name: suite.get("tests") for name, suite in suites.items()} == {"kill": "2", "hang": "1"}
    assert suites["hang"].get("failures") == "1"


def test_times_seed_and_layer_are_properties():
    found = properties(cases(verdict())[0])
    assert found["seed"] == "7391"
    assert found["recovered_by"] == "in_job"
    assert found["recovery_time_s"] == "2.610"
    assert found["fault.kill"] == "process.kill signal=KILL on rank 1, layer process"


def test_times_of_several_incidents_do_not_overwrite_each_other():
    found = properties(cases(verdict(incidents=(incident(), incident(recovery_time_s=5.0))))[0])
    assert (found["incident_1.recovery_time_s"], found["incident_2.recovery_time_s"]) == ("2.610", "5.000")


def test_the_reasons_name_check_evidence_and_repeat_command():
    text = cases(failed())[0].findtext("failure")
    assert "recovered_in_time: fail; expected at most 2.00 s" in text
    assert "history/rank1.jsonl:231" in text
    assert "repeat: nvrx-chaos run" in text


def test_the_run_time_stands_where_it_is_known():
    assert cases(verdict(), duration_s={"20260301-101500-7391": 21.5})[0].get("time") == "21.500"
    assert cases(verdict())[0].get("time") is None


@settings(deadline=None)
@given(st.text(ANY_SIGN, max_size=60))
def test_no_text_can_break_the_document(text):
    hostile = text + "]]>\x00\x1b<x>&\ud800"
    document = junit_xml([failed(scenario=hostile, sentence=hostile, repeat=hostile, remedy=hostile, run_id=hostile)])
    document.encode("utf-8")
    case = next(ET.fromstring(document).iter("testcase"))
    assert [child.tag for child in case] == ["properties", "failure", "system-out"]
