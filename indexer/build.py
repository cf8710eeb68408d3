"""The offline job: feature stores and models → an index folder; resumable, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from indexer.encoding.asked import NONE_ASKED, AskedTerms, asked_terms
from indexer.encoding.model_files import read_substitutes
from indexer.encoding.term_scores import ImageEncoder
from indexer.encoding.workers import EncoderMap, encode_here, encode_on
from indexer.fields.kinds import Kind
from indexer.impacts import ImpactParameters, encode_rows
from indexer.index_writer import write_index
from indexer.manifest import Manifest
from indexer.metadata import Metadata, described
from indexer.offsets import OFFSET_SAMPLE, TermOffsets, measure_offsets
from indexer.postings import PostingShard
from indexer.quantisation import Quantiser
from indexer.rebuild import Kept, kept_of
from indexer.settings import IndexSettings, PruningSettings
from indexer.split import split_index
from indexer.workspace import Workspace, check_target
from sparta.atomic import check_name
from sparta.cluster import Cluster
from sparta.disk import check_room, full_disk_reported
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.image_ids import id_problem
from sparta.lock import writing
from sparta.progress import Notice, Progress, no_notice, no_progress
from sparta.substitutes import SubstituteTable

BYTES_A_POSTING = 16  # shards, Lucene's parts and their merger, columns and their spool
DEFAULT_PRUNING = PruningSettings()


class About(NamedTuple):
    """What is stored about images, and how.

    Attributes:
        metadata: of images by id, from a file.
        kinds: declared, by field.
        photos: the folder whose files are read; None if they are not.
        kept: what the user gave to the index that is replaced.
    """

    metadata: Metadata
    kinds: Mapping[str, Kind]
    photos: Path | None
    kept: Kept


def build_index(
    stores: Sequence[FeatureStore],
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
    """Build an index folder.

    Finished shards of postings are saved in a work folder beside `out`, so that an interrupted run
    continues; an index already at `out` stays in use until the new one is complete, which keeps
    what the user gave to it: fields, deletions, and images that were sent. Shards are
    written to Lucene while later ones are encoded. Until the end the disk holds about 16 bytes a
    posting: 16 GB for a million images of 1,000 terms, of which 7 GB remain.

    Scores are the mean over all pairs of a model and a store; the first pair gives the grounding.

    Args:
        stores: feature stores of the same photos, the plain one first, augmentations after it.
        models: folders or hub names of VisualSparta models with one vocabulary; a table of
            substitutes is taken from the first.
        out: the index folder.
        pruning: how term scores become impacts.
        metadata: of images, returned with every hit beside the photo's width and height.
        kinds: declared kinds of its fields; those of others are inferred.
        read_photos: whether EXIF, XMP and IPTC of the photos are metadata too, where their folder
            is known and still there.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        shards: how many the finished index is divided into; None for one whole index.
        cluster: whose workers encode the images, shard by shard, with the same result; None
            for this process.
        progress: stages "convert", in models, and "offset", "encode", "write", "merge", "columns"
            and "divide", in images.
        notice: gets a line about what is kept of the index that is replaced.

    Returns:
        the manifest of the whole index.

    Raises:
        InputError: if a model cannot be used or was trained on other features, models or stores
            do not go together, a file of queries has none, a table of substitutes is damaged,
            something that the user gave to the index at `out` cannot be kept,
            `out` contains something that is not an index, another process is writing it, or
            the disk has too little room.
    """
    check_name(out)
    with writing(out):
        check_target(out)
        encoder = ImageEncoder.open(stores, models, batch_size, device, pruning.terms, progress)
        for image_id in encoder.store.ids:
            if problem := id_problem(image_id):
                raise InputError(
                    f"{encoder.store.folder}: the image id {image_id[:50]!r} {problem}; extract "
                    "or import the features again, into another folder"
                )
        fingerprints = [scorer.fingerprint for scorer in encoder.scorers]
        vocabulary = encoder.tokenizer.vocabulary_hash
        with (
            full_disk_reported(out),
            kept_of(out, encoder.store.ids, fingerprints, vocabulary) as kept,
        ):
            substitutes = read_substitutes(models[0])
            photos = encoder.store.photos if read_photos else None
            about = About(metadata or {}, {**kept.kinds, **(kinds or {})}, photos, kept)
            encode = encode_here(encoder)
            if cluster is not None:
                encode = encode_on(cluster, encoder, models, device)
            work, manifest = _build(
                encode, encoder, out, pruning, substitutes, about, shards, progress
            )
            kept.finish(work.index, models, device, notice)
            work.publish(out)
            return manifest


def _build(
    encode: EncoderMap,
    encoder: ImageEncoder,
    out: Path,
    pruning: PruningSettings,
    substitutes: SubstituteTable,
    about: About,
    divided: int | None,
    progress: Progress,
) -> tuple[Workspace, Manifest]:
    """A finished index in its work folder."""
    asked = asked_terms(encoder, pruning.asked, pruning.asked_power)
    if pruning.top_n is None:
        asked = NONE_ASKED  # there is no choice to make
    settings = _settings(encoder, pruning, asked)
    work = Workspace.open(out, settings)
    check_room(out, _estimated_bytes(encoder, settings) - work.size)
    offsets = _offsets(encode, encoder, settings, asked, work, progress)
    quantiser = Quantiser.fit(offsets.largest, settings.bits)
    parameters = _parameters(encoder, settings, offsets, quantiser, asked)
    shards = _shards(encode, encoder.store, parameters, work, progress)
    whole = work.index if divided is None else work.whole
    manifest = write_index(
        whole,
        (about.kept.described(described(one, about.photos), about.metadata) for one in shards),
        encoder.tokenizer,
        settings,
        offsets.offset,
        quantiser.scale,
        images=len(encoder.store),
        substitutes=substitutes,
        kinds=about.kinds,
        progress=progress,
    )
    if divided is not None:
        split_index(whole, work.index, divided, progress)
    return work, manifest


def _estimated_bytes(encoder: ImageEncoder, settings: IndexSettings) -> int:
    """What the disk holds at most while an index is built."""
    # Without a limit an image keeps a part of the allowed terms: those above their offset.
    terms = settings.top_n or int(encoder.allowed(settings.terms).sum()) // 4
    return BYTES_A_POSTING * terms * len(encoder.store)


def _settings(encoder: ImageEncoder, pruning: PruningSettings, asked: AskedTerms) -> IndexSettings:
    photos = encoder.store.photos
    used = {"asked": asked.source, "asked_power": asked.power}
    return IndexSettings(
        **vars(pruning) | used,
        models=[scorer.fingerprint for scorer in encoder.scorers],
        features=[store.fingerprint for store in encoder.stores],
        photos=str(photos) if photos else None,
        offset_images=min(len(encoder.store), OFFSET_SAMPLE),
    )


def _offsets(
    encode: EncoderMap,
    encoder: ImageEncoder,
    settings: IndexSettings,
    asked: AskedTerms,
    work: Workspace,
    progress: Progress,
) -> TermOffsets:
    """First pass, over a sample, unless an earlier run saved its result."""
    offsets = work.load_offsets()
    if offsets is None:
        offsets = measure_offsets(encode, encoder, settings, asked, progress)
        work.save_offsets(offsets)
    return offsets


def _parameters(
    encoder: ImageEncoder,
    settings: IndexSettings,
    offsets: TermOffsets,
    quantiser: Quantiser,
    asked: AskedTerms,
) -> ImpactParameters:
    allowed = encoder.allowed(settings.terms)
    return ImpactParameters(offsets.offset, allowed, settings.top_n, quantiser, asked.weights)


def _shards(
    encode: EncoderMap,
    store: FeatureStore,
    parameters: ImpactParameters,
    work: Workspace,
    progress: Progress,
) -> Iterator[PostingShard]:
    """Second pass: the postings of every shard, loaded where an earlier run saved them."""
    shards = enumerate(store.shards)
    missing = [rows for number, rows in shards if work.load_shard(number) is None]
    encoded = encode(partial(encode_rows, parameters=parameters), missing)
    for number, rows in enumerate(store.shards):
        shard = work.load_shard(number)
        if shard is None:
            shard = next(encoded)
            work.save_shard(number, shard)
        progress("encode", rows.stop, len(store))
        yield shard
