"""An index in memory that takes the same changes as one on disk, to compare the two."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from indexer.answer import Answer, Version
from indexer.postings import ImagePostings
from indexer.search.searcher import Searcher
from indexer.store.changes import Add, Change, MetadataChange
from indexer.update.writer import Writer, open_writer
from sparta.tokenizer import TermTokenizer
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER
from tests.reference.searcher import ReferenceSearcher

QUERIES = ("dog", COMMON, "two dogs running on a beach", f"{RARE} cat qqq", "ball red sky . é")


def answer(result: Answer) -> list[tuple[int, str, float]]:
    """Rank, id and score of each hit."""
    return [(hit.rank, hit.image_id, hit.score) for hit in result.hits]


def write(index: Path, *changes: Change) -> None:
    """Write and commit changes with a writer of their own."""
    with open_writer(index) as writer:
        writer.write(changes)


class Killed(BaseException):
    """Stands for the end of a process."""


class Opened:
    """An open writer, to be closed or killed."""

    def __init__(self, folder: Path) -> None:
        self._context = open_writer(folder)
        self.writer = self._context.__enter__()

    def close(self) -> None:
        self._context.__exit__(None, None, None)

    def kill(self) -> None:
        assert not self._context.__exit__(Killed, Killed(), None)


class LiveReference:
    """The images of an index after changes."""

    def __init__(self, postings: Iterable[ImagePostings]) -> None:
        self.images = {image.image_id: image for image in postings}

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if isinstance(change, Add):
                self.images[change.image_id] = change.image
            elif isinstance(change, MetadataChange):
                image = self.images[change.image_id]
                self.images[change.image_id] = replace(image, metadata=change.metadata)
            else:
                self.images.pop(change.image_id, None)

    def searcher(self, tokenizer: TermTokenizer = TOKENIZER) -> ReferenceSearcher:
        rows = [self.images[image_id] for image_id in sorted(self.images)]
        return ReferenceSearcher(rows, tokenizer)


def assert_same(found: Searcher, right: ReferenceSearcher, ks: Iterable[int] = (1, 3, 100)) -> None:
    """Compare hits, metadata, unknown words, explanations and similar images."""
    assert len(found) == len(right)
    for query in QUERIES:
        for k in ks:
            mine, theirs = found.search(query, k), right.search(query, k)
            assert answer(mine) == answer(theirs)
            assert [hit.metadata for hit in mine.hits] == [hit.metadata for hit in theirs.hits]
            assert list(mine.unknown) == list(theirs.unknown)
        for hit in theirs.hits[:2]:
            explained, exact = (
                found.explain(query, hit.image_id),
                right.explain(query, hit.image_id),
            )
            terms = [(term.term, term.impact, term.region, term.label) for term in explained.terms]
            assert terms == [(t.term, t.impact, t.region, t.label) for t in exact.terms]
            assert answer(found.similar(hit.image_id, 5)) == answer(right.similar(hit.image_id, 5))


def commit_and_wait(writer: Writer) -> Version:
    """Commit, and once more when the columns were compacted and merged."""
    writer.commit()
    writer.settle()
    return writer.commit()
