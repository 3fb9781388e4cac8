"""Do all ranks agree? On the first step after a recovery, and on the end.

Shards and random states differ between ranks by design: a random state is held to the one that was saved, shards are
`state.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from chaos.judge import witness
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
from chaos.judge.lineage import Group
from chaos.judge.steps import NOT_TOLD, float_of, told
from chaos.model.events import Event

_ALIKE = (("lr", "learning rate"), ("loss", "reduced loss"), ("grad_norm", "gradient norm"))
_Digests = Mapping[tuple[str | None, str], Mapping[int, Event]]


def ranks_agree(case: Case) -> Finding:
    groups = case.lineage.groups
    if not groups:
        return unknown("no step was done", *citing.ending(case))
    digests = _digests(case)
    restarted = [group for group in groups if group.layer]
    found = [finding for group in restarted for finding in _at_first_step(case, group, digests)]
    found += _at_the_end(case, groups[-1], digests)
    randoms = witness.loaded_as_saved(case.record, case.lineage, "random")
    found += [failed(f"{each.what} is not the one saved, {each.where}", *each.refs) for each in randoms.differences]
    where = [f"step {group.steps.lowest}" for group in restarted] + ["the end"]
    words = f"all ranks alike at {', '.join(where)}"
    if randoms.digests:
        words += f"; {randoms.digests} random states as they were saved"
    return worst_of(found, nothing=passed(words, groups[-1].steps.ref(len(groups[-1].steps) - 1)))


# --- the first step after a recovery


def _at_first_step(case: Case, group: Group, digests: _Digests) -> Iterator[Finding]:
    first = _edge(group, last=False)
    apart = _apart(group, first, "begins with")
    if apart is not None:
        yield apart
        return
    missing = sorted(group.members.keys() - first.keys())
    if missing and group is case.lineage.groups[-1]:
        yield unknown(f"rank {missing[0]} did no step after the last recovery", group.steps.ref(0))
    yield from _same_at(group, group.steps.lowest)
    loaded = digests.get((group.name, "loaded"), {})
    members = set(group.members.values())
    if loaded or any((each.life, each.reentry or 0) in members for each in case.record.of("checkpoint_loaded")):
        yield from _replicated(group, loaded, "after loading")


# --- the end


def _at_the_end(case: Case, group: Group, digests: _Digests) -> Iterator[Finding]:
    if group.complete_ns:
        yield from _same_at(group, max(group.complete_ns))
    if not case.all_finished():
        yield unknown("the job did not come to its end", *citing.ending(case))
        return
    apart = _apart(group, _edge(group, last=True), "ends with")
    if apart is not None:
        yield apart
    yield from _replicated(group, digests.get((group.name, "end"), {}), "at the end")


# --- compared


def _edge(group: Group, *, last: bool) -> dict[int, int]:
    """rank -> the place of its first or its last step."""
    steps = group.steps
    places = steps.of_step(steps.highest if last else steps.lowest)
    if len(places) >= len(group.members):  # as it should be, and then there is no need to look at all steps
        return dict(zip(steps.rank[places.start : places.stop].tolist(), places, strict=True))
    # Columns are in order of step, and of equal ranks `unique` gives the place of the first one.
    ranks, found = np.unique(steps.rank[::-1] if last else steps.rank, return_index=True)
    return dict(zip(ranks.tolist(), (len(steps) - 1 - found if last else found).tolist(), strict=True))


def _apart(group: Group, edge: Mapping[int, int], verb: str) -> Finding | None:
    """Ranks of one group that are not at the same step."""
    (one, known), *others = sorted(edge.items())
    for rank, place in others:
        step, other = int(group.steps.step[known]), int(group.steps.step[place])
        if step != other:
            words = f"rank {rank} {verb} step {other}, rank {one} with step {step}"
            return failed(words, group.steps.ref(known), group.steps.ref(place))
    return None


def _same_at(group: Group, step: int) -> Iterator[Finding]:
    """The numbers that every rank must have alike in one step, and the data, of which each has the next part."""
    steps, places = group.steps, group.steps.of_step(step)
    ranks = steps.rank[places.start : places.stop].tolist()
    for name, words in _ALIKE:
        bits = getattr(steps, name)[places.start : places.stop]
        unseen, unlike = np.flatnonzero(~told(bits)), np.flatnonzero(bits != bits[0])
        if len(unseen):
            at = int(unseen[0])
            yield unknown(f"the {words} of rank {ranks[at]} at step {step} was not seen", steps.ref(places[at]))
        elif len(unlike):
            at = int(unlike[0])
            told_by_both = (
                f"{float_of(int(bits[0]))!r} by rank {ranks[0]}, {float_of(int(bits[at]))!r} by rank {ranks[at]}"
            )
            yield failed(f"{words} at step {step}: {told_by_both}", steps.ref(places[0]), steps.ref(places[at]))
    if set(ranks) >= group.members.keys():  # of an interrupted step some parts are missing
        yield from _one_batch(group, step)


def _one_batch(group: Group, step: int) -> Iterator[Finding]:
    steps, places = group.steps, group.steps.of_step(step)
    first, end = steps.first[places.start : places.stop], steps.end[places.start : places.stop]
    unseen = np.flatnonzero(first == NOT_TOLD)
    if len(unseen):
        where = places[int(unseen[0])]
        yield unknown(f"the data position of rank {steps.rank[where]} at step {step} was not seen", steps.ref(where))
        return
    order = np.lexsort([end, first])
    torn = np.flatnonzero(first[order][1:] != end[order][:-1])
    if len(torn):
        before, after = (places[int(order[int(torn[0]) + offset])] for offset in (0, 1))
        words = f"rank {steps.rank[before]} ends at sample {steps.end[before]}, rank {steps.rank[after]} begins at"
        yield failed(f"data position at step {step}: {words} {steps.first[after]}", steps.ref(before), steps.ref(after))


def _digests(case: Case) -> _Digests:
    """(group, purpose) -> the digest of each rank; of several the last."""
    found: dict[tuple[str | None, str], dict[int, Event]] = {}
    for event in case.record.of("digest_taken"):
        if event.rank is not None:
            found.setdefault((event.group, str(event.data.get("purpose"))), {})[event.rank] = event
    return found


def _replicated(group: Group, digests: Mapping[int, Event], when: str) -> Iterator[Finding]:
    """The digest of what every rank has alike."""
    seen = {rank: event for rank, event in digests.items() if isinstance(event.data.get("replicated"), str)}
    missing = sorted(group.members.keys() - seen.keys())
    if missing:
        refs = citing.refs(digests.values()) or citing.first_steps([group])
        yield unknown(f"no digest of rank {missing[0]} was taken {when}", *refs)
    ranks = sorted(seen)
    for rank in ranks[1:]:
        if seen[rank].data["replicated"] != seen[ranks[0]].data["replicated"]:
            words = f"what every rank has alike differs between rank {ranks[0]} and rank {rank} {when}"
            yield failed(words, seen[ranks[0]].ref, seen[rank].ref)
            return


CHECKS = (
    CheckSpec(
        name="ranks_agree", needs=frozenset({RANKS, GROUPS}),
        expects=lambda plan: "all ranks alike at the first step after a recovery and at the end",
        asked=reference_job, body=ranks_agree,
    ),
)  # fmt: skip
