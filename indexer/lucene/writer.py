"""Writes impacts as a Lucene index, which Pyserini's own impact searcher can open too.

pyjnius lets one thread of Python at a time call Java. So that Lucene indexes on all cores, images
go in parts of half a second of work: Python makes the documents of one part while threads of
Java's index and write others. At the end all parts are merged into one segment.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from indexer.lucene.jvm import declare, in_turn, java, java_errors, java_path, method_call
from indexer.postings import Postings
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

# Fields of a document, by the names that Anserini gives them.
ID, CONTENTS, RAW = "id", "contents", "raw"
# Stands between a term and its impact in the text handed to Lucene; not white space to Java.
DELIMITER = "\x01"
LONGEST_TERM = 243  # characters; Lucene's tokenizer cuts a term with its impact at 255

# Of a part. Its documents are in memory at once, 13 bytes a posting and some 3 KB an image.
PART_POSTINGS = 2_000_000
PART_IMAGES = 4096
AT_ONCE = 128  # images whose documents are made at once
MOST_THREADS = 4  # one core makes no more documents than four index
LONGEST_WAIT = 600  # seconds, for what cannot be stopped: the writing of one part


class LuceneWriter:
    """Adds images to a new index; leaving the `with` block merges and commits.

    A document has the image's id (stored, and as a value to sort by), its impacts as term
    frequencies without norms, and its metadata as stored JSON. The index has one segment, where a
    document's number is the image's place in id order. So Lucene's own rule for ties, the lower
    number first, is "the lower image id first".

    The folder must not exist. `images` is how many will be added in all, for the progress, which
    has the stages "write" and "merge"; `commit` names the commit of ours that the images are of.
    Raises InputError if Lucene is not installed, or its tokenizer would not read a term of the
    vocabulary back; OSError if the folder exists, or, while adding or at the end, Lucene cannot
    write.
    """

    @in_turn
    def __init__(
        self,
        folder: Path,
        vocabulary: Sequence[str],
        images: int,
        progress: Progress = no_progress,
        commit: Mapping[str, str] | None = None,
    ) -> None:
        _check_vocabulary(vocabulary)
        if folder.exists():
            raise FileExistsError(folder)
        self._folder, self._texts, self._commit = folder, _DocumentTexts(vocabulary), commit or {}
        self._images, self._progress = images, progress
        executors = java("java.util.concurrent.Executors")
        self._threads = [executors.newSingleThreadExecutor() for _ in range(_thread_count())]
        self._last = ""
        self._parts: list[Path] = []
        self._begun: deque[_SegmentInProgress] = deque()  # of which the last is being filled
        self._free: list[_DocumentBatch] = []
        self._written = self._whole = 0
        self._runner = ThreadPoolExecutor(1)
        self._merging: Future[None] | None = None

    @in_turn
    def add(self, images: Postings) -> None:
        """Add some images; waits while enough parts are being written.

        Raises ValueError if an id does not come after the one before.
        """
        for image_id in images.ids:
            if image_id <= self._last:
                raise ValueError(f"image {image_id!r} comes after {self._last!r}: not rising")
            self._last = image_id
        for first in range(0, len(images), AT_ONCE):
            if not self._begun or self._begun[-1].is_full:
                self._begin_part()
            documents = self._free.pop() if self._free else _DocumentBatch()
            self._begun[-1].add(images.part(slice(first, first + AT_ONCE)), self._texts, documents)

    @in_turn
    def begin_merge(self) -> None:
        """Wait for all parts and begin to merge them, after the last image was added.

        Merging is the work of one core, beside which the caller may do something else.
        """
        if not self._begun:
            self._begin_part()  # an index of no images
        self._begun[-1].finish()
        while self._begun:
            self._wait_for_one()
        self._free.clear()
        self._whole = max(1, sum(map(_size, self._parts)))
        self._merging = self._runner.submit(self._merge)

    def _begin_part(self) -> None:
        if self._begun:
            self._begun[-1].finish()
        if len(self._begun) == len(self._threads):
            self._wait_for_one()
        number = len(self._parts)
        folder = self._folder.with_name(f"{self._folder.name}.parts") / f"{number:05d}"
        thread = self._threads[number % len(self._threads)]
        self._begun.append(_SegmentInProgress(_open_writer(folder, self._commit), thread))
        self._parts.append(folder)

    def _wait_for_one(self) -> None:
        part = self._begun[0]
        part.wait()
        self._begun.popleft()
        self._free += part.documents
        self._written += part.images
        self._progress("write", self._written, self._images)

    @in_turn
    def _merge(self) -> None:
        if len(self._parts) == 1:
            self._parts[0].rename(self._folder)
            return
        with java_errors(_not_written):
            _merge_parts(self._parts, self._folder, self._commit)

    def __enter__(self) -> LuceneWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._runner.shutdown()
            self._end_threads()

    def _finish(self) -> None:
        if self._merging is None:
            self.begin_merge()
        assert self._merging is not None
        while not wait([self._merging], timeout=0.5).done:
            share = min(1.0, _size(self._folder) / self._whole)
            self._progress("merge", int(share * self._written), self._images)
        self._merging.result()
        self._progress("merge", self._written, self._images)
        shutil.rmtree(self._parts[0].parent)

    @in_turn
    def _end_threads(self) -> None:
        """End Java's threads, and parts that were not finished."""
        for part in self._begun:
            part.cancel()
        seconds = java("java.util.concurrent.TimeUnit").SECONDS
        for thread in self._threads:
            thread.shutdown()
            thread.awaitTermination(LONGEST_WAIT, seconds)
        for part in self._begun:
            part.writer.rollback()


