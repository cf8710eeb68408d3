"""Term vectors, the dual encoders of photos and sentences that teach them, and a tuned network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.networks.lite import DEVIATION, MEAN, EfficientNetLite, order_channels_last
from sparta.tokenizer import text_frequencies
from sparta.visualsparta.image_head import ImageHead
from training.terms.config import TermVectorsConfig, TuneConfig
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

    Features [N, d] of photos give the image head's scale; `terms` is V, the number of word pieces.
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

        `features` are [B, d] of a view of each photo, `photos` [B] their numbers.
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


# ---- term vectors -----------------------------------------------------------------------------
#
# A sentence's vector is nearly the sum of one vector a word piece, so its cosine with a photo's
# vector h is a sum of terms that an inverted index holds: equation 10 of VisualSparta with one
# position. Ridge regression finds the first vectors; a refinement then learns the scores.

STRENGTH = 2.0  # λ of the ridge regression
STEEP = 10.0  # factor on its vectors, which brings scores into the logarithm's curved part
SCALE = 2.0  # of the sums at the start


@dataclass
class Bags:
    """S sentences as bags of T terms."""

    terms: Tensor  # [T] int64, word pieces in rising order
    places: Tensor  # [V + 1] int64, the place of each word piece among these, T without one
    columns: Tensor  # [S, L] int64, which of these a sentence contains, T for padding
    frequencies: Tensor  # [T] int64, sentences with each term

    @classmethod
    def of(cls, texts: Texts, vocabulary: int, least: int) -> Bags:
        """The terms that at least `least` sentences contain."""
        rows = (row[row < vocabulary].tolist() for row in texts.terms)
        counts = torch.from_numpy(text_frequencies(rows, vocabulary))
        terms = (counts >= least).nonzero()[:, 0]
        places = torch.full((vocabulary + 1,), len(terms))
        places[terms] = torch.arange(len(terms))
        return cls(terms, places, places[texts.terms], counts[terms])

    def ridge(self, vectors: Tensor) -> Tensor:
        """(AᵀA + λI)⁻¹ AᵀV: the term vectors [T, d] whose sums come nearest to V [S, d].

        A [S, T] is 1 where a sentence has a term.
        """
        present = self.columns < len(self.terms)
        rows = present.nonzero()[:, 0].numpy()
        ones = np.ones(len(rows), np.float32)
        shape = (len(self.columns), len(self.terms))
        a = csr_array((ones, (rows, self.columns[present].numpy())), shape)
        a.data[:] = 1.0  # also of a term that a sentence has twice
        gram = torch.from_numpy((a.T @ a).toarray())
        gram.diagonal().add_(STRENGTH)
        right = torch.from_numpy(a.T @ vectors.float().numpy())
        return torch.cholesky_solve(right, torch.linalg.cholesky(gram))


class TermVectors(nn.Module):
    """An image head, and for each of T terms the vector of its score.

    Args:
        head: of the photos.
        vectors: [T, d] of the ridge regression.
        mean: [d] of the photos' vectors. Less it, a term's products have the mean 0.
    """

    def __init__(self, head: ImageHead, vectors: Tensor, mean: Tensor) -> None:
        super().__init__()
        self.head = head
        bias = -STEEP * vectors @ mean
        self.vectors = nn.Parameter(torch.cat([STEEP * vectors, bias[:, None]], dim=1))
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))

    def scores(self, features: Tensor, terms: Tensor) -> Tensor:
        """Equations 10 and 11: [B, d] features of photos to [B, T] scores of some terms."""
        hidden = self.head(features[:, None])[:, 0]  # the whole photo alone
        return torch.log1p(torch.relu(hidden @ self.vectors[terms].T))

    def optimiser(self, config: TermVectorsConfig) -> torch.optim.Optimizer:
        """AdamW with a rate of its own for the term vectors, which do not decay."""
        return torch.optim.AdamW(
            [
                {"params": self.head.parameters(), "lr": config.learning_rate},
                {"params": [self.vectors], "lr": config.term_learning_rate, "weight_decay": 0.0},
                {"params": [self.log_scale], "lr": 1e-2, "weight_decay": 0.0},
            ],
            weight_decay=0.05,
        )

    def loss(
        self,
        config: TermVectorsConfig,
        views: Views,
        texts: Texts,
        bags: Bags,
        teachers: Teachers,
        photos: Tensor,
    ) -> Tensor:
        """Divergence from the teachers over B photos, contrast with captions, and sparsity.

        The sentences are a caption of each photo, and others drawn from all. A longer sentence has
        a larger sum on every photo, so its mean over the photos is made the teachers'.
        """
        others = torch.randint(len(texts.vectors), (config.random_sentences,))
        rows = torch.cat([texts.caption_of(photos), others])
        terms, places = torch.unique(bags.columns[rows], return_inverse=True)
        known = terms[terms < len(bags.terms)]  # the last may be padding
        scores = self.scores(views.draw(photos), known)
        sums = F.embedding_bag(
            places, F.pad(scores.T, (0, 0, 0, 1)), mode="sum", padding_idx=len(known)
        )
        wanted = teachers.similarities(rows, photos)
        found = self.log_scale.exp() * sums
        found = found - found.mean(dim=1, keepdim=True) + wanted.mean(dim=1, keepdim=True)
        taught = (divergence(found, wanted) + divergence(found.T, wanted.T)) / 2
        sparsity = scores.mean(dim=0).square().sum()
        own = contrast(found[: len(photos)])
        return taught + config.captions * own + config.flops * sparsity


def divergence(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean over rows of the Kullback-Leibler divergence of their softmax distributions."""
    return F.kl_div(
        found.log_softmax(dim=1), wanted.log_softmax(dim=1), log_target=True, reduction="batchmean"
    )


