"""Which group came after which: by one clock, by several, and where two stepped at the same time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from incident_build import Cast, Told, begun, case_of, incidents_of, kill, reentered, restarted, two, with_job
from judge_build import FAULT_STEP, STEPS, Story, changed, check_of, fault, healthy, killed, life, plan, verdict_of

from chaos.judge.lineage import Lineage
from chaos.judge.record import Record
from chaos.model.events import Event

FAR = "boot9999-7-"  # lives of another host


def lineage_of(told: Told) -> Lineage:
    return case_of(told).lineage


def moved(event: Event, by_s: float) -> Event:
    return replace(event, t_ns=event.t_ns + round(by_s * 1e9))


def on_two_hosts(story: Story | None = None, *, error_s: float | None = None, offset_s: float = 0.0) -> list[Event]:
    """Rank 1 runs on another host. In `killed()` there is more than a second between the groups."""
    story = story or killed()
    if error_s is not None:
        story.controller(
            "clock_offset_measured", at=0.4, of=f"{FAR}9-9", offset_ns=round(offset_s * 1e9),
            error_ns=round(error_s * 1e9),
        )  # fmt: skip
    return [
        replace(event, life=FAR + "-".join(event.life.split("-")[2:])) if event.rank == 1 and event.life else event
        for event in story.events
    ]


# --- one clock


def test_a_group_whose_first_step_is_after_the_last_of_another_succeeds_it():
    lineage = lineage_of(killed())
    assert [group.name for group in lineage.groups] == ["g0", "g1"]
    assert lineage.at_once == () and lineage.problems == ()


def test_the_surviving_history_takes_each_step_from_the_last_group_that_did_it():
    surviving = lineage_of(killed()).surviving
    assert [surviving[step].name for step in (0, 39, 40, 46, 47, 59)] == ["g0", "g0", "g1", "g1", "g1", "g1"]
    assert list(surviving) == list(range(STEPS))


def test_a_step_that_only_some_ranks_of_the_last_group_did_survives_from_the_one_before():
    story = killed(resumed=False)
    story.generation = 1
    story.start().join("g1").load(40).train(40, 44).train(44, 45, only=[0]).end(code=1)
    surviving = lineage_of(story).surviving
    assert surviving[43].name == "g1" and surviving[44].name == "g0"


def test_lost_steps_are_counted_and_not_computed():
    """Only what all ranks of one group had done, and a later one did again, is lost."""
    story = begun(until=45).train(45, FAULT_STEP, only=[0])
    (found,) = incidents_of(restarted(kill(story), "g1").finish(), two(fault()))
    assert found.lost_steps == 5


# --- zombies


def zombie(*, steps: int = 5) -> Story:
    """Rank 0 of the old group went on while the new one had begun."""
    story = begun()
    story.fire("kill")
    story.exited(1, signal=9)
    old = Cast()
    restarted(story, "g1")
    first = next(event for event in story.events if event.kind == "step_done" and event.group == "g1")
    old.at, old.group = first.t_ns / 1e9 - 1, "g0"
    old.train(FAULT_STEP, FAULT_STEP + steps, only=[0])
    lines = max(event.line for event in story.events if event.life == life(0))
    story.events += [replace(event, line=event.line + lines) for event in old.events]
    return story.finish()


def test_an_old_group_that_steps_after_its_successor_began_stepped_at_the_same_time():
    ((older, younger),) = lineage_of(zombie()).at_once
    assert (older.name, younger.name) == ("g0", "g1")


def test_what_a_zombie_does_after_its_successor_began_has_not_to_be_passed_again():
    (found,) = incidents_of(zombie(steps=13), plan(restarts=None))
    assert found.highest_before == FAULT_STEP - 1
    assert found.holding.name == "g1" and found.full_ns is not None


def test_a_step_of_a_zombie_does_not_survive():
    assert lineage_of(zombie()).surviving[FAULT_STEP].name == "g1"


# --- splits


def split() -> Story:
    """After a partition each side goes on alone, and both do the same steps."""
    story = begun()
    story.fire("cut", by_rank=False, verb="outside")
    parted_at = story.at + 0.5
    other = Cast()
    for rank, side in ((0, story), (1, other)):
        side.at, side.reentry, side.group = parted_at, 1, None
        side.rank(rank, "restart_entered", reported_restart={})
        side.group = f"side{rank}"
        side.rank(rank, "process_group_ready", world_size=1, backend="gloo")
        side.train(40, STEPS, only=[rank])
        side.rank(rank, "rank_finished", step=STEPS)
    lines = max(event.line for event in story.events if event.life == life(1))
    story.events += [replace(event, line=event.line + lines) for event in other.events]
    return story.end()


CUT = fault("cut", ends="undone")


def test_two_sides_that_go_on_alone_are_two_groups_at_once():
    lineage = lineage_of(split())
    ((one, other),) = lineage.at_once
    assert {one.name, other.name} == {"side0", "side1"} and lineage.problems == ()
    assert [group.layer for group in lineage.groups] == ["", "in_process", "in_process"]


def test_a_job_that_split_has_recovered_with_neither_side():
    assert incidents_of(split(), plan(CUT))[0].holding is None
    verdict = verdict_of(split(), plan(CUT, restarts=None))
    assert verdict.check("world_size").outcome == "fail" and verdict.outcome == "failed"


def test_a_job_that_split_is_not_passed_even_where_it_may_shrink():
    of_plan = with_job(plan(CUT, world_size="shrunk", recovered_by=("in_process",), restarts=None), shrink=True)
    assert verdict_of(split(), of_plan).outcome == "failed"


# --- names


@pytest.mark.parametrize("restart", [reentered, restarted], ids=["two entries", "two processes"])
def test_a_store_that_outlives_the_group_leaves_every_check_that_needs_groups_unknown(restart):
    story = begun()
    story.fire("boom", verb="raise_error")
    story.at += 0.3
    story = restart(story, "g0").finish()
    lineage = lineage_of(story)
    assert len(lineage.problems) == 1 and lineage.problems[0].startswith("groups are not told apart: g0 has ")
    verdict = verdict_of(story, plan(fault("boom")))
    needing = ["recovered_in_time", "steady_after", "recovered_by", "restart_budget", "world_size", "lost_work"]
    assert {verdict.check(name).outcome for name in needing} == {"unknown"}
    assert "not told apart: g0" in verdict.check("recovered_by").observed
    assert verdict.outcome == "unknown"


def test_one_process_in_two_ranks_of_a_group_with_another_entry_is_not_told_apart():
    told = changed(healthy(), "process_group_ready", lambda event: event.rank == 1, life=life(0))
    told = [
        replace(event, reentry=1) if event.kind == "process_group_ready" and event.rank == 1 else event
        for event in told
    ]
    assert "two entries of" in lineage_of(without_steps_of(told, 1)).problems[0]


def without_steps_of(events: list[Event], rank: int) -> list[Event]:
    return [event for event in events if event.kind != "step_done" or event.rank != rank]


def test_a_name_used_twice_is_said_once_however_many_ranks_there_are():
    story = Story(world_size=8)
    story.start().join("g0").train(0, 20)
    story.generation = 1
    story.start().join("g0").train(10, 20)
    assert len(lineage_of(story).problems) == 1


# --- several clocks


def test_processes_of_one_boot_read_one_clock_in_whatever_namespace():
    told = [
        replace(event, life=event.life.replace("boot0000-1-", "boot0000-2-"))
        if event.rank == 1 and event.life
        else event
        for event in killed().events
    ]
    assert lineage_of(told).problems == ()


def test_groups_on_two_hosts_whose_clocks_were_never_compared_have_no_order():
    (problem,) = lineage_of(on_two_hosts()).problems
    assert problem == "the order of groups g0 and g1 is not known: their clocks were never compared"
    assert "never compared" in check_of("recovered_by", on_two_hosts()).observed


def test_groups_further_apart_than_their_clocks_can_be_are_in_order():
    assert lineage_of(on_two_hosts(error_s=0.2)).problems == ()


@pytest.mark.parametrize("error_s,offset_s", [(3.0, 0.0), (0.1, -3.0)], ids=["error", "offset"])
def test_groups_nearer_than_their_clocks_can_be_apart_have_no_order(error_s, offset_s):
    (problem,) = lineage_of(on_two_hosts(error_s=error_s, offset_s=offset_s)).problems
    assert "order of groups g0 and g1 is not known: their clocks may be 3" in problem


def test_groups_that_overlap_by_less_than_their_clocks_can_be_apart_are_not_surely_at_once():
    near, far = (lineage_of(on_two_hosts(zombie(), error_s=error_s)) for error_s in (0.001, 3.0))
    assert len(near.at_once) == 1 and near.problems == ()
    assert far.at_once == () and "may be 3000.0 ms apart" in far.problems[0]


def test_a_time_within_the_error_of_the_clocks_is_unknown_and_beyond_it_is_not():
    told = on_two_hosts(error_s=0.2)
    outcomes = {at: check_of("recovered_in_time", told, plan(recovery_time_s=at)) for at in (1.7, 1.9, 2.3)}
    assert {at: check.outcome for at, check in outcomes.items()} == {1.7: "fail", 1.9: "unknown", 2.3: "pass"}
    assert "give or take 0.20 s between the hosts' clocks" in outcomes[1.9].observed


@pytest.mark.parametrize("junk", [None, "x", 1.5, True])
def test_an_error_that_cannot_be_read_bounds_nothing(junk):
    told = [
        replace(event, data={**event.data, "error_ns": junk}) if event.kind == "clock_offset_measured" else event
        for event in on_two_hosts(error_s=0.2)
    ]
    assert "never compared" in lineage_of(told).problems[0]


def test_judging_reads_no_clock_of_a_record_without_steps():
    assert case_of([], plan()).lineage.groups == () and Record([]).last_step_ns is None
