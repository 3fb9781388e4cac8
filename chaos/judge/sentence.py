"""The verdict in one plain sentence: what it rests on, and what it does not say."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.judge.foreseen import Ruling
from chaos.judge.incident import NO_RESTART
from chaos.model.verdict import WORD_OF_RUN, Check, IncidentVerdict, Outcome

_REASONS_MAX = 3
_NAMES_MAX = 3
_SHOWN_FROM_S = 0.01  # what came sooner would look like never


def sentence(
    ruling: Ruling,
    checks: Sequence[Check],
    incidents: Sequence[IncidentVerdict],
    lost: str,
    *,
    simulated: bool,
    interrupted: bool,
) -> str:
    """What people read first. `lost`: why the run cannot be passed, as the ruling was told."""
    head = "interrupted: " if interrupted else ""
    head += "simulated fault: " if simulated else ""
    if ruling.outcome is Outcome.PASS:
        return f"{head}{_passed(ruling, checks, incidents)}. {not_asked(checks)}"
    reasons = _reasons(ruling.decisive)
    more = [f"and {len(reasons) - _REASONS_MAX} more"] if len(reasons) > _REASONS_MAX else []
    told = [*reasons[:_REASONS_MAX], *more, *ruling.because] or [lost or "nothing was asked"]
    words = "; ".join([*told, *ruling.notes])
    if ruling.known:
        return f"{head}failed, as known: {words}. {not_asked(checks)}"
    return f"{head}{WORD_OF_RUN[ruling.outcome]}: {words}."


def _reasons(checks: Sequence[Check]) -> list[str]:
    """One reason for each thing found: what one blind source left open is said once, with the checks it concerns."""
    names: dict[str, list[str]] = {}
    for check in checks:
        names.setdefault(check.observed, []).append(check.name)
    reasons = []
    for observed, concerned in names.items():
        more = f" and {len(concerned) - _NAMES_MAX} more" if len(concerned) > _NAMES_MAX else ""
        reasons.append(f"{', '.join(concerned[:_NAMES_MAX])}{more}: {observed}")
    return reasons


def not_asked(checks: Sequence[Check]) -> str:
    """Names what a pass does not cover."""
    names = [check.name for check in checks if check.outcome == "not_asked"]
    return f"Not asked: {', '.join(names)}." if names else "Everything was asked."


def _passed(ruling: Ruling, checks: Sequence[Check], incidents: Sequence[IncidentVerdict]) -> str:
    """What failed as expected comes first: nobody is to take such a run for one without failures."""
    told = [_outage(incident) for incident in incidents if incident.faults]
    told += [_not_ours(incident) for incident in incidents if not incident.faults]
    told = told or ["trained to the end and needed no recovery"]
    return "; ".join([*ruling.notes, *told, *_witness(checks)])


def _not_ours(incident: IncidentVerdict) -> str:
    why = f" ({incident.cause})" if incident.cause else ""
    return f"interrupted once more, by no fault of ours{why}: recovered by {incident.recovered_by}"


def _witness(checks: Sequence[Check]) -> list[str]:
    """What the state was shown by; nothing where it was found wrong, as expected: that is told already."""
    state = next((check for check in checks if check.name == "state_exact"), None)
    if state is None or state.outcome == "not_asked":
        return ["state not asked"]
    return [f"state by {state.observed}"] if state.outcome == "pass" else []


def _outage(incident: IncidentVerdict) -> str:
    names = " and ".join(incident.faults)
    if incident.recovered_by == NO_RESTART:
        return f"{names}: the job went on without a restart"
    if incident.recovered_by is None:
        return f"{names}: not seen to recover"
    words = f"{names}: recovered by {incident.recovered_by}"
    if incident.recovery_time_s is not None:
        words += f" in {incident.recovery_time_s:.2f} s"
    if incident.detection_time_s is not None:
        bound = "at most " if incident.detection_is_bound else ""
        shown = f"{incident.detection_time_s:.2f} s" if incident.detection_time_s >= _SHOWN_FROM_S else "<0.01 s"
        words += f", noticed after {bound}{shown}"
    return words if incident.lost_steps is None else f"{words}, {incident.lost_steps} steps done again"
