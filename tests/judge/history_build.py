"""Generated histories: jobs of random size to which random things happen, as a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from incident_build import Cast, dies, enter, oom_kills, restarted, stopped, with_job
from judge_build import At, Story, fault, plan

from chaos.model.events import Event
from chaos.model.plan import FaultPlan, Plan, Restarts

STEPS_MAX = 90


class Generated:
    """A run and its plan. `files` are the names of those that it wrote; `told` is what happened, for people. No
    dataclass: a property that fails would print every event."""

    def __init__(self, events: tuple[Event, ...], plan: Plan, told: tuple[str, ...] = ()) -> None:
        self.events, self.plan, self.told = events, plan, told

    def __repr__(self) -> str:
        return f"<{len(self.events)} events: {', '.join(self.told)}>"

    @property
    def files(self) -> list[str]:
        return sorted({event.file for event in self.events})


@st.composite
def histories(draw: st.DrawFn) -> Generated:
    """Up to four things happen to a job of one to three ranks, which ends well, ends badly, or is cut short."""
    ranks = draw(st.integers(1, 3))
    story = Cast(world_size=ranks, steps=STEPS_MAX)
    story.start().join("g0").train(0, draw(st.integers(11, 20))).steady()
    planned: list[FaultPlan] = []
    told = draw(st.lists(st.sampled_from(HAPPENINGS), max_size=4))
    for turn, happens in enumerate(told):
        happens(draw, story, planned, turn)
    _end(draw, story)
    layers = draw(st.sampled_from([("in_job",), ("in_process",), ("in_process", "in_job"), ("none",)]))
    of_plan = plan(
        *planned, recovered_by=layers, recovery_time_s=draw(st.sampled_from([0.5, 3.0, 60.0])), lost_steps=200,
        clock_from=draw(st.sampled_from(["fired", "undone"])), detection_time_s=draw(st.sampled_from([None, 0.2, 9.0])),
        restarts=draw(st.sampled_from([None, Restarts(in_process=1, in_job=1), Restarts(in_process=9, in_job=9)])),
        world_size=draw(st.sampled_from(["same", "shrunk"])),
    )  # fmt: skip
    job = with_job(of_plan, ranks_per_node=ranks, steps=STEPS_MAX)
    return Generated(tuple(story.events), job, tuple(happens.__name__ for happens in told))


# --- what can happen


def _next(draw: st.DrawFn, story: Story) -> tuple[int, int]:
    """From which step on a restarted job goes on, and how far it gets."""
    done = [event.data["step"] for event in story.events if event.kind == "step_done"]
    resume = draw(st.integers(0, max(done))) if done else 0
    return resume, draw(st.integers(resume + 1, min(resume + 30, STEPS_MAX)))


def _fire(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int, **how: object) -> Event:
    rank = draw(st.integers(0, story.world_size - 1))
    step = max((event.data["step"] for event in story.events if event.kind == "step_done"), default=0)
    name = f"f{turn}"
    ends = str(how.pop("ends", "final"))
    planned.append(fault(name, ranks=(rank,), ends=ends, at=At(step=step, phase="backward", point="in_collective")))
    story.at += draw(st.sampled_from([0.001, 0.01, 0.5]))
    fired = story.fire(name, rank=rank, step=step, **how)
    if draw(st.booleans()):
        story.controller("fault_confirmed", of=fired.life, rank=rank, fault=name, how="seen", evidence=[])
    return fired


def _killed(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    fired = _fire(draw, story, planned, turn)
    story.exited(fired.rank, signal=9)
    stopped(story, rank=fired.rank)
    if draw(st.booleans()):
        resume, until = _next(draw, story)
        restarted(story, f"g{turn + 1}", resume=resume, until=until)


def _raised(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    fired = _fire(draw, story, planned, turn, verb="raise_error")
    if draw(st.booleans()):
        story.rank(fired.rank, "interruption_reported", source="in_process", marker="fn_ex", text="x")
    story.at += 0.3
    enter(story)
    if draw(st.booleans()):
        resume, until = _next(draw, story)
        story.join(f"g{turn + 1}").load(resume).train(resume, until)


def _held(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    fired = _fire(draw, story, planned, turn, ends="undone", by_rank=False, verb="outside")
    story.at += draw(st.sampled_from([0.01, 1.0]))
    if draw(st.booleans()):
        story.controller("fault_undone", of=fired.life, fault=fired.data["fault"], how="done", measured=True)
    if story.group is not None:
        done = max((event.data["step"] for event in story.events if event.kind == "step_done"), default=-1)
        story.train(done + 1, min(done + 1 + draw(st.integers(1, 20)), STEPS_MAX))


def _died(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    oom_kills(story, turn)
    dies(story, rank=0, signal=draw(st.sampled_from([None, 9, 11, 15])))
    oom_kills(story, turn + draw(st.integers(0, 1)))
    resume, until = _next(draw, story)
    restarted(story, f"g{turn + 1}", resume=resume, until=until)


def _restarted_in_vain(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    story.generation += 1
    story.start()
    story.exited(0, code=1)


def _lingered(draw: st.DrawFn, story: Story, planned: list[FaultPlan], turn: int) -> None:
    """One rank goes on alone for some steps."""
    if story.group is not None:
        done = max((event.data["step"] for event in story.events if event.kind == "step_done"), default=-1)
        story.train(done + 1, min(done + 3, STEPS_MAX), only=[0])


HAPPENINGS: list[Callable[[st.DrawFn, Story, list[FaultPlan], int], None]] = [
    _killed, _raised, _held, _died, _restarted_in_vain, _lingered,
]  # fmt: skip


def _end(draw: st.DrawFn, story: Story) -> None:
    how = draw(st.sampled_from(["finish", "fail", "stop"]))
    if how == "finish" and story.group is not None:
        done = max((event.data["step"] for event in story.events if event.kind == "step_done"), default=-1)
        story.train(done + 1, STEPS_MAX).finish()
    elif how == "stop":
        story.controller("stop_requested", reason="limits.timeout", interrupted=draw(st.booleans()))
        story.end(code=None, signal=15)
    else:
        story.end(code=1)
