"""A decoder-only transformer small enough to train on a laptop's CPU, written the plain PyTorch way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """Sizes of the model: vocabulary, layers, model width, attention heads."""

    vocabulary: int = 256
    layers: int = 4
    width: int = 64
    heads: int = 4


class Attention(nn.Module):
    """Causal self-attention with the matmuls written out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within each sequence: [batch, length, width] to the same."""
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, device=x.device).triu(1).bool()
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """One decoder layer: attention and a feed-forward net, each normalised before and added back."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer: [batch, length, width] to the same."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))


class Decoder(nn.Module):
    """Token ids [batch, length] to logits [batch, length, vocabulary].

    `run_layers` applies the list of layers to the activations; by default one after another in Python.
    """

    def __init__(
        self, shape: Shape, run_layers: Callable[[nn.ModuleList, Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.run_layers = run_layers or one_after_another

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits for the token after each position."""
        return self.head(self.norm(self.run_layers(self.layers, self.embed(tokens))))


def one_after_another(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Apply layers in a Python loop, as most model code does."""
    for layer in layers:
        x = layer(x)
    return x


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of predicting each token from those before it."""
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
