"""Synthetic images and queries, drawn from measured distributions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.queries import TermQuery

# Terms by how often captions use them: rank of the group's last term; the group's share of the
# captions' word pieces; mean and standard deviation of its terms' document frequencies; mean
# impact where there is one, and shape of the gamma distribution with that mean and the impacts'
# variance. Measured on 25,014 captions of COCO val2017 and on the impacts (mean offset, trained
# terms, 8 bits, nothing pruned) of 7,091 photos of Flickr8k.
GROUPS = np.array(
    [
        [1, 0.139, 0.535, 0.000, 3.5, 2.1],
        [2, 0.064, 0.488, 0.000, 4.8, 1.7],
        [4, 0.060, 0.507, 0.016, 9.8, 2.0],
        [8, 0.097, 0.487, 0.008, 7.4, 1.5],
        [16, 0.070, 0.520, 0.018, 14.7, 0.8],
        [32, 0.074, 0.456, 0.119, 23.4, 1.0],
        [64, 0.081, 0.336, 0.181, 32.1, 1.0],
        [128, 0.095, 0.333, 0.175, 32.3, 1.0],
        [256, 0.099, 0.311, 0.183, 33.6, 1.1],
        [512, 0.081, 0.313, 0.173, 36.5, 1.4],
        [1024, 0.057, 0.274, 0.161, 39.6, 1.7],
        [2048, 0.036, 0.239, 0.145, 41.1, 1.9],
        [4096, 0.018, 0.233, 0.146, 39.9, 1.9],
        [6666, 0.001, 0.220, 0.156, 38.0, 1.9],
    ]
)
BITS = 8
IMAGES = 5_000
# Word pieces of a caption: 7 and a Poisson variable, 11.8 on average, 17 in one of a hundred.
LEAST_PIECES, MORE_PIECES = 7, 4.8


def synthetic_source(images: int = IMAGES, seed: int = 0) -> ImpactSource:
    """Images with independent terms, unlike those of photos."""
    rng = np.random.default_rng((seed, 0))
    last, _, mean, deviation, impact, shape = GROUPS.T
    group = np.repeat(np.arange(len(GROUPS)), np.diff(last, prepend=0).astype(int))
    frequencies = np.clip(rng.normal(mean[group], deviation[group]), 0.005, 0.95)
    present = rng.random((images, len(group)), np.float32) < frequencies
    own = group[present.nonzero()[1]]
    impacts = present.astype(np.uint8)
    drawn = rng.gamma(shape[own], (impact / shape)[own])
    impacts[present] = np.clip(np.rint(drawn), 1, 2**BITS - 1)
    terms = np.arange(len(group), dtype=np.int32)
    vocabulary = [f"term{rank}" for rank in range(1, len(group) + 1)]
    about: dict[str, object] = {"images": images, "bits": BITS, "seed": seed}
    return ImpactSource("synthetic", vocabulary, terms, impacts, BITS, about)


def synthetic_queries(count: int, seed: int = 0) -> list[TermQuery]:
    """Queries as long as captions, of terms as frequent as theirs."""
    rng = np.random.default_rng((seed, 1))
    last, share, *_ = GROUPS.T
    made = []
    for number in range(count):
        length = LEAST_PIECES + rng.poisson(MORE_PIECES)
        group = rng.choice(len(GROUPS), size=length, p=share / share.sum())
        first = np.concatenate([[0], last[:-1]])[group]
        terms = rng.integers(first, last[group])
        text = " ".join(f"term{term + 1}" for term in terms)
        made.append(TermQuery(number, text, text, dict(Counter(terms.tolist()))))
    return made
