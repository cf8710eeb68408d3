"""Reads a Lucene index document by document through Lucene's own classes: slow and obvious."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from indexer.lucene.jvm import java, java_path, start


class Written(NamedTuple):
    """What a Lucene index has.

    Attributes:
        commit: user data of its commit.
        documents: id, metadata and impacts of each, in order.
    """

    commit: dict[str, str]
    documents: list[tuple[str, dict[str, Any], dict[str, int]]]


def read_lucene(folder: Path) -> Written:
    """Read an index of one segment, or of none."""
    start()  # before the import below, which would start Java as it is
    from jnius import cast

    directory = java("org.apache.lucene.store.FSDirectory").open(java_path(folder))
    reader = java("org.apache.lucene.index.DirectoryReader").open(directory)
    data = reader.getIndexCommit().getUserData()
    commit = {name: data.get(name) for name in ("version", "lineage") if data.get(name) is not None}
    assert not reader.hasDeletions()
    stored = [reader.document(number) for number in range(reader.maxDoc())]
    impacts: list[dict[str, int]] = [{} for _ in stored]
    if stored:
        assert reader.leaves().size() == 1
        segment = cast("org.apache.lucene.index.SegmentReader", reader.leaves().get(0).reader())
        assert segment.getNormValues("contents") is None
        terms = segment.terms("contents")
        assert terms.hasFreqs() and not terms.hasPositions()
        each = terms.iterator()
        while (text := each.next()) is not None:
            term, postings = text.utf8ToString(), each.postings(None)
            while (document := postings.nextDoc()) < len(stored):
                impacts[document][term] = postings.freq()
        values = segment.getBinaryDocValues("id")  # by which Anserini breaks ties
        for document in stored:
            values.nextDoc()
            assert values.binaryValue().utf8ToString() == document.get("id")
    reader.close()
    found = [
        (document.get("id"), json.loads(document.get("raw")), own)
        for document, own in zip(stored, impacts, strict=True)
    ]
    return Written(commit, found)
