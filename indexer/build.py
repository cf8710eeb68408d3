"""The offline job: feature stores and models → an index folder; resumable, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from indexer.encoding.encoder import (
    OFFSET_SAMPLE,
    EncoderMap,
    ImageEncoder,
    TermOffsets,
    encode_rows,
    measured_parameters,
    open_encoder,
)
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
from indexer.postings import Postings, PostingShard, QuantisationReport
from indexer.rebuild import Kept, kept_of
from indexer.settings import OFFSET_OF_MODEL, IndexSettings, PruningSettings
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.files import (
    MARKER,
    check_name,
    check_room,
    find_work,
    full_disk_reported,
    make_work,
    recover,
    remove_entry,
    remove_work,
    replace_folder,
    writing,
)
from sparta.progress import Notice, Progress, no_notice, no_progress
from sparta.word_tables import WordTables

BYTES_A_POSTING = 16  # shards, Lucene's parts and their merger, columns and their spool
DEFAULT_PRUNING = PruningSettings()
SETTINGS = "settings.sha256"
OFFSETS = "offsets.npz"


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
    """Build an index folder; scores are the mean over all pairs of a model and a store.

    Finished shards of postings are saved in a work folder beside `out`, so that an interrupted run
    continues. An index already at `out` stays in use until the new one is complete, which keeps
    what the user gave to it: fields, deletions, and images that were sent. Until the end the disk
    holds about 16 bytes a posting: 16 GB for a million images of 1,000 terms, of which 7 GB remain.

    Args:
        stores: feature stores of the same photos, the plain one first, augmentations after it.
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
        progress: stages "convert" (models), "offset", "encode", "write", "merge", "columns" and
            "divide".
        notice: gets a line about what is kept of the index that is replaced.

    Raises InputError if models or stores cannot be used together, a file is damaged, something the
    user gave cannot be kept, `out` is not an index or is being written, or the disk is full.
    """
    check_name(out)
    with writing(out):
        check_target(out)
        encoder, encode = open_encoder(
            stores, models, batch_size, device, pruning.terms, cluster, progress
        )
        about = encoder.store.ids, encoder.models, encoder.tokenizer.vocabulary_hash
        with full_disk_reported(out), kept_of(out, *about) as kept:
            tables = read_word_tables(models[0])
            photos = encoder.store.photos if read_photos else None
            told = About(metadata or {}, {**kept.kinds, **(kinds or {})}, photos, kept)
            work, manifest = _build(encode, encoder, out, pruning, tables, told, shards, progress)
            kept.finish(work.index, models, device, notice)
            work.publish(out)
            return manifest


def _build(
    encode: EncoderMap,
    encoder: ImageEncoder,
    out: Path,
    pruning: PruningSettings,
    tables: WordTables,
    about: About,
    divided: int | None,
    progress: Progress,
) -> tuple[Workspace, Manifest]:
    """A finished index in its work folder."""
    named = pruning.frequencies, pruning.frequency_power
    frequencies = TermFrequencies.of(*named, encoder.frequencies, encoder.tokenizer)
    if pruning.top_n is None:
        frequencies = NO_TERM_FREQUENCIES  # there is no choice to make
    settings = _settings(encoder, pruning, frequencies)
    work = Workspace.open(out, settings)
    needed = _estimated_bytes(encoder, settings) - work.size
    check_room(out, needed)
    saved = work.load_offsets()
    offsets, parameters = measured_parameters(
        encode, encoder, settings, frequencies, saved, progress
    )
    if saved is None:
        work.save_offsets(offsets)
    shards = _shards(encode, encoder.store, parameters, work, progress)
    whole = work.index if divided is None else work.whole
    manifest = write_index(
        whole,
        (about.kept.described(described(one, about.photos), about.metadata) for one in shards),
        encoder.tokenizer,
        settings,
        offsets.offset,
        parameters.quantiser.scale,
        images=len(encoder.store),
        tables=tables,
        kinds=about.kinds,
        progress=progress,
    )
    if divided is not None:
        split_index(whole, work.index, divided, progress)
    return work, manifest


def _estimated_bytes(encoder: ImageEncoder, settings: IndexSettings) -> int:
    """What the disk holds at most while an index is built."""
    # Without a limit an image keeps a part of the allowed terms: those above their offset.
    terms = settings.top_n or len(encoder.terms) // 4
    return BYTES_A_POSTING * terms * len(encoder.store)


def _settings(
    encoder: ImageEncoder, pruning: PruningSettings, frequencies: TermFrequencies
) -> IndexSettings:
    photos = encoder.store.photos
    used = {"frequencies": frequencies.source, "frequency_power": frequencies.power}
    if pruning.offset == OFFSET_OF_MODEL:
        used |= {"offset": encoder.scorers[0].config.offset}
    return IndexSettings(
        **vars(pruning) | used,
        models=encoder.models,
        features=[store.fingerprint for store in encoder.stores],
        photos=str(photos) if photos else None,
        offset_images=min(len(encoder.store), OFFSET_SAMPLE),
    )


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


class Workspace:
    """A work folder of an index: term offsets and finished shards of postings.

    Attributes:
        index: where the index is written; absent when the workspace is opened.
        whole: where an index is written that is divided into shards at `index`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A process of a killed run may still be writing its own unfinished index.
        self.index = folder / f"index-{secrets.token_hex(4)}"
        self.whole = folder / f"whole-{secrets.token_hex(4)}"

    @classmethod
    def open(cls, out: Path, settings: IndexSettings) -> Workspace:
        """The workspace of an index folder: an earlier run's with the same settings, or a new one.

        All others that earlier runs left are removed.
        """
        fingerprint = hashlib.sha256(json.dumps(asdict(settings)).encode()).hexdigest()
        found = None
        for folder in find_work(out):
            if found is None and _fingerprint_of(folder) == fingerprint:
                found = folder
            else:
                remove_work(folder)
        if found is None:
            found = make_work(out)
            (found / SETTINGS).write_text(fingerprint)
        # An unfinished Lucene index is written again from the shards, which is the fast part.
        for entry in found.iterdir():
            if entry.name not in (MARKER, SETTINGS, OFFSETS) and not _is_shard(entry):
                remove_entry(entry)
        return cls(found)

    @property
    def size(self) -> int:
        """Bytes of what an earlier run saved."""
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def load_offsets(self) -> TermOffsets | None:
        """The saved offsets, None if there are none or they are damaged."""
        try:
            with np.load(self._folder / OFFSETS, allow_pickle=False) as file:
                return TermOffsets(file["offset"], float(file["largest"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def save_offsets(self, offsets: TermOffsets) -> None:
        """Save the offsets, under a temporary name first."""
        unfinished = self._folder / "unfinished.npz"
        np.savez(unfinished, offset=offsets.offset, largest=offsets.largest)
        unfinished.replace(self._folder / OFFSETS)

    def load_shard(self, number: int) -> PostingShard | None:
        """A saved shard, None if there is none of that number or it is damaged."""
        path = self._shard(number)
        try:
            report = QuantisationReport(**json.loads(path.with_suffix(".json").read_text()))
            return PostingShard(Postings.load(path), report)
        except (OSError, ValueError, TypeError):
            return None

    def save_shard(self, number: int, shard: PostingShard) -> None:
        """Save a shard; the postings come last, so that a shard with postings is complete."""
        path = self._shard(number)
        path.with_suffix(".json").write_text(json.dumps(asdict(shard.report)))
        shard.postings.save(path)

    def _shard(self, number: int) -> Path:
        return self._folder / f"shard-{number:05d}.npz"

    def publish(self, out: Path) -> None:
        """Put the finished index in its place, and remove the workspace."""
        replace_folder(self.index, out, self._folder)
        # First what a next run would continue from: it must not find half of the shards.
        (self._folder / SETTINGS).unlink()
        remove_work(self._folder)


def check_target(out: Path) -> None:
    """Put back an index that an interrupted run moved aside, and refuse to replace anything else.

    Raises:
        InputError: if `out` is a file, or a folder that contains something else.
    """
    recover(out)
    if out.exists() and not (out.is_dir() and (is_index(out) or not any(out.iterdir()))):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")


def _fingerprint_of(folder: Path) -> str | None:
    path = folder / SETTINGS
    return path.read_text() if path.is_file() else None


def _is_shard(path: Path) -> bool:
    return path.name.startswith("shard-") and path.suffix in (".npz", ".json")
