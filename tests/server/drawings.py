"""The drawings in Lucene, and as features for dense models to embed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from indexer.build import build_index
from indexer.encoding.features import open_stores
from indexer.postings import ImagePostings, Inputs, Postings
from indexer.settings import IndexSettings
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import write_postings
from tests.indexer.tiny import SOURCE, save_model
from tests.server.fake import DRAWINGS, VOCABULARY, Drawing
from tests.stores import write_store
from tests.tiny import tokenizer

TERMS = ["[PAD]", "[UNK]", *sorted(VOCABULARY), "dark"]


def postings_of(image_id: str, drawing: Drawing) -> ImagePostings:
    terms = sorted(drawing.terms, key=TERMS.index)
    width, height = drawing.size
    places = list(drawing.terms)
    positions = {term: place for place, term in enumerate(places)}
    labels: list[tuple[int, int]] = []
    for term, label in drawing.labels.items():
        pieces = label.words.split()
        positions[term] = len(places) + len(labels) + pieces.index(label.token)
        labels += [(TERMS.index(piece), places.index(term)) for piece in pieces]
    return ImagePostings(
        image_id,
        {"width": width, "height": height},
        np.array([TERMS.index(term) for term in terms], np.int32),
        np.array([drawing.terms[term][0] for term in terms], np.int32),
        np.array([positions[term] for term in terms], np.int16),
        Inputs(
            np.array([box for _, box in drawing.terms.values()], np.float32),
            np.array([piece for piece, _ in labels], np.int32),
            np.array([region for _, region in labels], np.int16),
        ),
    )


def index_drawings(folder: Path, photos: Path, features: str = "f") -> Path:
    """An index folder of the drawings, made of a feature store of that fingerprint."""
    inner = Tokenizer(models.WordPiece({t: i for i, t in enumerate(TERMS)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings = IndexSettings(
        models=["m"],
        features=[features],
        photos=str(photos),
        top_n=None,
        bits=8,
        offset="none",
        offset_images=0,
        terms="all",
    )
    rows = Postings.of([postings_of(i, DRAWINGS[i]) for i in sorted(DRAWINGS)])
    write_postings(folder, [rows], WordPieceTokenizer(inner), settings)
    return folder


def index_photos(photos: Path, folder: Path) -> tuple[Path, Path, list[FeatureStore]]:
    """An index of photos as `sparta index` makes it, with its model and the features it is of."""
    model, index = save_model(folder / "model", tokenizer()), folder / "index"
    stores = open_stores([photos], [model], "visual_sparta", index, device="cpu")
    build_index(stores, [model], index, device="cpu")
    return index, model, stores


def store_drawings(folder: Path) -> FeatureStore:
    """Random features of the drawings."""
    random = np.random.default_rng(0)
    images = []
    for image_id in sorted(DRAWINGS):
        features = random.standard_normal((4, SOURCE.dimension)).astype(np.float16)
        boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
        size = DRAWINGS[image_id].size
        images.append(ImageFeatures(image_id, features, boxes, ("",) * 4, ("",) * 4, *size))
    return write_store(folder, SOURCE, images)
