"""Reads a Lucene index of impacts through Java, with as few calls into Java as possible."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.grounding import Grounding, unpack
from indexer.lucene.allowed import leaves_of, live_documents, search_allowed
from indexer.lucene.jvm import declare, in_turn, java, java_path
from indexer.lucene.loops import list_fields, read_pairs
from indexer.lucene.schema import CONTENTS, GROUNDING, ID, ORIGIN, RAW
from indexer.postings import ImagePostings
from indexer.store.images import Stored
from indexer.store.origin import built_origin
from sparta.errors import InputError, first_line

IGNORED = "com.fasterxml.jackson.annotation.JsonIgnoreProperties$Value"
STORED_CACHE = 100_000  # images whose id and metadata are kept, some 300 bytes each
FEW = 200  # documents allowed, the impacts of which are looked up one by one


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _reporting_damage(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Report damage found while reading as one line."""

    @wraps(call)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if not _is_damage(error):
                raise
            folder = vars(args[0])["folder"]
            raise InputError(
                f"{folder} is damaged ({first_line(error)}): build the index again"
            ) from error

    return wrapped


def _reading(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let one thread at a time in, and report damage as `_reporting_damage` does."""
    return _reporting_damage(in_turn(call))


def _is_damage(error: Exception) -> bool:
    """Whether Lucene failed, or a stored field could not be parsed."""
    from jnius import JavaException

    return isinstance(error, JavaException | ValueError | struct.error | IndexError)


class LuceneIndex:
    """An open index: terms in, documents and scores out. Safe from any thread.

    It stays at the commit at which it was opened, whatever is written since.

    Args:
        folder: of the index.
        reader: Lucene's `DirectoryReader` of it, opened here if None.
        origins: of the images of segments that were read before.
        mapped: whether files are mapped, for searches; if not, they are read like any file, so that
            their pages are no memory of this process.

    Attributes:
        folder: of the index.
        searcher: Lucene's own `IndexSearcher`.
        id: of the commit, which no other one has.
        commit_data: what the writer stored with the commit; empty as built.

    Raises:
        InputError: if the folder holds no Lucene index that this version of Lucene can read.
    """

    @in_turn
    def __init__(
        self,
        folder: Path,
        reader: Any = None,
        origins: Mapping[str, pa.Array] | None = None,
        mapped: bool = True,
    ) -> None:
        self.folder = folder
        self._real = folder.resolve()  # where Lucene looks, whatever an alias leads to later
        self._reader = reader or _open_reader(folder, mapped)
        classes = _classes()
        # Every word of a long query counts; Lucene would stop at 1,024.
        classes.searcher.setMaxClauseCount(2**31 - 1)
        self.searcher = classes.searcher(self._reader)
        self._leaves = leaves_of(self._reader)
        self.searcher.setSimilarity(java("io.anserini.search.similarity.ImpactSimilarity")())
        # One call builds the whole query, one more reads all hits: a call into Java for each
        # term and each hit would cost as much as the search itself.
        white_space = java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")
        self._parser = classes.parser(white_space())
        self._json = _json_of_arrays(classes.json())
        self.id = _id_of(self._reader)
        commit = self._reader.getIndexCommit()
        self.commit_data: dict[str, str] = self._plain(commit.getUserData())
        # As built, documents are in the order of the ids; in segments merged later, in any.
        self._order = _by_score_and_id() if self.commit_data else None
        self._listed, self._explained = _java_set(ID, RAW), _java_set(GROUNDING)
        self._named, self._origins = _java_set(ID, ORIGIN), dict(origins or {})
        # A Java string once and for all: converting the name costs more than reading the field.
        self._grounding = java("java.lang.String")(GROUNDING)
        # Keeping the order of use costs more than looking up: only where all would be too many.
        kept = None if len(self) <= STORED_CACHE else STORED_CACHE
        self.stored = lru_cache(kept)(self._read_stored)

    @_reading
    def __len__(self) -> int:
        return int(self._reader.numDocs())

    @property
    @_reading
    def files(self) -> list[str]:
        """Names of the files of the commit."""
        return sorted(self._plain(self._reader.getIndexCommit().getFileNames()))

    @property
    @_reading
    def documents(self) -> int:
        """Document numbers given out, those of deleted images among them."""
        return int(self._reader.maxDoc())

    @_reading
    def document_frequency(self, term: str) -> int:
        """In how many images a term has an impact, deleted ones among them until a merge."""
        return int(self._reader.docFreq(self._term(CONTENTS, term)))

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """[terms] in how many images each has an impact; see `document_frequency`."""
        return np.array([self.document_frequency(term) for term in terms], np.int64)

    @property
    def segments(self) -> dict[str, range]:
        """The documents of each segment, by a name that no other segment ever has."""
        return {
            leaf.name: range(leaf.documents.start, leaf.documents.stop) for leaf in self._leaves
        }

    @cached_property
    def live(self) -> NDArray[np.bool_] | None:
        """[documents] whether each is still there; None if none was deleted."""
        return self._live_documents()

    @_reading
    def _live_documents(self) -> NDArray[np.bool_] | None:
        return live_documents(self._reader)

    @_reading
    def top(
        self, terms: str, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """The k documents with the largest sums of count × impact, and those sums.

        Descending by score, ties by image id.

        Args:
            terms: of the query, with white space between them.
            k: documents at most.
            allowed: [documents] that may be found; None for all.
        """
        if allowed is None:
            query = self.query(terms)
            return self._pairs(self._search(query, k)) if query is not None else []
        allowed = allowed if self.live is None else allowed & self.live
        count = int(np.count_nonzero(allowed))
        if count <= FEW:
            return self._best_of(np.flatnonzero(allowed), Counter(terms.split()), k)
        query = self.query(terms)
        if query is None:
            return []
        found = search_allowed(
            self.searcher, self._leaves, query, min(k, count), allowed, self._order
        )
        return self._pairs(found)

    def _best_of(
        self, documents: NDArray[np.int64], counts: Mapping[str, int], k: int
    ) -> list[tuple[int, float]]:
        """The k best of a few rising documents, by looking up the impacts of each."""
        impacts = self.impacts(documents.tolist(), list(counts))
        scores = impacts @ np.array(list(counts.values()), np.int64)
        found = [pair for pair in zip(documents.tolist(), scores.tolist(), strict=True) if pair[1]]
        if self._order is not None:
            found.sort(key=lambda pair: self.stored(pair[0]).image_id)
        found.sort(key=lambda pair: -pair[1])
        return [(document, float(score)) for document, score in found[:k]]

    def query(self, terms: str) -> Any:
        """Lucene's query of some terms, None without any.

        Lucene puts a repeated term together as one with the count as its boost.
        """
        return self._parser.createBooleanQuery(CONTENTS, terms)

    def _search(self, query: Any, k: int) -> Any:
        """Lucene's `TopDocs` of the k best, ties by image id."""
        if self._order is None:
            return self.searcher.search(query, k)
        return self.searcher.searchAfter(None, query, k, self._order, False)

    def _pairs(self, top: Any) -> list[tuple[int, float]]:
        """Documents and scores of Lucene's `TopDocs`."""
        _, found = self._plain(top)
        if self._order is None:
            return [(document, score) for score, document, _ in found]
        return [(document, sorted_by[0]) for _, document, _, sorted_by in found]

    def _plain(self, value: Any) -> Any:
        """A Java object as Python's, by one call."""
        return json.loads(self._json.writeValueAsString(value))

    def _term(self, field: str, text: str) -> Any:
        return _classes().term(field, text)

    @_reading
    def _read_stored(self, document: int) -> Stored:
        fields = self.searcher.doc(document, self._listed)
        return Stored(fields.get(ID), json.loads(fields.get(RAW) or ""))

    @_reading
    def read_stored(self, documents: range) -> list[Stored]:
        """The stored ids and metadata of consecutive documents, read at once and not kept."""
        fields = self._reader.storedFields()
        texts = self._plain(list_fields(fields, documents, ID, RAW, self._listed))
        found = zip(texts[::2], texts[1::2], strict=True)
        return [Stored(image_id, json.loads(raw or "")) for image_id, raw in found]

    @_reading
    def origin(self, document: int) -> str:
        """What an image was encoded from."""
        fields = self.searcher.doc(document, self._named)
        return fields.get(ORIGIN) or built_origin(fields.get(ID))

    def origins(self) -> pa.ChunkedArray:
        """[documents] what each image was encoded from, deleted ones included.

        Reads all images of the segments that neither this nor a former commit has read.
        """
        self._origins = {
            name: self._origins.get(name)
            or pa.array(map(self.origin, documents), pa.large_string())
            for name, documents in self.segments.items()
        }
        return pa.chunked_array(list(self._origins.values()), pa.large_string())

    def origin_parts(self) -> list[tuple[str, Callable[[], pa.ChunkedArray]]]:
        """As `origins`, of each segment under its name."""
        self.origins()
        return [(name, partial(pa.chunked_array, [own])) for name, own in self._origins.items()]

    def grounding(self, document: int) -> Grounding:
        """An image's grounding."""
        return self._unpack(*self.packed_groundings([document]))

    @_reading
    def packed_groundings(self, documents: Sequence[int]) -> list[bytes]:
        """The groundings of some images, as `indexer.grounding.pack` returns them."""
        return [self._packed_grounding(document) for document in documents]

    def _packed_grounding(self, document: int) -> bytes:
        value = self.searcher.doc(document, self._explained).getBinaryValue(self._grounding)
        start = value.offset
        packed: bytes = value.bytes.tostring()[start : start + value.length]
        return packed

    @_reporting_damage
    def _unpack(self, packed: bytes) -> Grounding:
        return unpack(packed)

    @_reading
    def document(self, image_id: str) -> int | None:
        """The document number of an image, None if the index lacks it."""
        if not _is_unicode(image_id):
            return None
        query = java("org.apache.lucene.search.TermQuery")(self._term(ID, image_id))
        _, found = self._plain(self.searcher.search(query, 1))
        return found[0][1] if found else None

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some images, 0 where one lacks a term."""
        impacts = np.zeros((len(documents), len(terms)), np.int64)
        rising = sorted(range(len(documents)), key=documents.__getitem__)
        for column, term in enumerate(terms):
            self._read_impacts(term, documents, rising, impacts[:, column])
        return impacts

    def images(
        self, documents: Sequence[int], vocabulary: Sequence[str]
    ) -> Iterator[ImagePostings]:
        """Images as they were written, but for the rounding of their boxes.

        Args:
            documents: their numbers.
            vocabulary: [V] terms in id order.
        """
        groundings = [self._unpack(packed) for packed in self.packed_groundings(documents)]
        starts = np.cumsum([0, *(len(one.terms) for one in groundings)])
        terms = np.concatenate([np.empty(0, np.int64), *(one.terms for one in groundings)])
        owners = np.repeat(np.array(documents, np.int64), np.diff(starts))
        impacts = self._impacts_of_pairs(terms, owners, vocabulary)
        for i, (document, grounding) in enumerate(zip(documents, groundings, strict=True)):
            image_id, metadata = self.stored(document)
            yield ImagePostings(
                image_id,
                metadata,
                grounding.terms.astype(np.int32),
                impacts[starts[i] : starts[i + 1]],
                grounding.positions.astype(np.int16),
                grounding.inputs,
                self.origin(document),
            )

    def _impacts_of_pairs(
        self, terms: NDArray[np.int64], documents: NDArray[np.int64], vocabulary: Sequence[str]
    ) -> NDArray[np.int32]:
        """The impact of each pair of a term and a document that has it."""
        impacts = np.empty(len(terms), np.int32)
        order = np.lexsort((documents, terms))
        firsts = np.flatnonzero(np.diff(terms[order], prepend=-1))
        for places in np.split(order, firsts[1:]) if len(order) else ():
            own = np.zeros(len(places), np.int64)
            term = vocabulary[terms[places[0]]]
            self._read_impacts(term, documents[places].tolist(), range(len(places)), own)
            impacts[places] = own
        return impacts

    @_reading
    def _read_impacts(
        self, term: str, documents: Sequence[int], rising: Sequence[int], impacts: NDArray[np.int64]
    ) -> None:
        """Read one term's impacts, going once through its postings."""
        postings = self._postings_enum(term)
        current = -1
        for row in rising if postings is not None else ():
            document = documents[row]
            if current < document:
                current = postings.advance(document)
            if current == document:
                impacts[row] = postings.freq()

    def _postings_enum(self, term: str) -> Any:
        """Lucene's `PostingsEnum` of a term, None if no image has it."""
        classes = _classes()
        text = classes.text(term.encode())
        return classes.terms.getTermPostingsEnum(self._reader, CONTENTS, text)

    @_reading
    def postings(self, term: str) -> NDArray[np.int32]:
        """All postings [n, 2] of a term, document and impact, by rising document."""
        postings = self._postings_enum(term)
        if postings is None:
            return np.empty((0, 2), np.int32)
        found = read_pairs(postings, self.document_frequency(term))
        return found if self.live is None else found[self.live[found[:, 0]]]

    def largest_impact(self, term: str) -> int:
        """The largest impact of any image for a term, 0 if none has it."""
        best = self.top(term, 1)
        return int(best[0][1]) if best else 0

    def term_impacts(self, term: str) -> NDArray[np.uint16]:
        """The impacts [documents] of all images for a term, 0 where one lacks it."""
        impacts = np.zeros(self.documents, np.uint16)
        found = self.postings(term)
        impacts[found[:, 0]] = found[:, 1]
        return impacts

    @_reading
    def close(self) -> None:
        """Close the files."""
        self._reader.close()
        # This circle would keep the memory until the collector comes, which never looks at frozen
        # objects.
        vars(self).pop("stored", None)


class _Classes(NamedTuple):
    searcher: Any
    parser: Any
    json: Any
    term: Any
    text: Any
    terms: Any


@cache
def _classes() -> _Classes:
    """The Java classes of the query path, with the members it calls."""
    search = "org/apache/lucene/search/"
    document = "Lorg/apache/lucene/document/Document;"
    searcher = declare(
        search + "IndexSearcher",
        "(Lorg/apache/lucene/index/IndexReader;)V",
        search=f"(L{search}Query;I)L{search}TopDocs;",
        searchAfter=f"(L{search}ScoreDoc;L{search}Query;IL{search}Sort;Z)L{search}TopFieldDocs;",
        count=f"(L{search}Query;)I",
        doc=f"(ILjava/util/Set;){document}",
        rewrite=f"(L{search}Query;)L{search}Query;",
        createWeight=f"(L{search}Query;L{search}ScoreMode;F)L{search}Weight;",
        setSimilarity=f"(L{search}similarities/Similarity;)V",
        setMaxClauseCount="static (I)V",
    )
    parser = declare(
        "org/apache/lucene/util/QueryBuilder",
        "(Lorg/apache/lucene/analysis/Analyzer;)V",
        createBooleanQuery=f"(Ljava/lang/String;Ljava/lang/String;)L{search}Query;",
    )
    jackson = "com/fasterxml/jackson/databind/"
    mapper = declare(
        jackson + "ObjectMapper",
        configOverride=f"(Ljava/lang/Class;)L{jackson}cfg/MutableConfigOverride;",
        writeValueAsString="(Ljava/lang/Object;)Ljava/lang/String;",
    )
    index = "org/apache/lucene/index/"
    term = declare(index + "Term", "(Ljava/lang/String;Ljava/lang/String;)V")
    text = declare("org/apache/lucene/util/BytesRef", "([B)V", bytes="[B", offset="I", length="I")
    declare(index + "PostingsEnum", advance="(I)I", freq="()I")
    postings = (
        f"(L{index}IndexReader;Ljava/lang/String;Lorg/apache/lucene/util/BytesRef;)"
        f"L{index}PostingsEnum;"
    )
    terms = declare(index + "MultiTerms", getTermPostingsEnum=f"static {postings}")
    # Declared so that what comes back is not looked into member by member.
    declare(
        "org/apache/lucene/document/Document",
        get="(Ljava/lang/String;)Ljava/lang/String;",
        getBinaryValue="(Ljava/lang/String;)Lorg/apache/lucene/util/BytesRef;",
    )
    declare(search + "TopDocs")
    declare(search + "TopFieldDocs")
    declare(search + "BooleanQuery")
    return _Classes(searcher, parser, mapper, term, text, terms)


def _json_of_arrays(mapper: Any) -> Any:
    """Let a mapper write what a search found as values alone: half the text, half the time.

    Returns:
        the mapper; of a search's answer it makes [totals, [[score, document, shard], …]], of one
        that was sorted [totals, [["NaN", document, shard, [score, …]], …]].
    """
    formats = "com.fasterxml.jackson.annotation.JsonFormat$"
    array = java(formats + "Value").forShape(java(formats + "Shape").ARRAY)
    for name, ignored in (
        ("search.TopDocs", ()),
        ("search.TopFieldDocs", ("fields",)),
        ("search.ScoreDoc", ()),
        ("search.FieldDoc", ()),
        ("search.TotalHits", ()),
        ("util.BytesRef", ("bytes", "offset", "valid")),  # ids that hits were sorted by
    ):
        kind = java("java.lang.Class").forName("org.apache.lucene." + name)
        left_out = java(IGNORED).forIgnoredProperties(_java_set(*ignored))
        mapper.configOverride(kind).setFormat(array).setIgnorals(left_out)
    return mapper


@cache
def _by_score_and_id() -> Any:
    """Lucene's order of hits by descending score, then by image id."""
    field = java("org.apache.lucene.search.SortField")
    by_id = field(ID, java("org.apache.lucene.search.SortField$Type").STRING_VAL)
    return java("org.apache.lucene.search.Sort")(field.FIELD_SCORE, by_id)


def _id_of(reader: Any) -> str:
    """The random id of the commit that a reader is open at, in hexadecimal."""
    from jnius import cast

    found = cast(_standard_reader_class(), reader).getSegmentInfos().getId()
    return bytes(one % 256 for one in found).hex()


@cache
def _standard_reader_class() -> Any:
    index = "org/apache/lucene/index/"
    declare(index + "SegmentInfos", "(I)V", getId="()[B")
    signature = f"()L{index}SegmentInfos;"
    return declare(index + "StandardDirectoryReader", getSegmentInfos=signature)


def _is_unicode(text: str) -> bool:
    """Whether Java can take a string; half a surrogate pair, as of a broken name, it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _java_set(*values: str) -> Any:
    made = java("java.util.HashSet")()
    for value in values:
        made.add(value)
    return made


def _open_reader(folder: Path, mapped: bool) -> Any:
    store = "org.apache.lucene.store."
    directory = java(store + "FSDirectory").open if mapped else java(store + "NIOFSDirectory")
    readers = java("org.apache.lucene.index.DirectoryReader")
    path = java_path(folder)
    from jnius import JavaException

    try:
        return readers.open(directory(path))
    except JavaException as error:
        raise InputError(
            f"{folder} cannot be opened: {first_line(error)}; build the index again"
        ) from (error)
