"""Do the faults make sense: known, aimed at ranks that exist, due at a moment that comes, within the limits."""

from __future__ import annotations

from typing import Any

from chaos.faults.base import Fault
from chaos.faults.catalogue import BY_NAME
from chaos.model.events import COMMIT_ONLY_POINTS
from chaos.scenario.keys import fault_names
from chaos.scenario.meaning import Draft, twice
from chaos.scenario.problems import Path, Problem, dotted, found, not_one_of
from chaos.scenario.schema import TRIGGER_EVENTS, FaultEntry, Target, When
from chaos.scenario.shape import problems_of
from chaos.scenario.yaml_text import Document

# The phases that a rank goes through at a step that can be named beforehand.
STEP_PHASES = ("data", "forward", "backward", "optimizer", "checkpoint_save", "checkpoint_commit")
COLLECTIVE_PHASES = ("forward", "backward", "optimizer")


def raw_problems(document: Document) -> list[Problem]:
    """Names and parameters of faults, before the file is a record: `params` are checked by the fault's own struct."""
    problems: list[Problem] = []
    faults = document.value.get("faults")
    for index, entry in enumerate(faults if isinstance(faults, list) else []):
        name = entry.get("fault") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name not in BY_NAME:
            path: Path = ("faults", index, "fault")
            problems.append(Problem(document.origin(path), dotted(path), not_one_of(name, tuple(BY_NAME))))
        elif isinstance(entry.get("params"), dict):
            problems.extend(problems_of(document, BY_NAME[name].Params, ("faults", index, "params")))
    return problems


def check(draft: Draft) -> None:
    faults = draft.spec.faults
    names = fault_names([{"name": entry.name, "fault": entry.fault} for entry in faults])
    if (name := twice(names)) is not None:
        index = len(names) - 1 - names[::-1].index(str(name))
        where: Path = ("faults", index, "name") if faults[index].name else ("faults", index)
        draft.say(where, f"a second fault is named {found(name)}; give each a `name` of its own")
    for index, entry in enumerate(faults):
        _check_target(draft, ("faults", index), entry)
        _check_when(draft, ("faults", index, "at"), entry.at)
        _check_lasts(draft, ("faults", index), entry, BY_NAME[entry.fault])
    _check_held_at_once(draft, names)
    bound = draft.spec.limits.faults
    if bound is not None and len(faults) > bound:
        draft.say(("limits", "faults"), f"found {bound}; the scenario has {len(faults)} faults")


def rank_count(draft: Draft, entry: FaultEntry) -> int:
    """How many ranks the fault hits."""
    if entry.target == "all":
        return draft.world_size
    if isinstance(entry.target, Target) and entry.target.ranks is not None:
        return len(set(entry.target.ranks))
    return 1


def _check_target(draft: Draft, path: Path, entry: FaultEntry) -> None:
    target, path = entry.target, (*path, "target")
    if not isinstance(target, Target):
        return
    if (target.rank is None) == (target.ranks is None):
        state = "neither" if target.rank is None else "both"
        draft.say(path, f"found {state} of rank and ranks; allowed: one of them, or `any`, or `all`")
        return
    if target.rank is not None:
        _check_rank(draft, (*path, "rank"), target.rank)
    for index, rank in enumerate(target.ranks or []):
        _check_rank(draft, (*path, "ranks", index), rank)
    if (again := twice(target.ranks or [])) is not None:
        draft.say((*path, "ranks"), f"names rank {again} twice")


def _check_rank(draft: Draft, path: Path, rank: int) -> None:
    if rank >= draft.world_size:
        known = "0" if draft.world_size == 1 else f"0 to {draft.world_size - 1}"
        draft.say(path, f"found {rank}; the job has {draft.world_size} rank(s); allowed: {known}")


def _check_when(draft: Draft, path: Path, at: When) -> None:
    given = [name for name in ("step", "after", "event") if getattr(at, name) is not None]
    if len(given) != 1:
        draft.say(
            path, f"found {' and '.join(given) or 'none of them'}; exactly one of step, after and event is needed"
        )
        return
    if at.step is not None:
        _check_step(draft, path, at, at.step)
        return
    for name in ("phase", "point"):
        if getattr(at, name) is not None:
            draft.say((*path, name), f"goes with `step` only, not with `{given[0]}`")
    if at.event is not None and at.event not in TRIGGER_EVENTS:
        draft.say((*path, "event"), not_one_of(at.event, TRIGGER_EVENTS))


def _check_step(draft: Draft, path: Path, at: When, step: int) -> None:
    steps, steady = draft.spec.job.steps, draft.spec.steady_state.steps
    where = (*path, "step")
    latest = steps - 2 * steady
    if step >= steps:
        draft.say(where, f"found {step}, past the end; the job has {steps} steps (0 to {steps - 1})")
    elif step > latest >= steady:
        text = f"found {step}, too near the end; allowed: at most {latest} (job.steps - 2 × steady_state.steps)"
        draft.say(where, text)
    elif step < steady <= latest:
        draft.say(where, f"found {step}, too early; the job counts as steady after {steady} steps: at least {steady}")
    _check_phase_and_point(draft, path, at)


def _check_phase_and_point(draft: Draft, path: Path, at: When) -> None:
    phase, point = at.phase or "forward", at.point
    if phase not in STEP_PHASES:
        allowed = ", ".join(STEP_PHASES)
        draft.say((*path, "phase"), f"found {found(phase)}, which belongs to no step; allowed with step: {allowed}")
    elif point in COMMIT_ONLY_POINTS and phase != "checkpoint_commit":
        draft.say(
            (*path, "point"), f"found {found(point)}, which comes in phase checkpoint_commit only, not in {phase}"
        )
    elif point == "in_collective" and phase not in COLLECTIVE_PHASES:
        allowed = ", ".join(COLLECTIVE_PHASES)
        draft.say((*path, "point"), f"found {found(point)}; no collective in {phase}; allowed in: {allowed}")


def _check_lasts(draft: Draft, path: Path, entry: FaultEntry, fault: Fault) -> None:
    if entry.lasts is not None and fault.ends != "undone":
        holding = [known.name for known in BY_NAME.values() if known.ends == "undone"]
        text = f"{entry.fault} is over at once and cannot last; allowed with: {', '.join(holding)}"
        draft.say((*path, "lasts"), text)


def _check_held_at_once(draft: Draft, names: list[str]) -> None:
    """What is due at one moment is held down together, and an order over the limit would never be sent."""
    allowed = draft.spec.limits.ranks_down
    by_moment: dict[Any, list[int]] = {}
    for index, entry in enumerate(draft.spec.faults):
        moment = ("step", entry.at.step) if entry.at.step is not None else (entry.at.after, entry.at.event)
        by_moment.setdefault(moment, []).append(index)
    for together in by_moment.values():
        ranks = sum(rank_count(draft, draft.spec.faults[index]) for index in together)
        if ranks > allowed:
            alone = len(together) == 1
            who = ("fault " if alone else "faults ") + " and ".join(names[index] for index in together)
            verb = "hits" if alone else "hit"
            text = f"{who} {verb} {ranks} ranks at one time; limits.ranks_down is {allowed}"
            draft.say(("faults", together[-1], "target" if alone else "at"), text)
