"""Writes the impacts of an index in the formats of other search engines and of SciPy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from indexer.index_writer import images_by_id
from indexer.lucene.writer import LuceneWriter
from indexer.manifest import Manifest, index_folders
from indexer.postings import ImagePostings, Postings
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.files import check_name, full_disk_reported, replace_folder, work_folder, writing
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer

Format: TypeAlias = Literal["lucene", "anserini", "opensearch", "npz"]
Kind: TypeAlias = Literal["rank_features", "sparse_vector"]
KINDS: tuple[Kind, ...] = get_args(Kind)

VECTORS_BYTES = 64 * 10**6  # of a file for Anserini
REQUEST_BYTES = 10 * 10**6  # of a bulk request, which OpenSearch takes in one piece
LONGEST_ID = 512  # bytes, in OpenSearch


@dataclass(frozen=True)
class _ExportSource:
    """An index at its newest commit.

    Attributes:
        vocabulary: [V] terms.
        bits: of an impact.
        commit: version and lineage; of an index in shards, those of each.
        images: that are not deleted.
        parts: of these, in id order, some at a time; can be read once.
    """

    vocabulary: list[str]
    bits: int
    commit: dict[str, str]
    images: int
    parts: Iterator[Postings]


def export_index(
    name: Format,
    index: Path,
    out: Path,
    *,
    field: str = "impacts",
    kind: Kind = "rank_features",
    progress: Progress = no_progress,
) -> int:
    """Write the images of an index that are not deleted, in id order, as of its newest commit.

    The index may be in shards, and may be searched and written to meanwhile. `field` and `kind` are
    of OpenSearch's documents, for the impacts. Progress has the stage "export", and for Lucene
    "write" and "merge", in images.

    Returns how many images there are. Raises InputError if there is something at `out`, the index
    is damaged, the format cannot hold an image or a term, Lucene is not installed, or the disk is
    full.
    """
    check_name(out)
    if field == "metadata":
        raise InputError("--field metadata is the field of the photos' metadata: give another name")
    source = _open(index, progress)
    with writing(out), full_disk_reported(out), work_folder(out) as work:
        if os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder")
        made = work / "export"
        if name == "lucene":
            _write_lucene(source, made, progress)
        else:
            made.mkdir()
            if name == "anserini":
                _write_lines(made / "vectors-{:05d}.jsonl", VECTORS_BYTES, _vectors(source))
            elif name == "opensearch":
                _write_requests(source, made, field, kind)
            else:
                _write_npz(source, made)
        replace_folder(made, out, work)
    return source.images


def _open(index: Path, progress: Progress) -> _ExportSource:
    folders = index_folders(index)
    manifest, tokenizer = Manifest.open(folders[0]), TermTokenizer.from_folder(folders[0])
    manifest.check_vocabulary(folders[0], tokenizer.vocabulary_hash)
    snapshots = [Snapshot.open(one) for one in folders]
    images = sum(map(len, snapshots))
    names = [one.commit.name for one in snapshots]
    return _ExportSource(
        vocabulary=tokenizer.vocabulary,
        bits=manifest.bits,
        commit={key: " ".join(name[key] for name in names) for key in names[0]},
        images=images,
        parts=_reported(images_by_id(snapshots), images, progress),
    )


def _reported(parts: Iterator[Postings], images: int, progress: Progress) -> Iterator[Postings]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        progress("export", done, images)


def _write_lucene(source: _ExportSource, folder: Path, progress: Progress) -> None:
    with LuceneWriter(folder, source.vocabulary, source.images, progress, source.commit) as writer:
        for part in source.parts:
            writer.add(part)


def _vectors(source: _ExportSource) -> Iterator[str]:
    """The lines of Anserini's `JsonVectorCollection`."""
    for part in source.parts:
        for image in part:
            vector = _weights(image, source.vocabulary)
            yield json.dumps({"id": image.image_id, "contents": "", "vector": vector}) + "\n"


