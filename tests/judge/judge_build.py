"""Small builders: single events, and whole runs told in a few lines. Times in seconds from the job's start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.history import manifest
from chaos.judge.control import control_of
from chaos.judge.judge import judge
from chaos.judge.record import Record
from chaos.model.control import ControlRun
from chaos.model.events import Blind, Event
from chaos.model.plan import At, FaultPlan, JobPlan, ObjectivePlan, Plan, Restarts
from chaos.model.verdict import Check, Verdict

STEPS, EVERY, STEP_S, BATCH = 60, 20, 0.02, 4
SKEW_S = 0.004  # rank 1 is always a little later than rank 0: what all have done is what the last has done
FAULT_STEP = 47
SETTINGS = {
    "unrelated_s": 3.05,
    "heartbeat_timeout_s": 3.0,
    "monitor_interval_s": 0.2,
    "last_call_wait_s": 0.25,
    "width": 96,
}
LAUNCHER = "boot0000-1-50-5"


def pid(rank: int, generation: int = 0) -> int:
    return 100 + rank + 10 * generation


def life(rank: int, generation: int = 0) -> str:
    return f"boot0000-1-{pid(rank, generation)}-{1000 + generation}"


def loss_of(step: int) -> str:
    return (4.0 / (step + 2)).hex()


class Story:
    """Tells a run event by event, each into its writer's file. `at` is now, in seconds; `generation` counts lives."""

    def __init__(self, *, world_size: int = 2, steps: int = STEPS) -> None:
        self.world_size, self.steps = world_size, steps
        self.at = 0.0
        self.generation = 0
        self.reentry = 0
        self.group: str | None = None
        self.events: list[Event] = []
        self._lines: dict[str, int] = {}
        self.lives: list[dict[str, Any]] = []

    # --- one event

    def rank(self, rank: int, kind: str, *, at: float | None = None, **data: Any) -> Event:
        who = life(rank, self.generation)
        return self._add(
            f"rank-{'-'.join(who.split('-')[-2:])}.jsonl", kind, at, data,
            life=who, reentry=self.reentry, group=self.group, rank=rank, initial_rank=rank,
        )  # fmt: skip

    def ranks(self, kind: str, *, at: float | None = None, **data: Any) -> None:
        for rank in range(self.world_size):
            self.rank(rank, kind, at=(self.at if at is None else at) + rank * SKEW_S, **data)

    def controller(
        self, kind: str, *, at: float | None = None, of: str | None = None, rank: int | None = None, **data: Any
    ) -> Event:
        return self._add("controller-40-4.jsonl", kind, at, data, life=of, rank=rank, initial_rank=rank)

    def _add(self, file: str, kind: str, at: float | None, data: dict[str, Any], **header: Any) -> Event:
        t_s = self.at if at is None else at
        self._lines[file] = self._lines.get(file, 0) + 1
        event = Event(
            t_ns=1_000_000_000 + round(t_s * 1e9), wall_s=1.7e9 + t_s, kind=kind, data=data, file=file,
            line=self._lines[file], **header,
        )  # fmt: skip
        self.events.append(event)
        return event

    # --- stretches of a run

    def start(self, launcher: str | None = LAUNCHER) -> Story:
        """The launcher and a first or further set of ranks, up to their first phase."""
        if self.generation == 0 and launcher == LAUNCHER:
            self.controller("job_started", pid=50, argv=["ft_launcher"], launcher=launcher)
            self.controller("process_appeared", of=launcher, pid=50, ppid=40, role="launcher", rank=None, command="x")
            self.sample()
        self.reentry, self.group = 0, None
        for rank in range(self.world_size):
            who = life(rank, self.generation)
            number = pid(rank, self.generation)
            self.controller("process_appeared", of=who, rank=rank, pid=number, ppid=50, role="rank", command="py")
            self.lives.append({"life": who, "role": "rank", "rank": rank, "file": manifest.file_of_life(who)})
        self.at += 1.0
        versions = {"torch": "2.13.0", "python": "3.11.2"}
        for rank in range(self.world_size):
            self.rank(
                rank, "rank_started", at=self.at + rank * SKEW_S, pid=pid(rank, self.generation), ppid=50,
                launcher=launcher, local_rank=rank, world_size=self.world_size, versions=versions, reported_restart={},
            )  # fmt: skip
        self.ranks("settings_seen", settings=dict(SETTINGS))
        self.ranks("phase_entered", phase="init", step=None)
        return self

    def join(self, name: str) -> Story:
        """A process group of all ranks."""
        self.ranks("phase_entered", phase="rendezvous", step=None)
        self.at += 0.2
        self.group = name
        self.ranks("process_group_ready", world_size=self.world_size, backend="gloo")
        return self

    def load(self, step: int) -> Story:
        self.at += 0.05
        self.ranks("phase_entered", phase="checkpoint_load", step=None)
        self.at += 0.1
        self.ranks("checkpoint_loaded", step=step, path=f"step-{step:06d}")
        self.digest(step, "loaded")
        return self

    def train(self, first: int, end: int, *, only: Iterable[int] | None = None, step_s: float = STEP_S) -> Story:
        """Steps first to end-1, with a checkpoint after every EVERY steps (committed a little later)."""
        for step in range(first, end):
            self.at += step_s
            for rank in only if only is not None else range(self.world_size):
                self.rank(rank, "phase_entered", at=self.at - step_s * 0.9, phase="forward", step=step)
                self.rank(rank, "phase_entered", at=self.at - step_s * 0.6, phase="backward", step=step)
                self.rank(rank, "phase_entered", at=self.at - step_s * 0.3, phase="optimizer", step=step)
                self.rank(rank, "step_returned", at=self.at - step_s * 0.2, step=step)
                first_sample = (step * self.world_size + rank) * BATCH
                self.rank(
                    rank, "step_done", at=self.at + rank * SKEW_S, step=step, loss=loss_of(step), lr=(0.1).hex(),
                    grad_norm=(1.0).hex(), samples=[first_sample, first_sample + BATCH],
                )  # fmt: skip
            if (step + 1) % EVERY == 0 and only is None and step + 1 < self.steps:
                self.checkpoint(step + 1)
        return self

    def checkpoint(self, step: int) -> Story:
        path = f"step-{step:06d}"
        self.ranks("checkpoint_began", step=step, path=path)
        self.digest(step, "checkpoint")
        self.ranks("checkpoint_staged", step=step, stall_s=0.002)
        files = 2 * self.world_size + 1
        self.rank(0, "checkpoint_committed", at=self.at + STEP_S / 2, step=step, path=path, files=files, bytes=1000)
        return self

    def digest(self, step: int, purpose: str) -> None:
        for rank in range(self.world_size):
            self.rank(
                rank,
                "digest_taken",
                at=self.at + rank * SKEW_S,
                step=step,
                shards=f"s{step}r{rank}",
                replicated=f"a{step}",
                random=f"q{step}r{rank}",
                purpose=purpose,
            )

    def finish(self, *, code: int = 0) -> Story:
        self.digest(self.steps, "end")
        self.ranks("rank_finished", step=self.steps)
        self.at += 0.3
        for rank in range(self.world_size):
            self.exited(rank, code=0)
        return self.end(code=code)

    def end(self, *, code: int | None = 0, signal: int | None = None, reason: str = "") -> Story:
        """The job's end, seen from outside, and what is measured afterwards."""
        self.at += 0.01
        self.sample()
        self.controller("job_finished", code=code, signal=signal, reason=reason)
        self.at += 5.1
        self.controller(
            "residue_measured", processes=[], shared_memory=[], ports=[], temporary_files=[], after_s=5.1, readable=True
        )
        self.controller("run_concluded", open_entries=0, measured=True, entries=3)
        return self

    def exited(self, rank: int, *, code: int | None = None, signal: int | None = None, at: float | None = None) -> None:
        who = life(rank, self.generation)
        self.controller("process_exited", at=at, of=who, rank=rank, pid=1, role="rank", code=code, signal=signal)

    def steady(self) -> Story:
        self.controller("steady_state_met", step=10, step_time_s=STEP_S)
        return self

    def sample(self, *, steal: float = 0.0, foreign: float = 0.0, delay: float = 0.0, at: float | None = None) -> None:
        """What the machine withheld until now, in all."""
        delays = {life(rank, self.generation): delay for rank in range(self.world_size)}
        self.controller("machine_measured", at=at, steal_s=steal, foreign_cpu_s=foreign, run_delay_s=delays)

    def fire(self, name: str, *, rank: int = 1, by_rank: bool = True, **data: Any) -> Event:
        fields = {
            "fault": name,
            "verb": "signal_self",
            "step": FAULT_STEP,
            "phase": "backward",
            "point": "in_collective",
        }
        fields |= {"pid": 1, **data}
        if by_rank:
            return self.rank(rank, "fault_fired", **fields)
        return self.controller("fault_fired", of=life(rank, self.generation), rank=rank, **fields)

    # --- on disk

    def write(self, run_dir: Path) -> Path:
        """As history files with their manifest."""
        write_files(run_dir, self.events)
        manifest.write(run_dir, run_id="run-1", lives=self.lives)
        return run_dir


