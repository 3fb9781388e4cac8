"""A writer that remembers, a process table and exits moved by hand."""

from __future__ import annotations

from types import SimpleNamespace

from chaos.model.identity import Life, ProcessInfo

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


class FakeHost:
    """Process table (`ProcessReader`) and ends (`ExitReader`) in one."""

    def __init__(self):
        self.rows, self._ends, self.unwatchable, self.closed = {}, {}, set(), False

    def add(self, pid, *, ppid=1, mark=MARK, command="python", start_ticks=None, **environment):
        who = life(pid, start_ticks)
        self.rows[pid] = ProcessInfo(
            life=who, ppid=ppid, state="S", command=(command, "x.py"), mark=mark, environment=environment
        )
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
