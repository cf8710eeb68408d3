"""Ready term weights of images → postings of an index, without networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from indexer.grounding import Inputs
from indexer.manifest import Manifest
from indexer.postings import ImagePostings
from indexer.quantisation import Quantiser
from sparta.errors import InputError

NO_POSITION = -1


class WeightReader:
    """Turns term weights into impacts of an index.

    Args:
        index: folder of the index.
        vocabulary: [V] terms in id order.

    Raises:
        InputError: if the folder is not an index.
    """

    def __init__(self, index: Path, vocabulary: Sequence[str]) -> None:
        manifest = Manifest.open(index)
        self._quantiser = Quantiser(manifest.scale, manifest.bits)
        self._ids = {term: number for number, term in enumerate(vocabulary)}

    def __call__(self, image_id: str, weights: Mapping[str, float]) -> ImagePostings:
        """The postings of an image whose term weights are known, all of which are kept.

        Args:
            image_id: of the image.
            weights: term → its score above the term's offset.

        Raises:
            InputError: naming a term that the vocabulary lacks, or a weight that is not positive.
        """
        try:
            terms = np.array([self._ids[term] for term in weights], np.int32)
        except KeyError as error:
            problem = f"term {error.args[0][:60]!r} is not in the vocabulary of the index"
            raise InputError(problem) from error
        scores = np.array(list(weights.values()), np.float64)
        for place in np.flatnonzero(~((scores > 0) & (scores < np.inf))):
            problem = f"the weight of term {list(weights)[place]!r} is {scores[place]}"
            raise InputError(f"{problem}, not a positive number")
        order = np.argsort(terms)
        finite = np.minimum(scores[order], np.float32(1e30)).astype(np.float32)
        impacts = self._quantiser.impacts(finite)
        nothing = np.empty(0, np.int32)
        inputs = Inputs(np.empty((0, 4), np.float32), nothing, nothing.astype(np.int16))
        positions = np.full(len(terms), NO_POSITION, np.int16)
        return ImagePostings(image_id, {}, terms[order], impacts, positions, inputs)