def write_files(run_dir: Path, events: Iterable[Event]) -> None:
    folder = run_dir / "history"
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda event: (event.file, event.line)):
        texts.setdefault(event.file, []).append(json.dumps(as_json(event)) + "\n")
    for name, lines in texts.items():
        (folder / name).write_text("".join(lines))


def as_json(event: Event) -> dict[str, Any]:
    header = ("t_ns", "wall_s", "life", "reentry", "group", "rank", "initial_rank", "kind")
    return {name: getattr(event, name) for name in header} | dict(event.data)


# --- whole runs


def healthy(*, steps: int = STEPS) -> Story:
    """A control: nothing happens."""
    return Story(steps=steps).start().join("g0").train(0, 12).steady().train(12, steps).finish()


def killed(*, down_s: float = 0.5, resume_at: int = 40, resumed: bool = True) -> Story:
    """Rank 1 is killed in step 47; the launcher starts both ranks anew, and the job trains to its end."""
    story = Story().start().join("g0").train(0, 12).steady().train(12, FAULT_STEP)
    story.sample()
    story.at += 0.01
    fired = story.fire("kill")
    story.at += 0.01
    story.exited(1, signal=9)
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="kill", how="exited with signal 9", evidence=[])
    story.at += down_s - 0.02
    story.controller(
        "worker_failed", local_rank=1, pid=pid(1), code=-9, log="logs/job.log:7", error_ns=2_000_000, text="failed"
    )  # fmt: skip
    story.at += 0.1
    story.exited(0, signal=15)
    if not resumed:
        return story
    story.generation = 1
    story.start().join("g1").load(resume_at).train(resume_at, STEPS)
    return story.finish()


