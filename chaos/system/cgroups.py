"""Which memory cgroup a process is in, version 1 or 2, and what it counts. Reads only.

None = there is no such cgroup, or it cannot be read; never zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from chaos.system import proc


class MemoryCgroup(NamedTuple):
    """`folder`: where its files are. `version`: v1 | v2."""

    version: str
    folder: Path

    def bytes(self) -> int | None:
        """What its processes and their page cache use now."""
        return _number(self.folder / ("memory.usage_in_bytes" if self.version == "v1" else "memory.current"))

    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory."""
        name = "memory.oom_control" if self.version == "v1" else "memory.events"
        for line in _lines(self.folder / name):
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdecimal():
                return int(value)
        return None


def memory_cgroup(pid: int | str, root: Path = proc.PROC) -> MemoryCgroup | None:
    """Version 1 where that counts memory, else version 2, as on hosts that have both."""
    found: dict[str, str] = {}
    for line in _lines(root / str(pid) / "cgroup"):
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if "memory" in controllers.split(","):
            found["v1"] = path
        elif path and not controllers:
            found["v2"] = path
    for version in ("v1", "v2"):
        folder = _mounted(version, found[version], root) if version in found else None
        if folder is not None:
            return MemoryCgroup(version, folder)
    return None


def of_its_own(pid: int, root: Path = proc.PROC) -> MemoryCgroup | None:
    """The process's memory cgroup, unless it is ours too: what is counted there is then not that process's alone."""
    theirs = memory_cgroup(pid, root)
    return None if theirs is None or theirs == memory_cgroup("self", root) else theirs


def _mounted(version: str, path: str, root: Path) -> Path | None:
    """The folder of a cgroup under the mount that shows it."""
    for line in _lines(root / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        mount, kind = before.split(), after.split()
        if len(mount) < 5 or len(kind) < 3 or kind[0] != ("cgroup" if version == "v1" else "cgroup2"):
            continue
        if version == "v1" and "memory" not in kind[2].split(","):
            continue
        # A container may be shown only its own part of the tree.
        inside = Path(path)
        if inside.is_relative_to(mount[3]):
            return Path(mount[4]) / inside.relative_to(mount[3])
    return None


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
