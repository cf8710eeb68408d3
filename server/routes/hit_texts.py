"""The JSON of hits, of which all but ranks and scores is kept from answer to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from indexer.search.api import Hit
from server.schemas import HitAnswer

MOST = 100_000  # images of which texts are kept, some 500 bytes each
_RANK = '{"rank":1'
_SCORE = '"score":0.0'


# A hit's metadata, and its JSON between rank and score and after them.
_Text: TypeAlias = tuple[dict[str, Any], str, str]


class HitTexts:
    """Writes the hits of one backend, which have neither view nor coverage nor explanation.

    Args:
        url: the path of an image's photo; None if it cannot be shown.
    """

    def __init__(self, url: Callable[[str], str | None]) -> None:
        self._url = url
        self._texts: dict[str, _Text] = {}

    def of(self, hits: Sequence[Hit]) -> str:
        """The hits as `HitAnswer` writes them, separated by commas."""
        written, texts = [], self._texts
        for hit in hits:
            text = texts.get(hit.image_id)
            # An image that was written since has other metadata.
            if text is None or text[0] is not hit.metadata:
                text = self._write(hit)
            written.append(f'{{"rank":{hit.rank}{text[1]}{float(hit.score)!r}{text[2]}')
        return ",".join(written)

    def _write(self, hit: Hit) -> _Text:
        """Write the constant parts of a hit; all are forgotten once there are too many."""
        answer = HitAnswer(
            rank=1,
            image_id=hit.image_id,
            score=0.0,
            url=self._url(hit.image_id),
            metadata=hit.metadata,
            view=None,
            coverage=None,
            explanation=None,
        )
        # Within an id the quotation marks would be escaped.
        middle, score, end = answer.model_dump_json().partition(_SCORE)
        if len(self._texts) >= MOST:
            self._texts.clear()
        middle = middle.removeprefix(_RANK) + score.removesuffix("0.0")
        text = self._texts[hit.image_id] = hit.metadata, middle, end
        return text
