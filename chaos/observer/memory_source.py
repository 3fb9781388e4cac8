"""Samples the memory of the ranks, of the job's cgroup, and how often the kernel killed for want of memory."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Protocol

from chaos.history.writer import Writer
from chaos.model.identity import Life
from chaos.observer.machine_source import SAMPLE_S


class MemoryReader(Protocol):
    """Figures of this host. None = could not be read."""

    def rss_bytes(self, life: Life) -> int | None: ...

    def oom_kills(self) -> int | None:
        """Of the whole host, cumulative."""

    def cgroup(self, life: Life) -> tuple[int | None, int | None]:
        """(bytes, OOM kills so far) of the cgroup of that life, where it has one of its own."""


class MemorySource:
    """`step(rank_lives, launcher)` writes one sample when one is due. What cannot be read is null, never zero."""

    def __init__(self, reader: MemoryReader, writer: Writer) -> None:
        self._reader, self._writer = reader, writer
        self._due = 0.0

    def step(self, rank_lives: Collection[Life], launcher: Life | None) -> None:
        """The job's cgroup is the launcher's: what it starts is born there."""
        now = time.monotonic()
        if launcher is None or now < self._due:
            return
        self._due = now + SAMPLE_S
        cgroup_bytes, cgroup_oom_kills = self._reader.cgroup(launcher)
        self._writer.write_about(
            "memory_measured",
            {
                "rss_bytes": {life.id: self._reader.rss_bytes(life) for life in rank_lives},
                "cgroup_bytes": cgroup_bytes,
                "oom_kills": self._reader.oom_kills(),
                "cgroup_oom_kills": cgroup_oom_kills,
            },
            life=None,
        )
