"""Who a process is: life, role, and what proves that it is ours."""

from __future__ import annotations

import msgspec

from chaos.model.events import life_id


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process for as long as it lives; `pid` is the host's view, `pid_inside` its namespace's."""

    boot_id: str
    pid_namespace: int
    pid_inside: int
    pid: int
    start_ticks: int

    @property
    def id(self) -> str:
        """The text form that events carry."""
        return life_id(self.boot_id, self.pid_namespace, self.pid_inside, self.start_ticks)


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the process table. `mark` is the value of NVRX_CHAOS_RUN in its environment, if readable.
    `name` is what the process calls itself (/proc/PID/comm), `session` the pid that leads its session; 0 = not known.
    """

    life: Life
    ppid: int
    state: str
    command: tuple[str, ...]
    mark: str | None
    environment: dict[str, str]
    name: str = ""
    session: int = 0

    @property
    def pid(self) -> int:
        return self.life.pid
