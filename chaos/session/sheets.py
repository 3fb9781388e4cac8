"""What was seen of a process, as text for people: its sockets, its threads. Looks at nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.model.identity import Life
from chaos.system.sockets import Tcp
from chaos.system.threads import UNREAD, Thread

THREADS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One process that is looked at. `who` as in the names of files: its initial rank, or its role."""

    who: str
    life: Life
    rank: int | None = None

    def name(self, what: str) -> str:
        return f"{what}-{self.who}-{self.life.pid_inside}.txt"

    @property
    def named(self) -> str:
        return self.who if self.rank is None else f"rank {self.rank}"


def owners(subjects: Iterable[Subject], sockets: Mapping[str, list[Tcp] | str]) -> dict[tuple[str, str], str]:
    """(local, remote) -> who holds that end."""
    return {
        (each.local, each.remote): subject.named
        for subject in subjects
        for each in sockets[subject.who]
        if isinstance(each, Tcp)
    }


def sockets_text(subject: Subject, found: list[Tcp] | str, ends: Mapping[tuple[str, str], str]) -> str:
    head = f"TCP sockets of {subject.named}, pid {subject.life.pid}; queues in bytes"
    if isinstance(found, str):
        return f"{head}\n{found}\n"
    rows = [("fd", "local", "remote", "held by", "state", "unsent", "unread")]
    rows += [
        (str(each.fd), each.local, each.remote, ends.get((each.remote, each.local), UNREAD), each.state,
         str(each.unsent), str(each.unread))
        for each in found
    ]  # fmt: skip
    return "\n".join([head, *_aligned(rows)]) + "\n"


def threads_table(threads: Sequence[Thread]) -> list[str]:
    rows: list[tuple[str, ...]] = [("thread", "name", "state", "waits in", "ran", "delayed")]
    for each in threads[:THREADS_MAX]:
        times = (UNREAD if value is None else f"{value:.3f}" for value in (each.ran_s, each.delayed_s))
        rows.append((str(each.tid), each.name, each.state, each.waits_in or UNREAD, *times))
    more = len(threads) - THREADS_MAX
    return [*_aligned(rows), *([f"and {more} more"] if more > 0 else [])]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
