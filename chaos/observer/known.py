"""One process of the job as it was first seen, and what each source says about its end. Plain values; looks nowhere."""

from __future__ import annotations

import os
import signal
import time

from chaos.model.identity import Life, ProcessInfo

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# In order of trust. A source that is not listed is not one.
SOURCES = ("child", "pidfd", "connector", "launcher")

Status = tuple[int | None, int | None]  # exit code, signal: at most one of them


class Known:
    """`parent` is who made it, as far as that was seen. `brief`: gone before it could be looked at; only the kernel
    told of it, so what it was is what its parent was."""

    def __init__(
        self,
        info: ProcessInfo,
        *,
        parent: Known | None = None,
        watched: bool = False,
        brief: bool = False,
        forked_ns: int | None = None,
    ) -> None:
        self.info = info
        self.life: Life = info.life
        self.parent = parent
        self.watched = watched  # its end will be told; otherwise it is looked for
        self.brief = brief
        self.executed = False  # it became another program after it was made
        self.role = ""
        self.rank: int | None = None
        self.of_rank: int | None = None  # whose helper it is
        self.seen_at = time.monotonic()
        self.born_ns = born_between(self.life) if forked_ns is None else (forked_ns, forked_ns)
        # However late it was found, the table tells when it was made, to a tick; never after it was seen.
        self.appeared_ns, self.appeared_wall_s = _at(min(self.born_ns[1], time.monotonic_ns()))
        self.told_end_ns: int | None = None  # when the kernel says that it ended; we may have been woken up late
        self.ended_ns: int | None = None
        self.ended_wall_s = 0.0
        self.claims: dict[str, Status] = {}
        self.told = False
        self.disputed = False

    def end(self, noticed_ns: int | None = None) -> None:
        """It has ended: when the kernel says so, else when that was noticed, else just now. Never before it appeared,
        which is known to a tick only."""
        at_ns = self.told_end_ns or noticed_ns or time.monotonic_ns()
        self.ended_ns, self.ended_wall_s = _at(max(at_ns, self.appeared_ns))

    def claim(self, source: str, code: int | None, ended_by: int | None) -> None:
        """What a source says of how it ended; nothing is no claim."""
        if code is not None or ended_by is not None:
            self.claims.setdefault(source, (code, ended_by))

    def status(self) -> tuple[int | None, int | None, str]:
        """(code, signal, source) by the most trusted source that says anything."""
        for source in SOURCES:
            if source in self.claims:
                return (*self.claims[source], source)
        return None, None, "none"

    def dispute(self) -> str:
        """What the sources say where they say different things; else an empty text."""
        if len(set(self.claims.values())) < 2:
            return ""
        said = [(source, self.claims[source]) for source in SOURCES if source in self.claims]
        return ", ".join(f"{source} says {in_words(status)}" for source, status in said)

    def is_fork_of(self, other: Known) -> bool:
        """It runs what the other runs, because it was forked from it and never became another program: one that was
        started anew has at least its own environment, as ranks have."""
        mine, theirs = self.info, other.info
        same = (mine.command, mine.environment) == (theirs.command, theirs.environment)
        return same and bool(mine.command) and not self.executed


def in_words(status: Status) -> str:
    code, ended_by = status
    if ended_by is None:
        return f"code {code}"
    name = signal.Signals(ended_by).name if ended_by in signal.valid_signals() else str(ended_by)
    return f"signal {name}"


def born_between(life: Life) -> tuple[int, int]:
    """CLOCK_MONOTONIC between which it began: start ticks count on the clock that goes on in a suspended host."""
    offset_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    tick_ns = 1_000_000_000 // TICKS_PER_S
    first_ns = life.start_ticks * tick_ns - offset_ns
    return first_ns, first_ns + tick_ns


def start_ticks_at(t_ns: int) -> int:
    """The start ticks of a process that began then."""
    offset_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return (t_ns + offset_ns) * TICKS_PER_S // 1_000_000_000


def _at(t_ns: int | None) -> tuple[int, float]:
    """A moment on both clocks; None = now."""
    now_ns, wall_s = time.monotonic_ns(), time.time()
    return (now_ns, wall_s) if t_ns is None else (t_ns, wall_s - (now_ns - t_ns) / 1e9)
