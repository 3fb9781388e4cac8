"""A writer that remembers, a process table, exits and the kernel's news moved by hand."""

from __future__ import annotations

import time
from types import SimpleNamespace

from chaos.model.events import Event
from chaos.model.identity import Life, ProcessInfo
from chaos.observer.known import born_between

MARK = "run-7"


def life(pid, start_ticks=None):
    return Life(boot_id="0123456789ab", pid_namespace=4, pid_inside=pid, pid=pid, start_ticks=start_ticks or pid * 10)


def ended(code=None, signal=None, source="pidfd"):
    return SimpleNamespace(code=code, signal=signal, source=source)


class FakeWriter:
    def __init__(self):
        self.events = []

    def write_about(self, kind, fields, *, life, rank=None, group=None, t_ns=None, wall_s=None):
        self.events.append((kind, {**fields, "life": life, "header_rank": rank, "t_ns": t_ns, "wall_s": wall_s}))

    def of(self, kind):
        return [fields for name, fields in self.events if name == kind]

    def kinds(self):
        return [kind for kind, _ in self.events]


class Now:
    """Time that stands still until it is advanced."""

    def __init__(self, monkeypatch):
        self.ns = time.monotonic_ns()
        monkeypatch.setattr("time.monotonic", lambda: self.ns / 1e9)
        monkeypatch.setattr("time.monotonic_ns", lambda: self.ns)
        monkeypatch.setattr("time.clock_gettime_ns", lambda clock: self.ns)  # a host that never slept

    def advance(self, seconds):
        self.ns += int(seconds * 1e9) + 1


class FakeNews:
    """What the kernel tells (`NewsReader`), put in by hand. Births are told at the life's own start ticks."""

    def __init__(self):
        self._told, self.closed = [], False

    def forked(self, parent, pid, *, start_ticks=None):
        t_ns = born_between(life(pid, start_ticks))[0] + 1
        self._tell("forked", t_ns, pid, parent=parent)
        return t_ns

    def executed(self, pid):
        self._tell("executed", time.monotonic_ns(), pid)

    def ended(self, pid, *, code=None, signal=None):
        t_ns = time.monotonic_ns()
        self._tell("ended", t_ns, pid, code=code, signal=signal)
        return t_ns

    def lost(self):
        self._tell("lost", 0, 0)

    def _tell(self, kind, t_ns, pid, *, parent=0, code=None, signal=None):
        self._told.append(SimpleNamespace(kind=kind, t_ns=t_ns, pid=pid, parent=parent, code=code, signal=signal))

    def drain(self):
        told, self._told = self._told, []
        return told

    def close(self):
        self.closed = True


def told(kind, who=None, *, at_ns=None, **data):
    """An event of the job's own, as the session hands it on."""
    t_ns = time.monotonic_ns() if at_ns is None else at_ns
    return Event(t_ns=t_ns, wall_s=0.0, kind=kind, life=None if who is None else who.id, data=data)


class FakeHost:
    """Process table (`ProcessReader`) and ends (`ExitReader`) in one."""

    def __init__(self):
        self.rows, self._ends, self.unwatchable, self.closed = {}, {}, set(), False

    def add(
        self, pid, *, ppid=1, mark=MARK, command="python", start_ticks=None, name="python", session=0, **environment
    ):
        """`command` empty: a process that is ending."""
        who = life(pid, start_ticks)
        words = (command, "x.py") if command else ()
        self.rows[pid] = ProcessInfo(
            life=who, ppid=ppid, state="S", command=words, mark=mark, environment=environment, name=name,
            session=session or pid,
        )  # fmt: skip
        return who

    def end(self, pid, **how):
        who = self.rows.pop(pid).life
        if pid not in self.unwatchable:
            self._ends[who] = ended(**how)

    def pids(self):
        return list(self.rows)

    def info(self, pid):
        return self.rows.get(pid)

    def is_alive(self, who):
        return who.pid in self.rows and self.rows[who.pid].life == who

    def watch(self, who):
        return who.pid not in self.unwatchable

    def poll(self, timeout_s=0.0):
        ends, self._ends = self._ends, {}
        return ends

    def close(self):
        self.closed = True
