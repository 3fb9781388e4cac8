"""What a job left on this host: processes, shared memory, listening ports, temporary files.

Looks only. What could not be looked at is said (`unreadable`), never taken for empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from chaos.doors import ProcessReader
from chaos.model.identity import Life, ProcessInfo
from chaos.system import proc
from chaos.system.processes import DEAD_STATES, same_process, with_descendants
from chaos.system.sockets import tcp_sockets

SHARED_MEMORY = Path("/dev/shm")
FILES_NAMED_AT_MOST = 50
# torch and multiprocessing put the maker's pid into the name
_PID_IN_NAME = re.compile(r"^(?:torch_|pym-|sem\.loky-)(\d+)[_-]")


class Residue(msgspec.Struct, frozen=True, kw_only=True):
    """Each item names one thing left, for people. `unreadable` says what could not be looked at, and why."""

    processes: tuple[str, ...] = ()
    shared_memory: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    temporary_files: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        return not self.unreadable

    @property
    def nothing(self) -> bool:
        """Everything was looked at and nothing was found."""
        return self.readable and not (self.processes or self.shared_memory or self.ports or self.temporary_files)


def shared_memory_names(folder: Path = SHARED_MEMORY) -> frozenset[str]:
    """What lies there now: taken before the job starts, handed to `measure` after its end."""
    return frozenset(os.listdir(folder))


def measure(
    table: ProcessReader,
    *,
    mark: str,
    lives: Collection[Life],
    shared_memory_before: frozenset[str],
    temporary_folder: Path | None = None,
    shared_memory: Path = SHARED_MEMORY,
    since_ticks: int | None = None,
) -> Residue:
    """What the job with this mark, or whose lives these are, has left.

    `since_ticks` (boot ticks at the job's start) lets it say which later processes of our user hid their environment.
    """
    rows = list(table.snapshot())
    left = processes_left(rows, mark, lives)
    job_pids = {life.pid for life in lives} | {row.pid for row in left}
    unreadable: list[str] = []
    segments = _guarded(unreadable, "shared memory", lambda: _segments(shared_memory, shared_memory_before, job_pids))
    ports = _guarded(unreadable, "ports", lambda: [port for row in left for port in listening_ports(row.pid)])
    files = _guarded(unreadable, "temporary files", lambda: _files(temporary_folder))
    if since_ticks is not None:
        unreadable += _hidden(rows, since_ticks)
    return Residue(
        processes=tuple(_name(row) for row in left),
        shared_memory=tuple(segments),
        ports=tuple(ports),
        temporary_files=tuple(files),
        unreadable=tuple(unreadable),
    )


def processes_left(rows: Sequence[ProcessInfo], mark: str, lives: Collection[Life]) -> list[ProcessInfo]:
    """Running processes with the mark, of the given lives, or descended from either."""
    roots = {row.pid for row in rows if row.mark == mark or any(same_process(row.life, life) for life in lives)}
    mine = with_descendants(rows, roots)
    return [row for row in mine if row.state not in DEAD_STATES and row.pid != os.getpid()]


def listening_ports(pid: int, root: Path = proc.PROC) -> list[str]:
    """TCP ports that the process listens on; none when it has just ended. Raises OSError where that cannot be seen."""
    try:
        found = tcp_sockets(pid, root)
    except (FileNotFoundError, ProcessLookupError):
        return []
    addresses = [each.local for each in found if each.state == "LISTEN"]
    return [
        f"{'tcp6' if local.startswith('[') else 'tcp'} {local.rpartition(':')[2]} (pid {pid})" for local in addresses
    ]


def _guarded(unreadable: list[str], what: str, look: Callable[[], list[str]]) -> list[str]:
    try:
        return list(look())
    except OSError as problem:
        unreadable.append(f"{what}: {problem}")
        return []


def _segments(folder: Path, before: frozenset[str], job_pids: Collection[int]) -> list[str]:
    """New entries of our user that no process outside the job uses or has named with its own pid."""
    mine = []
    for name in sorted(set(os.listdir(folder)) - before):
        try:
            owner = (folder / name).lstat().st_uid
        except FileNotFoundError:
            continue
        maker = _PID_IN_NAME.match(name)
        if owner == os.getuid() and (maker is None or int(maker[1]) in job_pids):
            mine.append(name)
    if not mine:
        return []
    used_by_others = _names_in_use(folder, (pid for pid in proc.pids() if pid not in job_pids))
    return [name for name in mine if name not in used_by_others]


def _names_in_use(folder: Path, pids: Iterable[int]) -> set[str]:
    prefix = f"{folder}/"
    names = set()
    for pid in pids:
        for path in (*_open_files(pid, proc.PROC), *_mapped_files(pid)):
            if path.startswith(prefix):
                names.add(path[len(prefix) :].split("/")[0].removesuffix(" (deleted)"))
    return names


def _mapped_files(pid: int) -> list[str]:
    try:
        lines = (proc.PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6]


def _open_files(pid: int, root: Path) -> list[str]:
    folder = root / str(pid) / "fd"
    links = []
    try:
        numbers = os.listdir(folder)
    except OSError:
        return []
    for number in numbers:
        try:
            links.append(os.readlink(folder / number))
        except OSError:
            continue  # closed meanwhile
    return links


def _files(folder: Path | None) -> list[str]:
    if folder is None or not folder.exists():
        return []
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    more = len(found) - FILES_NAMED_AT_MOST
    return found if more <= 0 else [*found[:FILES_NAMED_AT_MOST], f"and {more} more"]


def _hidden(rows: Iterable[ProcessInfo], since_ticks: int) -> list[str]:
    """Processes of our user, begun since, whose environment is closed to us: they might be the job's."""
    return [
        f"environment of {_name(row)}"
        for row in rows
        if row.life.start_ticks >= since_ticks
        and row.state not in DEAD_STATES
        and proc.owner(row.pid) == os.getuid()
        and proc.environment(row.pid) is None
        and proc.read_stat(row.pid) is not None
    ]


def _name(row: ProcessInfo) -> str:
    return f"pid {row.pid}: {' '.join(row.command)[:120] or 'no command line'}"
