"""single_history: groups one after another, nothing behind a successor's back, the end once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judge_build import (
    STEPS,
    Story,
    changed,
    check_of,
    excepted,
    healthy,
    hung,
    killed,
    life,
    outlived,
    plan,
    plan_for,
    plan_of_control,
    verdict_of,
    without,
)

from chaos.model.events import Event


def seconds(event: Event) -> float:
    return event.t_ns / 1e9 - 1


def first_step_of(events: list[Event], group: str) -> float:
    return min(seconds(event) for event in events if event.kind == "step_done" and event.group == group)


def zombie(*steps: int, ranks: tuple[int, ...] = (0, 1)) -> Story:
    """`killed()`, in which these ranks of the old group did these steps when the new one had begun to train."""
    story = killed()
    at = first_step_of(story.events, "g1")
    story.generation, story.group = 0, "g0"
    for count, step in enumerate(steps):
        for rank in ranks:
            done = {"step": step, "loss": (1.0).hex(), "lr": (0.1).hex(), "grad_norm": (1.0).hex(), "samples": [0, 4]}
            story.rank(rank, "step_done", at=at + 0.05 + count * 0.02, **done)
    return story


def on_two_hosts(story: Story, error_s: float) -> Story:
    """Rank 1 runs on another host, whose clock may be that far off."""
    there = {life(1, generation): life(1, generation).replace("boot0000", "boot0001") for generation in range(3)}
    story.events = [replace(event, life=there.get(event.life or "", event.life)) for event in story.events]
    story.controller("clock_offset_measured", of=there[life(1)], at=0.5, offset_ns=0, error_ns=round(error_s * 1e9))
    return story


def commits_late(*, by_name: bool = True) -> Story:
    """The old group's rank 0 publishes checkpoint 40 again after the new group's first step."""
    story = killed()
    at = first_step_of(story.events, "g1") + 0.05
    story.generation, story.group = 0, "g0" if by_name else None
    story.rank(0, "checkpoint_committed", at=at, step=40, path="step-000040", files=5, bytes=1000)
    return story


def commits_late_and_never_trained() -> Story:
    """A group that gave up before its first step commits what it found when the next one trains."""
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("lost")
    left_behind = story.generation
    story.generation = 2
    story.start().join("g1").load(40).train(40, STEPS).finish()
    at = first_step_of(story.events, "g1") + 0.05
    story.generation, story.group = left_behind, "lost"
    story.rank(0, "checkpoint_committed", at=at, step=40, path="step-000040", files=5, bytes=1000)
    return story


def split() -> Story:
    """After a partition rank 0 trains to the end alone; rank 1 waits, and then both train it all again."""
    story = killed(resumed=False)
    story.generation, story.world_size = 1, 1
    story.start().join("alone").load(40).train(40, STEPS)
    story.ranks("rank_finished", step=STEPS)
    story.generation, story.world_size = 2, 2
    return story.start().join("g1").load(40).train(40, STEPS).finish()


def two_halves() -> Story:
    """Each rank in a group of its own, at the same time."""
    story = killed(resumed=False)
    story.generation = 1
    story.start()
    for rank, name in ((0, "left"), (1, "right")):
        story.group = name
        story.rank(rank, "process_group_ready", world_size=1, backend="gloo")
    for step in range(40, STEPS):
        story.at += 0.02
        for rank, story.group in ((0, "left"), (1, "right")):
            done = {"step": step, "loss": (1.0).hex(), "lr": (0.1).hex(), "grad_norm": (1.0).hex(), "samples": [0, 4]}
            story.rank(rank, "step_done", **done)
    return story.end()


def killed_after_the_last_step(*, finished: bool = False) -> Story:
    """All steps are done, the last checkpoint is being written, and rank 1 is killed: the end is done again."""
    story = Story().start().join("g0").train(0, STEPS).steady()
    if finished:
        story.ranks("rank_finished", step=STEPS)
    story.at += 0.1
    story.fire("kill", phase="shutdown", step=STEPS, point="entry")
    story.at += 0.5
    story.generation = 1
    return story.start().join("g1").load(40).train(40, STEPS).finish()


def begins_anew_for_no_reason() -> Story:
    story = Story().start().join("g0").train(0, STEPS)
    story.generation = 1
    return story.start().join("g1").load(40).train(40, STEPS).finish()


RIGHT, CONTROL = plan(), plan_of_control()

CASES = [
    ("single_history", "pass", healthy, CONTROL, "one group"),
    ("single_history", "pass", killed, RIGHT, "2 groups, one after another"),
    ("single_history", "pass", excepted, plan_for("boom"), "2 groups, one after another"),
    ("single_history", "pass", hung, plan_for("hang"), "2 groups, one after another"),
    ("single_history", "pass", outlived, plan_for("hang", recovered_by=("none",)), "one group"),
    ("single_history", "pass", lambda: zombie(47, ranks=(0,)), RIGHT, "ghost step 47 of g0 after g1 had begun"),
    ("single_history", "pass", lambda: zombie(47, 48, ranks=(1,)), RIGHT, "ghost step 47 and 48"),
    ("single_history", "pass", killed_after_the_last_step, RIGHT, "interrupted before it had ended"),
    ("single_history", "pass", lambda: killed(), plan(run=None), "2 groups"),
    ("single_history", "fail", lambda: zombie(47, 48, 49, ranks=(0,)), RIGHT, "at the same time: step 47 to 49"),
    ("single_history", "fail", lambda: zombie(47), RIGHT, "groups g0 and g1 trained at the same time"),
    ("single_history", "fail", two_halves, RIGHT, "groups left and right trained at the same time"),
    ("single_history", "fail", commits_late, RIGHT, "g0 committed checkpoint 40 after its successor g1 had begun"),
    ("single_history", "fail", lambda: commits_late(by_name=False), RIGHT, "g0 committed checkpoint 40 after"),
    ("single_history", "fail", commits_late_and_never_trained, RIGHT, "lost committed checkpoint 40 after its succ"),
    ("single_history", "fail", split, RIGHT, "groups alone and g1 both did the last step, 59"),
    ("single_history", "fail", lambda: killed_after_the_last_step(finished=True), RIGHT, "both did the last step"),
    ("single_history", "fail", begins_anew_for_no_reason, CONTROL, "both did the last step"),
    ("single_history", "unknown", lambda: on_two_hosts(zombie(47), 0.1), RIGHT, "the order of groups g0 and g1"),
    ("single_history", "unknown", lambda: on_two_hosts(commits_late(), 0.1), RIGHT, "what their clocks can differ"),
    ("single_history", "unknown", lambda: Story().start().end(code=1), RIGHT, "no group did a step"),
    (
        "single_history", "unknown",
        lambda: changed(killed(), "checkpoint_committed", life=None), RIGHT, "was not recorded",
    ),
    (
        "single_history", "unknown",
        lambda: changed(killed(), "process_group_ready", lambda event: event.group == "g1", group="g0"), RIGHT,
        "not told apart",
    ),
    (
        "single_history", "unknown",
        lambda: without(killed_after_the_last_step(), "rank_finished"), plan(run=None), "had ended was not seen",
    ),
    ("single_history", "not_asked", killed, plan(dropped=("single_history",)), ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outcome", "run", "of_plan", "words"), CASES)
def test_a_history_is_one_or_it_is_not(name, outcome, run, of_plan, words):
    check = check_of(name, run(), of_plan, with_controls=[])
    assert (check.outcome, words in check.observed) == (outcome, True), check


def test_a_clock_error_smaller_than_the_overlap_excuses_nothing():
    assert check_of("single_history", on_two_hosts(zombie(47), 0.01)).outcome == "fail"
    assert check_of("single_history", on_two_hosts(commits_late(), 0.01)).outcome == "fail"


def test_steps_that_overlap_without_a_clock_error_by_any_amount_convict():
    story = killed()
    last_of_g0 = max(event.t_ns for event in story.events if event.kind == "step_done" and event.group == "g0")
    first_of_g1 = min(event.t_ns for event in story.events if event.kind == "step_done" and event.group == "g1")
    moved = [
        replace(event, t_ns=first_of_g1 + 1) if event.kind == "step_done" and event.t_ns == last_of_g0 else event
        for event in story.events
    ]
    late = [event for event in moved if event.kind == "step_done" and event.t_ns == first_of_g1 + 1]
    assert len(late) == 1
    assert check_of("single_history", moved).outcome == "fail"


def test_a_second_history_fails_the_run_and_shows_both_groups():
    verdict = verdict_of(zombie(47, 48, 49))
    check = verdict.check("single_history")
    assert verdict.outcome == "failed" and len(check.evidence) == 2
    assert {ref.partition(":")[0] for ref in check.evidence} == {"rank-100-1000.jsonl", "rank-110-1001.jsonl"}
