"""A resolved scenario and a seed → the plan of one run, with every rank fixed and every time in seconds.

The seed seeds what the plan chooses, nothing else: the trainer keeps its own seed, or no fault-free run could
ever be compared with.
"""

from __future__ import annotations

import random
from datetime import date

from msgspec.structs import asdict

from chaos.faults.catalogue import BY_NAME
from chaos.model.plan import At, FaultPlan, JobPlan, KnownPlan, LimitsPlan, ObjectivePlan, Plan, Restarts
from chaos.scenario.check_objective import layers_of
from chaos.scenario.load import Scenario
from chaos.scenario.schema import AfterPoint, Close, FaultEntry, Job, KnownDefect, Limits, Objective, Target, When
from chaos.scenario.units import bytes_of, seconds

# What ranks call the things whose versions they tell.
PACKAGE = {"nvrx": "nvidia-resiliency-ext", "torch": "torch", "python": "python"}


def compile_plan(scenario: Scenario, *, seed: int) -> Plan:
    """The same scenario and seed always give the same plan."""
    spec = scenario.spec
    rng = random.Random(seed)
    job = _job(spec.job)
    return Plan(
        scenario=spec.name,
        title=spec.title,
        why=spec.why,
        tags=tuple(spec.tags),
        source=scenario.source,
        seed=seed,
        repeat=scenario.repeat_command(seed),
        job=job,
        steady_steps=spec.steady_state.steps,
        faults=tuple(_fault(entry, job.world_size, rng) for entry in spec.faults),
        objective=_objective(spec.objective),
        limits=_limits(spec.limits),
        expect_failed=tuple(spec.expect_failed),
        known=None if spec.known is None else _known(spec.known),
    )


def _job(job: Job) -> JobPlan:
    return JobPlan(
        run=job.run,
        command=tuple(job.command) if job.command is not None else None,
        launcher=job.launcher,
        where=job.where,
        nodes=job.nodes,
        ranks_per_node=job.ranks_per_node,
        recovery=tuple(job.recovery),
        shrink=job.shrink,
        steps=job.steps,
        env=dict(job.env),
        args=dict(job.args),
    )


def _fault(entry: FaultEntry, world_size: int, rng: random.Random) -> FaultPlan:
    fault = BY_NAME[entry.fault]
    return FaultPlan(
        name=entry.name or fault.name.partition(".")[0],
        fault=fault.name,
        params=dict(entry.params),
        ranks=_ranks(entry.target, world_size, rng),
        at=_at(entry.at),
        lasts_s=_seconds(entry.lasts),
        fidelity=fault.fidelity,
        layer=fault.layer,
        ends=fault.ends,
        certifies=fault.certifies,
        does_not_certify=fault.does_not_certify,
    )


def _ranks(target: str | Target, world_size: int, rng: random.Random) -> tuple[int, ...]:
    # Drawn whether used or not: naming one fault's rank must not change what a later `any` chooses.
    drawn = rng.randrange(world_size)
    if isinstance(target, Target):
        return (target.rank,) if target.rank is not None else tuple(sorted(target.ranks or ()))
    return (drawn,) if target == "any" else tuple(range(world_size))


def _at(at: When) -> At:
    if at.step is None:
        return At(after_s=_seconds(at.after), event=at.event)
    if isinstance(at.point, AfterPoint):
        return At(step=at.step, phase=at.phase, point="entry", point_after_s=seconds(at.point.after))
    return At(step=at.step, phase=at.phase or "forward", point=at.point or "entry")


def _objective(objective: Objective) -> ObjectivePlan:
    bounds = objective.restarts
    return ObjectivePlan(
        recovered_by=tuple(layers_of(objective)),
        clock_from=objective.clock_from or "fired",
        detection_time_s=_seconds(objective.detection_time),
        recovery_time_s=_seconds(objective.recovery_time),
        full_recovery_time_s=_seconds(objective.full_recovery_time),
        lost_steps=objective.lost_steps,
        restarts=None if bounds is None else Restarts(in_process=bounds.in_process, in_job=bounds.in_job),
        parts_s={name: seconds(time) for name, time in objective.parts.items()},
        world_size=objective.world_size,
        state_close=objective.state.close if isinstance(objective.state, Close) else None,
        step_time_ratio=objective.step_time_ratio,
        memory_growth_bytes=None if objective.memory_growth is None else bytes_of(objective.memory_growth),
        blamed=objective.blamed == "right",
        added=tuple(objective.checks.add),
        dropped=tuple(objective.checks.drop),
    )


def _known(known: KnownDefect) -> KnownPlan:
    since = {PACKAGE[name]: conditions for name, conditions in asdict(known.since).items() if conditions is not None}
    return KnownPlan(
        checks=tuple(known.checks), since=since, ref=known.ref, until=date.fromisoformat(known.until)
    )  # fmt: skip


def _limits(limits: Limits) -> LimitsPlan:
    return LimitsPlan(
        timeout_s=seconds(limits.timeout),
        ranks_down=limits.ranks_down,
        nodes_down=limits.nodes_down,
        faults=limits.faults,
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else seconds(text)
