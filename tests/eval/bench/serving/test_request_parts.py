"""One request taken apart."""

from pathlib import Path

import pytest

from eval.bench.serving.access import Access
from eval.bench.serving.request_parts import PARTS, time_parts
from indexer.query.query import Query
from indexer.search.api import Allowed, SearchResult
from server.backends import Backend, Backends
from tests.server.apps import settings
from tests.server.fake import FakeSearcher


class Recording(FakeSearcher):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str | Query, int]] = []

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        self.asked.append((query, k))
        return super().search(query, k, substitute=substitute, allowed=allowed)


@pytest.mark.parametrize("quick", [False, True])
def test_every_query_is_asked_through_the_application_and_directly(
    quick: bool, tmp_path: Path
) -> None:
    searcher = Recording()
    queries = ["red", "blue & green", "100% +", "purple"]
    backends = Backends([Backend("sparta", searcher, quick=quick)])
    access = Access.create(tmp_path / "keys.json", 1)
    parts = time_parts(backends, settings(keys=access.file), queries, 3, access.search[0])
    assert searcher.asked == [(query, 3) for query in queries for _ in range(2)]
    assert tuple(parts) == PARTS
    assert (parts["tokenise"], parts["search"]) == (0.25, 1.0)  # what the fake one says
    assert (parts["serialise"] > 0) is not quick  # one step with building where it is quick
