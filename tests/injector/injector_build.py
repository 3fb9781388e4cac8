"""One run's injector on fakes that share one log: in which order it spoke, wrote down and harmed."""

from __future__ import annotations

from chaos.errors import TargetGone
from chaos.faults.catalogue import BY_NAME
from chaos.injector.injector import Injector
from chaos.injector.server import Reached
from chaos.model.events import Event
from chaos.model.identity import Life, ProcessInfo
from chaos.model.plan import At, FaultPlan, JobPlan, LimitsPlan, Plan
from chaos.model.undo import Undone

MARK = "run-7"


def life(pid):
    return Life(boot_id="0123456789ab", pid_namespace=4, pid_inside=pid, pid=pid, start_ticks=pid * 10)


FIRST, SECOND, OTHER = life(500), life(600), life(501)


def fault(name="kill", kind="process.kill", ranks=(1,), at=None, lasts_s=None, **params):
    if kind == "process.kill":
        params.setdefault("signal", "KILL")
    return FaultPlan(
        name=name,
        fault=kind,
        params=params,
        ranks=ranks,
        at=at or At(step=47, phase="backward", point="in_collective"),
        lasts_s=lasts_s,
        ends=BY_NAME[kind].ends,
    )


def hang(**kwargs):
    return fault("hang", "process.hang", **kwargs)


class FakeRanks:
    """The rank server as the injector sees it."""

    def __init__(self, log):
        self.log, self.connected, self.orders = log, {FIRST.id: 1, OTHER.id: 0}, []
        self.cancelled, self.answered, self.withdrawn = [], [], set()

    def send_order(self, order):
        if order.life not in self.connected:
            raise TargetGone(f"process {order.life} is not connected any more")
        self.log.append(("order", order.verb))
        self.orders.append(order)

    def cancel(self, life, order_id):
        self.cancelled.append((life, order_id))

    def answer(self, reached):
        self.log.append(("answer", reached.order_id))
        self.answered.append(reached.order_id)

    def was_withdrawn(self, reached):
        return reached.order_id in self.withdrawn

    def connected_lives(self):
        return dict(self.connected)


class FakeGuard:
    """A ledger in memory. `fails` is raised by the next intents."""

    def __init__(self, log):
        self.log, self.intents, self.undone, self.closed = log, {}, [], {}
        self.fails = None
        self.results = []

    def intend(self, undo, fault=None, limit_s=None):
        if self.fails is not None:
            raise self.fails
        self.log.append(("intend", undo.verb))
        entry = f"e{len(self.intents)}"
        self.intents[entry] = (undo, fault, limit_s)
        return entry

    def undo(self, entry, *, silent_since_ns=None):
        self.silent_since_ns = silent_since_ns
        self.log.append(("undo", self.intents[entry][0].verb))
        result = self.results.pop(0) if self.results else Undone(how="done", measured=True)
        if isinstance(result, Exception):
            raise result
        self.undone.append(entry)
        return result

    def close_entry(self, entry, how="done"):
        self.closed[entry] = how

    def open_of(self, verb):
        over = {*self.closed, *self.undone}
        return [entry for entry, (undo, *_) in self.intents.items() if undo.verb == verb and entry not in over]


class FakeKiller:
    def __init__(self, log):
        self.log, self.sent, self.fails, self.takes_s, self.time = log, [], None, 0.0, None

    def send(self, life, signal_number, *, mark):
        if self.fails is not None:
            raise self.fails
        self.log.append(("signal", int(signal_number)))
        self.sent.append((life.id, int(signal_number), mark))
        if self.time is not None:
            self.time.advance(self.takes_s)


class FakeReader:
    def __init__(self):
        self.processes = {each.pid: each for each in (FIRST, SECOND, OTHER)}
        self.stopped = True

    def info(self, pid):
        found = self.processes.get(pid)
        if found is None:
            return None
        return ProcessInfo(life=found, ppid=1, state="S", command=("python",), mark=MARK, environment={})

    def is_stopped(self, life):
        return self.stopped

    def is_alive(self, life):
        return self.processes.get(life.pid) == life


class FakeWriter:
    def __init__(self, log):
        self.log, self.events, self.fails_on = log, [], {}

    def write_about(self, kind, fields, *, life, rank=None, group=None, t_ns=None, wall_s=None):
        if kind in self.fails_on:
            raise self.fails_on[kind]
        self.log.append(("say", kind))
        self.events.append((kind, {"life": life, "header_rank": rank, **fields}))

    def of(self, kind):
        return [fields for name, fields in self.events if name == kind]


class Time:
    """CLOCK_MONOTONIC, moved by hand."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("time.monotonic_ns", lambda: int(self.now * 1e9))

    def advance(self, seconds):
        self.now += seconds


class Run:
    """The injector of one plan, and all it was handed."""

    def __init__(self, *faults, time, **limits):
        self.log, self.time = [], time
        self.ranks, self.guard = FakeRanks(self.log), FakeGuard(self.log)
        self.killer, self.reader, self.writer = FakeKiller(self.log), FakeReader(), FakeWriter(self.log)
        plan = Plan(scenario="s", job=JobPlan(run="trainer"), faults=faults, limits=LimitsPlan(**limits))
        self.injector = Injector(
            plan,
            ranks=self.ranks,
            guard=self.guard,
            killer=self.killer,
            reader=self.reader,
            writer=self.writer,
            mark=MARK,
        )

    def steady(self, *names):
        """Everything armed by the experiment, the job steady, one look."""
        self.injector.steady_state_met()
        for shot in self.injector.shots:
            if not names or shot.plan.name in names:
                self.injector.arm(shot.plan.name)
        self.injector.tick()
        return self

    def ticks(self, count=3):
        for _ in range(count):
            self.injector.tick()

    def states(self):
        return [shot.state for shot in self.injector.shots]

    def event(self, kind, of=FIRST, rank=1, **data):
        """An event of the history, read by the pump."""
        event = Event(
            t_ns=int(self.time.now * 1e9),
            wall_s=0.0,
            kind=kind,
            life=of.id,
            reentry=0,
            rank=rank,
            initial_rank=rank,
            data=data,
            file="rank.jsonl",
            line=1,
        )
        self.injector.on_event(event)
        return event

    def fired(self, index=-1, **where):
        """The rank says that its order fired."""
        order = self.ranks.orders[index]
        return self.event(
            "fault_fired",
            fault=order.fault,
            order_id=order.order_id,
            verb=order.verb,
            pid=FIRST.pid,
            **{"step": 47, "phase": "backward", "point": "in_collective", **where},
        )

    def gone(self, of=FIRST, *, lives_on=False):
        self.ranks.connected.pop(of.id, None)
        if not lives_on:
            del self.reader.processes[of.pid]
        self.injector.on_gone(of.id)

    def reached(self, index=-1, at=None):
        order = self.ranks.orders[index]
        reached = Reached(order.order_id, FIRST, 47, "backward", "in_collective", at=at)
        self.injector.on_reached(reached)
        return reached
