"""memory_flat: what a process has after each restart that it lived through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judge_build import STEPS, Story, changed, check_of, healthy, killed, life, plan, plan_for, verdict_of, without

from chaos.judge.checks.memory import MIB
from chaos.model.events import Event
from chaos.model.plan import Plan

BASE_MIB = 340.0


def restarted(*growths_mib: float, of_rank: int = 1, sampled: bool = True) -> Story:
    """A job that re-enters its training function once for each figure; that rank then has so much more for good."""
    story = Story()
    story.start()
    total_mib = 0.0
    for entry in range(len(growths_mib) + 1):
        if entry:
            total_mib += growths_mib[entry - 1]
            story.at += 0.3
            story.reentry, story.group = entry, None
            story.ranks("restart_entered", reported_restart={"iteration": entry})
            measure(story, total_mib + 50, of_rank)  # before the first step: still letting go of what it had
        story.join(f"g{entry}")
        first = entry * 10
        story.train(first, first + 5)
        if sampled:
            measure(story, total_mib - 30, of_rank)  # what counts is the most that it had
            story.train(first + 5, first + 6)
            measure(story, total_mib, of_rank)
        story.train(first + 6 if sampled else first + 5, STEPS if entry == len(growths_mib) else first + 12)
    return story.finish()


def measure(story: Story, more_mib: float, of_rank: int) -> None:
    rss = {life(rank): round((BASE_MIB + (more_mib if rank == of_rank else 0)) * MIB) for rank in range(2)}
    story.controller("memory_measured", rss_bytes=rss, cgroup_bytes=None, oom_kills=0)


def held_to(mib: float | None, **changes: Any) -> Plan:
    bound = None if mib is None else round(mib * MIB)
    return plan_for("boom", memory_growth_bytes=bound, **changes)


def unmeasured_rank() -> list[Event]:
    """Rank 1 could not be read."""
    story = restarted(0, 0, 0)
    return changed(story, "memory_measured", rss_bytes={life(0): 340 * MIB})


def killed_often() -> Story:
    """Four lives of each rank: every one of them begins with new memory."""
    story = Story().start()
    for generation in range(4):
        story.generation = generation
        if generation:
            story.start()
        story.join(f"g{generation}").train(generation * 10, generation * 10 + 12)
        measure(story, 100.0 * generation, 1)
    return story.train(42, STEPS).finish()


CASES = [
    ("memory_flat", "pass", lambda: restarted(0, 0, 0), held_to(1), "0.00 MiB more for each of 3 restarts"),
    ("memory_flat", "pass", lambda: restarted(7, 0, 0, 0, 0), held_to(1), "MiB more for each of 5 restarts"),
    ("memory_flat", "pass", lambda: restarted(16, 16, 16), held_to(16), "rank 1: 16.00 MiB more for each of 3"),
    ("memory_flat", "pass", lambda: restarted(-5, -5, -5), held_to(1), "rank 0: 0.00 MiB"),
    ("memory_flat", "fail", lambda: restarted(20, 20, 20), held_to(16), "rank 1: 20.00 MiB more for each of 3"),
    ("memory_flat", "fail", lambda: restarted(0, 40, 0, 40, 0), held_to(10), "MiB more for each of 5 restarts"),
    ("memory_flat", "fail", lambda: restarted(20, 20, 20, of_rank=0), held_to(16), "340.0 MiB before the first, 400.0"),
    ("memory_flat", "unknown", lambda: restarted(20, 20), held_to(16), "2 restarts inside one living process, 3"),
    ("memory_flat", "unknown", healthy, held_to(16), "0 restarts inside one living process"),
    ("memory_flat", "unknown", killed_often, held_to(16), "0 restarts inside one living process"),
    ("memory_flat", "unknown", killed, plan(memory_growth_bytes=MIB), "0 restarts"),
    ("memory_flat", "unknown", lambda: restarted(9, 9, 9, sampled=False), held_to(1), "in 0 stretches, 4 needed"),
    ("memory_flat", "unknown", unmeasured_rank, held_to(16), "rank 1 trained after 3 restarts, measured in 0"),
    ("memory_flat", "unknown", lambda: restarted(0, 0, 0), held_to(None, added=("memory_flat",)), "names no memory"),
    ("memory_flat", "not_asked", lambda: restarted(20, 20, 20), held_to(None), ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "outcome", "run", "of_plan", "words"), CASES)
def test_memory_is_flat_over_restarts_or_it_grows(name, outcome, run, of_plan, words):
    check = check_of(name, run(), of_plan, with_controls=[])
    assert (check.outcome, words in check.observed) == (outcome, True), check


def test_what_a_process_has_before_it_trains_again_is_not_counted():
    """`restarted` measures 50 MiB more in each restart, before the first step."""
    assert (
        "(340.0 MiB before the first, 340.0 MiB after the last)"
        in check_of("memory_flat", restarted(0, 0, 0), held_to(1)).observed
    )


def test_a_leak_convicts_although_another_rank_could_not_be_read():
    of_rank_1 = [
        replace(event, data={"rss_bytes": {life(1): event.data["rss_bytes"][life(1)]}})
        if event.kind == "memory_measured"
        else event
        for event in restarted(20, 20, 20).events
    ]
    assert check_of("memory_flat", of_rank_1, held_to(16)).outcome == "fail"


def test_a_growing_job_fails_and_shows_first_and_last_measurement():
    verdict = verdict_of(restarted(20, 20, 20), held_to(16))
    check = verdict.check("memory_flat")
    assert verdict.outcome == "failed" and len(check.evidence) == 2
    assert all(ref.startswith("controller-") for ref in check.evidence)


@pytest.mark.parametrize("junk", [None, 5, "x", [], {"x": 1}, {life(1): "many"}, {life(1): True}])
def test_a_measurement_that_says_nothing_is_none(junk):
    run = changed(restarted(0, 0, 0), "memory_measured", rss_bytes=junk)
    assert check_of("memory_flat", run, held_to(16)).outcome == "unknown"


def test_a_stretch_too_short_to_be_measured_leaves_a_process_with_too_few():
    story = restarted(20, 20, 20)
    third = sorted(event.t_ns for event in story.events if event.kind == "memory_measured")[6:8]
    run = without(story, "memory_measured", where=lambda event: event.t_ns in third)
    check = check_of("memory_flat", run, held_to(16))
    assert check.outcome == "unknown" and "measured in 3 stretches" in check.observed
