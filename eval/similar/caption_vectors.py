"""Images as tf-idf vectors of their captions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from eval.similar.in_memory import Matrix
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError


def caption_vectors(ids: Sequence[str], captions: Sequence[CaptionedPhoto]) -> Matrix:
    """Captions of N images: [N, W] float64 of length 1, so that products are cosines.

    A word's weight is the number of the image's captions with it, times log(N / images with it).

    Raises:
        InputError: if an image has no captions.
    """
    texts_of = {photo.image_id: photo.captions for photo in captions}
    missing = [image_id for image_id in ids if image_id not in texts_of]
    if missing:
        raise InputError(
            f"{len(missing)} of the index's {len(ids)} images have no captions, {missing[0]!r} for "
            "one: give captions of all of them"
        )
    places: dict[str, int] = {}
    counts: list[Counter[int]] = []
    for image_id in ids:
        texts = [set(re.findall(r"\w+", text.lower())) for text in texts_of[image_id]]
        words = (places.setdefault(word, len(places)) for text in texts for word in sorted(text))
        counts.append(Counter(words))
    starts = np.cumsum([0, *map(len, counts)])
    terms = np.array([word for count in counts for word in count], np.int32)
    values = np.array([times for count in counts for times in count.values()], np.float64)
    values *= np.log(len(ids) / np.bincount(terms, minlength=len(places)))[terms]
    lengths = np.sqrt([(part**2).sum() for part in np.split(values, starts[1:-1])])
    values /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(starts))
    return csr_array((values, terms, starts), shape=(len(ids), len(places)))
