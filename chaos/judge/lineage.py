"""Process groups in order of their first step, the layer each came by, and the history that survives.

Knows nothing of faults. A group is named by its members (`process_group_ready`, `step_done`); what cannot be
told apart, or put in order, is said in `problems`, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from chaos.judge import abandoned as nowhere
from chaos.judge.clocks import NEVER_COMPARED, Clocks
from chaos.judge.descent import Forebears
from chaos.judge.record import Record
from chaos.judge.steps import Steps

RANKS_MAX = 1 << 20  # a size beyond it is no size: it is counted up to


@dataclass(slots=True, kw_only=True)
class Group:
    """One process group. `layer` is how it came to be; empty for one that began the job."""

    name: str
    index: int = -1
    layer: str = ""
    world_size: int | None = None
    needed: range = range(0)  # the ranks that a whole step takes: the planned world, or its own where it may shrink
    members: dict[int, tuple[str, int]] = field(default_factory=dict)  # rank -> (life, reentry)
    ready_ns: dict[int, int] = field(default_factory=dict)
    steps: Steps = field(default_factory=Steps)
    complete_ns: dict[int, int] = field(default_factory=dict)  # step -> when its last expected rank had done it
    first_whole_ns: int | None = None  # when every expected rank had done its first step
    done_again: int = 0  # steps of it that all ranks of an earlier group had done

    @property
    def first_ns(self) -> int:
        return self.steps.first_ns

    @property
    def last_ns(self) -> int:
        return self.steps.last_ns

    @property
    def last_whole_ns(self) -> int:
        """When all expected ranks had done the last step that they all did; the first step of any, where none was."""
        return max(self.complete_ns.values(), default=self.first_ns)

    def lives(self) -> set[str]:
        return {life for life, _ in self.members.values()}

    def first_complete_after(self, t_ns: int) -> int | None:
        """When every expected rank had done its first step after that moment; None: not all did one."""
        if t_ns < self.first_ns:
            return self.first_whole_ns
        return self.steps.first_by_all_after(t_ns, self.needed)

    def highest_by(self, t_ns: int) -> int | None:
        """The highest step that any rank had done by then."""
        return self.steps.highest if t_ns >= self.last_ns else self.steps.highest_by(t_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """`surviving` maps each step to the last group whose ranks all did it; `abandoned` groups never did a step.
    `at_once`: pairs of groups that surely stepped at the same time, the one that began first before the other."""

    groups: tuple[Group, ...]
    abandoned: tuple[Group, ...]
    surviving: dict[int, Group]
    problems: tuple[str, ...]
    attempts: tuple[nowhere.Attempt, ...]
    at_once: tuple[tuple[Group, Group], ...]
    clocks: Clocks

    @property
    def abandoned_restarts(self) -> int:
        """Restarts that led nowhere, over the whole run."""
        return nowhere.count(self.attempts)

    def abandoned_in(self, start_ns: int, end_ns: int) -> int:
        """Restarts that led nowhere, begun in that stretch."""
        return nowhere.count(attempt for attempt in self.attempts if start_ns <= attempt.t_ns <= end_ns)

    def group_at(self, t_ns: int) -> Group | None:
        """The group that had begun to step last by that moment."""
        begun = [group for group in self.groups if group.first_ns <= t_ns]
        return begun[-1] if begun else None


def trace(record: Record, *, world_size: int, may_shrink: bool) -> Lineage:
    """The lineage of a run that was planned with `world_size` ranks."""
    named, problems = _groups(record)
    stepped = sorted((group for group in named.values() if group.steps), key=lambda group: (group.first_ns, group.name))
    done: set[int] = set()
    for index, group in enumerate(stepped):
        group.index = index
        group.needed = range((group.world_size or len(group.members)) if may_shrink else world_size)
        group.complete_ns = group.steps.complete(group.needed)
        group.first_whole_ns = group.steps.first_by_all_after(group.first_ns - 1, group.needed)
        group.done_again = len(done & group.steps.numbers)
        done.update(group.complete_ns)
    stillborn = [group for group in named.values() if not group.steps]
    _name_layers(record, stepped)
    clocks = Clocks(record)
    at_once, unordered = _in_order(stepped, clocks)
    return Lineage(
        groups=tuple(stepped),
        abandoned=tuple(stillborn),
        surviving=_surviving(stepped),
        problems=(*problems, *unordered),
        attempts=_attempts(record, stepped, stillborn),
        at_once=at_once,
        clocks=clocks,
    )


# --- who was in which group


class _Naming:
    """Groups by their name, and why a name cannot be trusted: the first reason of each."""

    def __init__(self) -> None:
        self.named: dict[str, Group] = {}
        self.problems: dict[str | None, str] = {}
        self._reentry: dict[tuple[str, str], int] = {}

    def member(self, name: str, rank: int, life: str, reentry: int, ref: str) -> Group:
        group = self.named.get(name)
        if group is None:
            group = self.named[name] = Group(name=name)
        if group.members.setdefault(rank, (life, reentry)) != (life, reentry):
            self.say(name, f"groups are not told apart: {name} has rank {rank} twice ({ref})")
        if self._reentry.setdefault((name, life), reentry) != reentry:
            self.say(name, f"groups are not told apart: {name} has two entries of {life} ({ref})")
        return group

    def say(self, name: str | None, problem: str) -> None:
        self.problems.setdefault(name, problem)


def _groups(record: Record) -> tuple[dict[str, Group], list[str]]:
    naming = _Naming()
    for event in record.of("process_group_ready"):
        if event.group is None or event.rank is None or event.life is None:
            naming.say(None, f"a process group without a name ({event.ref})")
            continue
        group = naming.member(event.group, event.rank, event.life, event.reentry or 0, event.ref)
        group.ready_ns[event.rank] = event.t_ns
        size = event.data.get("world_size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= RANKS_MAX:
            naming.say(event.group, f"the size of group {event.group} was not told ({event.ref})")
        elif group.world_size not in (None, size):
            naming.say(event.group, f"the members of group {event.group} do not agree on its size ({event.ref})")
        else:
            group.world_size = size
    for name, steps in record.steps.items():
        for track, first in steps.firsts_of_tracks():
            if name is None:
                step, ref = steps.step[first], steps.ref(first)
                naming.say(None, f"rank {track.rank} did step {step} in a group without a name ({ref})")
            else:
                naming.member(name, track.rank, track.life, track.reentry, steps.ref(first)).steps = steps
    return naming.named, list(naming.problems.values())


# --- order


def _in_order(stepped: Sequence[Group], clocks: Clocks) -> tuple[tuple[tuple[Group, Group], ...], tuple[str, ...]]:
    """Pairs that surely stepped at the same time, and those of which the clocks do not say who came first."""
    of_group = {group.index: clocks.of(group.lives()) for group in stepped}
    at_once, unordered = [], []
    for older, younger in combinations(stepped, 2):
        apart_ns = clocks.apart_ns(of_group[older.index] | of_group[younger.index])
        gap_ns = younger.first_ns - older.last_ns
        if gap_ns <= 0 and -gap_ns >= apart_ns:
            at_once.append((older, younger))
        elif gap_ns <= apart_ns:
            by = "were never compared" if apart_ns >= NEVER_COMPARED else f"may be {apart_ns / 1e6:.1f} ms apart"
            unordered.append(f"the order of groups {older.name} and {younger.name} is not known: their clocks {by}")
    return tuple(at_once), tuple(unordered)


# --- layers


def _name_layers(record: Record, stepped: Sequence[Group]) -> None:
    forebears = Forebears(record)
    for group in stepped:
        if group.index == 0:
            forebears.begin(group.lives())
        group.layer = forebears.layer(group.members.values())
        forebears.pass_by(group.last_whole_ns, group.lives())


# --- what survives, what led nowhere


def _surviving(stepped: Iterable[Group]) -> dict[int, Group]:
    surviving: dict[int, Group] = {}
    for group in stepped:
        for step in group.complete_ns:
            surviving[step] = group
    return dict(sorted(surviving.items()))


def _attempts(record: Record, stepped: Sequence[Group], stillborn: Sequence[Group]) -> tuple[nowhere.Attempt, ...]:
    everyone = sorted((*stepped, *stillborn), key=_begun_ns)
    return nowhere.attempts(
        record,
        members={member for group in everyone for member in group.members.values()},
        first_steps_ns=[group.first_ns for group in stepped],
        # a job's very first group is no restart
        stillborn=[(group.name, _begun_ns(group)) for group in everyone[1:] if not group.steps],
    )


def _begun_ns(group: Group) -> int:
    return min(group.ready_ns.values(), default=0) or (group.first_ns if group.steps else 0)
