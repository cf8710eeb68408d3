"""From visual vectors, words or word pieces to vectors of the joint space, still one per place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModel

from sparta.vse.batch import real_rows


class RowNorm(nn.BatchNorm1d):
    """Batch norm over rows [R, d] that takes a single row in training too.

    A row alone has no deviation to divide by; it is normalised as in evaluation.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """[R, d] normalised per column."""
        if not self.training or len(rows) > 1:
            return super().forward(rows)
        return functional.batch_norm(
            rows, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class VisualProjection(nn.Module):
    """A linear layer into the joint space, for regions with a residual MLP added.

    As published with GPO (section 5.1 and its code): features = MLP(x) + FC(x), the MLP of two
    layers with half the joint dimension between them, batch norm and ReLU after the first. Only
    real rows enter the batch norm; the published code lets padding's zero rows in.

    Args:
        feature_dim: d of the visual vectors.
        dimension: D of the joint space.
        residual: whether there is an MLP.
    """

    def __init__(self, feature_dim: int, dimension: int, residual: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(feature_dim, dimension)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        hidden = dimension // 2
        self.mlp = (
            nn.Sequential(
                nn.Linear(feature_dim, hidden),
                RowNorm(hidden),
                nn.ReLU(),
                nn.Linear(hidden, dimension),
            )
            if residual
            else None
        )

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """[B, n, d] float and lengths [B] int64 → [B, n, D]; what padding gets has no meaning."""
        if self.mlp is None:
            return self.linear(features)
        real = real_rows(lengths, features.shape[1])
        rows = features[real]
        projected = self.linear(rows) + self.mlp(rows)
        padded = projected.new_zeros(*real.shape, projected.shape[-1])
        padded[real] = projected
        return padded


class WordEncoder(nn.Module):
    """Word embeddings and a GRU over them, its two directions averaged if it has two.

    Args:
        vocabulary_size: words.
        word_dim: width of a word embedding.
        dimension: D, of each direction and of the joint space.
        dropout: share of each word embedding dropped in training.
        bidirectional: whether it reads backwards, too.
    """

    def __init__(
        self,
        vocabulary_size: int,
        word_dim: int,
        dimension: int,
        dropout: float,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(word_dim, dimension, batch_first=True, bidirectional=bidirectional)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """[B, L] int64 and lengths [B] int64 → [B, L, D]; padding gets zeros."""
        embedded = self.dropout(self.embedding(ids))
        packed = pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(
            self.gru(packed)[0], batch_first=True, total_length=ids.shape[1]
        )
        return hidden.unflatten(-1, (-1, self.gru.hidden_size)).mean(dim=-2)


def build_network(config: dict[str, Any]) -> Any:
    """The transformers network of a configuration with `model_type`, with random weights."""
    options = dict(config)
    return AutoModel.from_config(AutoConfig.for_model(options.pop("model_type"), **options))


def unit(vectors: Tensor) -> Tensor:
    """[..., D] divided by their norms plus 1e-8, in float32."""
    vectors = vectors.float()
    return vectors / (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) + 1e-8)
