"""Fitting term vectors: ridge regression on sentences, then a refinement that teachers guide.

A sentence's vector is nearly the sum of one vector a word piece, so its product with a photo's
vector h is a sum of terms that an inverted index holds: equation 10 of VisualSparta with one
position. Ridge regression finds the first vectors; the refinement then learns the scores.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer, text_frequencies

log = logging.getLogger(__name__)

STRENGTH = 2.0  # λ of the ridge regression
STEEP = 10.0  # factor on its vectors, which brings scores into the logarithm's curved part
SCALE = 2.0  # of the sums at the start
WARMUP = 50  # steps in which the learning rate rises
SAVE = 100  # steps between checkpoints
BLOCK = 4096  # sentences at once
TOLERANCE, MOST_ROUNDS = 1e-5, 1000  # of the ridge regression: relative error
SMALLEST = 1e-30  # divisor of columns that are solved
FACTORED, RELATIVE = 4096, 1e-9  # terms at most; what is added to their diagonal
Part: TypeAlias = nn.Module | Optimizer | LRScheduler  # of a checkpoint


# ---- what is read --------------------------------------------------------------------------------


@dataclass
class Views:
    """N photos, each in several views."""

    features: Tensor  # [views, N, d] float16 of whole photos, the plain view first

    def draw(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to features [B, d] float32 of a random view of each."""
        views = torch.randint(len(self.features), photos.shape)
        return self.features[views, photos].float()


