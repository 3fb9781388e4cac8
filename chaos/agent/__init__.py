"""Inside a rank: reports progress, and harms only itself, when ordered.

Every function here does nothing when the job was not started by nvrx-chaos (no NVRX_CHAOS_DIR in the
environment), so a training script may call them always. Imports neither torch nor NVRx until `watch`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chaos.agent.core import Agent
from chaos.agent.voice import complain

__all__ = [
    "active", "emit", "enter", "entered", "finished", "group_ready", "point", "step_done", "watch",
]  # fmt: skip

_agent: Agent | None = None
_blind_pid = -1  # the process in which no history could be opened: it is not tried again, reentries would be miscounted


def active() -> bool:
    """Whether this job was started under observation."""
    return "NVRX_CHAOS_DIR" in os.environ


def entered(
    *,
    rank: int,
    initial_rank: int,
    local_rank: int,
    world_size: int,
    settings: Mapping[str, Any],
    reported_restart: Mapping[str, Any],
) -> None:
    """The training function was entered. The first time in a process begins a life; later ones are reentries."""
    global _agent, _blind_pid
    if not active() or _blind_pid == os.getpid():
        return
    if _agent is None or _agent.pid != os.getpid():
        try:
            _agent = Agent.from_environment()
        except Exception as error:
            # Its missing file makes this rank blind for the judge; the job itself must not feel it.
            _agent, _blind_pid = None, os.getpid()
            complain(f"rank {rank} is not observed: {error}")
            return
    _agent.entered(
        rank=rank,
        initial_rank=initial_rank,
        local_rank=local_rank,
        world_size=world_size,
        settings=settings,
        reported_restart=reported_restart,
    )


def group_ready(store: Any, *, rank: int, world_size: int, backend: str) -> None:
    """The process group exists. `store` is the group's own: fresh for each group."""
    if _agent is not None:
        _agent.group_ready(store, rank=rank, world_size=world_size, backend=backend)


def enter(phase: str, step: int | None = None) -> None:
    """A phase begins (and the one before it ends)."""
    if _agent is not None:
        _agent.enter(phase, step)


def point(name: str) -> None:
    """A point inside the current phase: before_rename, after_rename, after_latest."""
    if _agent is not None:
        _agent.point(name)


def watch(model: Any, optimizer: Any, *, first_step: int) -> None:
    """Learns the phases of a step from the root module, `Tensor.backward` and the optimizer."""
    if _agent is not None:
        from chaos.agent.hooks.step import watch as install

        install(_agent, model, optimizer)
        _agent.enter("data", first_step)


def step_done(step: int, *, loss: float, lr: float, grad_norm: float, samples: tuple[int, int]) -> None:
    """The device has finished step `step`. Call it when the loss has been read; the next step's data phase begins."""
    if _agent is not None:
        _agent.step_done(step, loss, lr, grad_norm, samples)


def emit(kind: str, **fields: Any) -> None:
    """Any other event of the vocabulary, with its own fields."""
    if _agent is not None:
        _agent.emit(kind, fields)


def finished(step: int) -> None:
    """The training function is about to return normally with `step` steps done."""
    if _agent is not None:
        _agent.finished(step)
