"""The offline job: feature stores and models in, an index folder out; resumable, atomic."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from indexer.encode import ImageEncoder, encode_rows
from indexer.inputs import check_views
from indexer.manifest import Manifest
from indexer.model_loading import check_source, load_models, model_fingerprint
from indexer.postings import Postings
from indexer.pruning import OFFSET_KINDS, OffsetKind, estimate_offsets
from indexer.quantisation import QuantisationReport, Quantiser
from indexer.write_index import IndexSettings, check_target, write_index
from sparta.atomic import replace_folder
from sparta.errors import InputError
from sparta.features.extract.backbone import pick_device
from sparta.features.store import FeatureStore

Progress = Callable[[str, int, int], None]
TermSet = Literal["trained", "all"]

OFFSET_SAMPLE = 2000
# Lucene sums in float32, whole numbers exactly up to 2^24: at 16 bits that is 256 query terms of
# the largest impact, at 8 bits 65,793.
MAXIMUM_BITS = 16


def build_index(
    features: Sequence[FeatureStore],
    models: Sequence[str | Path],
    out: Path,
    *,
    top_n: int | None = 1000,
    bits: int = 8,
    offset: OffsetKind = "mean",
    terms: TermSet = "trained",
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = lambda stage, done, total: None,
) -> Manifest:
    """Encode, prune, quantise and write.

    Postings are kept shard by shard in `OUT.building`, so that a killed run continues; an index
    already at `out` stays in use until the new one is whole. Shards are written to Lucene while
    later ones are encoded. Meanwhile the disk holds some 16 bytes a posting: 16 GB for a million
    images of 1,000 terms, of which 7 GB stay.

    Scores are the mean over all pairs of a model and a view; the first pair says what won a term.

    Args:
        features: views of the same photos, the plain one first.
        models: folders or hub names of VisualSparta models with one vocabulary.
        out: the index folder.
        top_n: terms an image keeps at most (equation 14 keeps all: None).
        bits: of an impact, 1 to 16.
        offset: what is subtracted from each term's scores before pruning.
        terms: "trained" in the model's training, or "all".
        batch_size: images per pass of the model.
        device: "auto" takes a GPU if there is one.
        progress: called with a stage ("offset", "encode", "write", "merge"), images done and
            in all.

    Raises:
        InputError: if a model cannot be used or was trained on other features, models or views
            do not go together, or `out` holds something that is not an index.
    """
    _check_options(top_n, bits, offset, terms)
    check_target(out)
    check_views(features)
    plain = features[0]
    loaded, tokenizer = load_models(models, pick_device(device))
    for name, model in zip(models, loaded, strict=True):
        check_source(name, model, plain)
    encoder = ImageEncoder(loaded, tokenizer, features, batch_size, terms)
    settings = IndexSettings(
        models=[model_fingerprint(model) for model in loaded],
        features=[view.fingerprint for view in features],
        photos=str(plain.photos) if plain.photos else None,
        top_n=top_n,
        bits=bits,
        offset=offset,
        offset_images=min(len(plain), OFFSET_SAMPLE),
        terms=terms,
    )
    work = _workspace(out, settings)
    _survey(encoder, settings, work, progress)
    values, quantiser = _read_survey(work, settings)
    manifest = write_index(
        work / "index",
        _encode(encoder, settings, work, progress),
        tokenizer,
        values,
        settings,
        quantiser.scale,
        lambda: _read_costs(work, plain),
        lambda stage, done: progress(stage, done, len(plain)),
    )
    replace_folder(work / "index", out)
    shutil.rmtree(work)
    return manifest


def _check_options(top_n: int | None, bits: int, offset: str, terms: str) -> None:
    if top_n is not None and top_n < 1:
        raise InputError(f"--top-n must be at least 1, or all, got {top_n}")
    if not 1 <= bits <= MAXIMUM_BITS:
        raise InputError(f"--bits must be from 1 to {MAXIMUM_BITS}, got {bits}")
    if offset not in OFFSET_KINDS:
        raise InputError(f"--offset must be one of {', '.join(OFFSET_KINDS)}, got {offset!r}")
    if terms not in ("trained", "all"):
        raise InputError(f"--terms must be seen or all, got {terms!r}")


def _workspace(out: Path, settings: IndexSettings) -> Path:
    """`OUT.building`, emptied unless an earlier run with the same settings left it."""
    work = out.with_name(out.name + ".building")
    fingerprint = hashlib.sha256(json.dumps(asdict(settings)).encode()).hexdigest()
    mark = work / "settings.sha256"
    if work.exists() and not mark.is_file() and any(work.iterdir()):
        raise InputError(f"{work} is in the way and was not made by sparta index: remove it")
    if not mark.is_file() or mark.read_text() != fingerprint:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        mark.write_text(fingerprint)
    # A half-written Lucene index is made again from the shards, which is the quick part.
    shutil.rmtree(work / "index", ignore_errors=True)
    return work


def _survey(encoder: ImageEncoder, settings: IndexSettings, work: Path, progress: Progress) -> None:
    """First pass over a sample: each term's offset, and the largest score above it."""
    survey = work / "survey.npz"
    if survey.is_file():
        return
    sample: list[Tensor] = []
    done = 0
    # A corpus no larger than the sample goes in the batches of the second pass, which then need
    # not be encoded again.
    whole = len(encoder.store) == settings.offset_images
    for rows in encoder.store.shards if whole else [_sample(encoder.store)]:
        for batch in encoder.batches(rows, keep=whole):
            sample.append(batch.scored.scores.cpu())
            done += len(batch.images)
            progress("offset", done, settings.offset_images)
    scores = torch.cat(sample)
    kind: OffsetKind = settings.offset  # type: ignore[assignment]
    offset = estimate_offsets(scores, kind)
    above = (scores.amax(dim=0) - offset) * encoder.allowed(settings.terms).cpu()
    unfinished = work / "unfinished.npz"
    np.savez(unfinished, offset=offset.numpy(), largest=above.max().numpy())
    unfinished.replace(survey)