def _write_requests(source: _ExportSource, folder: Path, field: str, kind: Kind) -> None:
    """Write bulk requests of OpenSearch, and the body that makes an index for them."""
    hidden = {"type": "object", "enabled": False}
    if kind == "rank_features":
        # No name of a feature has a dot; Elasticsearch writes its models' terms in this way.
        names = [term.replace(".", "__") for term in source.vocabulary]
        if len({*names}) < len(names):
            raise InputError(
                "two terms differ in '.' and '__' alone: give --field NAME=sparse_vector"
            )
        fields = {field: {"type": kind}, "metadata": hidden}
        body = json.dumps({"mappings": {"properties": fields}}, indent=2)
    else:
        names = [str(number) for number in range(len(source.vocabulary))]
        (folder / "vocabulary.json").write_text(json.dumps(source.vocabulary))
        # Impacts up to this ceiling are stored in a byte, by default up to 16.
        parameters = {"quantization_ceiling_ingest": 2**source.bits - 1}
        method = {"name": "seismic", "parameters": parameters}
        fields = {field: {"type": kind, "method": method}, "metadata": hidden}
        settings = {"index": {"sparse": True}}
        body = json.dumps({"settings": settings, "mappings": {"properties": fields}}, indent=2)
    (folder / "mapping.json").write_text(body)
    _write_lines(folder / "bulk-{:05d}.ndjson", REQUEST_BYTES, _requests(source, field, names))


def _requests(source: _ExportSource, field: str, names: Sequence[str]) -> Iterator[str]:
    """The action and the document of each image, a line each."""
    for part in source.parts:
        for image in part:
            if len(image.image_id.encode()) > LONGEST_ID:
                raise InputError(
                    f"{image.image_id[:50]!r}… has over {LONGEST_ID} bytes, OpenSearch's longest "
                    "id: delete the image from the index, or add the photo under another name"
                )
            action = {"index": {"_id": image.image_id}}
            document = {field: _weights(image, names), "metadata": image.metadata}
            yield f"{json.dumps(action)}\n{json.dumps(document)}\n"


def _weights(image: ImagePostings, names: Sequence[str]) -> dict[str, int]:
    pairs = zip(image.terms.tolist(), image.impacts.tolist(), strict=True)
    return {names[term]: impact for term, impact in pairs}


def _write_lines(pattern: Path, most: int, records: Iterable[str]) -> None:
    """Write records, none of them divided, into numbered files of so many bytes at most."""
    size, number = most, 0
    with ExitStack() as opened:
        for content in map(str.encode, records):
            if size + len(content) > most:
                opened.close()
                path = pattern.with_name(pattern.name.format(number))
                file = opened.enter_context(path.open("wb"))
                size, number = 0, number + 1
            file.write(content)
            size += len(content)


def _write_npz(source: _ExportSource, folder: Path) -> None:
    """Write a matrix of SciPy's in compressed sparse rows, and the names of rows and columns."""
    ids, lengths = list[str](), [0]
    terms, impacts = folder / "terms.raw", folder / "impacts.raw"
    with terms.open("wb") as to_terms, impacts.open("wb") as to_impacts:
        for part in source.parts:
            ids += part.ids
            lengths += np.diff(part.starts).tolist()
            to_terms.write(part.terms.tobytes())
            to_impacts.write(part.impacts.tobytes())
    np.savez_compressed(
        folder / "impacts.npz",
        format=np.array(b"csr"),
        shape=np.array([len(ids), len(source.vocabulary)]),
        indptr=np.cumsum(lengths, dtype=np.int64),
        indices=_mapped(terms),
        data=_mapped(impacts),
    )
    terms.unlink()
    impacts.unlink()
    (folder / "ids.json").write_text(json.dumps(ids))
    (folder / "vocabulary.json").write_text(json.dumps(source.vocabulary))


def _mapped(path: Path) -> NDArray[np.int32]:
    """An array in a file, of which a write reads some at a time."""
    return np.memmap(path, np.int32, "r") if path.stat().st_size else np.empty(0, np.int32)