def excepted() -> Story:
    """Rank 1 raises in step 47; both ranks re-enter in the same processes."""
    story = Story().start().join("g0").train(0, 12).steady().train(12, FAULT_STEP)
    story.sample()
    story.at += 0.01
    fired = story.fire("boom", verb="raise_error")
    story.at += 0.05
    story.rank(1, "interruption_reported", source="in_process", marker="fn_ex", text="RuntimeError")
    story.controller(
        "fault_confirmed", of=fired.life, rank=1, fault="boom", how="left its training function", evidence=[]
    )
    story.at += 0.1
    story.ranks("abort_began")
    story.ranks("abort_done", sockets=2)
    story.at += 0.3
    story.reentry, story.group = 1, None
    story.ranks("restart_entered", reported_restart={"iteration": 1})
    story.ranks("phase_entered", phase="init", step=None)
    return story.join("g1").load(40).train(40, STEPS).finish()


def hung() -> Story:
    """Rank 1 is stopped in step 47; its monitor wakes and kills it, with a ghost step in between."""
    story = Story().start().join("g0").train(0, 12).steady().train(12, FAULT_STEP)
    story.sample()
    story.at += 0.01
    fired = story.fire("hang", by_rank=False, verb="signal")
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="hang", how="state T", evidence=[])
    story.at += 3.1
    story.controller(
        "hang_detected", rank=1, waited_s=3.0, log="logs/job.log:9", error_ns=2_000_000, text="no heartbeat"
    )
    story.train(FAULT_STEP, FAULT_STEP + 1)
    story.exited(1, signal=9)
    story.controller("fault_undone", rank=1, fault="hang", how="gone", measured=True)
    story.at += 0.2
    story.exited(0, signal=15)
    story.generation = 1
    return story.start().join("g1").load(40).train(40, STEPS).finish()


