"""From photos to visual vectors, and from these or words to vectors of the joint space."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModel

from sparta.addresses import folder_at
from sparta.errors import InputError
from sparta.extract.photos import Augmentation, Crop, Decoder, decode_all, find_photos
from sparta.features.record import FeatureSource, Skipped
from sparta.json_values import Json
from sparta.networks.backbone import Backbone, patch_side
from sparta.networks.encoder import is_lite
from sparta.networks.pretrained import Preprocessing, timm_processor
from sparta.vse.batch import real_rows
from sparta.vse.config import VisionVectors

BATCH = 32  # photos decoded at a time
LEAST = 1e-3  # deviation of a feature, for those that are always 0
SMALLEST = 1e-6  # number whose root has a gradient


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

    Dropout is the share of each word embedding dropped in training.
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


# ---- heads of dual encoders: one vector of a whole photo, one of a sentence ----------------------


class ImageHead(nn.Module):
    """Features of a photo and of its parts to vectors of length 1 with a 1 behind.

    Two layers beside a linear one, as dual encoders have them. With the 1, a term's bias is the
    last number of its vector.

    Args:
        size: numbers of the vector, the 1 included.
        dropout: share of either layer's inputs that training drops.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int, width: int, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(features, width)
        self.output = nn.Linear(width, size - 1)
        self.skip = nn.Linear(features, size - 1, bias=False)

    def standardise(self, features: Tensor) -> None:
        """Take mean and deviation of the features' square roots from examples [N, d]."""
        roots = signed_root(features)
        self.mean.copy_(roots.mean(dim=0))
        self.deviation.copy_(roots.std(dim=0).clamp(min=LEAST))

    def direction(self, features: Tensor) -> Tensor:
        """[..., d] of whole photos to vectors [..., size - 1] of length 1."""
        x = self.dropout(self._standard(features))
        hidden = self.dropout(functional.gelu(self.hidden(x)))
        return functional.normalize(self.output(hidden) + self.skip(x), dim=-1)

    def forward(self, regions: Tensor) -> Tensor:
        """Regions [B, n, d] of photos to [B, n, size].

        The last one is the whole photo. The others go through the linear layer alone, which finds
        the objects of terms as well as both do, in a fifth of the time.
        """
        parts = functional.normalize(self.skip(self._standard(regions[:, :-1])), dim=-1)
        vectors = torch.cat([parts, self.direction(regions[:, -1:])], dim=1)
        return with_one(vectors)

    def _standard(self, features: Tensor) -> Tensor:
        return (signed_root(features) - self.mean) / self.deviation


class WholeProjection(nn.Module):
    """An `ImageHead` in the place of a `VisualProjection`."""

    def __init__(self, feature_dim: int, width: int, dimension: int) -> None:
        super().__init__()
        self.head = ImageHead(feature_dim, width, dimension + 1)

    def forward(self, features: Tensor, _lengths: Tensor) -> Tensor:
        """[B, n, d] float → [B, n, D]."""
        return self.head.direction(features)


class TextHead(nn.Module):
    """A sentence's vector and its word pieces to a vector of length 1.

    Args:
        features: d of the sentence vectors.
        terms: V of the word pieces; V itself is padding.
        size: of the vector.
        dropout: share of either layer's inputs that training drops.
    """

    def __init__(self, features: int, terms: int, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.padding = terms
        self.dropout = nn.Dropout(dropout)
        self.skip = nn.Linear(features, size)
        self.hidden = nn.Linear(features, 2 * features)
        self.output = nn.Linear(2 * features, size)
        self.bag = nn.EmbeddingBag(terms + 1, size, mode="sum", padding_idx=terms)
        nn.init.normal_(self.bag.weight, std=0.02)

    def forward(self, vectors: Tensor, terms: Tensor) -> Tensor:
        """[S, d] vectors of length sqrt(d) and [S, L] word pieces to [S, size]."""
        x = self.dropout(vectors.float())
        hidden = self.dropout(functional.gelu(self.hidden(x)))
        return functional.normalize(self.skip(x) + self.output(hidden) + self.bag(terms), dim=-1)


def with_one(vectors: Tensor) -> Tensor:
    """[..., d] to [..., d + 1] with a 1 behind."""
    return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)


def signed_root(features: Tensor) -> Tensor:
    """Square roots, signs kept, in float32: they even out the few large values of ReLU networks."""
    values = features.float()
    # The root's gradient at 0 is infinite; below the limit it is none.
    return values.sign() * values.abs().clamp(min=SMALLEST).sqrt()


# ---- what all models share -----------------------------------------------------------------------


def build_network(config: Json) -> Any:
    """The transformers network of a configuration with `model_type`, with random weights."""
    options = dict(config)
    return AutoModel.from_config(AutoConfig.for_model(options.pop("model_type"), **options))


def unit(vectors: Tensor) -> Tensor:
    """[..., D] divided by their norms plus 1e-8, in float32."""
    vectors = vectors.float()
    return vectors / (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) + 1e-8)


# ---- photos, by a vision network inside a dense model --------------------------------------------


