"""Whatever a check finds, it cites: lines that are there, of the history, of logs, of what was kept at the end."""

from __future__ import annotations

from typing import Any

import pytest
from judge_build import Story, changed, check_of, controls, healthy, killed, plan, plan_of_control, verdict_of
from test_judge_checks import CASES, never_back

from chaos.judge.checks.framework import EVIDENCE_MAX
from chaos.model.events import Blind, Event
from chaos.model.plan import Restarts
from chaos.model.verdict import Check, Verdict

# What rests on the scenario alone, and on nothing that happened.
OF_THE_PLAN = ("asked, but the objective", "the objective names no")
CONTROLS = controls()
RUNS = {id(run): (run, of_plan) for _, _, run, of_plan, _ in CASES}


def lines_of(events: list[Event]) -> set[str]:
    """Every line that a check may cite."""
    named = {event.data["log"] for event in events if event.data.get("log")}
    stands = {each["ref"] for event in events for each in event.data.get("stands", [])}
    told = {f"control.jsonl:{number}" for number in range(1, len(CONTROLS) + 1)}
    return {event.ref for event in events} | named | stands | told


def uncited(verdict: Verdict, lines: set[str]) -> list[Check]:
    """Checks that decided something and cite no line that is there, or one that is not."""
    asked = [check for check in verdict.checks if check.outcome != "not_asked"]
    return [
        check
        for check in asked
        if not any(words in check.observed for words in OF_THE_PLAN)
        and not (check.evidence and set(check.evidence) <= lines)
    ]


@pytest.mark.parametrize(("run", "of_plan"), RUNS.values(), ids=range(len(RUNS)))
def test_every_check_of_every_run_cites_lines_that_are_there(run: Any, of_plan: Any) -> None:
    told = run()
    events = told.events if isinstance(told, Story) else told
    verdict = verdict_of(events, of_plan, with_controls=CONTROLS)
    assert [(check.name, check.outcome, check.observed) for check in uncited(verdict, lines_of(events))] == []


def test_the_runs_above_have_every_outcome_that_must_be_cited() -> None:
    found = {
        check.outcome
        for run, of_plan in RUNS.values()
        for check in verdict_of(run(), of_plan, with_controls=CONTROLS).checks
    }
    assert found == {"pass", "fail", "unknown", "not_asked"}


def test_a_check_that_is_blind_cites_where_its_source_went_blind() -> None:
    blind = [Blind(source="rank", reason="cut", file="rank-101-1000.jsonl", line=7)]
    assert check_of("world_size", killed(), blind=blind).evidence == ("rank-101-1000.jsonl:7",)


def test_a_source_that_says_itself_that_it_is_blind_is_cited_by_its_line() -> None:
    story = killed()
    said = story.controller("source_blind", source="rank", reason="the disk is full")
    assert said.ref in check_of("world_size", story).evidence


def test_a_detection_that_a_log_showed_cites_the_line_of_the_log() -> None:
    check = check_of("detected_in_time", killed())
    assert "logs/job.log:7" in check.evidence


def test_a_restart_too_many_cites_the_first_step_that_it_led_to() -> None:
    story = killed()
    first = min((e for e in story.events if e.kind == "step_done" and e.group == "g1"), key=lambda e: e.t_ns)
    check = check_of("restart_budget", story, plan(restarts=Restarts(in_job=0)))
    assert (check.outcome, check.evidence) == ("fail", (first.ref,))


# --- what was kept when a wait ran out

STANDS = [
    {"rank": 0, "who": "0", "ref": "evidence/stacks-0-100.txt:4", "text": "all_reduce (c10d.py:9)"},
    {"rank": 1, "who": "1", "ref": "evidence/stacks-1-101.txt:12", "text": "wait_for_ever (data.py:12)"},
    {"rank": None, "who": "launcher", "ref": "evidence/stacks-launcher-50.txt:6", "text": "sleep (run.py:3)"},
]
LINES = [each["ref"] for each in STANDS]


def kept(story: Story, stands: Any = STANDS) -> Story:
    """The same run, with what the session keeps right after it has said that it stops the job."""
    asked = next(event for event in story.events if event.kind == "stop_requested")
    at = asked.t_ns / 1e9 - 1.0 + 0.5
    story.controller("evidence_captured", at=at, files=[], stands=stands, failed=[], why="no recovery")
    return story