def _sample(store: FeatureStore) -> list[int]:
    chosen = np.random.default_rng(0).choice(len(store), OFFSET_SAMPLE, replace=False)
    return sorted(chosen.tolist())


def _read_survey(work: Path, settings: IndexSettings) -> tuple[np.ndarray, Quantiser]:
    with np.load(work / "survey.npz", allow_pickle=False) as file:
        return file["offset"], Quantiser.fit(float(file["largest"]), settings.bits)


def _shard_paths(work: Path, store: FeatureStore) -> Iterator[Path]:
    return (work / f"shard-{number:05d}.npz" for number in range(len(store.shards)))


def _encode(
    encoder: ImageEncoder, settings: IndexSettings, work: Path, progress: Progress
) -> Iterator[Postings]:
    """Second pass: every shard's postings, read where an earlier run has finished them."""
    values, quantiser = _read_survey(work, settings)
    offset = torch.from_numpy(values).to(encoder.device)
    for path, rows in zip(_shard_paths(work, encoder.store), encoder.store.shards, strict=True):
        if path.is_file():
            postings = Postings.load(path)
        else:
            postings, report = encode_rows(
                encoder,
                rows,
                offset=offset,
                allowed=encoder.allowed(settings.terms),
                top_n=settings.top_n,
                quantiser=quantiser,
            )
            # The postings come last: where they are, all of the shard is.
            _cost_path(path).write_text(json.dumps(asdict(report)))
            postings.save(path)
        progress("encode", rows.stop, len(encoder.store))
        yield postings


def _cost_path(shard: Path) -> Path:
    return shard.with_suffix(".json")


def _read_costs(work: Path, store: FeatureStore) -> QuantisationReport:
    """What quantising all shards cost."""
    costs = (json.loads(_cost_path(path).read_text()) for path in _shard_paths(work, store))
    return sum((QuantisationReport(**cost) for cost in costs), QuantisationReport())
