"""Did NVRx blame the rank that was hit? Its own records against the lives in which our faults fired.

Whom a record means is found by `judge/claims.py`; which faults make one outage, by `judge/incident.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import (
    CONTROLLER,
    GROUPS,
    NVRX_WORDS,
    RANKS,
    CheckSpec,
    Finding,
    failed,
    passed,
    unknown,
    worst_of,
)
from chaos.judge.claims import Claim, Lives, claims
from chaos.judge.incident import Incident
from chaos.model.events import Event


def blamed_right(case: Case) -> Finding:
    lives = Lives(case.record)
    findings = [finding for outage in case.outages for finding in _of_outage(case, outage, lives)]
    return worst_of(findings, nothing=unknown("no fault fired", *citing.ending(case)))


def _of_outage(case: Case, outage: Incident, lives: Lives) -> Iterator[Finding]:
    """One finding for each fault: faults that fell together are not excused by each other's blame."""
    until_ns = outage.limit_ns if outage.recovered_ns is None else outage.recovered_ns
    hit: dict[str, set[str | None]] = {}
    for fired in outage.faults:
        hit.setdefault(str(fired.data["fault"]), set()).add(_life_hit(fired, lives))
    by_any = {life for each in hit.values() for life in each if life is not None}
    for name, targets in hit.items():
        firings = [fired for fired in outage.faults if fired.data["fault"] == name]
        refs = [fired.ref for fired in firings]
        if None in targets:
            yield unknown(f"{name}: which rank it hit was not recorded", *refs)
            continue
        said = claims(case.record, lives, since_ns=firings[0].t_ns, until_ns=until_ns)
        yield _weigh(name, {life for life in targets if life is not None}, by_any, said, refs, lives)


def _life_hit(fired: Event, lives: Lives) -> str | None:
    if fired.life is not None or fired.rank is None:
        return fired.life
    return lives.of_rank(fired.rank, fired.t_ns)


def _weigh(
    name: str, hit: set[str], by_any: set[str], said: Sequence[Claim], refs: Sequence[str], lives: Lives
) -> Finding:
    right = [claim for claim in said if claim.lives & hit]
    if right:
        note = _note(said, by_any, lives)
        return passed(f"{name}: {lives.named(hit)} by {right[0].event.kind}{note}", *refs, right[0].event.ref)
    if not said:
        return unknown(f"{name}: no record of NVRx was read that names a rank", *refs)
    accused = {life for claim in said for life in claim.lives}
    words = f"{name} hit {lives.named(hit)}, and NVRx named only {lives.named(accused)}"
    told = (*refs, *(claim.event.ref for claim in said))
    if accused & by_any:
        # Hit as well, by another fault of this outage: it is no healthy rank, and not the one asked for either.
        return unknown(f"{words}, hit by another fault", *told)
    return failed(words, *told)


def _note(said: Sequence[Claim], by_any: set[str], lives: Lives) -> str:
    """What NVRx named besides: collateral, which is no failure as long as the right rank is named, too."""
    collateral = {life for claim in said for life in claim.lives} - by_any
    if not collateral:
        return ""
    first = not said[0].lives & by_any
    return f" ({lives.named(collateral)}, which nothing hit, was named {'first' if first else 'as well'})"


CHECKS = (
    CheckSpec(
        name="blamed_right", needs=NVRX_WORDS | {RANKS, CONTROLLER, GROUPS}, stands=True,
        expects=lambda plan: "NVRx names a rank that was hit" if plan.objective.blamed else "",
        asked=lambda plan: plan.objective.blamed and bool(plan.faults), body=blamed_right,
    ),
)  # fmt: skip