class _SegmentInProgress:
    """Consecutive images, indexed and written in a thread of Java's."""

    def __init__(self, writer: Any, thread: Any) -> None:
        self.writer, self._thread = writer, thread  # Lucene's, of an index of one segment
        self.images = self._postings = 0
        self.documents: list[_DocumentBatch] = []  # can be filled again after `wait`
        self._begun: list[Any] = []

    @property
    def is_full(self) -> bool:
        return self._postings >= PART_POSTINGS or self.images >= PART_IMAGES

    def add(self, images: Postings, texts: _DocumentTexts, documents: _DocumentBatch) -> None:
        """Begin to add some images."""
        documents.fill(images, texts)
        self.documents.append(documents)
        self._begin("addDocuments", "long", {"java.lang.Iterable": documents.list})
        self.images += len(images)
        self._postings += len(images.terms)

    def finish(self) -> None:
        """Begin to write the segment, after all that is being added."""
        self._begin("close", "void", {})

    def _begin(self, name: str, returns: str, arguments: Mapping[str, Any]) -> None:
        """Begin to call a method of the writer's: name of a type → argument."""
        self._begun.append(self._thread.submit(method_call(self.writer, name, returns, arguments)))

    def wait(self) -> None:
        """Wait until all that was begun is done; raises OSError if Lucene cannot write."""
        with java_errors(_not_written):
            for begun in self._begun:
                begun.get()

    def cancel(self) -> None:
        """Begin nothing more."""
        for begun in self._begun:
            begun.cancel(False)


class _DocumentTexts:
    """Makes the texts of documents: terms and impacts as Lucene's tokenizer takes them apart."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        # Strings of terms and impacts, so that a document's text is two look-ups and one join.
        self._terms = np.array([term + DELIMITER for term in vocabulary], dtype=object)
        self._numbers = _number_strings(255)

    def of(self, images: Postings) -> list[str]:
        """The text of each image."""
        largest = int(images.impacts.max(initial=0))
        if largest >= len(self._numbers):
            self._numbers = _number_strings(2 * largest)
        parts = np.empty((len(images.terms), 2), dtype=object)
        parts[:, 0], parts[:, 1] = self._terms[images.terms], self._numbers[images.impacts]
        joined, starts = parts.ravel().tolist(), (2 * images.starts).tolist()
        return ["".join(joined[start:end]) for start, end in pairwise(starts)]


def _number_strings(largest: int) -> np.ndarray:
    return np.array([f"{number} " for number in range(largest + 1)], dtype=object)


class _DocumentBatch:
    """Documents of some images, refilled for the next ones: Lucene copies what it indexes."""

    def __init__(self) -> None:
        self.list = java("java.util.ArrayList")()  # of the documents
        self._made: list[_LuceneDocument] = []

    def fill(self, images: Postings, texts: _DocumentTexts) -> None:
        """Let the list have the documents of these images."""
        self._made += [_LuceneDocument() for _ in range(len(images) - len(self._made))]
        if self.list.size() != len(images):
            self.list.clear()
            for document in self._made[: len(images)]:
                self.list.add(document.java)
        metadata = map(json.dumps, images.metadata)
        for document, *content in zip(
            self._made, images.ids, metadata, texts.of(images), strict=False
        ):
            document.fill(*content)


class _LuceneDocument:
    """A document of Lucene's and its fields."""

    def __init__(self) -> None:
        yes = java("org.apache.lucene.document.Field$Store").YES
        text, sortable, stored, contents = _field_classes()
        self._id, self._raw = text(ID, "", yes), stored(RAW, "")
        self._sortable = sortable(ID, java("org.apache.lucene.util.BytesRef")(b""))
        self._contents = contents(CONTENTS, "", _impact_field_type())
        self.java = java("org.apache.lucene.document.Document")()
        for part in (self._id, self._sortable, self._raw, self._contents):
            self.java.add(part)

    def fill(self, image_id: str, metadata: str, text: str) -> None:
        self._id.setStringValue(image_id)
        self._sortable.setBytesValue(image_id.encode())
        self._raw.setStringValue(metadata)
        self._contents.setStringValue(text)


