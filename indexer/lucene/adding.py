"""Adds documents in threads of Java's, while Python makes the next ones.

pyjnius lets one thread of Python at a time call Java, so that Lucene would index on one core. What
the threads call is therefore made of method handles, in which there is nothing of Python's.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

from indexer.lucene.document import Documents, Texts
from indexer.lucene.jvm import java
from indexer.lucene.method_handles import as_callable, method
from indexer.postings import ImagePostings, Postings

MOST_THREADS = 4  # one core makes no more documents than four index


class Adding:
    """Adds images to a writer of Lucene's; an error of Lucene's is raised by a later call.

    Args:
        writer: an `IndexWriter`.
        vocabulary: [V] terms in id order, as `check_vocabulary` accepts them.
    """

    def __init__(self, writer: Any, vocabulary: Sequence[str]) -> None:
        threads = min(MOST_THREADS, os.cpu_count() or 1)
        # Threads that are not used end after a while.
        self._pool = java("java.util.concurrent.Executors").newWorkStealingPool(threads)
        self._writer, self._texts = writer, Texts(vocabulary)
        self._free: list[_Block] = []
        self._busy: deque[tuple[_Block, Any]] = deque()
        self._most = 2 * threads

    def add(self, images: Sequence[ImagePostings]) -> None:
        """Add some images; waits while enough are being added."""
        if len(self._busy) == self._most:
            self._wait_for_one()
        block = self._free.pop() if self._free else _Block(self._writer, self._texts)
        block.documents.fill(Postings.of(list(images)), [image.origin for image in images])
        self._busy.append((block, self._pool.submit(block.add)))

    def wait(self) -> None:
        """Wait until all images are added."""
        while self._busy:
            self._wait_for_one()

    def _wait_for_one(self) -> None:
        block, adding = self._busy.popleft()
        adding.get()
        self._free.append(block)


class _Block:
    """Documents, and the `Callable` that adds them."""

    def __init__(self, writer: Any, texts: Texts) -> None:
        self.documents = Documents(texts)
        self.add = as_callable(add_documents(), writer, self.documents.list)


@cache
def add_documents() -> Any:
    """The handle of Lucene's method that adds a list of documents to a writer."""
    writer = "org.apache.lucene.index.IndexWriter"
    return method(writer, "addDocuments", "long", "java.lang.Iterable")
