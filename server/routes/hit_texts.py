"""The JSON of hits, of which all but ranks and scores is kept from answer to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import ref

from pydantic_core import to_json

from indexer.search.numbering import Numbering

MOST = 50_000  # images of which texts are kept, some 500 bytes each

# A hit's metadata, and its JSON as a format of rank and score.
_Text: TypeAlias = tuple[dict[str, Any], bytes]


class HitTexts:
    """Writes the hits of one backend, which have neither view nor coverage nor explanation.

    A search leaves little else in the processor's caches, so that a hit costs what has to be
    fetched for it: one text by a number.

    Args:
        url: the path of an image's photo; None if it cannot be shown.
    """

    def __init__(self, url: Callable[[str], str | None]) -> None:
        self._url = url
        self._texts: dict[str, _Text] = {}  # by ids, which commits share
        self._numbered: dict[int, bytes] = {}  # by numbers, of this searcher alone
        self._searcher: Callable[[], Numbering | None] = lambda: None

    def of(self, searcher: Numbering, found: Sequence[tuple[int, float]], first: int = 1) -> bytes:
        """The hits as `HitAnswer` writes them, separated by commas.

        Args:
            searcher: that found them.
            found: the numbers of the images, and their scores, which are whole.
            first: the rank of the first one.
        """
        if self._searcher() is not searcher:
            self._searcher, self._numbered = ref(searcher), {}
        texts: list[bytes] = []
        values: list[float] = []
        numbered = self._numbered
        for rank, (document, score) in enumerate(found, first):
            texts.append(numbered.get(document) or self._text(searcher, document))
            values += (rank, score)
        return b",".join(texts) % tuple(values)

    def _text(self, searcher: Numbering, document: int) -> bytes:
        """The text of an image; all are forgotten once there are too many."""
        image_id, metadata = searcher.stored(document)
        text = self._texts.get(image_id)
        # An image that was written since has other metadata.
        if text is None or text[0] is not metadata:
            if len(self._texts) >= MOST:
                self._texts.clear()
            text = self._texts[image_id] = metadata, self._written(image_id, metadata)
        if len(self._numbered) >= MOST:
            self._numbered.clear()
        self._numbered[document] = text[1]
        return text[1]

    def _written(self, image_id: str, metadata: dict[str, Any]) -> bytes:
        rest = {
            "url": self._url(image_id),
            "metadata": metadata,
            "view": None,
            "coverage": None,
            "explanation": None,
        }
        own, end = to_json(image_id), to_json(rest, inf_nan_mode="null")[1:]
        text = b'{"rank":%%d,"image_id":%b,"score":%%d.0,%b'
        return text % (own.replace(b"%", b"%%"), end.replace(b"%", b"%%"))
