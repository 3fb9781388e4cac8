"""The verdict in one plain sentence: what it rests on, and what it does not say."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.judge.incident import NO_RESTART
from chaos.model.events import Blind
from chaos.model.verdict import Check, IncidentVerdict

_REASONS_MAX = 3
_NAMES_MAX = 3


def sentence(
    outcome: str,
    checks: Sequence[Check],
    incidents: Sequence[IncidentVerdict],
    blind: Sequence[Blind],
    *,
    simulated: bool,
    interrupted: bool,
) -> str:
    """What people read first."""
    head = "interrupted: " if interrupted else ""
    head += "simulated fault: " if simulated else ""
    if outcome == "passed":
        return f"{head}{_passed(checks, incidents)}. {not_asked(checks)}"
    bad = [check for check in checks if check.outcome == ("fail" if outcome == "failed" else "unknown")]
    reasons = _reasons(bad)
    if not reasons and blind:
        reasons = [f"a source of evidence was blind: {blind[0].reason}"]
    if not reasons:
        asked = any(check.outcome != "not_asked" for check in checks)
        reasons = ["we stopped the run before the job's end" if asked else "nothing was asked"]
    more = f"; and {len(reasons) - _REASONS_MAX} more" if len(reasons) > _REASONS_MAX else ""
    return f"{head}{outcome}: {'; '.join(reasons[:_REASONS_MAX])}{more}."


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


def _passed(checks: Sequence[Check], incidents: Sequence[IncidentVerdict]) -> str:
    outages = [incident for incident in incidents if incident.faults]
    told = [_outage(incident) for incident in outages] or ["trained to the end and needed no recovery"]
    state = next((check for check in checks if check.name == "state_exact"), None)
    witness = f"; state by {state.observed}" if state is not None and state.outcome == "pass" else "; state not asked"
    return "; ".join(told) + witness


def _outage(incident: IncidentVerdict) -> str:
    names = " and ".join(incident.faults)
    if incident.recovered_by == NO_RESTART:
        return f"{names}: the job went on without a restart"
    words = f"{names}: recovered by {incident.recovered_by}"
    if incident.recovery_time_s is not None:
        words += f" in {incident.recovery_time_s:.2f} s"
    if incident.detection_time_s is not None:
        bound = "at most " if incident.detection_is_bound else ""
        words += f", noticed after {bound}{incident.detection_time_s:.2f} s"
    return words if incident.lost_steps is None else f"{words}, {incident.lost_steps} steps done again"