# ---- tuning a vision network: what captions tell apart moves apart in it ------------------------

# Random changes of a photo, from the least to the most.
AREA = (0.4, 1.0)  # of the part that is shown
SHAPE = (-0.35, 0.35)  # logarithm of its width over its height, in the photo's
COLOUR = (0.6, 1.4)  # saturation
CONTRAST = (0.7, 1.3)
LIGHT = (0.75, 1.25)
GREY = 0.08  # share of photos without colour


class TunedEncoder(nn.Module):
    """A dual encoder that reads photos [N, 3, side, side] uint8 through a network in training."""

    def __init__(
        self, network: EfficientNetLite, member: DualEncoder, settings: TuneConfig, pixels: Tensor
    ) -> None:
        super().__init__()
        self.network, self.member, self.settings, self.pixels = network, member, settings, pixels
        order_channels_last(network)
        network.requires_grad_(False)
        for parameter in network.late_parameters(settings.frozen_stages):
            parameter.requires_grad_(True)

    def optimiser(self) -> torch.optim.Optimizer:
        """AdamW, slower for the network than for the heads."""
        rate = self.settings.learning_rate
        network = self.network.late_parameters(self.settings.frozen_stages)
        groups = [
            {"params": network, "lr": rate, "weight_decay": 0.05},
            {"params": list(self.member.parameters()), "lr": 5 * rate, "weight_decay": 0.1},
        ]
        return torch.optim.AdamW(groups, betas=(0.9, 0.98))

    def draw(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to features [B, d] of a random view of each."""
        kind, stages = self.pixels.device.type, self.settings.frozen_stages
        values = (varied(self.pixels[photos.to(self.pixels.device)].float()) - MEAN) / DEVIATION
        values = values.contiguous(memory_format=torch.channels_last)
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            with torch.no_grad():
                early = self.network.early(values, stages)
            return self.network.late(early, stages).float().mean(dim=(2, 3))


def varied(pixels: Tensor) -> Tensor:
    """Random parts of photos, half of them mirrored, in other light, some of them grey.

    Pixels are [B, 3, side, side] float32, 0 to 255; so is the result.
    """
    count, device = len(pixels), pixels.device

    def drawn(low: float, high: float) -> Tensor:
        return torch.empty(count, 1, 1, 1, device=device).uniform_(low, high)

    area, shape = drawn(*AREA), drawn(*SHAPE).exp()
    width, height = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)
    mirror = torch.where(drawn(0, 1) < 0.5, -1.0, 1.0)
    corners = torch.zeros(count, 2, 3, device=device)
    corners[:, 0, 0], corners[:, 1, 1] = (width * mirror).flatten(), height.flatten()
    corners[:, 0, 2] = (drawn(-1, 1) * (1 - width)).flatten()
    corners[:, 1, 2] = (drawn(-1, 1) * (1 - height)).flatten()
    grid = F.affine_grid(corners, list(pixels.shape), align_corners=False)
    found = F.grid_sample(pixels, grid, align_corners=False, padding_mode="border")
    grey = found.mean(dim=1, keepdim=True)
    found = grey + (found - grey) * drawn(*COLOUR) * (drawn(0, 1) > GREY)
    middle = grey.mean(dim=(2, 3), keepdim=True)
    found = middle + (found - middle) * drawn(*CONTRAST)
    return (found * drawn(*LIGHT)).clamp(0, 255)
