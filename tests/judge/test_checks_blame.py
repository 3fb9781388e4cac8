"""blamed_right: whom NVRx names, against whom our faults hit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judge_build import (
    FAULT_STEP,
    STEPS,
    Story,
    changed,
    check_of,
    excepted,
    fault,
    healthy,
    hung,
    killed,
    pid,
    plan,
    plan_for,
    plan_of_control,
    verdict_of,
    without,
)

from chaos.model.events import Blind, Event


def named(story: Story, ranks: Any, *, at: float, by: int = 0, marker: str = "term_ex") -> Story:
    """NVRx's in-process layer says on rank `by` whom it interrupted for."""
    story.rank(by, "interruption_reported", at=at, source="in_process", marker=marker, text="x", ranks=ranks)
    return story


def excepted_naming(*ranks: int) -> Story:
    """`excepted()` with the interruption's own list of ranks, and without the word of the rank about itself."""
    story = excepted()
    told = next(event for event in story.events if event.kind == "interruption_reported")
    story.events = without(story, "interruption_reported")
    in_g0 = in_first_group(story)
    return named(in_g0, list(ranks), at=told.t_ns / 1e9 - 1)


def in_first_group(story: Story) -> Story:
    story.group, story.reentry = "g0", 0
    return story


def failed_worker(**data: Any) -> list[Event]:
    return changed(killed(), "worker_failed", **data)


def collateral_first() -> Story:
    story = killed()
    at = next(event.t_ns for event in story.events if event.kind == "worker_failed") / 1e9 - 1
    story.controller("worker_failed", at=at - 0.1, local_rank=0, pid=pid(0), code=1, log="l:3", error_ns=0, text="")
    return story


def collateral_as_well() -> Story:
    story = hung()
    at = next(event.t_ns for event in story.events if event.kind == "hang_detected") / 1e9 - 1
    story.controller("hang_detected", at=at + 0.1, rank=0, waited_s=3.0, log="l:9", error_ns=0, text="")
    return story


def failed_at(after_fault_s: float, *, error_s: float = 0.0) -> list[Event]:
    """The launcher names rank 1 so long after the fault, by its log's stamp."""
    run = killed()
    fired = next(event for event in run.events if event.kind == "fault_fired")
    at = fired.t_ns + round(after_fault_s * 1e9)
    return changed(run, "worker_failed", t_ns=at, error_ns=round(error_s * 1e9))


def of_two_launchers() -> list[Event]:
    """Each rank is the second one of its own host; which host the launcher means, its log does not say."""
    story = Story()
    story.events = changed(killed(), "worker_failed", pid=None)
    return changed(story, "rank_started", local_rank=1)


def named_after_recovery() -> Story:
    story = killed()
    story.events = without(story, "worker_failed")
    story.generation, story.group = 1, "g1"
    return named(story, [1], at=5.0)


def two_faults(*pids: int) -> tuple[Story, Any]:
    """Ranks 0 and 1 are killed one after the other in one outage; the launcher names these processes."""
    story = killed()
    story.events = without(story, "worker_failed")
    fired = next(event for event in story.events if event.kind == "fault_fired").t_ns / 1e9 - 1
    story.generation, story.group = 0, "g0"
    story.rank(0, "fault_fired", at=fired + 0.1, fault="other", step=FAULT_STEP, phase="backward", point="entry", pid=1)
    for count, number in enumerate(pids):
        story.controller(
            "worker_failed", at=fired + 0.2 + count / 100, local_rank=0, pid=number, code=-9, log="l:1", error_ns=0
        )
    return story, plan(fault(), fault("other", ranks=(0,)), blamed=True)


def a_fault_of_its_own_later(number: int) -> tuple[Story, Any]:
    """A second outage, in the restarted group, of which NVRx names that process."""
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 52)
    story.fire("again", step=52)
    story.at += 0.1
    story.controller("worker_failed", local_rank=1, pid=number, code=-9, log="l:1", error_ns=0, text="")
    story.generation = 2
    return story.start().join("g2").load(40).train(40, STEPS).finish(), plan(fault(), fault("again"), blamed=True)


def renumbered() -> Story:
    """The ranks swapped their numbers when they formed their group: what began as rank 1 is rank 0, as NVRx says."""
    story = excepted()
    at = next(event.t_ns for event in story.events if event.kind == "interruption_reported") / 1e9 - 1
    told = without(story, "interruption_reported")
    story.events = [replace(event, rank=1 - event.rank) if event.group == "g0" else event for event in told]
    return named(in_first_group(story), [0], at=at)


def fired_nowhere() -> list[Event]:
    return changed(killed(), "fault_fired", life=None, rank=None)


RIGHT = plan(blamed=True)
BOOM = plan_for("boom", blamed=True)
HANG = plan_for("hang", blamed=True)

