"""The agent's state in one rank: what it writes, which orders it holds, when it acts on them.

Lives under NVRx's fire: asynchronous exceptions at any bytecode, forked monitors that inherit
descriptors. So: no lock on the training thread, `Exception` caught and never `BaseException`, one
`os.write` an event, no reference kept to frames, exceptions or tensors. When a write fails the agent
goes quiet and says so, if it still can; the checks that needed it are then unknown.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from chaos.agent.channel import Channel
from chaos.agent.nvrx_log import listen_to_nvrx
from chaos.agent.obey import Orders
from chaos.history.writer import Writer, life_of


class Agent:
    """One life of a rank. `reentry` counts how often it entered the training function again."""

    def __init__(self, writer: Writer, run: str, channel: Channel | None) -> None:
        self.pid = os.getpid()
        self.writer: Writer | None = writer
        self.run = run
        self.life = writer.life
        self.reentry = -1
        self.group: str | None = None
        self.rank = 0
        self.initial_rank = 0
        self.phase = ""
        self.step: int | None = None
        self.orders = Orders(self)
        self.channel = channel
        os.register_at_fork(after_in_child=self._forget_in_child)

    @classmethod
    def from_environment(cls) -> Agent:
        """Opens this life's history file; the control channel is opened once the rank is known."""
        folder = os.environ["NVRX_CHAOS_DIR"]
        writer = Writer(os.path.join(folder, "history"), "rank")
        address = os.environ.get("NVRX_CHAOS_SOCKET")
        channel = Channel(address, os.environ.get("NVRX_CHAOS_TOKEN", "")) if address else None
        return cls(writer, os.environ.get("NVRX_CHAOS_RUN", ""), channel)

    # what the job tells us

    def entered(
        self,
        *,
        rank: int,
        initial_rank: int,
        local_rank: int,
        world_size: int,
        settings: Mapping[str, Any],
        reported_restart: Mapping[str, Any],
    ) -> None:
        self.reentry += 1
        self.group, self.rank, self.initial_rank = None, rank, initial_rank
        # The phase that an interruption ended was not left at its exit: no order that waits there is due.
        self.phase, self.step = "", None
        self._identify()
        if self.reentry == 0:
            self._begin_life(local_rank, world_size, settings, reported_restart)
        else:
            self.emit("restart_entered", {"reported_restart": dict(reported_restart)})
        self.enter("init", None)

    def group_ready(self, store: Any, *, rank: int, world_size: int, backend: str) -> None:
        """Names the group: the first member that asks writes a random name into the group's own store."""
        name: str | None = None
        try:
            mine = secrets.token_hex(8)
            answer = store.compare_set("nvrx_chaos/group", "", mine)
            name = answer.decode() if isinstance(answer, bytes) else str(answer)
        except Exception as error:
            self.emit("source_blind", {"source": "group", "reason": f"the group's store gave no name: {error}"})
        self.group, self.rank = name, rank
        self._identify()
        self.emit("process_group_ready", {"world_size": world_size, "backend": backend})

    def enter(self, phase: str, step: int | None) -> None:
        if self.orders.held and self.phase:
            self.orders.reached("exit")
        self.phase, self.step = phase, step
        self._put("phase_entered", f',"phase":"{phase}","step":{"null" if step is None else step}}}')
        if self.orders.held:
            self.orders.reached("entry")

    def point(self, name: str) -> None:
        if self.orders.held:
            self.orders.reached(name)

    def step_returned(self) -> None:
        self._put("step_returned", f',"step":{"null" if self.step is None else self.step}}}')

    def step_done(self, step: int, loss: float, lr: float, grad_norm: float, samples: tuple[int, int]) -> None:
        try:
            tail = (
                f',"step":{step},"loss":"{float(loss).hex()}","lr":"{float(lr).hex()}",'
                f'"grad_norm":"{float(grad_norm).hex()}","samples":[{samples[0]},{samples[1]}]}}'
            )
        except Exception as error:
            self._go_quiet(error)
            return
        self._put("step_done", tail)
        self.enter("data", step + 1)

    def emit(self, kind: str, fields: Mapping[str, Any]) -> None:
        writer = self.writer
        if writer is None:
            return
        try:
            writer.write(kind, fields)
        except Exception as error:
            self._go_quiet(error)

    def finished(self, step: int) -> None:
        self.emit("rank_finished", {"step": step})
        if self.channel is not None:
            self.channel.close("the rank has finished")

    # inside

    def _put(self, kind: str, tail: str) -> None:
        writer = self.writer
        if writer is None:
            return
        try:
            writer.write_tail(kind, tail)
        except Exception as error:
            self._go_quiet(error)

    def _begin_life(
        self, local_rank: int, world_size: int, settings: Mapping[str, Any], reported: Mapping[str, Any]
    ) -> None:
        parent = os.getppid()
        self.emit(
            "rank_started",
            {
                "pid": self.pid,
                "ppid": parent,
                "launcher": life_of(parent),
                "local_rank": local_rank,
                "world_size": world_size,
                "reported_restart": dict(reported),
                "versions": _versions(),
            },
        )
        self.emit("settings_seen", {"settings": dict(settings)})
        listen_to_nvrx(self)
        if self.channel is not None:
            self.channel.open(self)

    def _identify(self) -> None:
        if self.writer is not None:
            self.writer.identify(reentry=self.reentry, group=self.group, rank=self.rank, initial_rank=self.initial_rank)

    def _go_quiet(self, error: Exception) -> None:
        writer, self.writer = self.writer, None
        self.orders.drop_all("the agent cannot write its history")
        if writer is None:
            return
        try:
            writer.write("source_blind", {"source": "rank", "reason": f"cannot write events: {error}"})
        except Exception:
            complain(f"agent of rank {self.rank} went quiet: {error}")
        try:
            writer.close()
        except OSError:
            pass  # the descriptor was taken from under us

    def _forget_in_child(self) -> None:
        """A forked child is a new, silent life: it must not hold our file or our channel."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()
        if self.channel is not None:
            self.channel.forget()
        self.orders.forget()


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "nvidia-resiliency-ext"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def complain(text: str) -> None:
    """The last resort, where the history cannot take it. A job without a standard error is not to feel it."""
    if sys.stderr is None:
        return  # print would take standard output instead
    try:
        print(f"nvrx-chaos: {text}", file=sys.stderr)
    except Exception:
        pass
