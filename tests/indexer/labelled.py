"""An index in which it is known by construction what wins each term."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from indexer.build import build_index
from indexer.settings import PruningSettings
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.visualsparta.init import from_config
from tests import tiny
from tests.stores import write_store

WHOLE = (0.0, 0.0, 1.0, 1.0)
LEFT, RIGHT = (0.125, 0.25, 0.5, 0.75), (0.5, 0.0, 1.0, 0.5)
VISIBLE = ("ball", "tree")  # terms that the first and second number of a region's vector stand for


def image(image_id: str, *regions: tuple[str, str, str, tuple[float, ...]]) -> ImageFeatures:
    """An image of regions, each a term of `VISIBLE` or nothing, an attribute, a label and a box."""
    features = np.zeros((len(regions), tiny.DIMENSION), np.float16)
    for row, (shown, *_) in zip(features, regions, strict=True):
        row[: len(VISIBLE)] = [shown == term for term in VISIBLE]
    boxes = np.array([box for *_, box in regions], np.float32)
    labels = tuple(label for _, _, label, _ in regions)
    attributes = tuple(attribute for _, attribute, _, _ in regions)
    return ImageFeatures(image_id, features, boxes, labels, attributes, 64, 48)


IMAGES = [
    image("a.png", ("", "brown", "dog", LEFT), ("ball", "", "cat", RIGHT), ("tree", "", "", WHOLE)),
    image("b.png", ("ball", "", "", LEFT), ("", "red", "ball", RIGHT), ("", "", "", WHOLE)),
    image("c.png", ("tree", "", "man", LEFT), ("", "", "", WHOLE)),
]


def labelled_index(folder: Path) -> tuple[Path, FeatureStore, Path]:
    """An index, its feature store and its photos, in a folder.

    The model has no layers: a label's token gives its own term the most, a region's vector the
    terms of `VISIBLE`, and much more than any token.
    """
    made = from_config(tiny.encoder(num_hidden_layers=0), tiny.tokenizer(), tiny.source())
    words = made.encoder.embeddings.word_embeddings.weight
    with torch.no_grad():
        torch.nn.init.orthogonal_(words)
        made.query_embedding.weight.copy_(words)
        made.region_projection.weight.zero_()
        made.region_projection.bias.zero_()
        for place, term in enumerate(VISIBLE):
            made.region_projection.weight[:, place] = 20 * words[tiny.VOCABULARY.index(term)]
        made.encoder.embeddings.position_embeddings.weight.zero_()
        made.encoder.embeddings.token_type_embeddings.weight.zero_()
        made.bias.fill_(-3.0)
    made.save_pretrained(folder / "model")
    photos = folder / "photos"
    photos.mkdir()
    for one in IMAGES:
        Image.new("RGB", (one.width, one.height), "green").save(photos / one.image_id)
    store = write_store(folder / "features", tiny.source(), IMAGES)
    out = folder / "index"
    build_index(
        [store], [folder / "model"], out, PruningSettings(offset="none", terms="all"), device="cpu"
    )
    return out, store, photos
