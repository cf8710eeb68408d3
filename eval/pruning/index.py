"""Ways to prune, and the index that each of them makes: in memory to rank, as a folder to weigh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eval.recall.scores import check_memory
from indexer.encoding.asked import AskedTerms
from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch, ImageEncoder
from indexer.grounding import Inputs
from indexer.impacts import ImpactParameters, encode_rows
from indexer.index_writer import write_index
from indexer.parts import LUCENE
from indexer.pruning import largest_kept, prune
from indexer.quantisation import Quantiser
from indexer.settings import (
    OFFSET_KINDS,
    IndexSettings,
    OffsetKind,
    TermSet,
    check_bits,
    check_power,
)
from indexer.state import bytes_below
from indexer.store.commit import SEGMENTS
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

SHARD = 512  # images whose scores or postings are handled at once


# ---- choices -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PruningChoice:
    """One way to prune; see `PruningSettings`."""

    top_n: int | None  # terms an image keeps, None for all
    offset: OffsetKind
    terms: TermSet
    asked: str = "none"  # "model", "none" or the path of a file of queries
    asked_power: float = 0.0  # 0 for "none"

    def name(self, bits: int) -> str:
        """Name of the folder of an index with impacts of so many bits."""
        asked = f"{Path(self.asked).stem}-{self.asked_power:g}" if self.asked_power else "none"
        return f"{self.offset}-{self.terms}-{asked}-{self.top_n or 'all'}-{bits}-bits"


def parse_choices(
    top_n: str, offset: str, terms: str, asked: str = "none", asked_power: str = "0"
) -> list[PruningChoice]:
    """Every combination of five lists with commas; top-n changes fastest.

    No power belongs to "none", which makes one choice.

    Raises:
        InputError: if a value is not a choice.
    """
    powers = [_power(power) for power in asked_power.split(",")]
    weighed = dict.fromkeys(
        (source, power if source != "none" else 0.0)
        for source in map(str.strip, asked.split(","))
        for power in powers
    )
    return [
        PruningChoice(n, kind, which, *pair)  # type: ignore[arg-type]
        for pair in weighed
        for which in _listed(terms, "--terms", get_args(TermSet))
        for kind in _listed(offset, "--offset", OFFSET_KINDS)
        for n in _numbers(top_n, "--top-n", "all")
    ]


def parse_bits(text: str) -> list[int | None]:
    """Numbers of bits out of a list with commas; "float" gives None.

    Raises:
        InputError: if something is neither.
    """
    widths = _numbers(text, "--bits", "float")
    for width in widths:
        if width is not None:
            check_bits(width)
    return widths


def _power(text: str) -> float:
    try:
        power = float(text)
    except ValueError as error:
        raise InputError(f"--asked-power: {text!r} is not a number from 0 to 1") from error
    check_power(power)
    return power


def _numbers(text: str, option: str, none: str) -> list[int | None]:
    """Numbers from 1, and None for the word that means none."""
    numbers = [one for one in map(str.strip, text.split(",")) if one.isdecimal() and int(one)]
    known = _listed(text, option, [none, *numbers], f"numbers from 1, {none}")
    return [None if one == none else int(one) for one in known]


def _listed(text: str, option: str, known: Sequence[str], expected: str = "") -> list[str]:
    """The values of a list with commas, each once."""
    names = list(dict.fromkeys(map(str.strip, text.split(","))))
    for name in names:
        if name not in known:
            expected = expected or ", ".join(known)
            raise InputError(f"{option}: {name!r} is not one of: {expected}")
    return names


# ---- scored images -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TermScoreMatrix(ImageEncoder):
    """An encoder of N images that answers from memory.

    Attributes:
        rows: [N] int64, the images' rows in the store, rising.
        scored: their scores [N, V] float32 and positions [N, V] int16.
        inputs: the inputs that the positions refer to, one per image.
    """

    rows: np.ndarray
    scored: TermScores
    inputs: list[Inputs]

    @classmethod
    def of(
        cls,
        encoder: ImageEncoder,
        rows: Sequence[int],
        progress: Progress = no_progress,
    ) -> TermScoreMatrix:
        """Run the models over some rows; progress of the stage "encode", in images.

        Raises:
            InputError: if the scores would not fit in 8 GB.
        """
        shape = (len(rows), len(encoder.tokenizer.vocabulary))
        check_memory(*shape)
        scored = TermScores(np.empty(shape, np.float32), np.empty(shape, np.int16))
        inputs: list[Inputs] = []
        for images, (scores, positions), read in encoder.batches(rows):
            own = slice(len(inputs), len(inputs) + len(images))
            scored.scores[own], scored.positions[own] = scores, positions
            inputs += read
            progress("encode", len(inputs), len(rows))
        inherited = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
        return cls(**inherited, rows=np.asarray(rows), scored=scored, inputs=inputs)

    def batches(self, rows: Iterable[int], keep: bool = False) -> Iterator[EncodedBatch]:
        """As `ImageEncoder.batches`, but from memory."""
        waiting = iter(rows)
        while chunk := list(islice(waiting, self.batch_size)):
            places = np.searchsorted(self.rows, chunk)
            yield EncodedBatch(
                [self.store[row] for row in chunk],
                TermScores(self.scored.scores[places], self.scored.positions[places]),
                [self.inputs[place] for place in places],
            )


# ---- pruned --------------------------------------------------------------------------------------


class IndexBytes(NamedTuple):
    """Size of an index on disk, bytes an image."""

    lucene: float
    segments: float


@dataclass(frozen=True)
class PrunedIndex:
    """N scored images with their kept terms.

    Attributes:
        images: with all their scores.
        choice: the way to prune.
        offset: [V] float32, the choice's, estimated over these images.
        asked: the choice's frequencies of terms as weights.
    """

    images: TermScoreMatrix
    choice: PruningChoice
    offset: NDArray[np.float32]
    asked: AskedTerms

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """[V] bool, terms that may be kept."""
        return self.images.allowed(self.choice.terms)

    def weights(self, terms: Tensor) -> tuple[Tensor, float]:
        """Scores above the offset where they are kept, and 0 elsewhere.

        Args:
            terms: [U] int64.

        Returns:
            [U, N] float32, and the mean number of terms an image keeps, of the whole vocabulary.
        """
        columns, postings, every = [], 0, self.images.scored.scores
        for start in range(0, len(every), SHARD):
            scores = every[start : start + SHARD]
            kept = prune(scores, self.offset, self.allowed, self.choice.top_n, self.asked.weights)
            columns.append(kept[:, terms.numpy()])
            postings += int(np.count_nonzero(kept))
        weights = torch.from_numpy(np.concatenate(columns)).T.contiguous()
        return weights, postings / len(self.images.rows)

    @cached_property
    def largest(self) -> float:
        """The largest score that an image keeps, for which a quantiser is fitted."""
        scores, n = self.images.scored.scores, self.choice.top_n
        return largest_kept(scores, self.offset, self.allowed, n, self.asked.weights)

    def quantised(self, weights: Tensor, bits: int) -> Tensor:
        """Weights as the impacts of an index, in float32; 0 where the weight is 0."""
        impacts = Quantiser.fit(self.largest, bits).impacts(weights.numpy())
        return torch.from_numpy(impacts) * (weights > 0).float()

    def build(self, bits: int, folder: Path | None) -> IndexBytes:
        """Build an index as `sparta index` does, in a folder of the choice's name.

        Args:
            bits: of an impact.
            folder: to keep the index in; None removes it.

        Raises:
            InputError: if the index's folder exists.
        """
        with TemporaryDirectory() as work:
            place = (folder or Path(work)) / self.choice.name(bits)
            if place.exists():
                raise InputError(f"--indexes: {place} exists: remove it or choose another folder")
            self._write(bits, place)
            sizes = (bytes_below(place / part) for part in (LUCENE, SEGMENTS))
            return IndexBytes(*(size / len(self.images.rows) for size in sizes))

    def _write(self, bits: int, folder: Path) -> None:
        images, quantiser = self.images, Quantiser.fit(self.largest, bits)
        settings = IndexSettings(
            models=[scorer.fingerprint for scorer in images.scorers],
            features=[view.fingerprint for view in images.stores],
            photos=None,
            bits=bits,
            offset_images=len(images.rows),
            **asdict(self.choice) | {"asked": self.asked.source},
        )
        parameters = ImpactParameters(
            self.offset, self.allowed, self.choice.top_n, quantiser, self.asked.weights
        )
        chunks = (images.rows[start : start + SHARD] for start in range(0, len(images.rows), SHARD))
        write_index(
            folder,
            (encode_rows(images, chunk, parameters) for chunk in chunks),
            images.tokenizer,
            settings,
            self.offset,
            quantiser.scale,
            images=len(images.rows),
        )
