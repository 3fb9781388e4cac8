"""Learns the phases of a step: root module's forward, `Tensor.backward`, the optimizer, the collectives.

No global per-module hooks: they cost a tenth of a step for a thousand modules and break compiled ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from chaos.agent.core import Agent

# The entry points through which FSDP and training loops communicate, in any supported torch.
COLLECTIVES = (
    "all_gather_into_tensor", "all_gather_single", "reduce_scatter_tensor", "reduce_scatter_single", "all_reduce",
    "all_gather", "reduce_scatter", "broadcast",
)  # fmt: skip

_watched: Agent | None = None  # whose process-wide hooks are in place


def watch(agent: Agent, model: Any, optimizer: Any) -> None:
    """Hooks this model and optimizer; the process-wide hooks are put in place once a life."""
    global _watched

    def forward_begins(*_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        agent.enter("forward", agent.training)

    def optimizer_begins(*_: Any) -> None:
        agent.enter("optimizer", agent.training)

    def optimizer_ended(*_: Any) -> None:
        agent.step_returned()

    # First of all hooks: FSDP's own gathers the root's parameters, which is part of the forward.
    model.register_forward_pre_hook(forward_begins, prepend=True)
    optimizer.register_step_pre_hook(optimizer_begins)
    optimizer.register_step_post_hook(optimizer_ended)
    if _watched is not agent:
        _watched = agent
        _hook_backward(agent)
        for name in COLLECTIVES:
            if hasattr(dist, name):
                setattr(dist, name, _reporting(agent, getattr(dist, name)))


def _hook_backward(agent: Agent) -> None:
    original = torch.Tensor.backward

    @functools.wraps(original)
    def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        agent.enter("backward", agent.training)
        return original(self, *args, **kwargs)

    torch.Tensor.backward = backward


def _reporting(agent: Agent, original: Callable[..., Any]) -> Callable[..., Any]:
    """The collective, with the moment between issuing it and waiting for it made visible to orders."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        orders = agent.orders
        if not orders.held:
            return original(*args, **kwargs)
        order = orders.due_in_collective()
        if order is None:
            return original(*args, **kwargs)
        call = signature.bind(*args, **kwargs)
        wanted_async = bool(call.arguments.get("async_op", False))
        call.arguments["async_op"] = True
        work = original(*call.args, **call.kwargs)
        orders.act_in_collective(order)
        if wanted_async:
            return work
        if work is not None:
            work.wait()
        return None

    return collective
