"""How outcomes, times and checks are put into words. One place, so that every format says the same."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.model.verdict import EXPECTED, KNOWN, Check, FaultVerdict, IncidentVerdict, Verdict
from chaos.report.clean import one_line, shortened

OUTCOMES: tuple[str, ...] = ("passed", "failed", "unknown", "not_run")
# A shape beside each colour: one reader in twelve cannot tell the colours apart.
SHAPE = {
    "passed": "✓", "pass": "✓", "failed": "✕", "fail": "✕", "known": "✕", "unknown": "?", "not_run": "–",
    "not_asked": "–",
}  # fmt: skip
NOTHING = "–"
NOT_SEEN = "not seen"


def shown_as(verdict: Verdict) -> str:
    """The word that colour and shape go by: a known failure is counted apart, and looks so."""
    return "known" if is_known_failure(verdict) else verdict.outcome


def spaced(name: str) -> str:
    """`recovered_in_time` as people read it."""
    return name.replace("_", " ")


def outcome_words(verdict: Verdict) -> str:
    """The outcome, with what one must know beside it."""
    words = spaced(verdict.outcome)
    expected = sum(1 for mark in verdict.foreseen.values() if mark == EXPECTED)
    if is_known_failure(verdict):
        words += " (known)"
    elif verdict.outcome == "passed" and expected:
        words += f" ({count(expected, 'expected failure')})"
    return words + (" (interrupted)" if verdict.interrupted else "")


SHOWN_FROM_S = 0.01


def seconds(value: float | None, *, bound: bool = False) -> str:
    """Seconds with their unit; "≤" before a time that is only an upper bound."""
    if value is None:
        return NOTHING
    if 0 < value < SHOWN_FROM_S:
        return f"<{SHOWN_FROM_S:g} s"  # happened, and faster than is shown: zero would look like never
    return ("≤ " if bound else "") + (f"{value:.2f} s" if abs(value) < 99.995 else f"{value:.1f} s")


def milliseconds(value_s: float | None) -> str:
    """A step's time, or one as short."""
    if value_s is None:
        return NOTHING
    value_ms = value_s * 1e3
    return f"{value_ms:.1f} ms" if abs(value_ms) < 99.95 else f"{value_ms:.0f} ms"


def share(value: float | None) -> str:
    """A share of one as per cent."""
    return NOTHING if value is None else f"{value * 100:.1f} %"


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def family(scenario: str) -> str:
    """`kill-worker[rank=0]` and `kill-worker[rank=1]` are runs of `kill-worker`."""
    return scenario.split("[", 1)[0] or scenario


def check_words(verdict: Verdict, check: Check) -> str:
    """The outcome of a check, and whether its failure was foreseen."""
    mark = verdict.foreseen.get(check.name)
    return spaced(check.outcome) + (f" ({mark})" if mark else "")


def deciding_check(verdict: Verdict) -> Check | None:
    """The first check that made the outcome of a failed or unknown run; None where no single check did."""
    wanted = {"failed": "fail", "unknown": "unknown"}.get(verdict.outcome)
    mark = KNOWN if is_known_failure(verdict) else None
    for check in verdict.checks:
        if check.outcome == wanted and verdict.foreseen.get(check.name) == mark:
            return check
    return None


def decided_by(verdict: Verdict) -> str:
    """What decided a run that is not passed, as one sentence; of a known failure with where to read about it."""
    check = deciding_check(verdict)
    if check is None or is_known_failure(verdict):
        return one_line(verdict.sentence, 500)
    words = f"{spaced(check.name)}: {check.observed or 'nothing observed'}"
    return one_line(words + (f" (expected: {check.expected})" if check.expected else ""), 500)


def summary_line(verdicts: Sequence[Verdict]) -> str:
    """`7 passed, 0 failed, 0 unknown, 0 not run`; known failures apart (`1 known`), and only where there are any."""
    known = sum(1 for verdict in verdicts if is_known_failure(verdict))
    counts = {outcome: sum(1 for verdict in verdicts if verdict.outcome == outcome) for outcome in OUTCOMES}
    counts["failed"] -= known
    parts = [f"{counts[outcome]} {spaced(outcome)}" for outcome in OUTCOMES]
    if known:
        parts.insert(OUTCOMES.index("failed") + 1, f"{known} known")
    return ", ".join(parts)


def is_known_failure(verdict: Verdict) -> bool:
    """Failed for a defect of others that the scenario lists, and for nothing else."""
    return verdict.known and verdict.outcome == "failed"


def recovered_by(verdict: Verdict) -> str:
    """The layers that brought the job back, one for each incident, repeats left out.

    None there means never *or* not seen: no more may be said than that it was not seen.
    """
    layers = [incident.recovered_by or NOT_SEEN for incident in verdict.incidents]
    return ", ".join(dict.fromkeys(layers)) or NOTHING


def detection(incident: IncidentVerdict) -> str:
    """The detection time as shown in every table."""
    return seconds(incident.detection_time_s, bound=incident.detection_is_bound)


def worst_incident(verdict: Verdict) -> IncidentVerdict | None:
    """The incident a one-line summary should show: one that never recovered, else the slowest."""
    return max(verdict.incidents, key=_slowness, default=None)


def _slowness(incident: IncidentVerdict) -> float:
    return float("inf") if incident.recovery_time_s is None else incident.recovery_time_s


def fault_words(fault: FaultVerdict) -> str:
    """`process.kill signal=KILL on rank 1`."""
    params = " ".join(f"{key}={value}" for key, value in fault.params.items())
    target = f"on {fault.target}" if fault.target else ""
    return shortened(" ".join(part for part in (fault.fault, params, target) if part), 300)
