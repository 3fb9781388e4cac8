"""Checkpoints that count: whole when committed, of one group, there to be loaded, never all gone.

Rests on what ranks recorded; what was seen in the checkpoint folder from outside is in `seen.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.judge.case import Case
from chaos.judge.checks import citing
from chaos.judge.checks.framework import (
    CHECKPOINT_FOLDER,
    CONTROLLER,
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
from chaos.judge.checks.seen import damaged_on_disk, looked_at
from chaos.judge.lineage import Group
from chaos.model.events import Event


def checkpoint_integrity(case: Case) -> Finding:
    committed = case.record.of("checkpoint_committed")
    findings = [finding for event in committed for finding in _whole_when_committed(case, event)]
    findings += [finding for event in case.record.of("checkpoint_loaded") for finding in _was_there(case, event)]
    findings += [finding for group in case.lineage.groups for finding in _one_choice(case, group)]
    findings += [finding for event in case.record.of("checkpoint_refused") for finding in _unloadable(case, event)]
    findings += [*_fewer_files_than_others(case), *_pruned_in_order(case), *damaged_on_disk(case)]
    if not committed and not findings:
        return unknown("no checkpoint was committed in this run", *citing.ending(case))
    words = f"{len(committed)} committed, each whole when it was; {looked_at(case)}"
    return worst_of(findings, nothing=passed(words, *(event.ref for event in committed)))


# --- committed


def _whole_when_committed(case: Case, commit: Event) -> Iterator[Finding]:
    step = commit.data["step"]
    group = _group_named(case, commit.group)
    size = (group.world_size if group else None) or case.plan.job.world_size
    staged: dict[str | None, set[int | None]] = {}
    for event in case.record.of("checkpoint_staged"):
        if event.data["step"] == step and event.t_ns <= commit.t_ns:
            staged.setdefault(event.group, set()).add(event.rank)
    if not any(ranks >= set(range(size)) for ranks in staged.values()):
        everyone = set().union(*staged.values()) if staged else set()
        if everyone >= set(range(size)):
            yield failed(f"checkpoint {step} mixes parts of more than one group", commit.ref)
        else:
            missing = sorted(set(range(size)) - everyone)
            yield failed(f"checkpoint {step} was committed before rank {missing[0]} had staged its part", commit.ref)
    files = commit.data.get("files")
    if not isinstance(files, int):
        yield unknown(f"how many files checkpoint {step} has was not recorded", commit.ref)
    elif files < size:
        yield failed(f"checkpoint {step} was committed with {files} files for {size} ranks", commit.ref)


def _group_named(case: Case, name: str | None) -> Group | None:
    everyone = (*case.lineage.groups, *case.lineage.abandoned)
    return next((group for group in everyone if group.name == name), None)


def _fewer_files_than_others(case: Case) -> Iterator[Finding]:
    """The reference job writes the same files each time: one with fewer was published before it was whole."""
    if not reference_job(case.plan):
        return
    counts: dict[int | None, list[tuple[int, Event]]] = {}
    for event in case.record.of("checkpoint_committed"):
        group, files = _group_named(case, event.group), event.data.get("files")
        if isinstance(files, int):
            counts.setdefault(group.world_size if group else None, []).append((files, event))
    for found in counts.values():
        most = max(files for files, _ in found)
        for files, event in found:
            if files < most:
                yield failed(f"checkpoint {event.data['step']} has {files} files, others have {most}", event.ref)


# --- loaded, or refused


def _commits(case: Case, step: int, until_ns: int) -> list[Event]:
    committed = case.record.of("checkpoint_committed")
    return [event for event in committed if event.data["step"] == step and event.t_ns <= until_ns]


def _unloadable(case: Case, refused: Event) -> Iterator[Finding]:
    """One that counted and could then not be loaded. Refused for its size by a world of another size is no damage."""
    refusing = _group_named(case, refused.group)
    for commit in _commits(case, refused.data["step"], refused.t_ns):
        saving = _group_named(case, commit.group)
        sizes = {group.world_size for group in (refusing, saving) if group is not None}
        if len(sizes - {None}) <= 1:
            step, why = refused.data["step"], refused.data.get("reason", "no reason given")
            yield failed(f"checkpoint {step} was committed and could not be loaded: {why}", commit.ref, refused.ref)
            return


def _was_there(case: Case, loaded: Event) -> Iterator[Finding]:
    step = loaded.data["step"]
    commits = _commits(case, step, loaded.t_ns)
    if commits:
        paths = {event.data.get("path") for event in commits}
        if loaded.data.get("path") is not None and None not in paths and loaded.data["path"] not in paths:
            yield failed(f"checkpoint {step} was loaded from another place than it was committed to", loaded.ref)
        return
    if not case.record.of("checkpoint_committed") and not case.record.of("checkpoint_began"):
        yield unknown(f"checkpoint {step} is from before this run", loaded.ref)
    elif _loaded_as_saved(case, loaded):
        # Published, but its writer died before it could say so: every byte of it is what was saved.
        return
    elif _writer_died(case, step):
        yield unknown(f"checkpoint {step} was loaded; its writer died before it said that it was whole", loaded.ref)
    else:
        yield failed(f"checkpoint {step} was loaded and had never been committed", loaded.ref)


def _loaded_as_saved(case: Case, loaded: Event) -> bool:
    def digest(purpose: str, *, of_this_life: bool) -> set[str | None]:
        return {
            event.data.get("shards")
            for event in case.record.of("digest_taken")
            if event.data.get("purpose") == purpose
            and event.data["step"] == loaded.data["step"]
            and event.rank == loaded.rank
            and (not of_this_life or (event.life, event.reentry) == (loaded.life, loaded.reentry))
        }

    before, after = digest("checkpoint", of_this_life=False), digest("loaded", of_this_life=True)
    return bool(before) and before == after and None not in before


def _writer_died(case: Case, step: int) -> bool:
    """Whether a life that was committing this step ended there: an exit of it, or a fault, with nothing after."""
    began = [
        event
        for event in case.record.of("phase_entered")
        if event.data.get("phase") == "checkpoint_commit" and event.data.get("step") in (step, None)
    ]
    ended = {event.life for event in case.record.of("process_exited", "fault_fired")}
    return any(event.life in ended for event in began)


def _one_choice(case: Case, group: Group) -> Iterator[Finding]:
    """All ranks of a group begin from the same checkpoint."""
    choices: dict[int, Event] = {}
    loaders: set[int] = set()
    for event in case.record.of("checkpoint_loaded"):
        for rank, member in group.members.items():
            if (event.life, event.reentry or 0) == member:
                choices.setdefault(event.data["step"], event)
                loaders.add(rank)
    if len(choices) > 1:
        words = " and ".join(str(step) for step in sorted(choices))
        yield failed(f"ranks of one group loaded different checkpoints: {words}", *(e.ref for e in choices.values()))
    missing = sorted(set(group.needed) - loaders)
    if choices and missing:
        yield failed(f"rank {missing[0]} loaded no checkpoint while its peers did", *(e.ref for e in choices.values()))


# --- pruned


def _pruned_in_order(case: Case) -> Iterator[Finding]:
    """An old one goes only when a newer one counts, and after the first one some checkpoint is always there."""
    there: set[int] = set()
    for event in case.record.of("checkpoint_committed", "checkpoint_pruned"):
        step = event.data["step"]
        if event.kind == "checkpoint_committed":
            there.add(step)
            continue
        there.discard(step)
        if not any(newer > step for newer in there):
            words = "none was left" if not there else "no newer one was committed"
            yield failed(f"checkpoint {step} was removed while {words}", event.ref)


CHECKS = (
    CheckSpec(
        name="checkpoint_integrity", needs=frozenset({RANKS, CONTROLLER, GROUPS, CHECKPOINT_FOLDER}),
        expects=lambda plan: "every committed checkpoint whole, one always there", asked=reference_job,
        body=checkpoint_integrity,
    ),
)  # fmt: skip
