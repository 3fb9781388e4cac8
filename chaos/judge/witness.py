"""Two witnesses of state: the run itself, for what it did twice, and the pair of fault-free runs.

Determinism is shown, not assumed. Compares losses as the bits they are and shard digests as text; says over how many
steps it could compare. What follows from it is decided by the check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.judge.lineage import Group, Lineage
from chaos.judge.record import Record
from chaos.judge.steps import hex_of, relative, told
from chaos.model.control import ControlRun
from chaos.model.events import Event

DIFFERENCES_MAX = 1000  # the first ones; a run that differs everywhere needs no longer list
AT_THE_END = 1 << 60  # the step of a digest taken at the end: after every other
_PARTS = {"shards": "shards", "replicated": "replicated state", "random": "random state"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two accounts of the same step do not agree. `size` is relative; None = not a number, or a digest."""

    step: int
    what: str
    refs: tuple[str, ...] = ()
    size: float | None = None

    @property
    def where(self) -> str:
        return "the end" if self.step == AT_THE_END else f"step {self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """`steps` had their losses compared, `digests` counts digests; `differences` in order of step."""

    steps: int
    digests: int
    differences: tuple[Difference, ...]
    uncovered: tuple[int, ...] = ()  # steps of which only one of the two has an account

    @property
    def first(self) -> Difference | None:
        return self.differences[0] if self.differences else None


def relative_difference(one: str, other: str) -> float | None:
    """Between two losses as hex text; None where one of them is not a finite number."""
    try:
        left, right = float.fromhex(one), float.fromhex(other)
    except (ValueError, OverflowError):
        return None
    if left == right:
        return 0.0
    size = abs(left - right) / max(abs(left), abs(right))
    return size if size == size and size != float("inf") else None


# --- what the run did twice


def done_twice(record: Record, lineage: Lineage, close: float | None = None) -> Compared:
    """Losses of steps and digests of checkpoints that more than one group of the same size made. With `close` only
    losses that are further apart are differences."""
    differences: list[Difference] = []
    compared = 0
    sizes = {group.world_size for group in lineage.groups}
    for size in sorted(sizes, key=str):
        steps, of_size = _losses_twice([group for group in lineage.groups if group.world_size == size], close)
        compared += steps
        differences += of_size
    digests, of_digests = _digests_twice(record, lineage)
    found = sorted([*differences, *of_digests], key=lambda difference: (difference.step, difference.what))
    return Compared(steps=compared, digests=digests, differences=tuple(found))


def _losses_twice(groups: Sequence[Group], close: float | None) -> tuple[int, list[Difference]]:
    """How many steps were done by more than one of these groups, and where a rank's loss was then another one than
    the first time."""
    if len(groups) < 2:
        return 0, []
    places = [np.flatnonzero(told(group.steps.loss)) for group in groups]
    which = np.repeat(np.arange(len(groups)), [len(place) for place in places])
    place = np.concatenate(places)
    step, rank, loss = (
        np.concatenate([getattr(group.steps, name)[seen] for group, seen in zip(groups, places, strict=True)])
        for name in ("step", "rank", "loss")
    )
    order = np.lexsort([which, rank, step])
    step, rank, loss, which, place = step[order], rank[order], loss[order], which[order], place[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = (step[1:] == step[:-1]) & (rank[1:] == rank[:-1])
    first = np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))  # the first account of that step and rank
    unlike = again & (loss != loss[first])
    sizes = relative(loss[unlike], loss[first][unlike])
    differences: list[Difference] = []
    for index, size in zip(np.flatnonzero(unlike).tolist(), sizes.tolist(), strict=True):
        counts = close is None or size != size or size > close
        if counts and len(differences) < DIFFERENCES_MAX:
            both = (int(first[index]), index)
            refs = tuple(groups[which[one]].steps.ref(int(place[one])) for one in both)
            size_or_none = None if size != size else size
            differences.append(Difference(step=int(step[index]), what="loss", refs=refs, size=size_or_none))
    return len(np.unique(step[again])), differences


def loaded_as_saved(record: Record, lineage: Lineage, *parts: str) -> Compared:
    """Digests of these parts (keys of `_PARTS`) after loading a checkpoint against those taken when it was saved.
    What only one of both tells is not compared."""
    sizes = _sizes(lineage)
    saved = {
        (event.data["step"], event.rank, sizes.get(event.group)): event
        for event in record.of("digest_taken")
        if event.data.get("purpose") == "checkpoint"
    }
    differences, count = [], 0
    for event in record.of("digest_taken"):
        known = saved.get((event.data["step"], event.rank, sizes.get(event.group)))
        if event.data.get("purpose") != "loaded" or known is None:
            continue
        for part in parts:
            one, other = known.data.get(part), event.data.get(part)
            if not isinstance(one, str) or not isinstance(other, str):
                continue
            count += 1
            if one != other:
                what = f"{_PARTS[part]} of rank {event.rank} after loading"
                differences.append(Difference(step=event.data["step"], what=what, refs=(known.ref, event.ref)))
    return Compared(steps=0, digests=count, differences=tuple(differences))


def _digests_twice(record: Record, lineage: Lineage) -> tuple[int, list[Difference]]:
    known: dict[tuple[int, int | None, int | None], Event] = {}
    sizes = _sizes(lineage)
    count, differences = 0, []
    for event in record.of("digest_taken"):
        if event.data.get("purpose") != "checkpoint":
            continue
        first = known.setdefault((event.data["step"], event.rank, sizes.get(event.group)), event)
        if first is event or first.group == event.group:
            continue
        count += 1
        if first.data.get("shards") != event.data.get("shards"):
            what = f"checkpoint digest of rank {event.rank}"
            differences.append(Difference(step=event.data["step"], what=what, refs=(first.ref, event.ref)))
    return count, differences


def _sizes(lineage: Lineage) -> dict[str | None, int | None]:
    """By the name of a group: a digest means something only among groups of one size."""
    return {group.name: group.world_size for group in (*lineage.groups, *lineage.abandoned)}


# --- the fault-free runs


def losses_that_survive(lineage: Lineage) -> dict[str, tuple[str, str]]:
    """step -> (loss, ref) over the surviving history: that of the lowest rank that told one."""
    found: dict[int, tuple[str, str]] = {}
    for group in lineage.groups:
        steps = group.steps
        seen = np.flatnonzero(told(steps.loss))
        numbers, first = np.unique(steps.step[seen], return_index=True)
        for step, place in zip(numbers.tolist(), seen[first].tolist(), strict=True):
            if lineage.surviving.get(step) is group:
                loss = hex_of(int(steps.loss[place]))
                assert loss is not None  # only those that were told
                found[step] = loss, steps.ref(place)
    return {str(step): found[step] for step in sorted(found)}


def digests_that_survive(record: Record) -> dict[str, tuple[str, str]]:
    """`step/rank` and `end/rank` -> (digest, ref), the last taken of each."""
    found: dict[str, tuple[str, str]] = {}
    for event in record.of("digest_taken"):
        purpose, shards = event.data.get("purpose"), event.data.get("shards")
        if purpose in ("checkpoint", "end") and isinstance(shards, str) and event.rank is not None:
            key = f"{'end' if purpose == 'end' else event.data['step']}/{event.rank}"
            found[key] = (shards, event.ref)
    return found


def usable_controls(
    controls: Sequence[ControlRun], settings: Mapping[str, Any]
) -> tuple[list[ControlRun], tuple[str, ...]]:
    """Those that can bear witness, and why the others cannot."""
    usable: list[ControlRun] = []
    refused = []
    for control in controls:
        unlike = sorted(
            name for name in {*control.settings, *settings} if control.settings.get(name) != settings.get(name)
        )
        if control.run_id in {other.run_id for other in usable}:
            refused.append(f"{control.run_id} refused: given twice")
        elif not control.clean:
            refused.append(f"{control.run_id} refused: {control.unclean_why or 'not clean'}")
        elif unlike:
            refused.append(f"{control.run_id} refused: other settings ({', '.join(unlike[:3])})")
        else:
            usable.append(control)
    return usable, tuple(refused)


def against_control(lineage: Lineage, record: Record, control: ControlRun) -> Compared:
    """The surviving history against one fault-free run."""
    losses, digests = losses_that_survive(lineage), digests_that_survive(record)
    return _compare(losses, digests, _bare(control.losses), _bare(control.digests))


def controls_agree(one: ControlRun, other: ControlRun) -> Compared:
    """Two fault-free runs against each other; what only one of them has is a difference, too."""
    compared = _compare(_bare(one.losses), _bare(one.digests), _bare(other.losses), _bare(other.digests))
    lone = sorted(one.losses.keys() ^ other.losses.keys(), key=_step_of_key)
    lone += sorted(one.digests.keys() ^ other.digests.keys(), key=_step_of_key)
    missing = [Difference(step=_step_of_key(key), what=f"{key} seen in one only") for key in lone]
    found = sorted([*compared.differences, *missing], key=lambda difference: difference.step)
    return Compared(steps=compared.steps, digests=compared.digests, differences=tuple(found))


_Accounts = Mapping[str, tuple[str, str]]


def _bare(values: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {key: (value, "") for key, value in values.items()}


def _compare(losses: _Accounts, digests: _Accounts, with_losses: _Accounts, with_digests: _Accounts) -> Compared:
    differences = []
    for step in losses.keys() & with_losses.keys():
        one, other = losses[step], with_losses[step]
        if one[0] != other[0]:
            refs = tuple(ref for ref in (one[1], other[1]) if ref)
            size = relative_difference(one[0], other[0])
            differences.append(Difference(step=int(step), what="loss", refs=refs, size=size))
    same_end = max(map(int, losses), default=-1) == max(map(int, with_losses), default=-1)
    shared = {key for key in digests.keys() & with_digests.keys() if same_end or not key.startswith("end/")}
    for key in shared:
        one, other = digests[key], with_digests[key]
        if one[0] != other[0]:
            refs = tuple(ref for ref in (one[1], other[1]) if ref)
            differences.append(Difference(step=_step_of_key(key), what=f"shard digest {key}", refs=refs))
    differences.sort(key=lambda difference: (difference.step, difference.what))
    uncovered = tuple(sorted(int(step) for step in losses.keys() - with_losses.keys()))
    return Compared(
        steps=len(losses.keys() & with_losses.keys()),
        digests=len(shared),
        differences=tuple(differences),
        uncovered=uncovered,
    )


def _step_of_key(key: str) -> int:
    head = key.split("/")[0]
    return int(head) if head.lstrip("-").isdigit() else AT_THE_END