CASES = [
    ("blamed_right", "pass", killed, RIGHT, "kill: rank 1 by worker_failed"),
    ("blamed_right", "pass", excepted, BOOM, "boom: rank 1 by interruption_reported"),
    ("blamed_right", "pass", hung, HANG, "hang: rank 1 by hang_detected"),
    ("blamed_right", "pass", lambda: excepted_naming(1), BOOM, "rank 1 by interruption_reported"),
    ("blamed_right", "pass", lambda: excepted_naming(0, 1), BOOM, "rank 0, which nothing hit, was named as well"),
    ("blamed_right", "pass", collateral_first, RIGHT, "rank 0, which nothing hit, was named first"),
    ("blamed_right", "pass", collateral_as_well, HANG, "was named as well"),
    ("blamed_right", "pass", lambda: failed_worker(pid=None), RIGHT, "rank 1 by worker_failed"),
    ("blamed_right", "fail", lambda: excepted_naming(0), BOOM, "boom hit rank 1, and NVRx named only rank 0"),
    ("blamed_right", "fail", lambda: failed_worker(pid=pid(0)), RIGHT, "NVRx named only rank 0"),
    ("blamed_right", "fail", lambda: failed_worker(pid=None, local_rank=0), RIGHT, "NVRx named only rank 0"),
    ("blamed_right", "fail", lambda: changed(hung(), "hang_detected", rank=0), HANG, "only rank 0"),
    ("blamed_right", "unknown", lambda: without(killed(), "worker_failed"), RIGHT, "no record of NVRx was read"),
    ("blamed_right", "unknown", lambda: failed_worker(pid=4711), RIGHT, "no record of NVRx was read that names"),
    ("blamed_right", "unknown", lambda: failed_worker(pid=None, local_rank=7), RIGHT, "no record"),
    ("blamed_right", "unknown", named_after_recovery, RIGHT, "no record"),
    ("blamed_right", "unknown", lambda: failed_at(-0.003, error_s=0.002), RIGHT, "no record"),
    ("blamed_right", "pass", lambda: failed_at(-0.001, error_s=0.002), RIGHT, "rank 1 by worker_failed"),
    ("blamed_right", "unknown", of_two_launchers, RIGHT, "no record"),
    ("blamed_right", "unknown", healthy, RIGHT, "no fault fired"),
    ("blamed_right", "unknown", fired_nowhere, RIGHT, "was not recorded"),
    ("blamed_right", "not_asked", killed, plan(), ""),
    ("blamed_right", "not_asked", healthy, plan_of_control(), ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outcome", "run", "of_plan", "words"), CASES)
def test_a_claim_is_weighed_against_what_was_hit(name, outcome, run, of_plan, words):
    check = check_of(name, run(), of_plan, with_controls=[])
    assert (check.outcome, words in check.observed) == (outcome, True), check


def test_of_two_faults_in_one_outage_each_must_be_blamed():
    assert check_of("blamed_right", *two_faults(pid(0), pid(1))).outcome == "pass"
    check = check_of("blamed_right", *two_faults(pid(0)))
    assert (
        check.outcome == "unknown" and "kill hit rank 1, and NVRx named only rank 0, hit by another" in check.observed
    )


def test_a_later_outage_is_weighed_by_what_was_said_of_it():
    assert check_of("blamed_right", *a_fault_of_its_own_later(pid(1, 1))).outcome == "pass"
    check = check_of("blamed_right", *a_fault_of_its_own_later(pid(0, 1)))
    assert check.outcome == "fail" and "again hit rank 1, and NVRx named only rank 0" in check.observed
    assert "kill hit" not in check.observed


def test_a_rank_is_the_one_that_had_the_number_when_nvrx_said_it():
    check = check_of("blamed_right", renumbered(), BOOM)
    assert check.outcome == "pass" and "rank 1 by" in check.observed


def test_a_failed_blame_fails_the_run_and_shows_firing_and_record():
    verdict = verdict_of(failed_worker(pid=pid(0)), RIGHT)
    check = verdict.check("blamed_right")
    assert verdict.outcome == "failed" and len(check.evidence) == 2
    assert check.evidence[0].startswith("rank-") and check.evidence[1].startswith("controller-")


def test_without_the_launchers_log_a_wrong_blame_convicts_nobody():
    blind = [Blind(source="launcher_log", reason="it was cut")]
    assert check_of("blamed_right", failed_worker(pid=pid(0)), RIGHT, blind=blind).outcome == "unknown"


@pytest.mark.parametrize("junk", [None, "1", [], {}, ["1"], [None], [True], -1, 10**30])
def test_a_record_with_junk_for_ranks_names_nobody(junk):
    story = excepted_naming(1)
    run = changed(story, "interruption_reported", ranks=junk, marker=junk)
    assert check_of("blamed_right", run, BOOM).outcome == "unknown"