@cache
def _field_classes() -> tuple[Any, Any, Any, Any]:
    """Classes of the fields, where what is called for each image is spelled out.

    pyjnius would look for the right one among overloads each time.
    """
    document, text = "org/apache/lucene/document/", "Ljava/lang/String;"
    set_text = {"setStringValue": f"({text})V"}
    value, kind = "Ljava/lang/CharSequence;", "Lorg/apache/lucene/index/IndexableFieldType;"

    def field(name: str, arguments: str, **methods: str) -> Any:
        return declare(document + name, f"({text}{arguments})V", **methods)

    return (
        field("StringField", f"{text}L{document}Field$Store;", **set_text),
        field("BinaryDocValuesField", "Lorg/apache/lucene/util/BytesRef;", setBytesValue="([B)V"),
        field("StoredField", text, **set_text),
        field("Field", value + kind, **set_text),
    )


@cache
def _impact_field_type() -> Any:
    """Term and frequency, no norms: an image's length must not enter its score."""
    kind = java("org.apache.lucene.document.FieldType")()
    kind.setIndexOptions(java("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.setTokenized(True)
    kind.setOmitNorms(True)
    kind.freeze()
    return kind


def _impact_analyzer() -> Any:
    """Splits at white space and takes the number after the delimiter as the term frequency."""
    builder = java("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    builder = builder.withTokenizer("whitespace", _map({}))
    return builder.addTokenFilter("delimitedTermFrequency", _map({"delimiter": DELIMITER})).build()


def _map(values: Mapping[str, str]) -> Any:
    made = java("java.util.HashMap")()
    for name, value in values.items():
        made.put(name, value)
    return made


def _check_vocabulary(vocabulary: Sequence[str]) -> None:
    for number, term in enumerate(vocabulary):
        if not term or DELIMITER in term or len(term.split()) != 1 or term != term.strip():
            raise InputError(f"term {number} of the vocabulary, {term!r}, cannot be indexed: blank")
        if len(term) > LONGEST_TERM:
            raise InputError(
                f"term {number} of the vocabulary has {len(term)} characters, over {LONGEST_TERM}"
            )


def _merge_parts(parts: Sequence[Path], folder: Path, commit: Mapping[str, str]) -> None:
    """Make one segment out of several indexes, whose images follow one another."""
    from jnius import cast

    # Parts are read like any file: mapped, all of their bytes would count as this process's
    # memory, and merging would be no more than a tenth faster.
    directory = java("org.apache.lucene.store.NIOFSDirectory")
    open_reader = java("org.apache.lucene.index.DirectoryReader").open
    readers = [open_reader(directory(java_path(part))) for part in parts]
    segments = [leaf.reader() for reader in readers for leaf in reader.leaves()]
    writer = _open_writer(folder, commit)
    writer.addIndexes([cast("org.apache.lucene.index.CodecReader", one) for one in segments])
    for reader in readers:
        reader.close()
    writer.close()


def _open_writer(folder: Path, commit: Mapping[str, str]) -> Any:
    """Lucene's writer of a new index of one segment."""
    folder.mkdir(parents=True)
    options = java("org.apache.lucene.index.IndexWriterConfig")(_impact_analyzer())
    # Whatever is added goes into one segment, which is written at the end.
    options.setMaxBufferedDocs(2**31 - 1)
    options.setRAMBufferSizeMB(options.DISABLE_AUTO_FLUSH)
    options.setUseCompoundFile(False)
    # On the thread that asks for it, so that every run does the same.
    options.setMergeScheduler(java("org.apache.lucene.index.SerialMergeScheduler")())
    no_lock = java("org.apache.lucene.store.NoLockFactory").INSTANCE  # nobody else knows the folder
    directory = java("org.apache.lucene.store.FSDirectory").open(java_path(folder), no_lock)
    writer = _writer_class()(directory, options)
    writer.setLiveCommitData(_map(commit).entrySet())
    return writer


@cache
def _writer_class() -> Any:
    index = "org/apache/lucene/index/"
    return declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        addIndexes=f"([L{index}CodecReader;)J",
        setLiveCommitData="(Ljava/lang/Iterable;)V",
        rollback="()V",
        close="()V",
    )


def _not_written(reason: str) -> OSError:
    return OSError(f"Lucene cannot write: {reason}")


def _size(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # Lucene has renamed it
            size += path.stat().st_size
    return size


def _thread_count() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST_THREADS, cores or 1)
