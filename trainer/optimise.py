"""AdamW, its learning rate by step, and gradients reduced and clipped. Knows nothing of checkpoints."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainer.config import Optimisation
from trainer.shard import local


@dataclass(kw_only=True, slots=True)
class Schedule:
    """Linear warm-up, then a cosine down to the floor. Its numbers are part of the checkpoint."""

    peak: float
    floor: float
    warmup_steps: int
    steps: int

    @classmethod
    def of(cls, settings: Optimisation, steps: int) -> Schedule:
        floor = settings.learning_rate * settings.learning_rate_floor
        return cls(peak=settings.learning_rate, floor=floor, warmup_steps=settings.warmup_steps, steps=steps)

    def rate(self, step: int) -> float:
        """The learning rate of a step; steps past the end stay at the floor."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        done = min(1.0, (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps))
        return self.floor + (self.peak - self.floor) * (1 + math.cos(math.pi * done)) / 2

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def make_optimizer(model: nn.Module, settings: Optimisation) -> torch.optim.AdamW:
    # Fused: one pass over the shards instead of a dispatch for each of AdamW's operations.
    return torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


@torch.no_grad()
def reduce_and_clip(model: nn.Module, loss: Tensor, norm_max: float) -> tuple[float, float]:
    """Mean loss and gradient norm over all ranks; scales this rank's gradients down to `norm_max`.

    One collective for both numbers, in float64, so that what is reported is the same on every rank.
    """
    gradients = [local(each.grad) for each in model.parameters() if each.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients).double()
    both = torch.stack([norm * norm, loss.detach().double() / dist.get_world_size()])
    dist.all_reduce(both)
    squared, mean_loss = both.tolist()
    total = math.sqrt(squared)
    if total > norm_max:
        for gradient in gradients:
            gradient.mul_(norm_max / total)
    return mean_loss, total
