"""The rate of each stage from photos to an index, alone on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from eval.bench.indexing.encoded_images import encode_store
from eval.bench.indexing.measure import build, impact_parameters
from eval.bench.photos.clip_tower import BATCH, SIDE, clip_tower
from eval.bench.photos.inputs import PhotoSet
from eval.bench.photos.photo_speed import ANY, Rate
from eval.bench.photos.torch_networks import torch_extractor, torch_scores
from indexer.encoding.term_scores import ImageEncoder
from indexer.manifest import Manifest
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.decode_pool import decode_all
from sparta.features.extract.extractor import Extractor, load_extractor_of
from sparta.features.extract.photos import Decoder, Photo
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.progress import no_progress

NETWORK_PHOTOS = 256  # at most, that the networks see
PLAIN = Augmentation("plain")

T = TypeVar("T")
Batch = TypeVar("Batch", bound=Sized)


def decoding(photos: PhotoSet, source: FeatureSource, cores: int) -> Rate:
    """From files to squares, in as many processes as cores."""
    extractor = load_extractor_of(source, "cpu")
    decoder = extractor.decoder(photos.folder, PLAIN)
    batches = _split(photos.ids, extractor.batch_size)
    seconds = _seconds(lambda: list(decode_all(decoder, batches, cores)))
    return Rate("decoding", photos.name, len(photos.ids) / seconds)


def backbone(photos: PhotoSet, source: FeatureSource) -> Iterator[Rate]:
    """From squares in memory to features, as the command does it and in torch."""
    for stage, extractor in _extractors(source):
        decoder = extractor.decoder(photos.folder, PLAIN)
        decoded = [
            [photo for photo in decoder(ids) if isinstance(photo, Photo)]
            for ids in _split(photos.ids[:NETWORK_PHOTOS], extractor.batch_size)
        ]
        yield _rate(stage, decoded, extractor)


def transformer(store: FeatureStore, model: str) -> Iterator[Rate]:
    """From a feature store to term scores, as the command does it and in torch."""
    encoder = ImageEncoder.open([store], [model], device="cpu", terms="trained")
    rows = range(min(NETWORK_PHOTOS, len(store)))
    batches = _split(list(rows), encoder.batch_size)
    yield _rate("transformer", batches, lambda own: list(encoder.batches(own)))
    yield _rate("transformer, torch", batches, torch_scores(store, model))


def indexing(index: Path, store: FeatureStore, model: str, images: int, work: Path) -> list[Rate]:
    """From term scores in memory to Lucene, and to the columns; images repeat up to `images`.

    Args:
        index: built by the command, whose settings are used.
        store: of its features.
        model: it was built with.
        images: so many that Java's start does not count.
        work: folder for temporary files, which are removed.
    """
    settings = Manifest.open(index)
    encoded = encode_store(store.folder, model)
    parameters = impact_parameters(encoded, settings.top_n, settings.bits)
    whole = build(encoded, images, parameters, work, no_progress)
    return [
        Rate("pruning and Lucene", ANY, images / whole.seconds),
        Rate("columns", ANY, images / whole.columns_seconds),
    ]


def clip(sets: Sequence[PhotoSet], cores: int) -> Iterator[Rate]:
    """A CLIP's image tower from squares in memory, and from each set of files."""
    tower = clip_tower()
    squares = np.zeros((BATCH, SIDE, SIDE, 3), np.uint8)
    yield _rate("CLIP ViT-B/32, torch", [squares] * (NETWORK_PHOTOS // BATCH), tower)
    for photos in sets:
        ids = photos.ids[:NETWORK_PHOTOS]
        decoder = Decoder(photos.folder, SIDE, int(Image.Resampling.BICUBIC), PLAIN)

        def encode(ids: list[str] = ids, decoder: Decoder = decoder) -> None:
            for batch in decode_all(decoder, _split(ids, BATCH), cores):
                tower(np.stack([photo.pixels for photo in batch if isinstance(photo, Photo)]))

        yield Rate("decoding and CLIP", photos.name, len(ids) / _seconds(encode))


def _extractors(source: FeatureSource) -> Iterator[tuple[str, Extractor]]:
    yield "backbone", load_extractor_of(source, "cpu")
    if reference := torch_extractor(source):
        yield "backbone, torch", reference


def _rate(stage: str, batches: Sequence[Batch], work: Callable[[Batch], object]) -> Rate:
    """Of batches one after the other, after one that is not counted."""
    work(batches[0])
    seconds = _seconds(lambda: [work(batch) for batch in batches])
    return Rate(stage, ANY, sum(map(len, batches)) / seconds)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _split(values: list[T], size: int) -> list[list[T]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