def outlived() -> Story:
    """Rank 1 is stopped for a second and taken back; nothing restarts."""
    story = Story().start().join("g0").train(0, 12).steady().train(12, FAULT_STEP)
    story.at += 0.01
    fired = story.fire("hang", by_rank=False, verb="signal")
    story.controller("fault_confirmed", of=fired.life, rank=1, fault="hang", how="state T", evidence=[])
    story.at += 1.0
    story.controller("fault_undone", rank=1, fault="hang", how="done", measured=True)
    return story.train(FAULT_STEP, STEPS).finish()


# --- plans


def fault(name: str = "kill", **changes: Any) -> FaultPlan:
    fields: dict[str, Any] = {
        "name": name, "fault": f"process.{name}", "params": {}, "ranks": (1,), "certifies": "it",
        "does_not_certify": "that",
        "ends": "undone" if name == "hang" else "final",
        "at": At(step=FAULT_STEP, phase="backward", point="in_collective"),
    }  # fmt: skip
    return FaultPlan(**(fields | changes))


def objective(**changes: Any) -> ObjectivePlan:
    fields: dict[str, Any] = {
        "recovered_by": ("in_job",), "detection_time_s": 2.0, "recovery_time_s": 8.0, "lost_steps": 20,
        "restarts": Restarts(in_process=0, in_job=1),
    }  # fmt: skip
    return ObjectivePlan(**(fields | changes))


def plan(*faults: FaultPlan, run: str | None = "trainer", steady_steps: int = 10, **of_objective: Any) -> Plan:
    """A plan for `killed()` unless told otherwise."""
    job = JobPlan(run=run, command=None if run else ("x",), steps=STEPS, args={"checkpoint_every": EVERY})
    return Plan(
        scenario="kill-worker", job=job, steady_steps=steady_steps, faults=faults or (fault(),),
        objective=objective(**of_objective), repeat="nvrx-chaos run kill-worker.yaml --seed 0",
    )  # fmt: skip


def plan_of_control() -> Plan:
    job = JobPlan(run="trainer", steps=STEPS, args={"checkpoint_every": EVERY})
    return Plan(scenario="control", job=job, objective=ObjectivePlan(recovered_by=("none",), lost_steps=40))


def plan_for(name: str, **of_objective: Any) -> Plan:
    """The plan of `excepted` (boom), `hung` and `outlived` (hang), `killed` (kill)."""
    layer = "in_process" if name == "boom" else "in_job"
    fields: dict[str, Any] = {"recovered_by": (layer,), "detection_time_s": 4.0, "restarts": None}
    return plan(fault(name), **(fields | of_objective))


# --- judging


def control_run(story: Story | None = None, *, run_id: str = "control-1") -> ControlRun:
    story = story or healthy()
    return control_of(Record(story.events), (), run_id=run_id, path=f"../{run_id}", world_size=2, steps=story.steps)


def controls() -> list[ControlRun]:
    return [control_run(run_id="control-1"), control_run(run_id="control-2")]


def verdict_of(
    story: Story | list[Event],
    of_plan: Plan | None = None,
    *,
    blind: Iterable[Blind] = (),
    with_controls: list[ControlRun] | None = None,
) -> Verdict:
    events = story.events if isinstance(story, Story) else story
    witnesses = controls() if with_controls is None else with_controls
    return judge(of_plan or plan(), events, tuple(blind), witnesses, run_id="run-1")[0]


def check_of(name: str, story: Story | list[Event], of_plan: Plan | None = None, **how: Any) -> Check:
    found = verdict_of(story, of_plan, **how).check(name)
    assert found is not None
    return found


def without(story: Story, *kinds: str, where: Callable[[Event], bool] = lambda event: True) -> list[Event]:
    return [event for event in story.events if event.kind not in kinds or not where(event)]


def changed(story: Story, kind: str, where: Callable[[Event], bool] = lambda event: True, **data: Any) -> list[Event]:
    """The same run with other fields in these events (header fields by their name)."""
    header = {name: data.pop(name) for name in ("life", "rank", "initial_rank", "group", "t_ns") if name in data}
    return [
        replace(event, **header, data={**event.data, **data}) if event.kind == kind and where(event) else event
        for event in story.events
    ]
