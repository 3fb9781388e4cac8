"""What the checkpoint folder showed from outside, against what the job said that it had committed."""

from __future__ import annotations

import pytest
from judge_build import STEP_S, Story, changed, check_of, killed, plan, verdict_of

from chaos.judge.checks.framework import CHECKPOINT_FOLDER, CONTROLLER, EXIT_STATUS
from chaos.judge.checks.registry import REGISTRY
from chaos.model.events import Blind

WHOLE = {"path": "step-000040", "files": 5, "bytes": 1000, "problem": "", "verified": True}


def looked(story: Story | None = None, *, step: int = 40, at: float | None = None, **seen: object) -> Story:
    """The run, and a look at one of its checkpoints long after it was committed."""
    story = story or killed()
    story.controller("checkpoint_seen", at=at, step=step, **{**WHOLE, **seen})
    return story


def integrity(story, of_plan=None):
    return check_of("checkpoint_integrity", story, of_plan or plan())


def test_one_that_was_seen_whole_passes_and_the_words_say_how_many_were():
    found = integrity(looked(looked(), step=20))
    assert (found.outcome, found.observed) == ("pass", "2 committed, each whole when it was; 2 seen whole from outside")


def test_a_pass_without_any_look_says_so():
    assert "not looked at from outside" in integrity(killed()).observed


def test_one_too_large_to_compare_passes_by_its_sizes_and_says_so():
    found = integrity(looked(verified=False))
    assert found.outcome == "pass" and "0 seen whole from outside, 1 too large to compare" in found.observed


@pytest.mark.parametrize("problem", ["rank1.pt is missing", "rank1.pt: its checksum is not the manifest's"])
def test_a_committed_one_that_is_seen_damaged_fails_and_cites_look_and_commit(problem):
    story = looked(problem=problem)
    found = integrity(story)
    seen = story.events[-1]
    commit = next(e for e in story.events if e.kind == "checkpoint_committed" and e.data["step"] == 40)
    assert found.outcome == "fail" and problem in found.observed
    assert {seen.ref, commit.ref} <= set(found.evidence)


@pytest.mark.parametrize("now", [{"files": 4}, {"bytes": 999}])
def test_one_that_is_whole_by_itself_but_not_as_it_was_committed_was_altered(now):
    found = integrity(looked(**now))
    assert found.outcome == "fail" and "it was committed with 5 files, 1000 bytes" in found.observed


@pytest.mark.parametrize("nothing", [{"files": None}, {"bytes": None}, {"problem": None}])
def test_a_look_that_does_not_say_what_it_saw_is_unknown(nothing):
    assert integrity(looked(**nothing)).outcome == "unknown"


def test_a_commit_that_did_not_say_its_size_is_not_held_to_one():
    assert integrity(changed(looked(bytes=7), "checkpoint_committed", bytes=None)).outcome == "pass"


MISSING = {"files": 0, "bytes": 0, "problem": "it is not there"}


def test_a_committed_one_that_is_not_there_fails_unless_the_job_says_that_it_took_it_away():
    assert integrity(looked(**MISSING)).outcome == "fail"
    for kind in ("checkpoint_pruned", "checkpoint_refused"):
        story = looked(step=20, **MISSING)
        story.rank(0, kind, at=story.at + 0.1, step=20, path="step-000020", reason="r")
        assert "seen from outside" not in integrity(story).observed, kind
        assert "seen whole" not in integrity(story).observed, kind
    story = looked(**MISSING)
    story.rank(0, "checkpoint_pruned", step=20, path="step-000020")
    assert integrity(story).outcome == "fail"  # another one was taken away


def test_damage_to_one_that_nobody_committed_is_unknown():
    found = integrity(looked(step=55, problem="manifest.json is missing"))
    assert found.outcome == "unknown" and "nobody said that it had been committed" in found.observed


def test_one_that_was_committed_only_after_the_look_was_not_committed_when_it_was_seen():
    story = looked(at=1.3, problem="rank1.pt is missing")
    assert integrity(story).outcome == "unknown"


def test_damage_that_is_seen_after_we_stopped_the_job_is_unknown():
    story = Story().start().join("g0").train(0, 45)
    story.at += 2 * STEP_S
    story.controller("stop_requested", reason="limits.timeout reached", interrupted=False)
    looked(story, at=story.at + 0.1, problem="rank1.pt is missing")
    found = integrity(story)
    assert found.outcome == "unknown" and "stopped by us" in found.observed


def test_a_folder_that_could_not_be_read_makes_the_check_unknown_by_name_and_no_other():
    story = killed()
    story.controller("source_blind", source=CHECKPOINT_FOLDER, reason="job/checkpoints: Permission denied")
    verdict = verdict_of(story)
    found = verdict.check("checkpoint_integrity")
    assert found.outcome == "unknown" and "Permission denied" in found.observed
    whole = verdict_of(killed())
    others = {check.name for check in verdict.checks if check.outcome != whole.check(check.name).outcome}
    assert others == {"checkpoint_integrity"} and verdict.outcome == "unknown"


def test_a_controllers_file_that_is_not_whole_may_hide_a_look():
    found = check_of(
        "checkpoint_integrity", killed(), plan(), blind=[Blind(source=CONTROLLER, reason="cut", file="controller-40-4")]
    )
    assert found.outcome == "unknown"


def test_an_exit_status_in_dispute_makes_unknown_what_rests_on_it_and_nothing_else():
    story = killed()
    story.controller("source_blind", source=EXIT_STATUS, reason="pid 101: pidfd says signal 9, launcher says code 1")
    verdict, whole = verdict_of(story), verdict_of(killed())
    others = {check.name for check in verdict.checks if check.outcome != whole.check(check.name).outcome}
    rests_on_it = {spec.name for spec in REGISTRY if EXIT_STATUS in spec.needs}
    assert others == rests_on_it >= {"fault_took_effect"} and verdict.outcome == "unknown"
    assert "launcher says code 1" in verdict.check("fault_took_effect").observed
