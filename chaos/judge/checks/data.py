"""The right data: over the surviving history every sample once, none left out; and how much work was done twice."""

from __future__ import annotations

import numpy as np

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import (
    GROUPS,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    passed,
    reference_job,
    unknown,
    worst_of,
)
from chaos.judge.incident import Incident
from chaos.judge.lineage import Group
from chaos.judge.steps import NOT_TOLD, Integers
from chaos.model.events import PASSED, TRAINED, Event
from chaos.model.plan import Plan

CHECKPOINT_INTERVALS_LOST_MAX = 2  # an asynchronous checkpoint may not have been committed yet, so one is too few

# --- data_exactly_once


def data_exactly_once(case: Case) -> Finding:
    repeated = [done for group in case.lineage.groups for done in group.steps.repeated]
    if repeated:
        done = repeated[0]
        return failed(f"rank {done.rank} did step {done.step} twice in one group", done.ref)
    kept: dict[int, list[int]] = {}
    for step, owner in case.lineage.surviving.items():
        kept.setdefault(owner.index, []).append(step)
    surviving = [
        (group, np.flatnonzero(np.isin(group.steps.step, kept[group.index])))
        for group in case.lineage.groups
        if group.index in kept
    ]
    if not surviving:
        return unknown("no step was done by all ranks", *citing.ending(case))
    for group, places in surviving:
        steps = group.steps
        untold = places[steps.first[places] == NOT_TOLD]
        if len(untold):
            where = int(untold[0])
            return unknown(f"sample positions of step {steps.step[where]} were not seen", steps.ref(where))
        passed_through = steps.passed[places]
        untrained = places[(passed_through != NOT_TOLD) & (passed_through & TRAINED != TRAINED)]
        if len(untrained):
            where = int(untrained[0])
            words = f"samples {steps.first[where]} to {steps.end[where] - 1} were reported and never trained"
            missing = [name for name, bit in PASSED.items() if bit & TRAINED & ~int(steps.passed[where])]
            return failed(f"{words}: step {steps.step[where]} has no {' and no '.join(missing)}", steps.ref(where))
    return _contiguous(surviving)


def _contiguous(surviving: list[tuple[Group, Integers]]) -> Finding:
    """Samples in order of position: each rank's of each step begin where the ones before them end, from 0 on."""
    which = np.repeat(np.arange(len(surviving)), [len(places) for _, places in surviving])
    place = np.concatenate([places for _, places in surviving])
    first, end, step = (
        np.concatenate([getattr(group.steps, name)[places] for group, places in surviving])
        for name in ("first", "end", "step")
    )
    order = np.lexsort([which, step, end, first])
    first, end, step, which, place = first[order], end[order], step[order], which[order], place[order]
    before = np.concatenate([[0], end[:-1]])
    gaps = np.flatnonzero(first != before)

    def ref(index: int) -> str:
        return surviving[which[index]][0].steps.ref(int(place[index])) if index >= 0 else ""

    if not len(gaps):
        return passed(f"samples 0 to {int(end[-1]) - 1}, each once", ref(0), ref(len(end) - 1))
    at = int(gaps[0])
    if first[at] > before[at]:
        words = f"samples {before[at]} to {first[at] - 1} were never used; step {step[at]} begins at {first[at]}"
    else:
        words = f"samples from {first[at]} on were used twice, again in step {step[at]}"
    return failed(words, ref(at - 1), ref(at))


# --- lost_work


def lost_work(case: Case) -> Finding:
    if not case.lineage.groups:
        return unknown("no step was done", *citing.ending(case))
    bound = lost_steps_bound(case.plan)
    findings = [finding for group in case.lineage.groups if (finding := _took_older(case, group)) is not None]
    if bound is None and not findings:
        return unknown("asked, but the objective names no lost_steps")
    findings += [_lost(case, incident, bound) for incident in case.incidents if bound is not None]
    return worst_of(findings, nothing=passed("nothing lost: no restart", *citing.first_steps(case.lineage.groups)))


def lost_steps_bound(plan: Plan) -> int | None:
    """The objective's, or two checkpoint intervals where the job's are known."""
    if plan.objective.lost_steps is not None:
        return plan.objective.lost_steps
    every = plan.job.args.get("checkpoint_every")
    return CHECKPOINT_INTERVALS_LOST_MAX * every if isinstance(every, int) and every > 0 else None


def _lost(case: Case, incident: Incident, bound: int) -> Finding:
    refs = tuple(fault.ref for fault in incident.faults)
    lost = incident.lost_steps
    if lost is None:
        return unknown("never recovered, so nothing was done again", *refs)
    words = f"{lost} steps done again"
    if lost > bound:
        return failed(words, *refs)
    if incident.restarted and not incident.steps_after:
        # Not yet where it was: what is still to be done again cannot be counted.
        return unknown(f"{words} so far: the job ended before it had caught up", *refs)
    return passed(words, *refs)


def _took_older(case: Case, group: Group) -> Finding | None:
    """A group that began from an older checkpoint while a newer one counted, and never said why."""
    if group.index == 0 and not group.layer:
        return None
    members = set(group.members.values())

    def of_group(kind: str) -> list[Event]:
        return [event for event in case.record.of(kind) if (event.life, event.reentry or 0) in members]

    loaded = of_group("checkpoint_loaded")
    chosen_at = min((event.t_ns for event in _load_phases(of_group("phase_entered"))), default=None)
    chosen_at = chosen_at or min((event.t_ns for event in loaded), default=group.first_ns)
    took = max((event.data["step"] for event in loaded), default=0)
    newest = _newest_committed(case, chosen_at)
    if newest is None or newest.data["step"] <= took:
        return None
    refused = {event.data["step"] for event in case.record.of("checkpoint_refused") if event.t_ns <= group.first_ns}
    newer = {
        event.data["step"]
        for event in case.record.of("checkpoint_committed")
        if event.t_ns < chosen_at and event.data["step"] > took
    }
    unexplained = sorted(newer - refused)
    if not unexplained:
        return None
    what = f"checkpoint {took}" if loaded else "the beginning"
    words = f"went back to {what} while checkpoint {unexplained[-1]} was committed and not refused"
    return failed(words, newest.ref, *(event.ref for event in loaded[:1]))


def _load_phases(entered: list[Event]) -> list[Event]:
    return [event for event in entered if event.data.get("phase") == "checkpoint_load"]


def _newest_committed(case: Case, before_ns: int) -> Event | None:
    committed = [event for event in case.record.of("checkpoint_committed") if event.t_ns < before_ns]
    return max(committed, key=lambda event: (event.data["step"], event.t_ns), default=None)


def _expects_lost(plan: Plan) -> str:
    bound = lost_steps_bound(plan)
    return "" if bound is None else f"at most {bound} steps done again"


CHECKS = (
    CheckSpec(
        name="lost_work", needs=frozenset({RANKS, GROUPS}), expects=_expects_lost,
        asked=lambda plan: (
            plan.objective.lost_steps is not None or (reference_job(plan) and lost_steps_bound(plan) is not None)
        ),
        body=lost_work,
    ),
    CheckSpec(
        name="data_exactly_once", needs=frozenset({RANKS, GROUPS}),
        expects=lambda plan: "every sample position from 0 on once", asked=reference_job, body=data_exactly_once,
    ),
)  # fmt: skip