class Vision(nn.Module):
    """Photos → a set of vectors: the network's output, or the regions that extraction stores.

    The published code of GPO and VSE+2AD pools the network's output: the cells of a CNN's feature
    map, or all tokens of a transformer with its CLS. Extraction stores the cells or patches without
    CLS (in float16) and their mean behind them, so that a model that takes these can start from
    stored features and go on with the network itself.

    Batch norms keep the statistics they were pretrained with, in training too, as in GPO's
    published code.

    Args:
        config: configuration of a transformers vision network, a dict with `model_type`.
    """

    mean: Tensor  # [3, 1, 1] float32, subtracted from pixel values of 0 to 255
    std: Tensor  # [3, 1, 1] float32, which the difference is divided by

    def __init__(self, config: Json, vectors: VisionVectors) -> None:
        super().__init__()
        self.vectors = vectors
        self.network = vision_part(build_network(config))
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.register_buffer("std", torch.ones(3, 1, 1))
        # Where position embeddings are stretched to other sizes only on demand, they always are.
        known = inspect.signature(self.network.forward).parameters
        self._options = {name: True for name in ("interpolate_pos_encoding",) if name in known}

        self.train()

    def train(self, mode: bool = True) -> Self:
        """As in torch, but for the batch norms."""
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        return self

    def prepare_as(self, preprocessing: Preprocessing) -> None:
        """Normalise pixels as a checkpoint does: (pixels * scale - mean) / std."""
        self.mean.copy_(preprocessing.mean / preprocessing.scale)
        self.std.copy_(preprocessing.std / preprocessing.scale)

    def forward(self, pixels: Tensor) -> Tensor:
        """[B, 3, H, W] uint8 RGB → [B, n, d] float, cells row by row."""
        values = (pixels.float() - self.mean) / self.std
        hidden = self.network(pixel_values=values, **self._options).last_hidden_state
        tokens = hidden.flatten(2).transpose(1, 2) if hidden.ndim == 4 else hidden
        if self.vectors == "output":
            return tokens
        cells = tokens if hidden.ndim == 4 else self._patches(tokens, *pixels.shape[2:])
        return torch.cat([cells, cells.mean(dim=1, keepdim=True)], dim=1)

    def _patches(self, hidden: Tensor, height: int, width: int) -> Tensor:
        """[B, prefix + patches, d] → [B, patches, d]."""
        rows = patch_side(hidden.shape[1], width, self.network.config)
        if rows is None:
            raise InputError(
                f"vision: {hidden.shape[1]} tokens for {width} x {height} pixels form no square "
                "grid of patches; use a size the network was made for"
            )
        return hidden[:, -rows * rows :]


def vision_part(network: nn.Module) -> Any:
    """A network of photos itself, or the half of a two-sided one (CLIP) that sees them."""
    return getattr(network, "vision_model", network)


def vision_source(network: str, image_size: int | None = None) -> FeatureSource:
    """The source of a vision network's features; `extra["resample"]` is Pillow's filter for photos.

    `image_size` is the side in pixels of the square it sees, None for its own.

    Raises InputError if it is no vision network of transformers, cannot see that size, or its
    output cannot be laid on a grid.
    """
    if is_lite(network) or timm_processor(network) is not None:
        raise InputError(
            f"model.options.vision: {network} cannot be trained inside a dense model, only "
            "networks of transformers can: train on its features instead, with "
            f"model.options.vision=null, data.photos and data.backbone={network}"
        )
    backbone = Backbone(network, image_size, device="cpu")
    return replace(backbone.source, extra={"resample": backbone.resample})


class PhotoFolder:
    """Photos of a folder by row, resized for a vision network; decoded when requested.

    `source` is the network's: `vision_source`, or a model's `feature_source`. `ids` are paths
    relative to the folder; by default of all photos there are, at any depth. Raises InputError if
    there is none.
    """

    def __init__(
        self, folder: str | Path, source: FeatureSource, ids: Iterable[str] | None = None
    ) -> None:
        self.folder = folder = folder_at(folder)
        self.source = source
        self.ids: list[str] = find_photos(folder) if ids is None else sorted(ids)
        self._rows = {image_id: row for row, image_id in enumerate(self.ids)}
        resample = source.extra["resample"]
        self._decoder = Decoder(folder, source.image_size, resample, Augmentation("plain"))

    def __len__(self) -> int:
        return len(self.ids)

    def index(self, image_id: str) -> int:
        """Row of a photo; KeyError if there is none of that id."""
        return self._rows[image_id]

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        """A photo whole, [side, side, 3] uint8 RGB; raises InputError if it cannot be read."""
        return self.show(row)

    def show(self, row: int, crop: Crop | None = None) -> NDArray[np.uint8]:
        """Part of a photo; see `__getitem__`."""
        found = self._decoder.decode(self.ids[row], crop)
        if isinstance(found, Skipped):
            raise InputError(f"{self.folder / found.image_id}: {found.reason}")
        return found.pixels

    def unreadable(self, workers: int) -> list[Skipped]:
        """Decode every photo once, in `workers` processes; return those that cannot be, and why."""
        batches = (self.ids[at : at + BATCH] for at in range(0, len(self), BATCH))
        return [
            found
            for batch in decode_all(self._decoder, batches, workers)
            for found in batch
            if isinstance(found, Skipped)
        ]