@pytest.mark.parametrize(("name", "outcome"), [("recovered_in_time", "fail"), ("job_finished", "fail")])
def test_a_job_that_never_came_back_is_failed_with_the_lines_where_it_stood(name: str, outcome: str) -> None:
    check = check_of(name, kept(never_back(watched_s=30)))
    assert check.outcome == outcome and set(LINES) <= set(check.evidence)
    told = "rank 0 stood in all_reduce (c10d.py:9), rank 1 stood in wait_for_ever (data.py:12)" in check.observed
    assert told == (name == "recovered_in_time"), "said once in the verdict's sentence"
    assert "launcher" not in check.observed


def test_where_no_recovery_was_asked_for_the_end_of_the_job_tells_where_it_stood() -> None:
    check = check_of("job_finished", kept(never_back(watched_s=30)), plan(recovery_time_s=None))
    assert check.outcome == "fail" and "rank 1 stood in wait_for_ever" in check.observed


def test_where_no_rank_is_left_the_launcher_is_told() -> None:
    check = check_of("recovered_in_time", kept(never_back(watched_s=30), STANDS[2:]))
    assert "the launcher stood in sleep (run.py:3)" in check.observed


def never_steady() -> Story:
    story = Story().start().join("g0").train(0, 3)
    story.at += 100.0
    story.controller("stop_requested", reason="limits.timeout of 100 s reached", interrupted=False)
    return story.end(code=None, reason="stopped by us")


def test_a_job_that_was_never_steady_cites_where_it_stood() -> None:
    check = check_of("steady_before", kept(never_steady()))
    assert check.outcome == "unknown" and "rank 1 stood in wait_for_ever" in check.observed
    assert set(LINES) <= set(check.evidence)
    assert "stood" not in check_of("steady_before", never_steady()).observed


def test_the_rank_that_stood_where_no_other_did_is_told_and_cited_first() -> None:
    many = [
        {**STANDS[0], "rank": rank, "ref": f"evidence/stacks-{rank}-{rank}.txt:3"} for rank in range(16) if rank != 11
    ]
    odd = {**STANDS[1], "rank": 11, "ref": "evidence/stacks-11-11.txt:3"}
    check = check_of("recovered_in_time", kept(never_back(watched_s=30), [*many, odd]))
    assert "rank 11 stood in wait_for_ever (data.py:12), ranks 0, 1, 2 and 12 more stood in all_red" in check.observed
    assert check.evidence[1] == odd["ref"] and len(check.evidence) == EVIDENCE_MAX


def test_of_many_places_the_first_are_told_and_the_others_counted() -> None:
    places = [{**STANDS[1], "rank": rank, "text": f"place_{rank} (x.py:1)"} for rank in range(9)]
    observed = check_of("recovered_in_time", kept(never_back(watched_s=30), places)).observed
    assert observed.count("stood in") == 3 and "and others in 6 more places" in observed


@pytest.mark.parametrize("stands", [None, "rank 1", [None, {"rank": 1}, {"ref": 3, "text": []}], {}])
def test_damaged_words_on_where_it_stood_change_nothing_but_the_words(stands: Any) -> None:
    check = check_of("job_finished", kept(never_back(watched_s=30), stands))
    assert check.outcome == "fail" and "stood" not in check.observed


# --- a job that does not end


def hangs_at_its_end(waited_s: float, **noise: float) -> Story:
    """Every rank has done all its steps, and the launcher stays."""
    story = healthy()
    del story.events[next(n for n, event in enumerate(story.events) if event.kind == "process_exited") :]
    story.at = story.events[-1].t_ns / 1e9 - 1.0
    story.sample()
    story.at += waited_s
    story.sample(**noise)
    story.controller("stop_requested", reason="the launcher did not end within 10 s", interrupted=False)
    return story.end(code=None, reason="stopped by us")


def test_a_job_that_goes_on_after_all_its_steps_is_hung_and_says_where() -> None:
    check = check_of("job_finished", kept(hangs_at_its_end(10.2)), plan_of_control())
    assert check.outcome == "fail" and "hung at its end" in check.observed and "rank 1 stood in" in check.observed
    assert set(LINES) <= set(check.evidence)


def test_a_job_that_was_stopped_soon_after_its_steps_or_had_no_cpu_meanwhile_is_unknown() -> None:
    assert check_of("job_finished", hangs_at_its_end(5.0), plan_of_control()).outcome == "unknown"
    noisy = hangs_at_its_end(10.2, steal=9.0, delay=9.0)
    assert check_of("job_finished", noisy, plan_of_control()).outcome == "unknown"


def test_a_run_that_was_interrupted_after_its_steps_has_not_hung() -> None:
    events = changed(hangs_at_its_end(10.2), "stop_requested", interrupted=True)
    assert check_of("job_finished", events, plan_of_control()).outcome == "unknown"
