"""The process table of this host, and signals to one exact process of a job of ours.

Reads /proc itself: identity must be exact to the tick. Start ticks are as this process's own time namespace
shows them. Undo and residue, which work on whole jobs, are in files of their own.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.doors import ProcessReader
from chaos.errors import Refused, TargetGone
from chaos.model.identity import Life, ProcessInfo
from chaos.system import proc

MARK = "NVRX_CHAOS_RUN"  # in the environment of every process of a job that we started; its value is the run id
DEAD_STATES = "ZX"


def same_process(one: Life, other: Life) -> bool:
    """Whether two records mean one process. The namespace may have been unreadable for one of them, so it is left out:
    boot, pid and start ticks as seen from here already name one process only."""
    return (one.boot_id, one.pid, one.start_ticks) == (other.boot_id, other.pid, other.start_ticks)


class ProcessTable:
    """`doors.ProcessReader` over /proc."""

    def __init__(self, root: Path = proc.PROC) -> None:
        self._root = root
        self._boot_id = proc.boot_id(root)
        self._own_namespace = proc.pid_namespace("self", root) or 0
        # Neither changes while a process lives, and both cost a file each: kept by pid and start ticks.
        self._inside: dict[tuple[int, int], tuple[int, int]] = {}

    def pids(self) -> Sequence[int]:
        """Every pid there is now."""
        return proc.pids(self._root)

    def snapshot(self) -> Sequence[ProcessInfo]:
        """Every process that can be read now."""
        found = [info for pid in self.pids() if (info := self.info(pid)) is not None]
        present = {(info.pid, info.life.start_ticks) for info in found}
        self._inside = {key: value for key, value in self._inside.items() if key in present}
        return found

    def info(self, pid: int) -> ProcessInfo | None:
        """One process, or None when there is none of that pid, or it ended while it was read."""
        before = proc.read_stat(pid, self._root)
        if before is None:
            return None
        life = self._life(before)
        environment = proc.environment(pid, self._root) or {}
        command = proc.command_line(pid, self._root)
        after = proc.read_stat(pid, self._root)
        if after is None or after.start_ticks != before.start_ticks:
            return None  # what was read in between may be another process's
        return ProcessInfo(
            life=life,
            ppid=after.ppid,
            state=proc.true_state(after, self._root),
            command=command,
            mark=environment.get(MARK),
            environment=environment,
            name=after.name,
            session=after.session,
        )

    def life(self, pid: int) -> Life | None:
        """The life that has this pid now."""
        stat = proc.read_stat(pid, self._root)
        return None if stat is None else self._life(stat)

    def is_alive(self, life: Life) -> bool:
        """Whether this very life still runs (a zombie does not)."""
        return self._state(life) not in (None, *DEAD_STATES)

    def is_stopped(self, life: Life) -> bool | None:
        """Whether it is in state T; None when it is gone."""
        state = self._state(life)
        return None if state is None or state in DEAD_STATES else state == "T"

    def _state(self, life: Life) -> str | None:
        stat = proc.read_stat(life.pid, self._root)
        if stat is None or stat.start_ticks != life.start_ticks or life.boot_id != self._boot_id:
            return None
        return proc.true_state(stat, self._root)

    def _life(self, stat: proc.Stat) -> Life:
        key = (stat.pid, stat.start_ticks)
        if key not in self._inside:
            namespace = proc.pid_namespace(stat.pid, self._root) or self._own_namespace
            self._inside[key] = (namespace, proc.innermost_pid(stat.pid, self._root))
        namespace, pid_inside = self._inside[key]
        return Life(
            boot_id=self._boot_id,
            pid_namespace=namespace,
            pid_inside=pid_inside,
            pid=stat.pid,
            start_ticks=stat.start_ticks,
        )


def this_life() -> Life:
    """The life of the calling process."""
    life = ProcessTable().life(os.getpid())
    assert life is not None, "a process can always read itself"
    return life


def with_descendants(infos: Iterable[ProcessInfo], roots: Collection[int]) -> list[ProcessInfo]:
    """The processes whose pid is in `roots`, and all that descend from them, in the table's order."""
    rows = list(infos)
    children: dict[int, list[int]] = {}
    for row in rows:
        children.setdefault(row.ppid, []).append(row.pid)
    wanted: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in wanted:
            wanted.add(pid)
            todo.extend(children.get(pid, ()))
    return [row for row in rows if row.pid in wanted]