@dataclass
class Texts:
    """S sentences, the captions of N photos first; a photo may have none."""

    terms: Tensor  # [S, L] int64 word pieces, V for padding
    first: Tensor  # [N] int64, number of each photo's first caption
    count: Tensor  # [N] int64, captions of each photo
    weights: Tensor | None = None  # [S] float32, how often each is drawn; None for equally often

    @classmethod
    def of(
        cls,
        captions: Sequence[Sequence[str]],
        sentences: Sequence[str],
        tokenizer: TermTokenizer,
        weights: Tensor | None = None,
    ) -> Texts:
        """Of the captions of each photo, and of further sentences."""
        texts = [*(caption for own in captions for caption in own), *sentences]
        ids = [torch.tensor(tokenizer.encode_ids(text), dtype=torch.int64) for text in texts]
        terms = pad_sequence(ids, batch_first=True, padding_value=len(tokenizer.vocabulary))
        count = torch.tensor([len(own) for own in captions])
        return cls(terms, count.cumsum(0) - count, count, weights)

    def caption_of(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos with captions to the numbers of a random caption of each."""
        return self.first[photos] + (torch.rand(len(photos)) * self.count[photos]).long()

    def draw(self, count: int) -> Tensor:
        """[count] numbers of random captions and sentences."""
        if self.weights is None:
            return torch.randint(len(self.terms), (count,))
        return torch.multinomial(self.weights, count, replacement=True)

    def owners(self) -> Tensor:
        """[Q] the number of each caption's photo."""
        return torch.arange(len(self.count)).repeat_interleave(self.count)


class Teachers:
    """The mean of several teachers' inner products, each divided by its own temperature.

    A part of it has the scale, sentences' vectors [S, d] and photos' vectors [N, d], float16.
    """

    def __init__(self, parts: Sequence[tuple[float, Tensor, Tensor]]) -> None:
        self.parts = parts

    def similarities(self, sentences: Tensor, photos: Tensor) -> Tensor:
        """[Q] and [B] numbers to [Q, B] similarities."""
        found = [
            scale * texts[sentences].float() @ shown[photos].float().T
            for scale, texts, shown in self.parts
        ]
        return torch.stack(found).mean(dim=0)


# ---- term vectors --------------------------------------------------------------------------------


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

    def ridge(
        self, vectors: Tensor, weights: Tensor | None = None, strength: float = STRENGTH
    ) -> Tensor:
        """(AᵀWA + λI)⁻¹ AᵀWV: term vectors [T, d] whose sums come nearest to V [S, d].

        A [S, T] is 1 where a sentence has a term, W [S] its weight. Neither is centred: the mean of
        the sentences, which does not depend on their words, is a prior of the photo.
        """
        present = self.columns < len(self.terms)
        rows = present.nonzero()[:, 0].numpy()
        ones = np.ones(len(rows))  # float64: weights may differ by millions
        shape = (len(self.columns), len(self.terms))
        a = csr_array((ones, (rows, self.columns[present].numpy())), shape)
        a.data[:] = 1.0  # also of a term that a sentence has twice
        weighted = a.T if weights is None else a.T.multiply(weights.double().numpy()).tocsr()
        diagonal = diags_array(np.full(len(self.terms), strength))
        gram = csr_array(weighted @ a + diagonal)
        right = torch.zeros(len(self.terms), vectors.shape[1], dtype=torch.float64)
        for start in range(0, len(vectors), BLOCK):  # their float32 numbers would fill the memory
            part = vectors[start : start + BLOCK].float().numpy()
            right += torch.from_numpy(weighted[:, start : start + BLOCK] @ part)
        return _solve(gram, right, strength).float()


def _solve(gram: csr_array, right: Tensor, smallest: float) -> Tensor:
    """X [T, d] of gram X = right, float64, for a symmetric matrix [T, T].

    By conjugate gradients (Hestenes and Stiefel, 1952): with a term for every word of a vocabulary
    a factorisation takes gigabytes, while few pairs of words are in one sentence. The Cholesky
    factor of the most frequent terms' part and the diagonal of the rest precondition them.

    No eigenvalue of the matrix is below `smallest`, so an error's norm is at most the residual's
    divided by it. A warning says that this does not get small enough.
    """
    diagonal = gram.diagonal()
    frequent = np.sort(np.argsort(-diagonal, kind="stable")[:FACTORED])
    block = csr_array(gram[frequent])[:, frequent].toarray()
    block[np.diag_indices_from(block)] *= 1 + RELATIVE  # positive definite in float64, too
    factor, places = torch.linalg.cholesky(torch.from_numpy(block)), torch.from_numpy(frequent)
    scale = torch.from_numpy(1 / diagonal)[:, None]

    def conditioned(rest: Tensor) -> Tensor:
        scaled = scale * rest
        scaled[places] = torch.cholesky_solve(rest[places], factor)
        return scaled

    found, residual, direction = torch.zeros_like(right), right.clone(), conditioned(right)
    size = (right * direction).sum(dim=0)
    for _ in range(MOST_ROUNDS):
        if (residual.norm(dim=0) <= TOLERANCE * smallest * found.norm(dim=0)).all():
            return found
        product = torch.from_numpy(gram @ direction.numpy())
        step = size / (direction * product).sum(dim=0).clamp(min=SMALLEST)
        found += step * direction
        residual -= step * product
        scaled = conditioned(residual)
        before, size = size, (residual * scaled).sum(dim=0)
        direction = scaled + size / before.clamp(min=SMALLEST) * direction
    log.warning("the sentences' weights differ so much that term vectors are approximate")
    return found


def term_sums(scores: Tensor, columns: Tensor) -> Tensor:
    """Of scores [N, T] of photos, the sums over the terms of Q sentences: [Q, N].

    `columns` [Q, L] int64 are the sentences' places among the T terms, T for padding.
    """
    table = F.pad(scores.T, (0, 0, 0, 1))
    return F.embedding_bag(columns, table, mode="sum", padding_idx=scores.shape[1])


class Aims(NamedTuple):
    """What the refinement pursues."""

    sentences: int  # per step, drawn of all, beside a caption of each photo
    captions: float  # weight of the contrast of photos and their captions
    flops: float  # weight of the sparsity regulariser
    # Photos of a step that are contrasted with a caption, which teachers do not judge: they know
    # it by heart. None for all photos, whose captions the teachers judge too.
    pairs: int | None = None


class TermVectors(nn.Module):
    """An image head, and for each of T terms the vector of its score.

    Args:
        head: of the photos; its last number is 1.
        vectors: [T, d] of the ridge regression.
        mean: [d] of the photos' vectors. Less it, a term's products have the mean 0.
        steep: factor on the vectors.
    """

    def __init__(
        self, head: nn.Module, vectors: Tensor, mean: Tensor, steep: float = STEEP
    ) -> None:
        super().__init__()
        self.head = head
        bias = -steep * vectors @ mean
        self.vectors = nn.Parameter(torch.cat([steep * vectors, bias[:, None]], dim=1))
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))

    def scores(self, features: Tensor, terms: Tensor | None = None) -> Tensor:
        """Equations 10 and 11: [B, d] features of photos to [B, T] scores of all or some terms."""
        hidden = self.head(features[:, None])[:, 0]  # the whole photo alone
        vectors = self.vectors if terms is None else self.vectors[terms]
        return torch.log1p(torch.relu(hidden @ vectors.T))

    def optimiser(
        self, rate: float, head_rate: float, betas: tuple[float, float] = (0.9, 0.999)
    ) -> Optimizer:
        """AdamW; the term vectors do not decay."""
        head = [*self.head.parameters()]
        groups = [
            {"params": [self.vectors], "lr": rate, "weight_decay": 0.0},
            {"params": [self.log_scale], "lr": 1e-2, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [*([{"params": head, "lr": head_rate}] if head else []), *groups],
            betas=betas,
            weight_decay=0.05,
        )

    def loss(
        self,
        aims: Aims,
        views: Views,
        texts: Texts,
        bags: Bags,
        teachers: Teachers,
        photos: Tensor,
    ) -> Tensor:
        """Divergence from the teachers over B photos, contrast with captions, and sparsity.

        The sentences are a caption of each photo that has one, and others drawn from all. A longer
        sentence has a larger sum on every photo, so its mean over the photos is made the teachers'.
        """
        own = (texts.count[photos] > 0).nonzero()[: aims.pairs, 0]
        others = texts.draw(aims.sentences)
        rows = torch.cat([texts.caption_of(photos[own]), others])
        terms, places = torch.unique(bags.columns[rows], return_inverse=True)
        known = terms[terms < len(bags.terms)]  # the last may be padding
        scores = self.scores(views.draw(photos), known)
        wanted = teachers.similarities(rows, photos)
        found = self.log_scale.exp() * term_sums(scores, places)
        found = found - found.mean(dim=1, keepdim=True) + wanted.mean(dim=1, keepdim=True)
        judged = slice(0 if aims.pairs is None else len(own), None)
        given, asked = found[judged], wanted[judged]
        total = (divergence(given, asked) + divergence(given.T, asked.T)) / 2
        if aims.captions and len(own) > 1:
            total = total + aims.captions * contrast(found[: len(own), own])
        return total + aims.flops * scores.mean(dim=0).square().sum()


def contrast(scores: Tensor) -> Tensor:
    """Symmetric InfoNCE: the cross-entropy of [B, B] scores whose diagonal belongs together."""
    own = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


def divergence(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean over rows of the Kullback-Leibler divergence of their softmax distributions."""
    return F.kl_div(
        found.log_softmax(dim=1), wanted.log_softmax(dim=1), log_target=True, reduction="batchmean"
    )


# ---- steps of an optimiser with averaged weights, which a killed run continues -------------------


class Plan(NamedTuple):
    """How long and how a module is trained."""

    photos: int  # N
    batch_size: int  # of them
    steps: int
    seed: int  # of all draws
    clip: float = 5.0  # largest norm of a gradient
    average: float = 0.99  # decay of the moving average of the weights

    def batches(self, start: int) -> Iterator[Tensor]:
        """Shuffled photos, epoch after epoch, from step `start` on; a rest is left out."""
        epoch_steps = self.photos // self.batch_size
        for step in range(start, self.steps):
            epoch, place = divmod(step, epoch_steps)
            if step == start or not place:
                generator = np.random.default_rng((self.seed, epoch))
                order = torch.from_numpy(generator.permutation(self.photos))
            yield order[place * self.batch_size : (place + 1) * self.batch_size]


def optimise(
    module: nn.Module,
    optimiser: Optimizer,
    loss: Callable[[Tensor], Tensor],
    plan: Plan,
    progress: Callable[[int, int], None],
    checkpoint: Path | None = None,
    measure: Callable[[int], None] | None = None,
) -> None:
    """Train a module, and leave it with the moving average of its weights, in eval mode.

    Every step's random draws depend on the seed and the step alone, so that a run that was killed
    ends with the weights of an uninterrupted one.

    Args:
        module: what is trained.
        optimiser: with the largest learning rates.
        loss: of a batch of numbers of photos.
        plan: how long.
        progress: called with the steps done, and all.
        checkpoint: file to continue from and to save to, if any.
        measure: called after each epoch with its number, from 1, while the module has the averaged
            weights and is in eval mode.
    """
    rate = partial(_rate, total=plan.steps)
    schedule = LambdaLR(optimiser, rate)
    mean = [one.detach().clone() for one in module.parameters()]
    parts: list[Part] = [module, optimiser, schedule]
    done = _restore(checkpoint, parts, mean) if checkpoint else 0
    epoch_steps = plan.photos // plan.batch_size
    module.train()
    for step, batch in enumerate(plan.batches(done), done):
        torch.manual_seed(int(np.random.SeedSequence((plan.seed, step)).generate_state(1)[0]))
        optimiser.zero_grad(set_to_none=True)
        value = loss(batch)
        if not value.isfinite():
            raise InputError(f"the loss is {value.item()} at step {step}: lower learning_rate")
        value.backward()
        nn.utils.clip_grad_norm_(module.parameters(), plan.clip)
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            # Early on, weights count for more.
            decay = min(plan.average, (2 + step) / (11 + step))
            torch._foreach_lerp_(mean, list(module.parameters()), 1 - decay)
        if checkpoint and (step + 1) % SAVE == 0:
            _save(checkpoint, step + 1, parts, mean)
        progress(step + 1, plan.steps)
        if measure and (step + 1) % epoch_steps == 0:
            current = [one.detach().clone() for one in module.parameters()]
            _set(module, mean)
            measure((step + 1) // epoch_steps)
            _set(module, current)
            module.train()
    _set(module, mean)


def _rate(step: int, total: int) -> float:
    """Factor on the learning rate: it rises, then falls along a cosine to 0."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    done = min(1.0, (step - WARMUP) / max(1, total - WARMUP))
    return 0.5 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def _set(module: nn.Module, weights: list[Tensor]) -> None:
    """Put a module into eval mode, with these weights."""
    for one, other in zip(module.parameters(), weights, strict=True):
        one.copy_(other)
    module.eval()


def _save(path: Path, step: int, parts: Sequence[Part], mean: list[Tensor]) -> None:
    states = [part.state_dict() for part in parts]
    unfinished = path.with_suffix(".partial")
    torch.save({"step": step, "parts": states, "mean": mean}, unfinished)
    unfinished.replace(path)


def _restore(path: Path, parts: Sequence[Part], mean: list[Tensor]) -> int:
    """Load a checkpoint if there is one; the steps done."""
    if not path.is_file():
        return 0
    state = torch.load(path, weights_only=True)
    for part, saved in zip(parts, state["parts"], strict=True):
        part.load_state_dict(saved)
    for average, saved in zip(mean, state["mean"], strict=True):
        average.copy_(saved)
    return int(state["step"])
