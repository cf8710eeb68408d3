"""Dense dual encoders of photos and sentences: the teachers of term vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.visualsparta.image_head import ImageHead
from training.terms.config import TermVectorsConfig
from training.terms.data import Texts, Views

START = 1 / 0.07  # inverse temperature at the start
COLDEST = 100.0  # and at most
TEXT_DROPOUT = 0.2
BLOCK = 4096  # photos or sentences at once


class TextHead(nn.Module):
    """A sentence's vector and its word pieces to a vector of length 1.

    Args:
        features: d of the sentence vectors.
        terms: V of the word pieces; V itself is padding.
        size: of the vector.
    """

    def __init__(self, features: int, terms: int, size: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(TEXT_DROPOUT)
        self.skip = nn.Linear(features, size)
        self.hidden = nn.Linear(features, 2 * features)
        self.output = nn.Linear(2 * features, size)
        self.bag = nn.EmbeddingBag(terms + 1, size, mode="sum", padding_idx=terms)
        nn.init.normal_(self.bag.weight, std=0.02)

    def forward(self, vectors: Tensor, terms: Tensor) -> Tensor:
        """[S, d] vectors and [S, L] word pieces to [S, size]."""
        x = self.dropout(vectors.float())
        hidden = self.dropout(F.gelu(self.hidden(x)))
        return F.normalize(self.skip(x) + self.output(hidden) + self.bag(terms), dim=-1)


class DualEncoder(nn.Module):
    """Image head, text head, and the temperature of their cosines.

    Args:
        config: of the run.
        features: [N, d] of photos, for the image head's scale.
        texts: sentences, for sizes.
        terms: V, word pieces.
    """

    def __init__(self, config: TermVectorsConfig, features: Tensor, texts: Texts, terms: int):
        super().__init__()
        size, dropout = config.model.size, config.teachers.dropout
        self.image = ImageHead(features.shape[1], config.model.width, size + 1, dropout)
        self.image.standardise(features)
        self.text = TextHead(texts.vectors.shape[1], terms, size)
        self.log_scale = nn.Parameter(torch.tensor(math.log(START)))

    @property
    def scale(self) -> Tensor:
        """One over the temperature."""
        return self.log_scale.exp().clamp(max=COLDEST)

    def loss(self, features: Tensor, texts: Texts, photos: Tensor) -> Tensor:
        """Contrast of B photos with two captions of each, one after the other.

        Features are [B, d] of a view of each photo, photos [B] their numbers.
        """
        images = self.image.direction(features)
        rows = torch.cat([texts.caption_of(photos), texts.caption_of(photos)])
        device = self.log_scale.device
        found = self.text(texts.vectors[rows].to(device), texts.terms[rows].to(device))
        both = [contrast(self.scale * part @ images.T) for part in found.chunk(2)]
        return (both[0] + both[1]) / 2

    @torch.inference_mode()
    def photo_vectors(self, views: Views) -> Tensor:
        """[N, size] of all photos, the mean over their views."""
        total = [self.image.direction(part.float()) for part in views.features]
        return F.normalize(sum(total[1:], start=total[0]), dim=-1)

    @torch.inference_mode()
    def text_vectors(self, texts: Texts) -> Tensor:
        """[S, size] float16 of all sentences."""
        parts = zip(texts.vectors.split(BLOCK), texts.terms.split(BLOCK), strict=True)
        return torch.cat([self.text(vectors, terms).half() for vectors, terms in parts])


def contrast(scores: Tensor) -> Tensor:
    """Symmetric InfoNCE: the cross-entropy of [B, B] scores whose diagonal belongs together."""
    own = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


class Teachers:
    """An ensemble: the mean of its members' cosines, each divided by its own temperature."""

    def __init__(self, members: list[DualEncoder], views: Views, texts: Texts) -> None:
        self._scales = [member.scale.item() for member in members]
        self._photos = [member.photo_vectors(views) for member in members]
        self.texts = [member.text_vectors(texts) for member in members]

    def similarities(self, sentences: Tensor, photos: Tensor) -> Tensor:
        """[Q] and [B] numbers to [Q, B] similarities."""
        parts = [
            scale * text[sentences].float() @ photo[photos].T
            for scale, text, photo in zip(self._scales, self.texts, self._photos, strict=True)
        ]
        return torch.stack(parts).mean(dim=0)
