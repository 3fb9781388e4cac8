"""The right state after a recovery: by what the run did twice, and by the fault-free runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chaos.judge import witness
from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import (
    CONTROL,
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
from chaos.judge.witness import Compared, Difference
from chaos.model.control import ControlRun
from chaos.model.plan import Plan
from chaos.model.verdict import Outcome

CONTROLS = "control.jsonl"  # in the run's folder, a line for each of them


def state_exact(case: Case) -> Finding:
    """Either witness can convict; a pass rests on at least one, and says which and over how many steps."""
    close = case.plan.objective.state_close
    twice = witness.done_twice(case.record, case.lineage, close)
    loaded = witness.loaded_as_saved(case.record, case.lineage, "shards", "replicated", "random")
    usable, refused = witness.usable_controls(case.controls, case.settings)
    agreement = witness.controls_agree(usable[0], usable[1]) if len(usable) > 1 else None
    parted = None if agreement is None else _beyond(agreement.differences, None if close is None else close / 2)
    found = [
        _same_bits(loaded, "what was loaded is not what was saved"),
        _itself(case, twice, close, repeatable_until=None if parted is None else parted.step),
        _no_number(case),
    ]
    if parted is not None:
        found.append(
            unknown(f"not repeatable here: the fault-free runs differ first at {parted.where}", *_told_by(case))
        )
    elif agreement is not None:
        found.append(_against_control(case, usable, close))
    bad = [finding for finding in found if finding is not None and finding.outcome is not Outcome.PASS]
    return worst_of(bad, nothing=_testimony(case, found, refused, one_control=len(usable) == 1))


def _same_bits(compared: Compared, words: str) -> Finding | None:
    first = compared.first
    return None if first is None else failed(f"{words}: {first.what}, {first.where}", *first.refs)


def _no_number(case: Case) -> Finding | None:
    """Once a loss is none, every later one is the same none, whatever the state."""
    for step, (loss, ref) in witness.losses_that_survive(case.lineage).items():
        if not math.isfinite(float.fromhex(loss)):
            return unknown(f"the loss of step {step} is {loss}: that later ones are the same shows nothing", ref)
    return None


def _itself(case: Case, twice: Compared, close: float | None, *, repeatable_until: int | None) -> Finding | None:
    """The run against itself. Where the fault-free runs part, only what lies before that step proves anything."""
    first = _beyond(twice.differences, close)
    if first is not None and (repeatable_until is None or first.step < repeatable_until):
        return failed(f"{first.where} done twice, two results: {first.what}{_size(first)}", *first.refs)
    if not twice.steps:
        return None
    how = "equal bits" if close is None else f"within {close:g}"
    digests = f" and {twice.digests} checkpoint digests" if twice.digests else ""
    return passed(
        f"the run itself over {twice.steps} steps done twice{digests}, {how}", *citing.first_steps(case.lineage.groups)
    )


def _against_control(case: Case, usable: Sequence[ControlRun], close: float | None) -> Finding:
    compared = witness.against_control(case.lineage, case.record, usable[0])
    first = _beyond(compared.differences, close)
    name, refs = usable[0].run_id, _told_by(case)
    if first is not None:
        return failed(f"differs from {name} at {first.where}: {first.what}{_size(first)}", *first.refs, *refs)
    if compared.uncovered:
        return unknown(f"{name} has no loss for step {compared.uncovered[0]}", *refs)
    if not compared.steps:
        return unknown("no loss was seen that could be compared with the fault-free runs", *refs)
    how = "equal bits" if close is None else f"within {close:g}"
    digests = f" and {compared.digests} shard digests" if compared.digests else ""
    return passed(f"two fault-free runs over {compared.steps} steps{digests}, {how}", *refs)


def _told_by(case: Case) -> tuple[str, ...]:
    """The lines with what the fault-free runs did; the end of the run where there are none."""
    return tuple(f"{CONTROLS}:{place}" for place in range(1, len(case.controls) + 1)) or citing.ending(case)


def _testimony(case: Case, found: Sequence[Finding | None], refused: tuple[str, ...], *, one_control: bool) -> Finding:
    """What the pass rests on; without any witness it is unknown."""
    notes = [*refused, *(["only one fault-free run: not shown to be repeatable"] if one_control else [])]
    words = [finding.observed for finding in found if finding is not None]
    refs = tuple(ref for finding in found if finding is not None for ref in finding.evidence)
    if not words:
        return unknown("; ".join(["no control and nothing done twice", *notes]), *_told_by(case))
    return passed("; ".join([*words, *notes]), *refs)


def _beyond(differences: Sequence[Difference], close: float | None) -> Difference | None:
    """The first difference that counts: every one where bits must agree, else losses further apart than allowed."""
    for difference in differences:
        if close is None:
            return difference
        # With a tolerance only losses are held to it: digests of nearly equal numbers have nothing in common.
        if difference.what == "loss" and (difference.size is None or difference.size > close):
            return difference
    return None


def _size(difference: Difference) -> str:
    return "" if difference.size is None else f" (relative {difference.size:.1e})"


def _expects(plan: Plan) -> str:
    close = plan.objective.state_close
    return "bit for bit" if close is None else f"losses within {close:g}"


CHECKS = (
    CheckSpec(
        name="state_exact", needs=frozenset({RANKS, CONTROL, GROUPS}), expects=_expects,
        asked=lambda plan: reference_job(plan) or plan.objective.state_close is not None, body=state_exact,
    ),
)  # fmt: skip
