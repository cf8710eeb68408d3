"""What a model makes of photos and of queries, without feature store or index."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sparta.errors import InputError
from sparta.extract.extractor import load_extractor_of
from sparta.extract.job import PhotoWorker
from sparta.extract.photos import Augmentation, find_photos
from sparta.networks.backbone import pick_device
from sparta.text_encoder import move
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.model import VisualSparta, load_visualsparta

log = logging.getLogger(__name__)


def encode_images(
    photos: str | Path | Sequence[str | Path],
    model: str | Path | VisualSparta,
    *,
    device: str = "auto",
) -> dict[str, dict[str, float]]:
    """Score the vocabulary's terms for some photos (VisualSparta equations 2 to 11).

    Scores are log(1 + ReLU(y + b)) as float32 computes them, before an index subtracts per-term
    offsets, prunes and quantises them.

    Args:
        photos: a folder, searched at any depth, or paths of photos.
        model: a VisualSparta with its tokenizer, its folder, a hub name, "photos" or "sample". Its
            configuration names the backbone or detector that the photos go through first.
        device: "auto" takes a GPU if there is one; a loaded model stays where it is.

    Returns:
        photo → term → score, of the terms that score above 0, highest first. Photos of a folder
        are named by their paths in it, in alphabetical order; others as given, in that order.
        A photo that cannot be decoded is left out, and logged as a warning with the reason.

    Raises:
        InputError: if there is no photo or none can be decoded, the model cannot be loaded, or
            its features cannot be made from photos.
    """
    if isinstance(model, str | Path):
        model = load_visualsparta(model)
        move(model, pick_device(device))
    if model.tokenizer is None:
        raise InputError("the model has no tokenizer: load it from a folder, or set .tokenizer")
    source = model.source
    if source is None:
        raise InputError("the model does not record which features it takes: use sparta extract")
    extractor = load_extractor_of(source, device)
    folder = Path(photos) if isinstance(photos, str | Path) else Path()
    ids = find_photos(folder) if isinstance(photos, str | Path) else [str(path) for path in photos]
    collate = ImagePadder.of(model.tokenizer, model.config)
    found: dict[str, dict[str, float]] = {}
    size = extractor.batch_size
    batches = ([*ids[start : start + size]] for start in range(0, len(ids), size))
    for images, skipped in PhotoWorker(extractor, folder, Augmentation("plain"), 0)(batches):
        for photo in skipped:
            log.warning("%s: %s; left out", folder / photo.image_id, photo.reason)
        if not images:
            continue
        indptr, terms, scores, _ = model.encode_images(collate(images))
        for number, image in enumerate(images):
            row = slice(indptr[number], indptr[number + 1])
            order = np.argsort(-scores[row], kind="stable")
            names = (model.tokenizer.vocabulary[term] for term in terms[row][order])
            found[image.image_id] = dict(zip(names, scores[row][order].tolist(), strict=True))
    if not found:
        raise InputError(f"{photos}: no photo could be decoded; the warnings give the reasons")
    return found


def encode_queries(
    queries: str | Sequence[str], model: str | Path | VisualSparta
) -> list[dict[str, int]]:
    """Count the terms of queries: all that an index needs of a query (VisualSparta equation 15).

    Args:
        queries: one text, or several.
        model: as for `encode_images`.

    Returns:
        term → count, one dict a query.

    Raises:
        InputError: if the model cannot be loaded, or has no tokenizer.
    """
    if isinstance(model, str | Path):
        model = load_visualsparta(model)
    if model.tokenizer is None:
        raise InputError("the model has no tokenizer: load it from a folder, or set .tokenizer")
    tokenizer = model.tokenizer
    texts = [queries] if isinstance(queries, str) else queries
    return [
        dict(Counter(tokenizer.vocabulary[term] for term in tokenizer.query_ids(one)))
        for one in texts
    ]
