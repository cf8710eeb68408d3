"""Images drawn from a distribution fitted to given ones: as alike as photos are, none a copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FACTORS = 256
# The share of the variance of factors that comes from the image which an image is drawn around.
# With it a drawn image is as near to the nearest of as many others as photos of Flickr8k are.
KEPT = 0.72
PILOT = 10_000  # images that the distribution of each term's values is measured on
CHUNK = 2_000  # images of it made at once
LEVELS, EDGE = 1024, 8.0  # values are told apart from -8 to 8 standard deviations

Impacts = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Distribution:
    """A smoothed bootstrap in the space of factors, with the given images' own marginals.

    An image is a point of factors drawn around a given image's (a kernel density estimate, shrunk
    so that variances and correlations stay those of the given images; Silverman 1986, section
    6.4), times the loadings, plus noise of each term's own. A term's value then becomes the impact
    of the same rank among the given images, so each term keeps its document frequency and its
    distribution of impacts.
    """

    factors: NDArray[np.float32]  # [N, F] float32 of the given images, of mean 0 and variance 1
    loadings: NDArray[np.float32]  # [F, A] float32
    noise: NDArray[np.float32]  # [A] float32, standard deviations
    impacts: Impacts  # [A, LEVELS] the impact of each value of each term

    @classmethod
    def of(cls, impacts: Impacts, seed: int = 0) -> Distribution:
        """Fit it to images.

        Args:
            impacts: [N, A], 0 where an image lacks a term; at least two images.
            seed: of the pilot.
        """
        scaled = impacts.astype(np.float32)
        scaled -= scaled.mean(axis=0)
        scaled /= np.maximum(scaled.std(axis=0), 1e-6)
        factors, loadings = _factors(scaled, min(FACTORS, len(scaled) - 1, scaled.shape[1]), seed)
        noise = np.sqrt(np.maximum(1 - (loadings**2).sum(axis=0), 0)).astype(np.float32)
        fitted = cls(factors, loadings, noise, impacts[:0])
        ranks = fitted._ranks(np.random.default_rng((seed, 1)))
        return cls(factors, loadings, noise, _by_rank(impacts, ranks))

    def draw(self, count: int, rng: np.random.Generator) -> Impacts:
        """The impacts [count, A] of new images."""
        levels = self._levels(count, rng)
        drawn: Impacts = self.impacts[np.arange(len(self.noise)), levels]
        return drawn

    def _levels(self, count: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """Values of all terms [count, A], as levels."""
        around = self.factors[rng.integers(len(self.factors), size=count)]
        moved = rng.standard_normal(around.shape, np.float32)
        values = (np.sqrt(KEPT) * around + np.sqrt(1 - KEPT) * moved) @ self.loadings
        values += self.noise * rng.standard_normal(values.shape, np.float32)
        values += EDGE
        values *= LEVELS / (2 * EDGE)
        levels: NDArray[np.int16] = np.clip(values, 0, LEVELS - 1, out=values).astype(np.int16)
        return levels

    def _ranks(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """The share [A, LEVELS] of images whose value of a term is below the middle of a level."""
        terms = len(self.noise)
        counts = np.zeros(terms * LEVELS, np.int64)
        for _ in range(0, PILOT, CHUNK):
            places = self._levels(CHUNK, rng) + LEVELS * np.arange(terms)
            counts += np.bincount(places.ravel(), minlength=len(counts))
        shares = counts.reshape(terms, LEVELS) / counts.sum() * terms
        middles: NDArray[np.float64] = shares.cumsum(axis=1) - shares / 2
        return middles


def _factors(
    scaled: NDArray[np.float32], count: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Factors [N, count] of variance 1 and loadings of a principal component analysis.

    By a randomised range finder with two power iterations (Halko, Martinsson and Tropp 2011,
    algorithm 4.4).
    """
    found = scaled @ np.random.default_rng((seed, 0)).standard_normal(
        (scaled.shape[1], count), np.float32
    )
    for _ in range(2):
        basis, _ = np.linalg.qr(found)
        found = scaled @ (scaled.T @ basis)
    basis, _ = np.linalg.qr(found)
    left, sizes, right = np.linalg.svd(basis.T @ scaled, full_matrices=False)
    root = np.sqrt(np.float32(len(scaled)))
    return (basis @ left) * root, right * sizes[:, None] / root


def _by_rank(impacts: Impacts, ranks: NDArray[np.float64]) -> Impacts:
    """For each term and level the impact of the given images that has its rank."""
    ordered = np.sort(impacts, axis=0)
    places = np.minimum((ranks * len(impacts)).astype(np.int64), len(impacts) - 1)
    table: Impacts = np.take_along_axis(ordered.T, places, axis=1)
    return table
