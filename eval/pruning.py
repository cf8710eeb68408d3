"""What pruning and quantising cost: recall through real indexes, choice by choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from eval.images import Images
from eval.recall import recall_of
from eval.scored import ScoredImages, check_size
from eval.study import Choice, Row, Study
from indexer.build import MAXIMUM_BITS
from indexer.encode import ImageEncoder, encode_rows
from indexer.impacts import Baseline, Quantiser, estimate_baseline
from indexer.lucene_searcher import LuceneSearcher
from indexer.manifest import LUCENE, Manifest
from indexer.models import check_source, load_models, model_fingerprint
from indexer.sources import check_views
from indexer.writing import IndexSettings, write_index
from sparta.errors import InputError
from sparta.features.backbone import pick_device
from sparta.features.store import FeatureStore
from training.data.captions import CaptionedPhoto

SHARD = 512  # images whose postings are in memory at once


def measure_pruning(
    views: Sequence[FeatureStore],
    models: Sequence[str | Path],
    captions: Sequence[CaptionedPhoto],
    choices: Sequence[Choice],
    *,
    bits: int = 8,
    batch_size: int = 32,
    device: str = "auto",
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Study:
    """Encode the captioned photos once, then index and search them in every way asked for.

    Args:
        views: of the same photos, the plain one first; photos without captions stay out.
        models: folders or hub names of models with one vocabulary, whose scores are averaged.
        captions: the photos that take part.
        choices: ways to prune; if all are of "seen" terms, the float model has no others either.
        bits: of an impact, 1 to 16.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        progress: called with a stage ("encode": images, "search": queries), done and in all.

    Raises:
        InputError: if photos have no features, models and views do not go together, or there
            are too many images to keep their scores in memory.
    """
    start = time.perf_counter()
    photos = sorted(captions, key=lambda photo: photo.image_id)
    # Most of the work is the terms nobody trained: they are computed only if asked for.
    terms = "all" if any(choice.terms == "all" for choice in choices) else "seen"
    encoder, rows = _open(views, models, photos, batch_size, device, terms)
    if not 1 <= bits <= MAXIMUM_BITS:
        raise InputError(f"--bits must be from 1 to {MAXIMUM_BITS}, got {bits}")
    images = ScoredImages.of(encoder, rows, lambda done, total: progress("encode", done, total))
    encoded = time.perf_counter()
    settings = IndexSettings(
        models=[model_fingerprint(model) for model in encoder.models],
        features=[view.fingerprint for view in views],
        photos=None,
        top_n=None,
        bits=bits,
        baseline="none",
        baseline_images=len(rows),
        terms="all",
    )
    measured = [_float_row(images, photos)]
    for number, choice in enumerate(choices):
        show = _part(progress, number, len(choices))
        chosen = replace(settings, **asdict(choice))
        measured.append(_index_row(images, photos, choice, chosen, show))
    return Study(
        models=settings.models,
        features=settings.features,
        images=len(rows),
        queries=sum(len(photo.captions) for photo in photos),
        vocabulary=len(encoder.tokenizer.vocabulary),
        bits=bits,
        encode_seconds=encoded - start,
        seconds=time.perf_counter() - start,
        rows=measured,
    )


def _open(
    views: Sequence[FeatureStore],
    models: Sequence[str | Path],
    photos: Sequence[CaptionedPhoto],
    batch_size: int,
    device: str,
    terms: str,
) -> tuple[ImageEncoder, list[int]]:
    """The models, and the photos' rows in the stores."""
    check_views(views)
    rows = list(Images.of(views[0], [photo.image_id for photo in photos]).rows)
    loaded, tokenizer = load_models(models, pick_device(device))
    for name, model in zip(models, loaded, strict=True):
        check_source(name, model, views[0])
    check_size(len(rows), len(tokenizer.vocabulary))
    return ImageEncoder(loaded, tokenizer, views, batch_size, terms), rows


def _part(
    progress: Callable[[str, int, int], None], number: int, parts: int
) -> Callable[[int, int], None]:
    return lambda done, total: progress("search", number * total + done, parts * total)


def _float_row(images: ScoredImages, photos: Sequence[CaptionedPhoto]) -> Row:
    positive = int(torch.count_nonzero(images.scored.scores))
    return Row(None, images.float_recall(photos), positive / len(photos), None)


def _index_row(
    images: ScoredImages,
    photos: Sequence[CaptionedPhoto],
    choice: Choice,
    settings: IndexSettings,
    progress: Callable[[int, int], None],
) -> Row:
    """Build an index as `sparta index` would, ask it every caption, and delete it."""
    with TemporaryDirectory() as folder:
        manifest = _write(images, choice.baseline, settings, Path(folder) / "index")
        searcher = LuceneSearcher(Path(folder) / "index")
        measured = recall_of(searcher, photos, progress=progress)
        searcher.close()
    size = sum(size for name, size in manifest.parts.items() if name.startswith(f"{LUCENE}/"))
    return Row(choice, measured.recall, manifest.postings / manifest.images, size / 1e6)


def _write(images: ScoredImages, kind: Baseline, settings: IndexSettings, folder: Path) -> Manifest:
    scores, allowed = images.scored.scores, images.allowed(settings.terms).cpu()
    baseline = estimate_baseline(scores, kind)
    largest = ((scores.amax(dim=0) - baseline) * allowed).max()
    quantiser = Quantiser.fit(float(largest), settings.bits)
    shards = (
        encode_rows(
            images,
            images.rows[start : start + SHARD],
            baseline=baseline,
            allowed=allowed,
            top_n=settings.top_n,
            quantiser=quantiser,
        )[0]
        for start in range(0, len(scores), SHARD)
    )
    tokenizer = images.tokenizer
    return write_index(folder, shards, tokenizer, baseline.numpy(), settings, quantiser.scale)
