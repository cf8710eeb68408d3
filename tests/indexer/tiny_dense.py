"""Tiny dense models; dense parts of plain arrays, whose text encoder counts letters."""

import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.dense.manifest import VECTORS, DenseManifest, dense_folder
from indexer.dense.vectors import ImageVectors, VectorIndexKind, write_content_ids
from indexer.manifest import Manifest, describe_parts
from indexer.store.images import built_content_id
from indexer.store.snapshot import Snapshot
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_regions
from sparta.vse.config import VseConfig
from sparta.vse.model import VseModel
from sparta.vse.tokenizer import TextTokenizer
from tests.indexer.tiny import SOURCE

CAPTIONS = ["a dog on the beach", "the red ball", "two cats run", "dogs and a cat", "blue sky"]


def save_dense_model(
    folder: Path,
    name: str = "vse++",
    views: int = 1,
    seed: int = 0,
    source: FeatureSource = SOURCE,
    captions: list[str] = CAPTIONS,
) -> Path:
    tokenizer = TextTokenizer.from_captions(captions, min_count=1)
    config = VseConfig(
        name=name,
        feature_dim=source.dimension,
        feature_source=asdict(source),
        visual="grid",
        word_dim=8,
        vocabulary_size=len(tokenizer),
        dimension=16,
        visual_pooling="gpo" if views > 1 else "mean",
        views=views,
    )
    torch.manual_seed(seed)
    model = VseModel(config)
    model.attach(tokenizer, folder)
    model.save_pretrained(folder)
    return folder


def slow_scores(folder: Path, store: FeatureStore, query: str) -> list[list[float]]:
    """[N][K] cosines, one image at a time."""
    model = VseModel.from_pretrained(folder)
    text = model.embed_texts([query])[0]
    rows = []
    with torch.no_grad():
        for image in store:
            views = model.encode_images(collate_regions([image]))[0]
            rows.append([float(view @ text) for view in views])
    return rows


LETTERS = "abcdefgh"
Vectors = NDArray[np.float32]


class LetterEncoder:
    """Embeds a text as how often it holds each of eight letters; slowly, if that is wanted."""

    def __init__(self, letters: str = LETTERS, seconds: float = 0.0) -> None:
        self.letters, self.seconds = letters, seconds

    def encode(self, text: str) -> Vectors:
        time.sleep(self.seconds)
        return np.array([text.count(letter) for letter in self.letters], np.float32)

    def unknown(self, text: str) -> list[str]:
        return [word for word in text.split() if not set(word) & set(self.letters)]


def random_vectors(images: int, views: int, seed: int = 0) -> Vectors:
    """[N, K, 8] whole numbers, so that many scores are equal."""
    random = np.random.default_rng(seed)
    return random.integers(-2, 3, (images, views, len(LETTERS))).astype(np.float32)


def write_part(
    index: Path, name: str, vectors: Vectors, kind: VectorIndexKind = "flat"
) -> DenseManifest:
    """Add a part with vectors [N, K, 8] of the images of an index folder, as it was built."""
    folder, of, images = dense_folder(index, name), Manifest.open(index), Snapshot.open(index)
    folder.mkdir(parents=True)
    made = ImageVectors.create(len(LETTERS), vectors.shape[1], kind)
    made.add(vectors)
    made.save(folder / VECTORS)
    write_content_ids(
        folder, [built_content_id(images.stored(one).image_id) for one in range(len(vectors))]
    )
    manifest = DenseManifest(
        package_version="0",
        created="2024-01-01T00:00:00+00:00",
        model="0" * 64,
        features="0" * 32,
        indexed_features=of.features[0],
        images=len(vectors),
        views=vectors.shape[1],
        dimension=len(LETTERS),
        kind=kind,
        parts=describe_parts(folder),
    )
    manifest.save(folder)
    return manifest
