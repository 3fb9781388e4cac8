"""Samples what the machine withheld from the job: steal, CPU used by others, run delay of the ranks."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Protocol

from chaos.history.writer import Writer
from chaos.model.identity import Life

SAMPLE_S = 0.5


class MachineReader(Protocol):
    """Cumulative figures of this host, in seconds since any fixed moment. None = could not be read."""

    def steal_s(self) -> float | None: ...

    def foreign_cpu_s(self, ours: Iterable[int]) -> float | None:
        """CPU time used by processes outside `ours` (pids of the job, and of this framework)."""

    def run_delay_s(self, life: Life) -> float | None:
        """How long the threads of that life waited for a CPU, all together."""


class MachineSource:
    """`step(rank_lives, ours)` writes one sample when one is due. A sample that cannot be read is left out:
    an unread sample excuses nothing."""

    def __init__(self, reader: MachineReader, writer: Writer) -> None:
        self._reader, self._writer = reader, writer
        self._due = 0.0

    def step(self, rank_lives: Collection[Life], ours: Iterable[int]) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + SAMPLE_S
        steal, foreign = self._reader.steal_s(), self._reader.foreign_cpu_s(ours)
        if steal is None or foreign is None:
            return
        delays = {life.id: self._reader.run_delay_s(life) for life in rank_lives}
        self._writer.write_about(
            "machine_measured",
            {
                "steal_s": round(steal, 4),
                "foreign_cpu_s": round(foreign, 4),
                "run_delay_s": {life: round(delay, 6) for life, delay in delays.items() if delay is not None},
            },
            life=None,
        )
