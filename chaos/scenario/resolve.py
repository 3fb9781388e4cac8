"""Fills in every default that depends on the rest of the file, so that the resolved form says all there is.

Runs after the checks: it takes for granted that the scenario makes sense.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from chaos.faults.catalogue import BY_NAME
from chaos.scenario.schema import FaultEntry, Job, Objective, ScenarioFile, When

# Written into every plan, so that trainer and objective never rest on two different defaults.
TRAINER_ARGS: dict[str, Any] = {"checkpoint_every": 20, "seed": 0}


def resolved(spec: ScenarioFile) -> ScenarioFile:
    """The same scenario with nothing left to guess."""
    job = _job(spec.job)
    return replace(
        spec,
        job=job,
        faults=[_fault(entry) for entry in spec.faults],
        objective=_objective(spec.objective, job, with_faults=bool(spec.faults)),
        vary={},
    )


def _job(job: Job) -> Job:
    return replace(job, args={**TRAINER_ARGS, **job.args}) if job.run == "trainer" else job


def _fault(entry: FaultEntry) -> FaultEntry:
    params = msgspec.convert(entry.params, BY_NAME[entry.fault].Params)
    return replace(
        entry,
        name=entry.name or entry.fault.partition(".")[0],
        params=msgspec.to_builtins(params),
        at=_when(entry.at),
    )


def _when(at: When) -> When:
    if at.step is None:
        return at
    return replace(at, phase=at.phase or "forward", point=at.point or "entry")


def _objective(objective: Objective, job: Job, *, with_faults: bool) -> Objective:
    lost_steps = objective.lost_steps
    if lost_steps is None and job.run == "trainer":
        lost_steps = 2 * int(job.args["checkpoint_every"])
    recovered_by = objective.recovered_by
    if recovered_by is None and not with_faults:
        recovered_by = "none"
    return replace(
        objective, lost_steps=lost_steps, recovered_by=recovered_by, clock_from=objective.clock_from or "fired"
    )
