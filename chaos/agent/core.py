"""The agent's state in one rank: what it writes, which orders it holds, when it acts on them.

Lives under NVRx's fire: asynchronous exceptions at any bytecode, forked monitors that inherit
descriptors. So: no lock on the training thread, `Exception` caught and never `BaseException`, no
reference kept to frames, exceptions or tensors. When a write fails the agent goes quiet and says so, if
it still can; the checks that needed it are then unknown. Writing is `recorder.py`'s.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from chaos.agent.channel import Channel
from chaos.agent.evidence import offer_stacks
from chaos.agent.nvrx_log import listen_to_nvrx
from chaos.agent.obey import Orders
from chaos.agent.recorder import SETTLE_S, Recorder
from chaos.agent.voice import complain
from chaos.history.writer import Writer, life_of


class Agent:
    """One life of a rank. `reentry` counts how often it entered the training function again."""

    def __init__(self, writer: Writer, run: str, channel: Channel | None) -> None:
        self.pid = os.getpid()
        self.orders = Orders(self)
        self._writer = writer
        self._recorder = Recorder(writer, self._go_quiet, in_haste=self._holds_orders)
        self.recorder: Recorder | None = self._recorder  # None: the agent is quiet
        self.run = run
        self.life = writer.life
        self.reentry = -1
        self.group: str | None = None
        self.rank = 0
        self.initial_rank = 0
        self.phase = ""
        self.step: int | None = None  # of the phase: that of a checkpoint is the number of steps it holds
        self.training: int | None = None  # the step that is trained, also where a checkpoint phase came in between
        self.channel = channel
        os.register_at_fork(after_in_child=self._forget_in_child)
        atexit.register(self._close)

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
        self.phase, self.step, self.training = "", None, None
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
        if phase == "data":
            self.training = step
        recorder = self.recorder
        if recorder is not None:
            recorder.note_phase(phase, step)
        if self.orders.held:
            self.orders.reached("entry")

    def point(self, name: str) -> None:
        if self.orders.held:
            self.orders.reached(name)

    def step_returned(self) -> None:
        recorder = self.recorder
        if recorder is not None:
            recorder.note_step_returned(self.training)

    def step_done(self, step: int, loss: float, lr: float, grad_norm: float, samples: tuple[int, int]) -> None:
        recorder = self.recorder
        if recorder is not None:
            recorder.note_step_done(step, loss, lr, grad_norm, samples)
        self.enter("data", step + 1)

    def emit(self, kind: str, fields: Mapping[str, Any]) -> None:
        recorder = self.recorder
        if recorder is not None:
            recorder.note(kind, fields)

    def settled(self) -> bool:
        """Whether everything said so far is written. When it is not, a harm must not be done, and the agent goes quiet:
        the line may still reach a disk that hangs, and would then tell of a harm that nobody did."""
        recorder = self.recorder
        if recorder is None:
            return False
        if recorder.settle():
            return True
        self.recorder = None
        recorder.give_up(f"not written within {SETTLE_S:g} s")
        return False

    def finished(self, step: int) -> None:
        self.emit("rank_finished", {"step": step})
        recorder = self.recorder
        if recorder is not None:
            recorder.settle()
        if self.channel is not None:
            self.channel.close("the rank has finished")

    # inside

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
        offer_stacks(self)
        if self.channel is not None:
            self.channel.open(self)

    def _identify(self) -> None:
        if self.recorder is not None:
            self.recorder.identify(
                reentry=self.reentry, group=self.group, rank=self.rank, initial_rank=self.initial_rank
            )

    def _holds_orders(self) -> bool:
        return bool(self.orders.held)

    def _go_quiet(self, reason: str) -> None:
        """On the recorder's thread, which ends: the last word."""
        self.recorder = None
        self.orders.drop_all("the agent cannot write its history")
        try:
            self._writer.write("source_blind", {"source": "rank", "reason": f"cannot write events: {reason}"})
        except Exception:
            complain(f"agent of rank {self.rank} went quiet: {reason}")
        try:
            self._writer.close()
        except OSError:
            pass  # the descriptor was taken from under us

    def _close(self) -> None:
        """At the end of the process: what was noted is written, also the last word of one that just went quiet."""
        if self.pid == os.getpid():
            self._recorder.close()

    def _forget_in_child(self) -> None:
        """A forked child is a new, silent life: it must not hold our file or our channel."""
        self.recorder = None
        self._recorder.forget()
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
