"""The JSON of hits, of which all but ranks and scores is kept from answer to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pydantic_core import to_json

from indexer.search.api import Hit

MOST = 50_000  # images of which texts are kept, some 500 bytes each

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
        image_id = to_json(hit.image_id).decode()
        rest = {
            "url": self._url(hit.image_id),
            "metadata": hit.metadata,
            "view": None,
            "coverage": None,
            "explanation": None,
        }
        end = to_json(rest, inf_nan_mode="null").decode()
        if len(self._texts) >= MOST:
            self._texts.clear()
        middle = f',"image_id":{image_id},"score":'
        text = self._texts[hit.image_id] = hit.metadata, middle, f",{end[1:]}"
        return text
