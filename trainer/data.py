"""Batches by step: which samples, and their tensors. Reading the text is `corpus.py`'s.

The batch of a step depends on seed, step, rank and world size alone, so a resumed run reads what the
interrupted one would have read, and nothing needs to be skipped.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = (1 << 64) - 1


class Batches:
    """The samples of one rank. Sample `g` of all ranks together is a window of the text, chosen by seed and `g`."""

    def __init__(self, text: bytes, *, context: int, batch: int, seed: int, rank: int, world_size: int) -> None:
        self._text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self._starts = len(text) - context
        self._context = context
        self._batch = batch
        self._seed = seed
        self._rank = rank
        self._world_size = world_size

    def position(self, step: int) -> int:
        """Samples that all ranks have read before a step: the data's position in a checkpoint."""
        return step * self._world_size * self._batch

    def span(self, step: int) -> tuple[int, int]:
        """Global positions [first, end) of this rank's samples in a step."""
        first = self.position(step) + self._rank * self._batch
        return first, first + self._batch

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, each of shape (batch, context)."""
        starts = [_mix(self._seed, position) % self._starts for position in range(*self.span(step))]
        windows = torch.stack([self._text[start : start + self._context + 1] for start in starts]).long()
        return windows[:, :-1], windows[:, 1:]


def _mix(seed: int, position: int) -> int:
    """A number that looks random, from two small ones: the same on every machine and Python."""
    value = (seed * 0x9E3779B97F4A7C15 + position * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & _MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = ((value ^ (value >> shift)) * factor) & _MASK
    return value ^ (value >> 31)
