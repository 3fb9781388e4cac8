"""Small builders for the faults' tests: a firing, the events after it, a process, doors that remember."""

from __future__ import annotations

from chaos.model.events import Event
from chaos.model.identity import Life

VICTIM = Life(boot_id="0123456789ab", pid_namespace=1, pid_inside=500, pid=500, start_ticks=77)
PEER = Life(boot_id="0123456789ab", pid_namespace=1, pid_inside=501, pid=501, start_ticks=78)


def event(kind, at_s, life=VICTIM, reentry=0, group="g0", line=1, **data):
    return Event(
        t_ns=int(at_s * 1e9),
        wall_s=at_s,
        kind=kind,
        life=life.id,
        reentry=reentry,
        group=group,
        rank=1,
        initial_rank=1,
        data=data,
        file="history/some.jsonl",
        line=line,
    )


def fired(verb="signal_self", step=57, at_s=10.0, life=VICTIM):
    return event("fault_fired", at_s, life, fault="kill", verb=verb, step=step, phase="backward", pid=life.pid)


def step_done(step, at_s, **header):
    return event("step_done", at_s, step=step, **header)


def exited(at_s, *, code=None, signal=None, source="child", life=VICTIM):
    return event("process_exited", at_s, life, None, None, pid=life.pid, code=code, signal=signal, source=source)


class FakeHost:
    """A killer and a reader over two processes; SIGSTOP and SIGCONT do what they do."""

    def __init__(self):
        self.sent = []
        self.state = {VICTIM.id: "S", PEER.id: "S"}

    def send(self, life, signal_number, *, mark):
        self.sent.append((life.id, signal_number, mark))
        self.state[life.id] = {19: "T", 18: "S"}.get(int(signal_number))

    def is_stopped(self, life):
        state = self.state.get(life.id)
        return None if state is None else state == "T"

    def carry_out(self, undo):
        """What the undo verb `resume_process` does on a real host."""
        assert undo.verb == "resume_process"
        life = Life(**undo.args["life"])
        if self.state.get(life.id) == "T":
            self.state[life.id] = "S"
