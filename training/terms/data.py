"""What a training of term vectors reads: views of photos, and texts as vectors and as terms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparta.adapt.fit import Texts, Views
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import Progress
from sparta.readers.base import read_lines
from sparta.tokenizer import TermTokenizer


def read_sentences(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, at least one; blank ones are left out."""
    sentences = [line.strip() for line in read_lines(path) if line.strip()]
    if not sentences:
        raise InputError(f"{path} is empty: give one sentence a line")
    return sentences


def read_views(
    stores: Sequence[FeatureStore], photos: Sequence[CaptionedPhoto], progress: Progress
) -> Views:
    """Read the whole-photo vectors, the last region of each; progress of stage "features"."""
    found = torch.empty(len(stores), len(photos), stores[0].source.dimension, dtype=torch.half)
    for view, store in enumerate(stores):
        for row, photo in enumerate(photos):
            whole = store[store.index(photo.image_id)].features[-1]
            found[view, row] = torch.from_numpy(whole.copy())
        progress("features", view + 1, len(stores))
    return Views(found)


def read_texts(
    photos: Sequence[CaptionedPhoto],
    sentences: Sequence[str],
    encode: Callable[[Sequence[str]], Tensor],
    tokenizer: TermTokenizer,
    cache: Path,
) -> tuple[Texts, Tensor]:
    """Captions and sentences as word pieces, and their vectors [S, d] float16.

    Vectors are read from the cache if that file exists.
    """
    texts = [*(caption for photo in photos for caption in photo.captions), *sentences]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    if cache.is_file():
        with safe_open(cache, "pt") as file:
            vectors, known = file.get_tensor("vectors"), file.metadata()["texts"]
        if known != digest:
            raise InputError(
                f"{cache}: the run began with other captions or sentences: restore them, or train "
                "in another --out"
            )
    else:
        vectors = encode(texts)
        partial = cache.with_suffix(".partial")
        save_file({"vectors": vectors}, partial, {"texts": digest})
        partial.replace(cache)
    captions = [photo.captions for photo in photos]
    return Texts.of(captions, sentences, tokenizer), vectors
