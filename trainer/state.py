"""What a rank must keep to go on exactly where it was: captured, restored, digested. Writes no files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from trainer.optimise import Schedule
from trainer.shard import local

SHARDED = ("exp_avg", "exp_avg_sq")  # AdamW's state that is split as the weights are


class Training:
    """The parts of a training run that change while it runs, on one rank."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule) -> None:
        self.model = model
        self.optimizer = optimizer
        self.schedule = schedule

    def capture(self, *, step: int, next_sample: int) -> dict[str, Any]:
        """A copy of the state after `step` steps; later steps do not change it.

        Copied on the CPU, because a writer that saved live tensors would mix two steps.
        """
        return {
            "step": step,
            "next_sample": next_sample,
            "schedule": self.schedule.state_dict(),
            "weights": {name: _copy(weight) for name, weight in self._weights()},
            "optimizer": {
                name: {key: _copy(value) for key, value in self.optimizer.state[weight].items()}
                for name, weight in self._weights()
            },
            "random": _random_state(),
        }

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> int:
        """Puts a captured state back; returns the next step to do."""
        self.schedule.load_state_dict(state["schedule"])
        for name, weight in self._weights():
            local(weight).copy_(state["weights"][name])
            for key, value in state["optimizer"][name].items():
                self._restore_moment(weight, key, value)
        _restore_random_state(state["random"])
        return int(state["step"])

    def _restore_moment(self, weight: Tensor, key: str, value: Tensor) -> None:
        if key in SHARDED:
            self.optimizer.state[weight][key] = torch.zeros_like(weight)
            local(self.optimizer.state[weight][key]).copy_(value)
        else:
            self.optimizer.state[weight][key] = value.to(weight.device)

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self.model.named_parameters())


def digest(state: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of this rank's shards, of what every rank has alike, and of this rank's random state."""
    shards, replicated, random = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for name, weight in state["weights"].items():
        _add(shards, name, weight)
        for key, value in state["optimizer"][name].items():
            _add(shards if key in SHARDED else replicated, f"{name}/{key}", value)
    alike = (state["step"], state["next_sample"], sorted(state["schedule"].items()))
    replicated.update(repr(alike).encode())
    for name, generator in state["random"].items():
        _add(random, name, generator)
    return {"shards": shards.hexdigest(), "replicated": replicated.hexdigest(), "random": random.hexdigest()}


def _add(into: Any, name: str, tensor: Tensor) -> None:
    into.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    into.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def _copy(tensor: Tensor) -> Tensor:
    return local(tensor.detach()).to("cpu", copy=True)


def _random_state() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _restore_random_state(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
