"""Protocols of everything outside: read-only doors apart from harmful ones.

The observer is handed `ProcessReader`; only the injector and the guard get a `ProcessKiller`.
`system/` makes them real; tests hand in fakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from chaos.model.identity import Life, ProcessInfo
from chaos.model.orders import Order


class ProcessReader(Protocol):
    """Reads the process table."""

    def pids(self) -> Sequence[int]:
        """Every pid there is now: cheap, for looking often."""

    def snapshot(self) -> Sequence[ProcessInfo]:
        """Every process that can be read now."""

    def info(self, pid: int) -> ProcessInfo | None:
        """One process, or None when there is none of that pid."""

    def is_alive(self, life: Life) -> bool:
        """Whether this very life still runs (a zombie does not)."""

    def is_stopped(self, life: Life) -> bool | None:
        """Whether it is in state T; None when it is gone."""


class Ended(Protocol):
    """How a process ended: at most one of code and signal is set; source child | pidfd | none."""

    @property
    def code(self) -> int | None: ...

    @property
    def signal(self) -> int | None: ...

    @property
    def source(self) -> str: ...


class ExitReader(Protocol):
    """Tells how processes ended, those that are not our children too."""

    def watch(self, life: Life) -> bool:
        """False when that life has ended already: its status can no longer be learnt."""

    def poll(self, timeout_s: float = 0.0) -> Mapping[Life, Ended]:
        """The lives that ended since the last call, each told once; waits at most `timeout_s` for the first."""

    def close(self) -> None: ...


class News(Protocol):
    """What the kernel told as it happened. `kind`: forked (`pid` is new, `parent` made it), executed, ended, or lost:
    it told more than was taken, so anything may have been missed before that."""

    @property
    def kind(self) -> str: ...

    @property
    def t_ns(self) -> int: ...

    @property
    def pid(self) -> int: ...

    @property
    def parent(self) -> int: ...

    @property
    def code(self) -> int | None: ...

    @property
    def signal(self) -> int | None: ...


class NewsReader(Protocol):
    """Tells of every process that came or went, however short its life. Not every host lets us ask."""

    def drain(self) -> Sequence[News]:
        """What was told since the last call, in its order; never waits."""

    def close(self) -> None: ...


class CheckpointLook(Protocol):
    """What one checkpoint looked like from outside. `problem`: empty = whole by its own manifest.
    `verified`: every byte was compared; False = too large for that, only names and sizes were."""

    @property
    def step(self) -> int: ...

    @property
    def path(self) -> str: ...

    @property
    def files(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def problem(self) -> str: ...

    @property
    def verified(self) -> bool: ...


class CheckpointReader(Protocol):
    """Looks into the checkpoint folder of a job, read-only. Both raise OSError where it cannot be read."""

    def look(self, step: int) -> CheckpointLook | None:
        """The checkpoint after that many steps; None when the job took it away meanwhile."""

    def steps(self) -> Sequence[int]:
        """Of all that are in place now."""


class Offers(Protocol):
    """Which sources of evidence this host has; an empty text = offered, else why not."""

    @property
    def pidfd_info(self) -> str: ...

    @property
    def connector(self) -> str: ...

    @property
    def run_delay(self) -> str: ...

    @property
    def oom_kills(self) -> str: ...

    @property
    def cgroup(self) -> str:
        """The version that counts memory: v1 or v2; empty = none does."""


class ProcessKiller(Protocol):
    """Sends signals, to one exact life only."""

    def send(self, life: Life, signal_number: int, *, mark: str) -> None:
        """Through a pidfd opened before identity and mark are checked. Raises TargetGone when it is not that
        life any more, Refused when nothing proves that it is ours."""


class Ranks(Protocol):
    """Orders to ranks."""

    def send_order(self, order: Order) -> None:
        """Raises TargetGone when that life is not connected."""

    def connected_lives(self) -> dict[str, int]:
        """life -> initial rank of every rank that said hello and is still there."""
