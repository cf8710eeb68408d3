"""Queries with known answers: how often the first hit of a searcher is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from rich.table import Table

from indexer.query.query import Query
from indexer.search.api import Searcher
from sparta.errors import InputError
from sparta.progress import Progress, no_progress


class JudgedQuery(BaseModel):
    """A line of a file of queries.

    Attributes:
        query: the text.
        images: ids of all images that answer it.
        kind: a name by which results are grouped.
    """

    query: str
    images: frozenset[str]
    kind: str = "query"


@dataclass(frozen=True)
class FirstHits:
    """How many first hits are right.

    Attributes:
        right: by kind of query.
        queries: by kind of query.
        chance: share in percent that images in random order would reach.
    """

    right: dict[str, int]
    queries: dict[str, int]
    chance: float

    @property
    def share(self) -> float:
        """Share of all queries in percent."""
        return 100 * sum(self.right.values()) / sum(self.queries.values())

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        return vars(self) | {"share": self.share}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table("queries", "number", "first hit right")
        for kind, number in self.queries.items():
            table.add_row(kind, f"{number:,}", f"{100 * self.right[kind] / number:.1f} %")
        table.add_row("all", f"{sum(self.queries.values()):,}", f"{self.share:.1f} %")
        table.add_row("images in random order", "", f"{self.chance:.1f} %")
        return table


def read_judged_queries(path: Path) -> list[JudgedQuery]:
    """Read one JSON object a line: `query`, `images`, and optionally `kind`.

    Raises:
        InputError: if the file cannot be read, has no query, or a line is malformed.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip("\n").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    queries = []
    for number, line in enumerate(lines, 1):
        try:
            queries.append(JudgedQuery.model_validate_json(line))
        except ValidationError as error:
            raise InputError(
                f"{path}:{number}: {error.errors()[0]['msg']}; expected an object with query (text)"
                " and images (a list of ids)"
            ) from error
    if not queries:
        raise InputError(f"{path} has no query: give one JSON object a line")
    return queries


def measure_first_hits(
    searcher: Searcher, queries: Sequence[JudgedQuery], progress: Progress = no_progress
) -> FirstHits:
    """Search with every query; the first hit is right if it is one of the query's images.

    Args:
        searcher: with all images, right or not.
        queries: with the images that answer them.
        progress: of the stage "search", in queries.
    """
    kinds = dict.fromkeys(query.kind for query in queries)
    right, number = (dict.fromkeys(kinds, 0) for _ in range(2))
    for done, query in enumerate(queries, 1):
        hits = searcher.search(Query.plain(query.query), 1).hits
        right[query.kind] += bool(hits) and hits[0].image_id in query.images
        number[query.kind] += 1
        progress("search", done, len(queries))
    chance = sum(len(query.images) for query in queries) / len(queries) / len(searcher)
    return FirstHits(right, number, 100 * chance)
