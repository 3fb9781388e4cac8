"""Memory of the job's processes, and whom the kernel killed for want of it. Reads only; None = could not be read."""

from __future__ import annotations

from pathlib import Path

from chaos.model.identity import Life
from chaos.system import cgroups, proc


class Memory:
    """Figures of this host."""

    def __init__(self, root: Path = proc.PROC) -> None:
        self._root = root

    def rss_bytes(self, life: Life) -> int | None:
        """Resident memory of that very life."""
        stat = proc.read_stat(life.pid, self._root)
        return stat.rss_bytes if stat is not None and stat.start_ticks == life.start_ticks else None

    def oom_kills(self) -> int | None:
        """Processes killed for want of memory since boot, on the whole host and in any cgroup of it."""
        try:
            for line in (self._root / "vmstat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        except (OSError, ValueError):
            return None
        return None

    def cgroup(self, life: Life) -> tuple[int | None, int | None]:
        """(bytes, OOM kills) of the memory cgroup that this life is in, where that is not ours as well."""
        found = cgroups.of_its_own(life.pid, self._root)
        return (None, None) if found is None else (found.bytes(), found.oom_kills())
