"""The one shape of an answer: Python, REST, MCP, the command line and published sites share it.

The fields of a `Hit` are the fields of a hit in JSON, and those of an `Answer` the fields of an
answer in JSON, but for `INTERNAL`. REST adds addresses, the backend's name and a cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from html import escape
from typing import Literal, NamedTuple

from sparta.errors import InputError
from sparta.json_values import Json

Box = tuple[float, float, float, float]  # x1, y1, x2, y2 relative to the photo
Sign = Literal["", "+", "-"]  # of a word that images must have, or must not have
Value = str | float | bool  # of a field

WHOLE_PHOTO = 0.999  # share of the photo's area from which a box locates nothing
INTERNAL = ("version", "last", "picture")  # fields of an answer that are not in JSON
SHOWN = 20  # hits with pictures in a notebook


class Version(NamedTuple):
    """The state of an index that gave an answer.

    Attributes:
        commits: number, lineage and version of the commit of each shard that answered; an index
            without shards is shard 0.
    """

    commits: tuple[tuple[int, str, int], ...]

    @property
    def number(self) -> int:
        """Rises with every commit; 0 for an index as it was built."""
        return sum(version for *_, version in self.commits)

    def of(self, built: str) -> str:
        """Names the state of an index of which a build has the name `built`; no other has it.

        The number alone repeats: after an older state was restored, and in copies. So a hash of the
        commits with their lineages follows it.
        """
        if not self.number:
            return built
        digest = blake2b(repr(self.commits).encode(), digest_size=4).hexdigest()
        return f"{built}.{self.number}.{digest}"


UNKNOWN = Version(())


class Position(NamedTuple):
    """The place of a hit in an order, after which the next page begins.

    Attributes:
        value: the hit's score, or its value in the field that sorts; None if it has none there.
        image_id: decides between equal values.
        rank: of the hit; the next page counts on from it.
    """

    value: float | str | None
    image_id: str
    rank: int


# What an answer consists of is not frozen: making a frozen one takes several times as long.
@dataclass
class Hit:
    """One image of an answer.

    Attributes:
        rank: 1 for the best.
        image_id: as in the feature store.
        score: sum over the query's terms of count × impact (equation 15 on quantised scores), or
            a dense model's cosine similarity.
        metadata: the image's stored metadata (width, height, …).
        view: for a multi-view model (MV-VSE), which view of the image was nearest, else None.
        similarity: of a re-ranked hit, the cosine of a dual encoder's vectors of text and image, by
            which it is ordered in place of the score; else None.
        coverage: the share, 0 to 1, of the query's weight that belongs to words which the image
            has; None unless the search had a least coverage or explains.
        explanation: the score term by term; None unless the search explains.
    """

    rank: int
    image_id: str
    score: float
    metadata: Json
    view: int | None = None
    similarity: float | None = None
    coverage: float | None = None
    explanation: list[TermExplanation] | None = None

    @property
    def id(self) -> str:
        """The image id."""
        return self.image_id


@dataclass(slots=True)
class WinningLabel:
    """A label token that won the maximum of equation 10.

    Attributes:
        token: the word piece.
        words: its region's attribute and label, as far as the model read them.
    """

    token: str
    words: str


@dataclass(slots=True)
class TermExplanation:
    """What one term of the query contributes to one image's score, and its grounding.

    Attributes:
        term: the word piece as the index spells it.
        word: the query's word it comes from.
        count: how often the query contains it; 0 for a term of an excluded word.
        impact: the image's impact for it (0 if the image has none).
        score: count × impact.
        region: which region won the maximum of equation 10, itself or by a token of its label;
            None if unknown.
        box: that region's x1, y1, x2, y2 relative to the photo, None if unknown. With an image head
            over a square grid, region numbers the boxes that an explanation chooses from.
        label: the label token that won, None if the region itself won.
        similarity: of the term to the word it replaces; None if the query contains the term.
        sign: of the word: "+" if images must have it, "-" if they must not, else "".
    """

    term: str
    word: str
    count: int
    impact: int
    score: float
    region: int | None
    box: Box | None
    label: WinningLabel | None
    similarity: float | None = None
    sign: Sign = ""

    @property
    def whole(self) -> bool:
        """Whether that region covers the whole photo."""
        if self.box is None:
            return False
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1) > WHOLE_PHOTO


@dataclass
class Explanation:
    """The score of one image for one query, term by term; the terms' scores sum to it.

    Attributes:
        image_id: of the image.
        score: of the image.
        terms: of the query, those of excluded words last.
        coverage: as of a `Hit`; None for a query that is no text.
        against: the query's words for which a search leaves the image out, with their signs.
        metadata: as of a `Hit`.
    """

    image_id: str
    score: float
    terms: list[TermExplanation]
    coverage: float | None
    against: list[str]
    metadata: Json


@dataclass
class Timings:
    """Milliseconds spent on one query.

    Attributes:
        tokenise_ms: reading the text, or the terms of images.
        search_ms: finding the images.
        total_ms: the whole search, without explanations.
        encode_ms: embedding the text with a dense model, or for re-ranking; else 0.
        explain_ms: explaining all hits; None if nothing is explained.
    """

    tokenise_ms: float
    search_ms: float
    total_ms: float
    encode_ms: float = 0.0
    explain_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Substitution:
    """A word of the query that is misspelt or that the index lacks, and what was searched for it.

    Attributes:
        word: as typed; a search without substitutes searches it.
        term: the correct word, or its substitute, which the index has.
        similarity: cosine of the two, as the table of substitutes records it; None for a misspelt
            word.
    """

    word: str
    term: str
    similarity: float | None


@dataclass(slots=True)
class Condition:
    """A word of the query that images must or must not have.

    Attributes:
        word: as typed, without its sign.
        sign: "+" if images must have it, "-" if they must not.
        images: how many images have it.
    """

    word: str
    sign: Sign
    images: int


@dataclass(slots=True)
class Correction:
    """A misspelt or unknown word, and the words of the index nearest to it, the nearest first."""

    word: str
    words: list[str]


@dataclass(slots=True)
class Bucket:
    """One value of a facet.

    Attributes:
        value: of the field; of a date the year, month or day.
        count: how many images have it.
    """

    value: Value
    count: int


@dataclass(slots=True)
class QueryTerm:
    """A term of a query that was made of images, and how often the query contains it."""

    term: str
    count: int


@dataclass(repr=False)
class Answer:
    """What a search found: a sequence of its hits, which notebooks show with their pictures.

    Attributes:
        hits: in the order of `indexer.search.engine`, or by the field that sorts.
        timings: milliseconds by step.
        version: of the index that answered.
        unknown: the query's words of which no word piece is in the index (for a dense model: in
            its vocabulary) and which no substitute replaced, each once.
        rare: the query's words with a word piece, or a substitute, that training rarely saw, each
            once; none for a dense model.
        corrections: misspelt and unknown words for which the index has words of similar spelling.
        substitutions: the query's words that another one replaced, each once.
        conditions: the query's words with a sign, in order.
        terms: of a query made of images, the largest count first; empty for other queries, and for
            a dense model, which compares vectors.
        total: images that match; None for a search by score without facets.
        facets: the values that most matching images have, by facet; None without facets.
        reranked: how many hits of the ranking, the first ones, are ordered by their similarity; 0
            if all are by score.
        missing_images: images of the index that a dense model has no vectors of.
        missing_shards: names of shards that did not answer.
        last: the place of the last hit; None without hits.
        picture: image id → URL of a small picture, if whoever made the answer can show photos.
    """

    hits: Sequence[Hit]
    timings: Timings
    version: Version = UNKNOWN
    unknown: list[str] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)
    corrections: list[Correction] = field(default_factory=list)
    substitutions: list[Substitution] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    terms: list[QueryTerm] = field(default_factory=list)
    total: int | None = None
    facets: dict[str, list[Bucket]] | None = None
    reranked: int = 0
    missing_images: int = 0
    missing_shards: list[str] = field(default_factory=list)
    last: Position | None = None
    picture: Callable[[str], str | None] | None = field(default=None, compare=False)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def __repr__(self) -> str:
        lines = [f"{hit.rank:>4}  {hit.score:<8.6g}  {hit.id}" for hit in self.hits]
        return "\n".join(lines) or "no hits"

    def _repr_html_(self) -> str:
        """The hits with small pictures, in notebooks."""
        figures = []
        for hit in self.hits[:SHOWN]:
            address = self.picture(hit.id) if self.picture else None
            shown = f'<img src="{escape(address)}" alt="">' if address else ""
            text = f"{hit.rank}. {escape(hit.id)} ({hit.score:.6g})"
            figures.append(
                '<figure style="display:inline-block;margin:4px;max-width:170px">'
                f'{shown}<figcaption style="overflow-wrap:anywhere">{text}</figcaption></figure>'
            )
        return "".join(figures) or "no hits"

    def as_json(self) -> Json:
        """All fields but the internal ones as values of JSON."""
        return {
            name: value
            for name, value in asdict(replace(self, picture=None)).items()
            if name not in INTERNAL
        }


class UnavailableError(InputError):
    """Raised if an index, a model or a shard cannot be opened or asked; the text says why."""


class RefusedError(InputError):
    """Raised for a search that the index or the engine cannot answer.

    Attributes:
        reason: what is wrong and what to do.
        field: the argument that asks for it.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        # To be raised again in the process that asked.
        return RefusedError, (self.field, self.reason)
