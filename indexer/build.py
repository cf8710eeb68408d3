"""The offline job: photos or feature stores, and models → an index folder; resumable."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from indexer.encoding.encoder import (
    OFFSET_SAMPLE,
    EncoderMap,
    ImageEncoder,
    encode_rows,
    encoder_map,
    measured_parameters,
)
from indexer.encoding.features import Photos
from indexer.encoding.impacts import (
    NO_TERM_FREQUENCIES,
    ImpactParameters,
    TermFrequencies,
)
from indexer.encoding.models import read_word_tables
from indexer.fields.kinds import Kind
from indexer.index_writer import write_index
from indexer.maintenance.combine import split_index
from indexer.manifest import Manifest, is_index
from indexer.metadata import Metadata, described
from indexer.rebuild import kept_of
from indexer.settings import OFFSET_OF_MODEL, IndexSettings, PruningSettings
from indexer.update.sync_plan import Seen, SeenPhotos
from indexer.workspace import Part, Workspace
from sparta.addresses import is_remote
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.extract.photos import Stamp, not_utf8
from sparta.features.record import SKIPPED, Skipped
from sparta.features.store import FeatureStore, Stamps, source_hash
from sparta.files import (
    check_name,
    check_room,
    full_disk_reported,
    recover,
    remove_entry,
    writing,
)
from sparta.progress import Notice, Progress, no_notice, no_progress, part_of

BYTES_A_POSTING = 16  # shards, Lucene's parts and their merger, columns and their spool
DEFAULT_PRUNING = PruningSettings()


def build_index(
    images: Sequence[FeatureStore] | Photos,
    models: Sequence[str | Path],
    out: Path,
    pruning: PruningSettings = DEFAULT_PRUNING,
    *,
    metadata: Metadata | None = None,
    kinds: Mapping[str, Kind] | None = None,
    read_photos: bool = True,
    batch_size: int = 32,
    device: str = "auto",
    shards: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> Manifest:
    """Build an index folder; scores are the mean over all pairs of a model and a store.

    Finished shards of postings are saved in a work folder beside `out`, so that an interrupted run
    continues. An index already at `out` stays in use until the new one is complete, which keeps
    what the user gave to it: fields, deletions, and images that were sent. Until the end the disk
    holds about 16 bytes a posting: 16 GB for a million images of 1,000 terms, of which 7 GB remain;
    of photos also the features of 4,000.

    Args:
        images: feature stores of the same photos, the plain one first, augmentations after it; or
            photos.
        models: folders or hub names of VisualSparta models with one vocabulary; the first gives the
            tables of words and, with the first store, the grounding.
        out: the index folder.
        pruning: how term scores become impacts.
        metadata: of images, returned with every hit beside the photo's width and height.
        kinds: declared kinds of its fields; those of others are inferred.
        read_photos: whether EXIF, XMP and IPTC of photos that are still there are metadata too.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        shards: how many the finished index is divided into; None for one whole index.
        cluster: whose workers encode the images, shard by shard; None for this process.
        progress: stages "extract", "convert" (models), "offset", "encode", "write", "merge",
            "columns" and "divide".
        notice: gets a line about what is kept of the index that is replaced.

    Raises InputError if models or stores cannot be used together, a file is damaged, no photo can
    be used, something the user gave cannot be kept, `out` is not an index or is being written, or
    the disk is full.
    """
    check_name(out)
    with writing(out), full_disk_reported(out):
        check_target(out)
        work = Workspace(out)
        stores = work.stores_of_sample(images, progress) if isinstance(images, Photos) else images
        encoder = ImageEncoder.open(stores, models, batch_size, device, pruning.terms, progress)
        ids = list(images.stamps) if isinstance(images, Photos) else encoder.store.ids
        with kept_of(out, ids, encoder.models, encoder.tokenizer.vocabulary_hash) as kept:
            frequencies = _frequencies(pruning, encoder)
            settings = _settings(images, encoder, pruning, frequencies)
            work.begin(settings)
            check_room(out, _estimated_bytes(len(ids), encoder, settings) - work.size)
            mapped = partial(encoder_map, models=models, device=device, cluster=cluster)
            measured = measured_parameters(
                mapped(encoder), encoder, settings, frequencies, work.load_offsets(), progress
            )
            work.save_offsets(measured[0])
            parts = _encode(images, encoder, mapped, measured[1], work, progress)
            settings = replace(settings, features=_fingerprints(parts))
            whole = work.index if shards is None else work.whole
            photos = encoder.store.photos if read_photos else None
            about = metadata or {}
            manifest = write_index(
                whole,
                (kept.described(described(one, photos), about) for one in work.postings(parts)),
                encoder.tokenizer,
                settings,
                measured[0].offset,
                measured[1].quantiser.scale,
                images=sum(part.images for part in parts),
                tables=read_word_tables(models[0]),
                kinds={**kept.kinds, **(kinds or {})},
                progress=progress,
            )
            if shards is not None:
                split_index(whole, work.index, shards, progress)
            _note_photos(work.index, parts, encoder.store.photos)
            kept.finish(work.index, models, device, notice)
            work.publish(out)
            return manifest


def _frequencies(pruning: PruningSettings, encoder: ImageEncoder) -> TermFrequencies:
    if pruning.top_n is None:
        return NO_TERM_FREQUENCIES  # there is no choice to make
    named = pruning.frequencies, pruning.frequency_power
    return TermFrequencies.of(*named, encoder.frequencies, encoder.tokenizer)


def _estimated_bytes(images: int, encoder: ImageEncoder, settings: IndexSettings) -> int:
    """What the disk holds at most while an index is built."""
    # Without a limit an image keeps a part of the allowed terms: those above their offset.
    terms = settings.top_n or len(encoder.terms) // 4
    return BYTES_A_POSTING * terms * images


def _settings(
    images: Sequence[FeatureStore] | Photos,
    encoder: ImageEncoder,
    pruning: PruningSettings,
    frequencies: TermFrequencies,
) -> IndexSettings:
    """With the fingerprints of features; of photos, before they are extracted, of their source."""
    photos = encoder.store.photos
    used = {"frequencies": frequencies.source, "frequency_power": frequencies.power}
    if pruning.offset == OFFSET_OF_MODEL:
        used |= {"offset": encoder.scorers[0].config.offset}
    features = [store.fingerprint for store in encoder.stores]
    if isinstance(images, Photos):
        features = [source_hash(store.source) for store in encoder.stores]
    return IndexSettings(
        **vars(pruning) | used,
        models=encoder.models,
        features=features,
        photos=str(photos) if photos else None,
        offset_images=min(len(encoder.store), OFFSET_SAMPLE),
    )


def _encode(
    images: Sequence[FeatureStore] | Photos,
    encoder: ImageEncoder,
    mapped: Callable[[ImageEncoder], EncoderMap],
    parameters: ImpactParameters,
    work: Workspace,
    progress: Progress,
) -> list[Part]:
    """Save the postings of all images, of photos some at a time.

    The encoder has the stores that are given, or those of a sample of the photos.
    """

    def encoded(key: str, stamps: Stamps, stores: Sequence[FeatureStore], done: int) -> Part:
        own = replace(encoder, stores=stores)
        shards = _save_shards(own, mapped(own), key, parameters, work, done, total, progress)
        if len(own.store) < len(stamps):
            progress("encode", done + len(stamps), total)  # some photos cannot be used
        return work.save_part(key, stamps, stores, shards)

    if not isinstance(images, Photos):
        total = len(images[0])
        return [encoded("stores", images[0].stamps, images, 0)]
    parts, total, sample = work.load_parts(images.stamps), len(images.stamps), images.sample()
    if not parts:
        parts.append(encoded(images.key(sample), sample, encoder.stores, 0))
    known = {image_id for part in parts for image_id in part.stamps}
    for stamps in images.parts(known):
        done, key = sum(len(part.stamps) for part in parts), images.key(stamps)
        folder = work.features(key)
        stores = images.extract(folder, stamps, part_of(progress, done, len(stamps), total))
        parts.append(encoded(key, stamps, stores, done))
        remove_entry(folder)
    return parts


def _save_shards(
    encoder: ImageEncoder,
    encode: EncoderMap,
    key: str,
    parameters: ImpactParameters,
    work: Workspace,
    before: int,
    total: int,
    progress: Progress,
) -> int:
    """Encode the shards of some images that an earlier run did not save; returns how many are."""
    shards = encoder.store.shards
    missing = [number for number in range(len(shards)) if work.load_shard(key, number) is None]
    found = encode(partial(encode_rows, parameters=parameters), [shards[one] for one in missing])
    for number, rows in enumerate(shards):
        if number in missing:
            work.save_shard(key, number, next(found))
        progress("encode", before + rows.stop, total)
    return len(shards)


def _fingerprints(parts: Sequence[Part]) -> list[str]:
    """Of the features of all parts, one for each augmentation, as a store has one."""
    found = []
    for each in zip(*(part.features for part in parts), strict=True):
        precision, dash, _ = each[0].rpartition("-")
        digest = hashlib.sha256("".join(sorted(each)).encode()).hexdigest()
        found.append(each[0] if len(each) == 1 else f"{precision}{dash}{digest[:32]}")
    return found


def _note_photos(index: Path, parts: Sequence[Part], photos: Path | None) -> None:
    """Note in an index which photos it has seen, for `sparta sync`, and which were not usable."""
    skipped = {image_id: why for part in parts for image_id, why in part.skipped.items()}
    if skipped:
        lines = [json.dumps(asdict(Skipped(*one))) + "\n" for one in sorted(skipped.items())]
        (index / SKIPPED).write_text("".join(lines), encoding="utf-8")
    stamps = {image_id: one for part in parts for image_id, one in part.stamps.items()}
    if photos is not None and not is_remote(photos) and stamps:
        seen = {one: Seen(Stamp(*stamps[one]), None, skipped.get(one)) for one in stamps}
        named = {one: seen[one] for one in seen if not not_utf8(one)}
        SeenPhotos(Path(os.path.realpath(photos)), named).save(index, built=True)


def check_target(out: Path) -> None:
    """Put back an index that an interrupted run moved aside, and refuse to replace anything else.

    Raises:
        InputError: if `out` is a file, or a folder that contains something else.
    """
    recover(out)
    if out.exists() and not (out.is_dir() and (is_index(out) or not any(out.iterdir()))):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")
