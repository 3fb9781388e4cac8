"""Runs with more than one thing going wrong, told in a few lines. Extends `judge_build.Story`."""

from __future__ import annotations

from typing import Any

import msgspec
from judge_build import EVERY, FAULT_STEP, STEPS, Story, life, plan

from chaos.judge import case as cases
from chaos.judge.case import Case
from chaos.judge.incident import Incident
from chaos.judge.record import Record
from chaos.model.events import Event
from chaos.model.plan import FaultPlan, Plan

FAILED_AFTER_S = 0.3  # from a kill to the launcher's line
Told = Story | list[Event]


class Cast(Story):
    """A story in which ranks are renumbered: `seats` has a rank's life and initial rank, `reentries` a life's entry."""

    def __init__(self, *, world_size: int = 2, steps: int = STEPS) -> None:
        super().__init__(world_size=world_size, steps=steps)
        self.seats: dict[int, tuple[str, int]] = {}
        self.reentries: dict[str, int] = {}

    def rank(self, rank: int, kind: str, *, at: float | None = None, **data: Any) -> Event:
        who, initial = self.seats.get(rank, (life(rank, self.generation), rank))
        return self._add(
            f"rank-{'-'.join(who.split('-')[-2:])}.jsonl", kind, at, data, life=who,
            reentry=self.reentries.get(who, self.reentry), group=self.group, rank=rank, initial_rank=initial,
        )  # fmt: skip


# --- stretches


def begun(story: Story | None = None, *, until: int = FAULT_STEP) -> Story:
    """Steady, and about to be hit in step `until`."""
    story = story or Story()
    return story.start().join("g0").train(0, 12).steady().train(12, until)


def kill(story: Story, name: str = "kill", *, rank: int = 1, step: int = FAULT_STEP) -> Story:
    """Rank is killed by us, and the launcher stops the others."""
    story.at += 0.01
    fired = story.fire(name, rank=rank, step=step)
    story.at += 0.01
    story.exited(rank, signal=9)
    story.controller("fault_confirmed", of=fired.life, rank=rank, fault=name, how="exited with signal 9", evidence=[])
    return stopped(story, rank=rank)


def stopped(story: Story, *, rank: int = 1) -> Story:
    """The launcher notices that this rank is gone, and ends the others."""
    story.at += FAILED_AFTER_S
    story.controller("worker_failed", local_rank=rank, pid=pid(story, rank), code=-9, error_ns=0, text="failed")
    story.at += 0.1
    for other in range(story.world_size):
        if other != rank:
            story.exited(other, signal=15)
    return story


def pid(story: Story, rank: int) -> int:
    return 100 + rank + 10 * story.generation


def dies(story: Story, *, rank: int = 1, signal: int | None = 9, code: int | None = None) -> Story:
    """A rank ends, and it was none of our doing."""
    story.at += 0.03
    story.controller(
        "process_exited", of=life(rank, story.generation), rank=rank, pid=pid(story, rank), role="rank", code=code,
        signal=signal, source="pidfd",
    )  # fmt: skip
    return stopped(story, rank=rank)


def restarted(story: Story, group: str, *, resume: int = 40, until: int = STEPS) -> Story:
    """By the launcher: new processes."""
    story.generation += 1
    return story.start().join(group).load(resume).train(resume, until)


def reentered(story: Story, group: str, *, resume: int = 40, until: int = STEPS) -> Story:
    """In the same processes: the next entry of each."""
    story.at += 0.3
    enter(story)
    return story.join(group).load(resume).train(resume, until)


def enter(story: Story) -> Story:
    story.reentry, story.group = story.reentry + 1, None
    story.ranks("restart_entered", reported_restart={})
    story.ranks("phase_entered", phase="init", step=None)
    return story


def oom_kills(story: Story, count: int | None, *, at: float | None = None) -> Story:
    """The kernel's count as it was then."""
    story.controller("memory_measured", at=at, rss_bytes={}, cgroup_bytes=None, oom_kills=count)
    return story


# --- what the judge makes of them


def case_of(told: Told, of_plan: Plan | None = None) -> Case:
    events = told.events if isinstance(told, Story) else told
    return cases.build(of_plan or plan(), Record(events), ())


def incidents_of(told: Told, of_plan: Plan | None = None) -> tuple[Incident, ...]:
    return case_of(told, of_plan).incidents


def two(*faults: FaultPlan, **of_objective: Any) -> Plan:
    """A plan that bounds no restarts and no lost work, for runs of several outages."""
    return plan(*faults, **({"restarts": None, "lost_steps": 3 * EVERY, "detection_time_s": None} | of_objective))


def with_job(base: Plan, **of_job: Any) -> Plan:
    return msgspec.structs.replace(base, job=msgspec.structs.replace(base.job, **of_job))
