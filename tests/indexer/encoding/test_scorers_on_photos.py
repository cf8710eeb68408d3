"""The model for photos, on real photos: the same images are found in OpenVINO and in torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from indexer.encoding.encoder import ImageEncoder
from indexer.encoding.models import load_models
from indexer.encoding.scorers import ConvertedScorer, TorchScorer
from sparta.features.extract.job import extract_photos
from sparta.features.extract.networks import load
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.model_id import PHOTOS, read_model_config
from sparta.tokenizer import WordPieceTokenizer

COUNT = 300  # photos


def extract(folder: Path, out: Path) -> FeatureStore:
    values = read_model_config(PHOTOS, ("visual_sparta",), "VisualSparta model")
    source = FeatureSource(**values["feature_source"])
    size, grid = source.image_size, source.extra.get("grid")
    extract_photos(folder, out, source.backbone, image_size=size, grid=grid, device="cpu")
    return FeatureStore.open(out)


def term_scores(encoder: ImageEncoder) -> NDArray[np.float32]:
    """[N, V] float32, 0 for terms that are not computed."""
    scored = encoder.scored(range(len(encoder.store)))
    scores = np.zeros((len(encoder.store), len(encoder.tokenizer.vocabulary)), np.float32)
    scores[:, encoder.terms] = np.concatenate([images.scores for images in scored])
    return scores


def first_ten(
    scores: NDArray[np.float32], tokenizer: WordPieceTokenizer, texts: list[str]
) -> list[set[int]]:
    """The images found first for each caption."""
    found = []
    for text in texts:
        sums = scores[:, tokenizer.encode_ids(text)].sum(axis=1)
        found.append({*np.argsort(-sums, kind="stable")[:10].tolist()})
    return found


def test_the_same_photos_are_found(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (shared / "photos" / "captions.jsonl").read_text().splitlines()
    chosen = [own for own in map(json.loads, lines) if own["split"] == "val"][:COUNT]
    folder = tmp_path / "photos"
    folder.mkdir()
    for own in chosen:
        name = Path(own["image"]).name
        (folder / name).symlink_to(shared / "photos" / "images" / name)
    texts = [text for own in chosen for text in own["captions"]]
    encoder = ImageEncoder.open([extract(folder, tmp_path / "a")], [PHOTOS], term_set="trained")
    assert isinstance(encoder.scorers[0], ConvertedScorer)
    with monkeypatch.context() as patch:
        patch.setattr(load, "installed", lambda: False)
        plain = extract(folder, tmp_path / "b")
    (model,), tokenizer = load_models([PHOTOS], torch.device("cpu"))
    reference = ImageEncoder([TorchScorer(model)], tokenizer, [plain], 32, "trained")
    found, right = (first_ten(term_scores(one), tokenizer, texts) for one in (encoder, reference))
    same = sum(a == b for a, b in zip(found, right, strict=True))
    assert same >= 0.99 * len(texts)
