"""Process groups in order of their first step, the layer each came by, and the history that survives.

Knows nothing of faults. A group is named by its members (`process_group_ready`, `step_done`); what cannot be
told apart is said in `problems`, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.judge.record import Record
from chaos.judge.steps import Steps

LAYERS = ("in_process", "in_job", "new_job")  # from the cheapest to the dearest
UNSEEN_LAYER = "unknown"


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

    @property
    def first_ns(self) -> int:
        return self.steps.first_ns

    @property
    def last_ns(self) -> int:
        return self.steps.last_ns

    def lives(self) -> set[str]:
        return {life for life, _ in self.members.values()}

    def first_complete_after(self, t_ns: int) -> int | None:
        """When every expected rank had done its first step after that moment; None: not all did one."""
        return self.steps.first_by_all_after(t_ns, self.needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """`surviving` maps each step to the last group whose ranks all did it; `abandoned` groups never did a step."""

    groups: tuple[Group, ...]
    abandoned: tuple[Group, ...]
    surviving: dict[int, Group]
    problems: tuple[str, ...]
    abandoned_restarts: int

    def group_at(self, t_ns: int) -> Group | None:
        """The group that had begun to step last by that moment."""
        begun = [group for group in self.groups if group.first_ns <= t_ns]
        return begun[-1] if begun else None


def trace(record: Record, *, world_size: int, may_shrink: bool) -> Lineage:
    """The lineage of a run that was planned with `world_size` ranks."""
    named, problems = _groups(record)
    stepped = sorted((group for group in named.values() if group.steps), key=lambda group: (group.first_ns, group.name))
    for index, group in enumerate(stepped):
        group.index = index
        group.needed = range((group.world_size or len(group.members)) if may_shrink else world_size)
        group.complete_ns = group.steps.complete(group.needed)
    abandoned = [group for group in named.values() if not group.steps]
    _name_layers(record, stepped)
    return Lineage(
        groups=tuple(stepped),
        abandoned=tuple(abandoned),
        surviving=_surviving(stepped),
        problems=tuple(problems),
        abandoned_restarts=_abandoned_restarts(record, stepped, abandoned),
    )


def _groups(record: Record) -> tuple[dict[str, Group], list[str]]:
    named: dict[str, Group] = {}
    problems: list[str] = []

    def member(name: str, rank: int, life: str, reentry: int, ref: str) -> Group:
        group = named.setdefault(name, Group(name=name))
        known = group.members.setdefault(rank, (life, reentry))
        if known != (life, reentry):
            problems.append(f"groups are not told apart: {name} has rank {rank} twice ({ref})")
        return group

    for event in record.of("process_group_ready"):
        if event.group is None or event.rank is None or event.life is None:
            problems.append(f"a process group without a name ({event.ref})")
            continue
        group = member(event.group, event.rank, event.life, event.reentry or 0, event.ref)
        group.ready_ns[event.rank] = event.t_ns
        size = event.data.get("world_size")
        if not isinstance(size, int) or group.world_size not in (None, size):
            problems.append(f"the members of group {event.group} do not agree on its size ({event.ref})")
        else:
            group.world_size = size
    for name, steps in record.steps.items():
        for track, first in steps.firsts_of_tracks():
            if name is None:
                step, ref = steps.step[first], steps.ref(first)
                problems.append(f"rank {track.rank} did step {step} in a group without a name ({ref})")
            else:
                member(name, track.rank, track.life, track.reentry, steps.ref(first)).steps = steps
    return named, problems


def _name_layers(record: Record, stepped: list[Group]) -> None:
    launchers = {
        event.life: event.data.get("launcher") for event in record.of("rank_started") if event.life is not None
    }
    starts = {event.life: event.t_ns for event in record.of("rank_started") if event.life is not None}
    before: set[str] = set()
    for group in stepped:
        if group.index == 0:
            # lives of these ranks that were there before and never did a step: the job was already restarted once
            first_start = min((starts[life] for life in group.lives() if life in starts), default=0)
            before = {life for life, t_ns in starts.items() if life not in group.lives() and t_ns < first_start}
        group.layer = _layer(group, before, launchers)
        before = group.lives()


def _layer(group: Group, before: set[str], launchers: dict[str, str | None]) -> str:
    found = set()
    for life, reentry in group.members.values():
        if life in before or (not before and reentry > 0):
            found.add("in_process")
        elif before:
            found.add(_layer_of_new_life(launchers.get(life), {launchers.get(old) for old in before}))
    if UNSEEN_LAYER in found:
        return UNSEEN_LAYER
    return max(found, key=LAYERS.index, default="")


def _layer_of_new_life(launcher: str | None, before: set[str | None]) -> str:
    if launcher is None or None in before:
        return UNSEEN_LAYER
    return "in_job" if launcher in before else "new_job"


def _surviving(stepped: Iterable[Group]) -> dict[int, Group]:
    surviving: dict[int, Group] = {}
    for group in stepped:
        for step in group.complete_ns:
            surviving[step] = group
    return dict(sorted(surviving.items()))


def _abandoned_restarts(record: Record, stepped: list[Group], abandoned: list[Group]) -> int:
    """Restarts that led to no step: groups that never stepped (but for a job's very first), entries without a group."""
    grouped = {member for group in (*stepped, *abandoned) for member in group.members.values()}
    lost: dict[str, int] = {}
    for event in record.of("restart_entered"):
        if event.life is not None and (event.life, event.reentry or 0) not in grouped:
            lost[event.life] = lost.get(event.life, 0) + 1
    begun = sorted((*stepped, *abandoned), key=_begun_ns)
    led_nowhere = sum(1 for group in begun[1:] if not group.steps)
    return led_nowhere + max(lost.values(), default=0)


def _begun_ns(group: Group) -> int:
    return min(group.ready_ns.values(), default=0) or (group.first_ns if group.steps else 0)
