"""What the checkpoint folder showed from outside: a committed checkpoint that was seen damaged, altered, or not at all.

A look can only convict what the job itself said that it had committed, and never for what the job took away by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.judge.case import Case
from chaos.judge.checks.framework import Finding, failed, unknown
from chaos.model.events import Event


def damaged_on_disk(case: Case) -> Iterator[Finding]:
    """Every look at which something was wrong."""
    for seen in case.record.of("checkpoint_seen"):
        commits = _commits_before(case, seen)
        if not isinstance(seen.data.get("problem"), str) or _size(seen) is None:
            yield unknown(f"what was seen of checkpoint {seen.data['step']} was not recorded", seen.ref)
            continue
        wrong = seen.data["problem"] or _altered(seen, commits)
        if not wrong or (_is_missing(seen) and _taken_away(case, seen)):
            continue
        yield _damage(case, seen, commits, wrong)


def _damage(case: Case, seen: Event, commits: list[Event], wrong: str) -> Finding:
    words = f"checkpoint {seen.data['step']}, seen from outside: {wrong}"
    refs = (seen.ref, *(commit.ref for commit in commits[-1:]))
    if not commits:
        return unknown(f"{words}; nobody said that it had been committed", *refs)
    if case.record.stop_ns is not None and seen.t_ns > case.record.stop_ns:
        return unknown(f"{words}; but the job had been stopped by us", *refs)
    return failed(words, *refs)


def looked_at(case: Case) -> str:
    """How many of the committed ones were seen from outside, in words: a pass says what it rests on."""
    committed = {event.data["step"] for event in case.record.of("checkpoint_committed")}
    seen = [event for event in case.record.of("checkpoint_seen") if event.data.get("problem") == ""]
    looks = [event for event in seen if event.data["step"] in committed]
    if not looks:
        return "not looked at from outside"
    verified = {event.data["step"] for event in looks if event.data.get("verified") is True}
    by_size = len({event.data["step"] for event in looks} - verified)
    more = f", {by_size} too large to compare more than sizes" if by_size else ""
    return f"{len(verified)} seen whole from outside{more}"


def _commits_before(case: Case, seen: Event) -> list[Event]:
    committed = case.record.of("checkpoint_committed")
    return [event for event in committed if event.data["step"] == seen.data["step"] and event.t_ns <= seen.t_ns]


def _altered(seen: Event, commits: list[Event]) -> str:
    """One that is whole by itself may still not be the one that was committed: how it differs, or an empty text."""
    sizes = [_size(commit) for commit in commits]
    if not sizes or None in sizes or _size(seen) in sizes:
        return ""
    files, size = sizes[-1] or (0, 0)
    return f"{seen.data['files']} files, {seen.data['bytes']} bytes; it was committed with {files} files, {size} bytes"


def _size(event: Event) -> tuple[int, int] | None:
    files, size = event.data.get("files"), event.data.get("bytes")
    return (files, size) if isinstance(files, int) and isinstance(size, int) else None


def _is_missing(seen: Event) -> bool:
    return seen.data.get("files") == 0


def _taken_away(case: Case, seen: Event) -> bool:
    """The job removes a checkpoint, or sets it aside, and says so afterwards."""
    told = case.record.of("checkpoint_pruned", "checkpoint_refused")
    return any(event.data["step"] == seen.data["step"] for event in told)
