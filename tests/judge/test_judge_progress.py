"""The live view of a job: fed event by event, it knows when the job is steady, has recovered, is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from judge_build import (
    FAULT_STEP,
    STEPS,
    Story,
    excepted,
    healthy,
    hung,
    killed,
    life,
    outlived,
    plan,
    plan_for,
    verdict_of,
)

from chaos.judge.progress import Live, Watch
from chaos.model.events import Event


def live() -> Live:
    return Live(world_size=2, steady_steps=10, steps=STEPS)


def at_step(event: Event) -> int:
    """The step of a step_done; -1 for all other events."""
    return event.data["step"] if event.kind == "step_done" else -1


def fed_until_fault(story: Story) -> tuple[Live, Watch, dict[str, int]]:
    """Feeds a whole run; gives the watch set at its fault and when `recovered` first said yes."""
    job, watch, seen = live(), None, {}
    for event in sorted(story.events, key=lambda event: event.t_ns):
        job.feed(event)
        if event.kind == "fault_fired":
            watch = job.watch()
        elif watch is not None:
            for name in ("recovered", "went_on"):
                if getattr(job, name)(watch):
                    seen.setdefault(name, event.t_ns)
    assert watch is not None
    return job, watch, seen


def feed(job: Live, events: Iterable[Event]) -> None:
    for event in events:
        job.feed(event)


def test_before_the_first_step_nothing_is_known():
    job = live()
    assert (job.step_by_all, job.group, job.lives, job.steady(), job.done()) == (-1, None, {}, False, False)
    assert job.step_time_s() is None and not job.recovered(job.watch())


def test_it_is_steady_after_ten_steps_of_all_ranks_and_not_before():
    job = live()
    for event in healthy().events:
        job.feed(event)
        assert job.steady() == (job.step_by_all >= 9)


def test_a_step_that_one_rank_has_not_done_is_not_done_by_all():
    job = live()
    events = [event for event in healthy().events if not (event.rank == 1 and at_step(event) > 4)]
    feed(job, events)
    assert job.steps_done == {0: STEPS - 1, 1: 4} and job.step_by_all == 4


def test_a_finished_run_is_done_with_its_step_time():
    job = live()
    feed(job, healthy().events)
    assert job.done() and job.finished == {0, 1} and job.restarts_seen == 0
    assert job.step_time_s(20) == pytest.approx(0.02)


def test_it_is_not_done_before_every_rank_has_said_so():
    job = live()
    feed(job, (event for event in healthy().events if event.kind != "rank_finished" or event.rank == 0))
    assert job.finished == {0} and not job.done()


def test_lives_of_steps_alone_are_known_without_the_groups_own_word():
    job = live()
    feed(job, (event for event in healthy().events if event.kind == "step_done"))
    assert job.lives == {0: life(0), 1: life(1)}


def test_after_a_restart_the_lives_are_the_new_ones_and_steady_begins_anew():
    job = live()
    feed(job, (event for event in killed().events if event.group != "g1" or at_step(event) < 45))
    assert job.lives == {0: life(0, 1), 1: life(1, 1)} and job.group == "g1"
    assert job.restarts_seen == 1 and not job.steady() and job.step_by_all == 44


@pytest.mark.parametrize(
    ("story", "of_plan"), [(killed(), plan()), (excepted(), plan_for("boom")), (hung(), plan_for("hang"))]
)
def test_it_sees_the_recovery_when_the_judge_does(story, of_plan):
    job, watch, seen = fed_until_fault(story)
    incident = verdict_of(story, of_plan).incidents[0]
    fired = next(event.t_ns for event in story.events if event.kind == "fault_fired")
    assert (job.recovered_at_ns(watch) - fired) / 1e9 == pytest.approx(incident.recovery_time_s)
    assert (seen["recovered"] - fired) / 1e9 == pytest.approx(incident.full_recovery_time_s)
    assert "went_on" not in seen


def test_a_ghost_step_is_no_recovery():
    story = hung()
    job, watch, seen = fed_until_fault(_only_first_group(story))
    assert job.highest_step == FAULT_STEP and job.recovered_at_ns(watch) is None and seen == {}


def _only_first_group(story: Story) -> Story:
    story.events = [event for event in story.events if event.group != "g1"]
    return story


def test_a_fault_that_the_same_group_outlives_went_on():
    _, _, seen = fed_until_fault(outlived())
    assert set(seen) == {"went_on"}


def test_a_smaller_group_counts_only_where_the_job_may_shrink():
    events = [event for event in healthy().events if event.rank in (0, None)]
    strict, lenient = live(), Live(world_size=2, steady_steps=10, steps=STEPS, may_shrink=True)
    for event in events:
        strict.feed(event)
        if event.kind == "process_group_ready":
            event = replace(event, data={**event.data, "world_size": 1})
        lenient.feed(event)
    assert not strict.steady() and not strict.done()
    assert lenient.steady() and lenient.done()
