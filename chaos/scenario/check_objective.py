"""Does the objective make sense: it can be held, it can be missed, and it asks for what this version checks."""

from __future__ import annotations

from typing import get_args

from chaos.faults.catalogue import BY_NAME
from chaos.scenario.check_names import CORE, KNOWN, NEEDS_OBJECTIVE
from chaos.scenario.meaning import Draft, twice
from chaos.scenario.problems import Path, found, not_one_of
from chaos.scenario.schema import Objective, Part
from chaos.scenario.units import seconds

MEMORY_RESTARTS_MIN = 3  # as many as the judge needs to tell growth from a first allocation


def layers_of(objective: Objective) -> list[str]:
    """`recovered_by` as a list; empty when not asked."""
    if objective.recovered_by is None:
        return []
    return [objective.recovered_by] if isinstance(objective.recovered_by, str) else list(objective.recovered_by)


def check(draft: Draft) -> None:
    _check_recovered_by(draft)
    _check_times(draft)
    _check_clock(draft)
    _check_restarts(draft)
    _check_timeout(draft)
    _check_memory(draft)
    _check_names(draft)
    for part in draft.spec.objective.parts:
        if part not in get_args(Part):
            draft.say(("objective", "parts", part), not_one_of(part, get_args(Part)))
    if draft.spec.objective.world_size == "shrunk" and not draft.spec.job.shrink:
        draft.say(("objective", "world_size"), 'found "shrunk"; that needs job.shrink: true')


def _check_recovered_by(draft: Draft) -> None:
    path: Path = ("objective", "recovered_by")
    layers = layers_of(draft.spec.objective)
    switched_on = draft.spec.job.recovery
    if (again := twice(layers)) is not None:
        draft.say(path, f"names {again} twice")
    if "none" in layers and len(layers) > 1:
        draft.say(path, "`none` stands alone: the job must not need recovery")
    if not draft.spec.faults and any(layer != "none" for layer in layers):
        draft.say(path, f"found {found(layers[0])}, but there is no fault to recover from; allowed: none")
        return
    for layer in layers:
        if layer in ("in_process", "in_job") and layer not in switched_on:
            on = ", ".join(switched_on) or "nothing"
            draft.say(path, f"found {found(layer)}, which job.recovery does not switch on (it has {on})")


def _check_times(draft: Draft) -> None:
    objective = draft.spec.objective
    must_recover = draft.spec.faults and layers_of(objective) != ["none"]
    if must_recover and objective.recovery_time is None:
        text = "missing; say within what time the job must be back (or recovered_by: none)"
        draft.say(("objective", "recovery_time"), text)
    recovery_s = seconds(objective.recovery_time) if objective.recovery_time else None
    if recovery_s is None:
        return
    if objective.full_recovery_time and seconds(objective.full_recovery_time) < recovery_s:
        text = f"found {objective.full_recovery_time}, shorter than recovery_time ({objective.recovery_time})"
        draft.say(("objective", "full_recovery_time"), text)
    late_detection = objective.detection_time and seconds(objective.detection_time) > recovery_s
    if late_detection and objective.clock_from != "undone":
        text = f"found {objective.detection_time}, longer than recovery_time ({objective.recovery_time})"
        draft.say(("objective", "detection_time"), text)


def _check_clock(draft: Draft) -> None:
    clock_from = draft.spec.objective.clock_from
    lasting = [entry.fault for entry in draft.spec.faults if entry.lasts is not None]
    holding = [name for name in lasting if BY_NAME[name].ends == "undone"]
    if holding and clock_from is None:
        draft.say(("objective", "clock_from"), f"missing; {holding[0]} lasts, so say fired or undone")
    if clock_from == "undone" and draft.spec.faults and not lasting:
        draft.say(("objective", "clock_from"), 'found "undone"; no fault here has `lasts`; allowed: fired')


def _check_restarts(draft: Draft) -> None:
    bounds = draft.spec.objective.restarts
    layers = layers_of(draft.spec.objective)
    for layer in ("in_process", "in_job"):
        if bounds is not None and layers == [layer] and getattr(bounds, layer) == 0:
            draft.say(("objective", "restarts", layer), f"found 0, but recovered_by says {layer}")


def _check_timeout(draft: Draft) -> None:
    timeout = draft.spec.limits.timeout
    objective = draft.spec.objective.recovery_time
    if draft.spec.faults and objective and seconds(timeout) <= seconds(objective):
        text = f"found {timeout}, not longer than objective.recovery_time ({objective}): no run could miss it"
        draft.say(("limits", "timeout"), text)
    for index, entry in enumerate(draft.spec.faults):
        for path, time in ((("lasts",), entry.lasts), (("at", "after"), entry.at.after)):
            if time is not None and seconds(time) >= seconds(timeout):
                draft.say(("faults", index, *path), f"found {time}, not shorter than limits.timeout ({timeout})")


def _check_memory(draft: Draft) -> None:
    """Growth shows only over several restarts of one process."""
    if draft.spec.objective.memory_growth is None:
        return
    path: Path = ("objective", "memory_growth")
    if "in_process" not in draft.spec.job.recovery:
        draft.say(path, "needs in_process in job.recovery: a new process begins with new memory")
    elif len(draft.spec.faults) < MEMORY_RESTARTS_MIN:
        count = len(draft.spec.faults)
        text = f"needs {MEMORY_RESTARTS_MIN} restarts inside living processes; there are {count} faults to cause them"
        draft.say(path, text)


def _check_names(draft: Draft) -> None:
    choice = draft.spec.objective.checks
    for side, names in (("add", choice.add), ("drop", choice.drop)):
        for index, name in enumerate(names):
            path: Path = ("objective", "checks", side, index)
            if name not in KNOWN:
                draft.say(path, not_one_of(name, KNOWN))
            elif side == "drop" and name in CORE:
                draft.say(path, f"{name} cannot be dropped: without it a pass would prove nothing")
            elif side == "drop" and name in choice.add:
                draft.say(path, f"{name} is both added and dropped")
            elif side == "add":
                check_has_objective(draft, path, name)


def check_has_objective(draft: Draft, path: Path, name: str) -> None:
    needed = NEEDS_OBJECTIVE.get(name)
    if needed is not None and not getattr(draft.spec.objective, needed):
        draft.say(path, f"{name} needs objective.{needed}: there is nothing to hold the job to")
