"""What the clients' searches and explanations return; other answers are of `server.schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from indexer import answer


@dataclass
class Hit(answer.Hit):
    """A hit of a server.

    Attributes:
        url: path of the photo on the server; None if it does not show photos.
    """

    url: str | None = None


@dataclass(repr=False, kw_only=True)
class SearchAnswer(answer.Answer):
    """What a search on a server found.

    Attributes:
        hits: as of `Answer`.
        query: the words.
        backend: that answered.
        index_version: of the index that answered.
        cursor: for the hits after these, with the same search; None if there are none.
        partial: whether images of missing shards may be missing.
    """

    hits: Sequence[Hit]
    query: str = ""
    backend: str = ""
    index_version: str = ""
    cursor: str | None = None
    partial: bool = False


@dataclass(repr=False, kw_only=True)
class SimilarAnswer(SearchAnswer):
    """Images similar to one or several on a server.

    Attributes:
        image_id: of the first image.
        also: ids of the others.
        url: path of the first one's photo on the server; None if it does not show photos.
    """

    image_id: str
    also: list[str] = field(default_factory=list)
    url: str | None = None


@dataclass(kw_only=True)
class Explanation(answer.Explanation):
    """The score of one image for one query on a server.

    Attributes:
        query: the words.
        backend: that answered.
        index_version: of the index that answered.
        url: path of the photo on the server; None if it does not show photos.
    """

    query: str = ""
    backend: str = ""
    index_version: str = ""
    url: str | None = None


@dataclass(frozen=True)
class Photo:
    """The file of a photo."""

    content: bytes  # the bytes of the file, unchanged
    media_type: str  # as the server read it from the content, such as `image/jpeg`
