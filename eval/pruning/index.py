"""Ways to prune, and the index that each of them makes: in memory to rank, as a folder to weigh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eval.recall.scores import check_memory
from indexer.encoding.encoder import ImageEncoder
from indexer.encoding.impacts import (
    ImpactParameters,
    Pruning,
    Quantiser,
    ScoredImages,
    TermFrequencies,
    Terms,
)
from indexer.encoding.scorers import wanted_terms
from indexer.index_writer import write_index
from indexer.manifest import LUCENE
from indexer.settings import (
    OFFSET_KINDS,
    IndexSettings,
    OffsetKind,
    PruningSettings,
    TermSet,
)
from indexer.state import bytes_below
from indexer.store.commit import SEGMENTS
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

SHARD = 512  # images whose postings are made at once
Number = TypeVar("Number", int, float)


# ---- choices -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PruningChoice:
    """One way to prune; see `PruningSettings`, which checks the values."""

    top_n: int | None  # terms an image keeps, None for all
    offset: OffsetKind
    terms: TermSet
    frequencies: str = "none"  # "model", "none" or the path of a file of queries
    frequency_power: float = 0.0  # 0 for "none"

    def __post_init__(self) -> None:
        PruningSettings(**asdict(self))
        if self.offset not in OFFSET_KINDS:
            raise InputError(f"--offset: {self.offset!r} is not one of: {', '.join(OFFSET_KINDS)}")


def parse_choices(
    top_n: str, offset: str, terms: str, frequencies: str = "none", frequency_power: str = "0"
) -> list[PruningChoice]:
    """Every combination of five lists with commas; top-n changes fastest.

    No power belongs to "none", which makes one choice.
    """
    powers = [_number(float, one, "--frequency-power") for one in _listed(frequency_power)]
    weighed = dict.fromkeys(
        (source, power if source != "none" else 0.0)
        for source in _listed(frequencies)
        for power in powers
    )
    kept = [None if one == "all" else _number(int, one, "--top-n") for one in _listed(top_n)]
    combined = product(weighed, _listed(terms), _listed(offset), kept)
    return [PruningChoice(n, kind, which, *pair) for pair, which, kind, n in combined]


def parse_bits(text: str) -> list[int | None]:
    """Numbers of bits out of a list with commas; "float" gives None."""
    widths = [None if one == "float" else _number(int, one, "--bits") for one in _listed(text)]
    for width in widths:
        if width is not None:
            PruningSettings(bits=width)  # checks it
    return widths


def _number(kind: Callable[[str], Number], text: str, option: str) -> Number:
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(f"{option}: {text!r} is not a number") from error


def _listed(text: str) -> list[str]:
    """The values of a list with commas, each once."""
    return list(dict.fromkeys(map(str.strip, text.split(","))))


# ---- scored images -------------------------------------------------------------------------------


def score_rows(
    encoder: ImageEncoder, rows: Sequence[int], progress: Progress = no_progress
) -> ScoredImages:
    """Score some rows of an encoder's stores; progress of the stage "encode", in images."""
    shape = (len(rows), len(encoder.terms))
    check_memory(*shape)
    whole = ScoredImages([], [], np.empty(shape, np.float32), np.empty(shape, np.int16), [])
    for part in encoder.scored(rows):
        own = slice(len(whole.ids), len(whole.ids) + len(part.ids))
        whole.scores[own], whole.positions[own] = part.scores, part.positions
        whole.ids.extend(part.ids)
        whole.metadata.extend(part.metadata)
        whole.inputs.extend(part.inputs)
        progress("encode", len(whole.ids), len(rows))
    return whole


def columns_of(scores: NDArray[np.float32], known: Terms, wanted: Terms) -> NDArray[np.float32]:
    """Scores [N, T] of known terms [T], rising → [N, U] of wanted terms; unknown ones score 0."""
    places = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    found: NDArray[np.float32] = scores[:, places] * (known[places] == wanted)
    return found


# ---- pruned --------------------------------------------------------------------------------------


class IndexBytes(NamedTuple):
    """Size of an index on disk, bytes an image."""

    lucene: float
    segments: float


@dataclass(frozen=True)
class PrunedIndex:
    """N scored images with their kept terms."""

    encoder: ImageEncoder  # of the images
    images: ScoredImages  # with the scores of the encoder's T terms
    choice: PruningChoice  # the way to prune
    offset: NDArray[np.float32]  # [T] float32, the choice's, estimated over these images
    frequencies: TermFrequencies  # the choice's frequencies of terms as weights

    @cached_property
    def pruning(self) -> Pruning:
        """The choice for these images."""
        terms, weights = self.encoder.terms, self.frequencies.weights
        allowed = wanted_terms(self.encoder.scorers, self.encoder.tokenizer, self.choice.terms)
        offset = np.where(np.isin(terms, allowed), self.offset, np.float32(np.inf))
        chosen = None if weights is None else weights[terms]
        return Pruning(terms, offset, self.choice.top_n, chosen)

    def weights(self, terms: Tensor) -> tuple[Tensor, float]:
        """Scores [U, N] of some terms [U] above the offset where they are kept, and 0 elsewhere.

        Also the mean number of terms an image keeps, of the whole vocabulary.
        """
        columns, postings = [], 0
        for kept in self.pruning(self.images.scores):
            columns.append(columns_of(kept, self.encoder.terms, terms.numpy()))
            postings += int(np.count_nonzero(kept))
        weights = torch.from_numpy(np.concatenate(columns)).T.contiguous()
        return weights, postings / len(self.images.ids)

    @cached_property
    def largest(self) -> float:
        """The largest score that an image keeps, for which a quantiser is fitted."""
        return self.pruning.largest_kept(self.images.scores)

    def quantised(self, weights: Tensor, bits: int) -> Tensor:
        """Weights as the impacts of an index, in float32; 0 where the weight is 0."""
        impacts = Quantiser.fit(self.largest, bits).impacts(weights.numpy())
        return torch.from_numpy(impacts) * (weights > 0).float()

    def build(self, bits: int) -> IndexBytes:
        """Build an index as `sparta index` does, measure it and remove it; impacts have `bits`."""
        encoder, count = self.encoder, len(self.images.ids)
        settings = IndexSettings(
            models=encoder.models,
            features=[view.fingerprint for view in encoder.stores],
            photos=None,
            bits=bits,
            offset_images=count,
            **asdict(self.choice) | {"frequencies": self.frequencies.source},
        )
        parameters = ImpactParameters(self.pruning, Quantiser.fit(self.largest, bits))
        offset = np.zeros(len(encoder.tokenizer.vocabulary), np.float32)
        offset[encoder.terms] = self.offset
        parts = (self.images.part(slice(at, at + SHARD)) for at in range(0, count, SHARD))
        with TemporaryDirectory() as work:
            place = Path(work) / "index"
            write_index(
                place,
                map(parameters.postings, parts),
                encoder.tokenizer,
                settings,
                offset,
                parameters.quantiser.scale,
                images=count,
            )
            sizes = (bytes_below(place / part) for part in (LUCENE, SEGMENTS))
            return IndexBytes(*(size / count for size in sizes))
