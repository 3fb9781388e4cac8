"""The network: a GPT over bytes, small enough to step in milliseconds. Knows nothing of sharding or training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.config import Model

BYTE_VALUES = 256


class Block(nn.Module):
    """Attention to the past, then a small network for each position; both add to what came in."""

    def __init__(self, settings: Model) -> None:
        super().__init__()
        width = settings.width
        self.heads = settings.heads
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.mixer_norm = nn.LayerNorm(width, bias=False)
        self.mixer_in = nn.Linear(width, 4 * width, bias=False)
        self.mixer_out = nn.Linear(4 * width, width, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.dropout(self._attend(self.attention_norm(tokens)))
        mixed = functional.gelu(self.mixer_in(self.mixer_norm(tokens)))
        return tokens + self.dropout(self.mixer_out(mixed))

    def _attend(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        parts = self.query_key_value(tokens).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(seen.transpose(1, 2).reshape(batch, length, width))


class Gpt(nn.Module):
    """Bytes in, a score for each possible next byte out."""

    def __init__(self, settings: Model) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTE_VALUES, settings.width)
        self.places = nn.Embedding(settings.context, settings.width)
        self.dropout = nn.Dropout(settings.dropout)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.width, bias=False)
        self.scores = nn.Linear(settings.width, BYTE_VALUES, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        places = torch.arange(inputs.shape[1], device=inputs.device)
        tokens = self.dropout(self.bytes(inputs) + self.places(places))
        for block in self.blocks:
            tokens = block(tokens)
        return self.scores(self.norm(tokens))