def protected_pids(table: ProcessReader) -> frozenset[int]:
    """Whom we never harm, whatever proves that it is ours: pid 1, ourselves, our ancestors."""
    return frozenset({1, os.getpid(), *_ancestors(table, os.getpid())})


class PidfdKiller:
    """`doors.ProcessKiller`: one signal to one life, or none at all."""

    def __init__(self, table: ProcessReader) -> None:
        self._table = table

    def send(self, life: Life, signal_number: int, *, mark: str, family: Collection[Life] = ()) -> None:
        """Raises TargetGone when it is not that life any more, Refused when nothing proves that it is ours.

        `family`: lives already proven to be of that job; they and their children need no mark of their own.
        """
        with _pidfd(life) as handle:
            info = self._identified(life)
            self._prove(info, mark, family)
            self._deliver(handle, life, signal_number)

    def resume(self, life: Life) -> None:
        """SIGCONT to exactly this life. Needs no proof: it is only ever sent to a life that we stopped ourselves."""
        with _pidfd(life) as handle:
            self._identified(life)
            self._deliver(handle, life, signal.SIGCONT)

    def _identified(self, life: Life) -> ProcessInfo:
        # The handle is open by now, so a pid that is reused from here on cannot receive the signal.
        info = self._table.info(life.pid)
        if info is None or not same_process(info.life, life) or info.state in DEAD_STATES:
            raise TargetGone(f"pid {life.pid} is not the process that was chosen any more ({life.id}); no signal sent")
        return info

    def _prove(self, info: ProcessInfo, mark: str, family: Collection[Life]) -> None:
        who = f"pid {info.pid} ({' '.join(info.command)[:60] or 'no command line'})"
        if not mark:
            raise Refused(f"{who} was not signalled: no run was named that it could belong to")
        if info.pid in protected_pids(self._table):
            raise Refused(f"{who} was not signalled: it is this process, one of its ancestors, or pid 1")
        if info.mark is not None:
            if info.mark != mark:
                raise Refused(f"{who} was not signalled: it belongs to run {info.mark}, not to {mark}")
            return
        if not (self._is_family(info, family) or self._descends_from_marked(info, mark)):
            raise Refused(f"{who} was not signalled: nothing proves that it belongs to run {mark}")

    def _is_family(self, info: ProcessInfo, family: Collection[Life]) -> bool:
        if any(same_process(info.life, member) for member in family):
            return True
        parent = self._table.info(info.ppid)
        return parent is not None and any(same_process(parent.life, member) for member in family)

    def _descends_from_marked(self, info: ProcessInfo, mark: str) -> bool:
        for pid in _ancestors(self._table, info.pid):
            ancestor = self._table.info(pid)
            # The nearest marked ancestor decides: a job inside a job belongs to the inner run.
            if ancestor is not None and ancestor.mark is not None:
                return ancestor.mark == mark
        return False

    def _deliver(self, handle: int, life: Life, signal_number: int) -> None:
        try:
            signal.pidfd_send_signal(handle, signal_number)
        except ProcessLookupError:
            raise TargetGone(f"pid {life.pid} ended before it could be signalled ({life.id})") from None
        except PermissionError:
            raise Refused(
                f"pid {life.pid} may not be signalled by this user", remedy="run as the user that owns the job"
            ) from None


def _ancestors(table: ProcessReader, pid: int) -> Iterator[int]:
    seen = {pid, 0}
    info = table.info(pid)
    while info is not None and info.ppid not in seen:
        yield info.ppid
        seen.add(info.ppid)
        info = table.info(info.ppid)


@contextmanager
def _pidfd(life: Life) -> Iterator[int]:
    try:
        handle = os.pidfd_open(life.pid)
    except OSError as problem:
        if problem.errno == errno.ESRCH:
            raise TargetGone(f"there is no process {life.pid} any more ({life.id})") from None
        raise Refused(f"no handle on pid {life.pid}: {problem.strerror}", remedy="nvrx-chaos doctor") from None
    try:
        yield handle
    finally:
        os.close(handle)
