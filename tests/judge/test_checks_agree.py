"""ranks_agree: the same step, numbers, data and replicated state on every rank, after a recovery and at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from judge_build import (
    EVERY,
    STEPS,
    Story,
    changed,
    check_of,
    excepted,
    healthy,
    hung,
    killed,
    life,
    plan,
    plan_for,
    plan_of_control,
    verdict_of,
    without,
)

from chaos.model.events import Event

Where = Callable[[Event], bool]


def done(step: int, *, group: str = "g1", rank: int = 1) -> Where:
    """Those events of that rank in that step of that group."""
    return lambda event: (event.data.get("step"), event.group, event.rank) == (step, group, rank)


def taken(purpose: str, *, rank: int = 1) -> Where:
    return lambda event: event.data.get("purpose") == purpose and event.rank == rank


def told(where: Where, **data: object) -> Callable[[], list[Event]]:
    """`killed()` with other numbers in these steps."""
    return lambda: changed(killed(), "step_done", where, **data)


def digested(where: Where, **data: object) -> Callable[[], list[Event]]:
    return lambda: changed(killed(), "digest_taken", where, **data)


def loads_another_step() -> list[Event]:
    """Rank 1 of the new group goes on from an older checkpoint, and is a step behind for ever."""
    story = killed()
    return [
        replace(event, data={**event.data, "step": event.data["step"] - 1})
        if event.kind == "step_done" and event.group == "g1" and event.rank == 1
        else event
        for event in story.events
    ]


def one_rank_ends_early(rank: int = 1) -> list[Event]:
    return without(killed(), "step_done", where=done(STEPS - 1, rank=rank))


def loaded_without_saying_so() -> Story:
    story = Story()
    story.events = without(killed(), "checkpoint_loaded")
    return story


def never_stepped() -> list[Event]:
    return without(killed(), "step_done", where=lambda event: event.group == "g1" and event.rank == 1)


def interrupted_in_its_first_step() -> Story:
    """In the first restarted group only rank 0 got through its first step; the next group recovers."""
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 41, only=[0])
    story.generation = 2
    return story.start().join("g2").load(40).train(40, STEPS).finish()


def began_anew() -> Story:
    """Restarted before there was any checkpoint: nothing is loaded."""
    story = Story().start().join("g0").train(0, 12)
    story.generation = 1
    return story.start().join("g1").train(0, STEPS).finish()


def stopped_early() -> Story:
    return Story().start().join("g0").train(0, 30).end(code=1)


def without_random() -> list[Event]:
    return changed(killed(), "digest_taken", random=None)


RIGHT, CONTROL = plan(), plan_of_control()
OTHER = (0.3).hex()

CASES = [
    ("ranks_agree", "pass", healthy, CONTROL, "all ranks alike at the end"),
    ("ranks_agree", "pass", killed, RIGHT, "alike at step 40, the end; 2 random states as they were saved"),
    ("ranks_agree", "pass", excepted, plan_for("boom"), "alike at step 40"),
    ("ranks_agree", "pass", hung, plan_for("hang"), "alike at step 40"),
    ("ranks_agree", "pass", interrupted_in_its_first_step, RIGHT, "alike at step 40, step 40, the end"),
    ("ranks_agree", "pass", began_anew, CONTROL, "alike at step 0, the end"),
    ("ranks_agree", "pass", without_random, RIGHT, "alike at step 40, the end"),
    ("ranks_agree", "pass", killed, plan(run=None, added=("ranks_agree",)), "alike at step 40"),
    ("ranks_agree", "pass", told(done(50), lr=OTHER), RIGHT, "alike at step 40"),
    ("ranks_agree", "fail", loads_another_step, RIGHT, "rank 1 begins with step 39, rank 0 with step 40"),
    ("ranks_agree", "fail", one_rank_ends_early, RIGHT, "rank 1 ends with step 58, rank 0 with step 59"),
    ("ranks_agree", "fail", lambda: one_rank_ends_early(0), RIGHT, "rank 1 ends with step 59, rank 0 with step 58"),
    (
        "ranks_agree", "fail",
        lambda: changed(loaded_without_saying_so(), "digest_taken", taken("loaded"), replicated="b"), RIGHT,
        "differs between rank 0 and rank 1 after loading",
    ),
    ("ranks_agree", "fail", told(done(40), lr=OTHER), RIGHT, "learning rate at step 40: 0.1 by rank 0, 0.3 by rank 1"),
    ("ranks_agree", "fail", told(done(40), loss=OTHER), RIGHT, "reduced loss at step 40"),
    ("ranks_agree", "fail", told(done(40), grad_norm=OTHER), RIGHT, "gradient norm at step 40: 1.0 by rank 0, 0.3"),
    ("ranks_agree", "fail", told(done(40), samples=[328, 332]), RIGHT, "data position at step 40: rank 0 ends at"),
    ("ranks_agree", "fail", told(done(STEPS - 1), lr=OTHER), RIGHT, "learning rate at step 59"),
    ("ranks_agree", "fail", told(done(STEPS - 1), samples=[472, 476]), RIGHT, "data position at step 59"),
    ("ranks_agree", "fail", digested(taken("loaded"), replicated="b"), RIGHT, "differs between rank 0 and rank 1"),
    ("ranks_agree", "fail", digested(taken("end"), replicated="b"), RIGHT, "rank 0 and rank 1 at the end"),
    ("ranks_agree", "fail", digested(taken("loaded"), random="b"), RIGHT, "random state of rank 1 after loading"),
    ("ranks_agree", "unknown", told(done(40), lr=None), RIGHT, "the learning rate of rank 1 at step 40 was not seen"),
    ("ranks_agree", "unknown", told(done(59, rank=0), grad_norm=None), RIGHT, "gradient norm of rank 0 at step 59"),
    ("ranks_agree", "unknown", told(done(40), samples=None), RIGHT, "data position of rank 1 at step 40 was not seen"),
    ("ranks_agree", "unknown", digested(taken("loaded"), replicated=None), RIGHT, "no digest of rank 1"),
    (
        "ranks_agree", "unknown",
        lambda: without(killed(), "digest_taken", where=lambda event: event.data["purpose"] == "loaded"), RIGHT,
        "no digest of rank 0 was taken after loading",
    ),
    ("ranks_agree", "unknown", lambda: without(killed(), "digest_taken", where=taken("end")), RIGHT, "at the end"),
    ("ranks_agree", "unknown", never_stepped, RIGHT, "rank 1 did no step after the last recovery"),
    ("ranks_agree", "unknown", stopped_early, RIGHT, "did not come to its end"),
    ("ranks_agree", "unknown", lambda: Story().start().end(code=1), RIGHT, "no step was done"),
    ("ranks_agree", "not_asked", killed, plan(run=None), ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outcome", "run", "of_plan", "words"), CASES)
def test_ranks_are_alike_or_one_of_them_is_named(name, outcome, run, of_plan, words):
    check = check_of(name, run(), of_plan, with_controls=[])
    assert (check.outcome, words in check.observed) == (outcome, True), check


def test_one_rank_astray_of_three_is_named_with_both_its_step_and_that_of_another():
    story = Story(world_size=3).start().join("g0").train(0, STEPS).finish()
    assert check_of("ranks_agree", story, CONTROL).outcome == "pass"
    run = changed(story, "step_done", done(STEPS - 1, group="g0", rank=2), loss=OTHER)
    check = check_of("ranks_agree", run, CONTROL)
    assert check.outcome == "fail" and "0.3 by rank 2" in check.observed
    assert {ref.partition(":")[0] for ref in check.evidence} == {"rank-100-1000.jsonl", "rank-102-1000.jsonl"}


def test_a_rank_in_the_middle_that_did_not_end_an_interrupted_step_is_no_gap_in_the_data():
    story = Story(world_size=3).start().join("g0").train(0, 47)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 41, only=[0, 2])
    story.generation = 2
    story.start().join("g2").load(40).train(40, STEPS).finish()
    size = plan_of_control()
    assert "data position" not in check_of("ranks_agree", story, size).observed


def test_a_nan_that_all_ranks_have_is_alike():
    run = changed(killed(), "step_done", lambda event: event.data["step"] in (40, 59), loss="nan", grad_norm="nan")
    assert check_of("ranks_agree", run).outcome == "pass"


def test_what_one_rank_replicates_wrongly_from_a_checkpoint_is_no_exact_state_either():
    run = changed(killed(), "digest_taken", taken("loaded"), replicated="b")
    check = check_of("state_exact", run, with_controls=[])
    assert check.outcome == "fail" and "replicated state of rank 1 after loading, step 40" in check.observed


def test_a_random_state_that_was_not_restored_fails_the_run():
    run = changed(killed(), "digest_taken", lambda event: event.data["purpose"] == "loaded", random="fresh")
    verdict = verdict_of(run)
    assert verdict.outcome == "failed"
    assert {"ranks_agree", "state_exact"} == {check.name for check in verdict.checks if check.outcome == "fail"}


def test_a_checkpoint_of_another_run_has_no_random_state_to_compare_with():
    story = Story().start().join("g0").load(EVERY).train(EVERY, STEPS).finish()
    check = check_of("ranks_agree", story, CONTROL)
    assert check.outcome == "pass" and "random" not in check.observed


def test_a_rank_is_held_to_what_it_saved_itself():
    """Random states differ between ranks: that is no disagreement."""
    swapped = {0: "q40r1", 1: "q40r0"}
    run = [
        replace(event, data={**event.data, "random": swapped[event.rank]})
        if event.kind == "digest_taken" and event.data["purpose"] == "loaded"
        else event
        for event in killed().events
    ]
    assert life(0, 1) in {event.life for event in run}
    assert check_of("ranks_agree", run).outcome == "fail"
