"""Tiny models and feature stores, and what an index of them must hold."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from indexer.answer import WinningLabel
from indexer.manifest import Manifest
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta

SOURCE = FeatureSource("pixels", "pixels", "", 768, 32)
LABELS = ("dog", "", "ball", "cat", "beach")  # of an image's regions, in turn
ATTRIBUTES = ("red", "", "", "red", "")


def save_model(
    folder: Path,
    tokenizer: TermTokenizer,
    seed: int = 0,
    untrained: Sequence[str] = (),
    source: FeatureSource = SOURCE,
    captions: Sequence[str] = (),
) -> Path:
    encoder = {
        "model_type": "bert",
        "vocab_size": len(tokenizer.vocabulary),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    torch.manual_seed(seed)
    config = VisualSpartaConfig(encoder, source.dimension, feature_source=asdict(source))
    model = VisualSparta(config)
    torch.nn.init.normal_(model.query_embedding.weight, std=0.5)
    model.indexable.copy_(torch.from_numpy(tokenizer.indexable))
    for term in untrained:
        model.trained_terms[tokenizer.vocabulary.index(term)] = False
    model.term_frequencies.copy_(torch.tensor(slow_frequencies(tokenizer, captions)))
    model.tokenizer = tokenizer
    model.save_pretrained(folder)
    return folder


def without_labels(folder: Path, **options: object) -> Path:
    """Have a saved model read no labels: OpenVINO then runs it on a CPU."""
    path = folder / "config.json"
    values = json.loads(path.read_text()) | {"use_labels": False} | options
    path.write_text(json.dumps(values))
    return folder


def write_store(
    folder: Path,
    source: FeatureSource = SOURCE,
    seed: int = 0,
    augmentation: str = "plain",
    shards: int = 3,
) -> FeatureStore:
    random = np.random.default_rng(seed)
    digits = len(str(shards - 1))  # so that the ids rise
    writer = StoreWriter(folder, source, augmentation=augmentation)
    for shard in range(shards):
        images = []
        for i in range(max(2, 8 - shard)):
            features = random.standard_normal((5, source.dimension)).astype(np.float16)
            boxes = np.sort(random.random((5, 4)).astype(np.float32))
            labels, attributes = (part[i % 5 :] + part[: i % 5] for part in (LABELS, ATTRIBUTES))
            name = f"{shard:0{digits}}/{i}.jpg"
            images.append(ImageFeatures(name, features, boxes, labels, attributes, 40 + i, 30))
        writer.write_shard(images)
    return writer.finish()


def draw(path: Path, seed: int, width: int = 30, height: int = 20) -> None:
    """A photo of noise, another for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def slow_frequencies(tokenizer: TermTokenizer, texts: Sequence[str]) -> list[int]:
    """How many texts contain each term of the vocabulary, term by term."""
    found = [tokenizer.encode_query(text).pieces for text in texts]
    return [sum(term in pieces for pieces in found) for term in tokenizer.vocabulary]


def slow_impacts(
    views: Sequence[FeatureStore],
    models: Sequence[Path],
    manifest: Manifest,
    asked: Sequence[str] = (),
) -> dict[tuple[str, str], tuple[int, int, WinningLabel | None]]:
    """(image, term) → impact, region and label, one image, model and view at a time.

    Terms are chosen by the frequencies of those of the texts asked. The largest score kept gets the
    largest impact.
    """
    loaded = [VisualSparta.from_pretrained(folder) for folder in models]
    tokenizer = loaded[0].tokenizer
    assert tokenizer is not None
    collate = ImagePadder(tokenizer, 50, 70)
    shape = (len(views[0]), len(tokenizer.vocabulary))
    scores, positions = np.zeros(shape), np.zeros(shape, np.int16)
    for row in range(len(views[0])):
        for model in loaded:
            for view in views:
                scored = model.term_scores(collate([view[row]]))
                scores[row] += scored.scores[0].numpy().astype(np.float64)
                if model is loaded[0] and view is views[0]:
                    positions[row] = scored.positions[0].numpy()
    scores /= len(loaded) * len(views)
    allowed = tokenizer.indexable
    if manifest.terms == "trained":
        allowed = allowed & np.any([model.trained_terms.numpy() for model in loaded], axis=0)
    zero = np.zeros(scores.shape[1])
    kinds = {"mean": scores.mean(axis=0), "minimum": scores.min(axis=0), "none": zero}
    kinds["median"] = np.sort(scores, axis=0)[(len(scores) - 1) // 2]
    scores = np.maximum(0, scores - kinds[manifest.offset]) * allowed
    wanted = (np.array(slow_frequencies(tokenizer, asked)) + 1.0) ** manifest.frequency_power
    kept: dict[tuple[int, int], float] = {}
    for row in range(len(scores)):
        best = np.argsort(-scores[row] * wanted, kind="stable")[: manifest.top_n]
        kept |= {(row, term): scores[row, term] for term in best[scores[row][best] > 0]}
    found = {}
    for (row, term), score in kept.items():
        level = round(score / max(kept.values()) * (2**manifest.bits - 1))
        winner = slow_winner(views[0][row], positions[row, term])
        found[views[0].ids[row], tokenizer.vocabulary[term]] = (max(1, level), *winner)
    return found


def slow_winner(image: ImageFeatures, position: int) -> tuple[int, WinningLabel | None]:
    """The region at a position, or the label token there and the region it speaks of."""
    tokens: list[tuple[int, WinningLabel | None]] = [(i, None) for i in range(len(image.features))]
    for region, parts in enumerate(zip(image.attributes, image.labels, strict=True)):
        words = " ".join(parts).strip()
        tokens += [(region, WinningLabel(word, words)) for word in words.split()]
    return tokens[position]


def same_but(
    folder: Path, store: FeatureStore, drop: str = "", rename: str = "", images: int | None = None
) -> FeatureStore:
    writer = StoreWriter(folder, store.source)
    kept = [image for image in store if image.image_id != drop][:images]
    if rename:
        kept[-1] = replace(kept[-1], image_id=rename)
    writer.write_shard(kept)
    return writer.finish()
