"""The offline job: photos or feature stores, and models → an index folder; resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.encoding.encoder import (
    OFFSET_SAMPLE,
    ImageEncoder,
    encoder_map,
    measured_parameters,
)
from indexer.encoding.features import Photos, none_usable
from indexer.encoding.impacts import (
    NO_TERM_FREQUENCIES,
    TermFrequencies,
)
from indexer.encoding.models import ReadConfig, read_word_tables, vocabulary_of
from indexer.fields.kinds import Kind
from indexer.index_writer import write_index
from indexer.maintenance.combine import split_index
from indexer.maintenance.copies import replacing
from indexer.manifest import Manifest, is_index, located
from indexer.metadata import Metadata, described
from indexer.rebuild import kept_of
from indexer.settings import OFFSET_OF_MODEL, IndexSettings, PruningSettings, TermSet
from indexer.workspace import Workspace
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.extract.photos import DEFAULT, Choice
from sparta.features.record import read_skipped
from sparta.features.store import FeatureStore
from sparta.files import (
    check_name,
    check_room,
    full_disk_reported,
    is_free,
    recover,
    remove_work,
)
from sparta.progress import Notice, Progress, no_notice, no_progress
from sparta.visualsparta.offsets import OFFSETS

if TYPE_CHECKING:
    from sparta.adapt.text_tower import TextTower

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
    chosen: Choice = DEFAULT,
    batch_size: int = 32,
    device: str = "auto",
    shards: int | None = None,
    rerank: int = 0,
    lucene: bool = True,
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
        chosen: which photos of the folder were chosen, for `sparta sync`.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        shards: how many the finished index is divided into; None for one whole index.
        rerank: hits that searches may re-rank by the images' vectors, which the index then keeps;
            0 for none.
        lucene: whether the postings are written in Lucene's form, too, where it is installed.
        cluster: whose workers encode the images, shard by shard; None for this process.
        progress: stages "extract", "convert" (models), "offset", "encode", "write", "merge",
            "columns", and "copy" into shards.
        notice: gets a line about what is kept of the index that is replaced.

    Raises InputError if models or stores cannot be used together, a file is damaged, no photo can
    be used, something the user gave cannot be kept, `out` is not an index or is being written, or
    the disk is full.
    """
    check_name(out)
    with replacing(out) as place, full_disk_reported(out):
        check_target(out)
        ids = list(images.stamps if isinstance(images, Photos) else images[0].ids if images else ())
        kept = kept_of(located(out), ids, vocabulary_of(models))
        tower = open_tower(models, rerank) if rerank else None
        work, options = Workspace(place), (batch_size, device, pruning.terms, progress)
        encoder = _open_encoder(images, models, work, *options)
        kept.compare_with(encoder.models)
        frequencies = _frequencies(pruning, encoder)
        settings = _settings(images, encoder, pruning, frequencies, rerank)
        needed = _estimated_bytes(len(ids), encoder, settings)
        saved = work.begin(settings)
        check_room(out, needed - work.size)
        mapped = partial(encoder_map, models=models, device=device, cluster=cluster)
        offsets, parameters = measured_parameters(
            mapped(encoder), encoder, settings, frequencies, saved, progress
        )
        offsets.save(work.folder / OFFSETS)
        work.encode(images, encoder, mapped, parameters, progress)
        photos = encoder.store.photos if read_photos else None
        found = (described(shard, photos) for shard in work.postings())
        manifest = write_index(
            work.index if shards is None else work.whole,
            (kept.described(shard, metadata or {}) for shard in found),
            encoder.tokenizer,
            replace(settings, features=work.fingerprints),
            offsets.offset,
            parameters.quantiser.scale,
            images=sum(part.images for part in work.parts),
            tables=read_word_tables(models[0]),
            kinds={**kept.kinds, **(kinds or {})},
            lucene=lucene and shards is None,
            tower=tower.folder if tower else None,
            progress=progress,
        )
        if shards is not None:
            split_index(work.whole, work.index, shards, progress, lucene)
        kept.finish(work.index, models, device, notice)
        work.publish(encoder.store.photos, out, place, chosen)
        return manifest


def _open_encoder(
    images: Sequence[FeatureStore] | Photos,
    models: Sequence[str | Path],
    work: Workspace,
    batch_size: int,
    device: str,
    terms: TermSet,
    progress: Progress,
) -> ImageEncoder:
    """An encoder of the given stores, or of the first photos."""
    options = batch_size, device, terms, progress
    if not isinstance(images, Photos):
        return ImageEncoder.open(images, models, *options)
    stores = images.open_first(work.folder, progress)
    if not len(stores[0]):  # there is nothing to continue from
        skipped = read_skipped(stores[0].folder)
        remove_work(work.folder)
        raise none_usable(images.folder, skipped)
    return ImageEncoder.open(stores, models, *options)


def _frequencies(pruning: PruningSettings, encoder: ImageEncoder) -> TermFrequencies:
    if pruning.top_n is None:
        return NO_TERM_FREQUENCIES  # there is no choice to make
    power = pruning.frequency_power
    if power is None:
        power = encoder.scorers[0].config.frequency_power
    return TermFrequencies.of(pruning.frequencies, power, encoder.frequencies, encoder.tokenizer)


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
    rerank: int,
) -> IndexSettings:
    """All that decides the postings, to compare with those that an earlier run saved."""
    photos = encoder.store.photos
    used = {"frequencies": frequencies.source, "frequency_power": frequencies.power}
    if pruning.offset == OFFSET_OF_MODEL:
        used |= {"offset": encoder.scorers[0].config.offset}
    # What else decides features of photos is part of the models' fingerprints.
    extracted = isinstance(images, Photos)
    features = [one.source.precision if extracted else one.fingerprint for one in encoder.stores]
    return IndexSettings(
        **vars(pruning) | used,
        models=encoder.models,
        features=features,
        photos=str(photos) if photos else None,
        offset_images=min(len(encoder.store), OFFSET_SAMPLE),
        rerank=rerank,
    )


def open_tower(models: Sequence[str | Path], rerank: int) -> TextTower:
    """The text tower of the one model; raises InputError if it has none that fits."""
    config = ReadConfig.open(models[0])
    if rerank < 1 or len(models) > 1 or not config.reranks:
        raise InputError(
            f"--rerank {rerank} needs one model that `sparta adapt` made of a dual encoder, not "
            f"{' and '.join(map(str, models))}: leave it out, or give another --model"
        )
    from sparta.adapt.text_tower import TextTower
    from sparta.networks.encoder import text_key

    name = str(config.dual_encoder)
    try:
        if config.text_key != text_key(name):
            raise InputError(f"{name} has changed since: adapt it again")
        return TextTower.open(name)
    except InputError as error:
        made = f"the text tower of the dual encoder that --model {models[0]} was made of"
        raise InputError(f"--rerank {rerank} copies {made}: {error}") from error


def check_out(out: Path) -> None:
    """Raise InputError if an index cannot take that place, before anything is extracted for it."""
    check_name(out)
    with replacing(out):
        check_target(out)
        kept_of(located(out))


def check_target(out: Path) -> None:
    """Put back an index that an interrupted run moved aside, and refuse to replace anything else.

    Raises:
        InputError: if `out` is a file, or a folder that contains something else.
    """
    recover(out)
    if out.exists() and not (is_index(out) or is_free(out)):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")
