"""Term vectors: what dual encoders say of photos and sentences, as sums over words.

A sentence's vector is nearly the sum of one vector a word piece, so its cosine with a photo's
vector h is a sum of terms that an inverted index holds: equation 10 of VisualSparta with one
position. Ridge regression finds the first vectors; a refinement then learns the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.tokenizer import text_frequencies
from sparta.visualsparta.image_head import ImageHead
from training.terms.config import TermVectorsConfig
from training.terms.data import Texts, Views
from training.terms.dual_encoder import Teachers, contrast

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
