"""Filters, facets, orders and pages of searches over a real index."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.store.changes import MetadataChange
from indexer.update.writer import open_writer
from server.app import create_app
from server.backends import open_backends
from tests.indexer.live_index import write
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import TOKENIZER
from tests.server.apps import client_of, settings
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS

QUERY = "red blue green"
WIDTHS = {image_id: drawing.size[0] for image_id, drawing in DRAWINGS.items()}
WIDE = {"key": "width", "range": {"gte": 320}}


@pytest.fixture(scope="module", params=["columns", "lucene"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, photos: Path
) -> Iterator[TestClient]:
    index = index_drawings(tmp_path_factory.mktemp("filters") / "index", photos)
    chosen = settings(index=index, engine=request.param)
    with client_of(create_app(open_backends(chosen), chosen)) as client:
        yield client


def ask(client: TestClient, **params: Any) -> Any:
    response = client.get("/v1/search", params={"q": QUERY, **params})
    assert response.status_code == 200, response.text
    return response.json()


def ids(answer: Any) -> list[str]:
    return [hit["image_id"] for hit in answer["hits"]]


def test_a_filter_leaves_hits_out_and_changes_nothing_else(served: TestClient) -> None:
    every, wide = ask(served), ask(served, filter="width:>=320")
    kept = [hit for hit in every["hits"] if hit["metadata"]["width"] >= 320]
    assert [hit | {"rank": 0} for hit in wide["hits"]] == [hit | {"rank": 0} for hit in kept]
    assert 0 < len(kept) < len(every["hits"])
    assert (wide["total"], wide["facets"]) == (None, None)
    path = "/v1/images/garden/two.jpg/similar"
    similar = ids(served.get(path, params={"filter": "width:>=320"}).json())
    assert similar == [i for i in ids(served.get(path).json()) if WIDTHS[i] >= 320]
    for given in (WIDE, {"must": [WIDE]}, "width:>=320"):
        answer = served.post("/v1/search", json={"q": QUERY, "filter": given})
        assert answer.json()["hits"] == wide["hits"]


def test_orders_and_facets_are_of_all_that_matches(served: TestClient) -> None:
    found = ids(ask(served))
    for order, sign in (("width", 1), ("-width", -1)):
        answer = ask(served, sort=order, facets="width,folder", k=2, offset=1)
        right = sorted(found, key=lambda i: (sign * WIDTHS[i], i))
        assert (ids(answer), answer["total"]) == (right[1:3], len(found))
        assert [hit["rank"] for hit in answer["hits"]] == [2, 3]
        counts = {
            field: {bucket["value"]: bucket["count"] for bucket in buckets}
            for field, buckets in answer["facets"].items()
        }
        folders = Counter(i.rpartition("/")[0] for i in found)
        assert counts == {"width": Counter(WIDTHS[i] for i in found), "folder": folders}
    body = {"q": QUERY, "facets": ["width"], "filter": WIDE}
    answer = served.post("/v1/search", json=body).json()
    assert {bucket["value"] for bucket in answer["facets"]["width"]} == {320, 400}


@pytest.mark.parametrize(
    ("params", "field", "detail"),
    [
        ({"filter": "widht:3"}, "filter", "filter, column 1: no image has the field 'widht'"),
        ({"filter": "x" * 3000}, "filter", "3000 characters are too many"),
        ({"sort": "length"}, "sort", "no image has the field 'length'"),
        ({"facets": "length"}, "facets", "no image has the field 'length'"),
    ],
)
def test_bad_parameters(
    served: TestClient, params: dict[str, Any], field: str, detail: str
) -> None:
    response = served.get("/v1/search", params={"q": QUERY, **params})
    assert (response.status_code, response.json()["field"]) == (422, field)
    assert detail in response.json()["detail"]


def test_a_bad_filter_in_a_body(served: TestClient) -> None:
    bad = {"must": [{"key": "width", "range": {"gt": "wide"}}]}
    for path, words in (("/v1/search", {"q": "red"}), ("/v1/images/count", {})):
        response = served.post(path, json={**words, "filter": bad})
        assert response.status_code == 422
        detail = "filter, must[0].range: width is a field of kind number: it has numbers"
        assert detail in response.json()["detail"]


def pages(client: TestClient, **params: Any) -> list[str]:
    found: list[str] = []
    for _ in range(10):
        answer = client.get("/v1/search", params={"k": 2, **params})
        assert answer.status_code == 200, answer.text
        found += ids(answer.json())
        params["cursor"] = answer.json()["cursor"]
        if params["cursor"] is None:
            return found
    raise AssertionError("no end")


@pytest.mark.parametrize(
    "params",
    [
        {"q": QUERY},
        {"q": QUERY, "facets": "width"},
        {"q": QUERY, "sort": "-width"},
        {"q": QUERY, "filter": "width:>=320"},
        {"filter": "width:>=320"},
        {"sort": "width"},
    ],
    ids=str,
)
def test_a_cursor_leads_to_the_next_page(served: TestClient, params: dict[str, Any]) -> None:
    every = ids(served.get("/v1/search", params=params).json())
    assert pages(served, **params) == every and len(every) > 1
    first = served.post("/v1/search", json={"q": QUERY, "k": 2}).json()
    body = {"q": QUERY, "k": 2, "cursor": first["cursor"]}
    second = served.post("/v1/search", json=body).json()
    assert [hit["rank"] for hit in second["hits"]] == [3, 4]


def test_without_words_all_photos_are_found(served: TestClient) -> None:
    answer = ask(served, q="", facets="width", explain=True)
    assert (answer["total"], ids(answer)) == (len(WIDTHS), sorted(WIDTHS))
    assert {hit["score"] for hit in answer["hits"]} == {0}
    wide = sorted(image_id for image_id, width in WIDTHS.items() if width >= 320)
    assert ids(served.post("/v1/search", json={"filter": WIDE}).json()) == wide


def test_several_searches_at_once(served: TestClient) -> None:
    queries = [{"q": "red", "k": 1}, {"filter": WIDE}, {"q": QUERY, "explain": True}]
    answers = served.post("/v1/search", json={"queries": queries}).json()["answers"]
    alone = [served.post("/v1/search", json=one).json() for one in queries]
    assert [one | {"timings": None} for one in answers] == [
        one | {"timings": None} for one in alone
    ]
    several: list[Any] = [[], [{"q": "a"}] * 33, [{"q": " "}]]
    for bad in several:
        assert served.post("/v1/search", json={"queries": bad}).status_code == 422


def cursor_of(*content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def test_wrong_cursors(served: TestClient) -> None:
    mine = ask(served, k=1)["cursor"]
    key = json.loads(base64.urlsafe_b64decode(mine + "=="))[0]
    sorted_key = json.loads(
        base64.urlsafe_b64decode(ask(served, k=1, sort="width")["cursor"] + "==")
    )[0]
    none = "cursor: this is none"
    for params, detail in (
        ({"cursor": "é"}, none),
        ({"cursor": cursor_of(1)}, none),
        ({"cursor": cursor_of(key, "text", "a", 1)}, none),
        ({"cursor": cursor_of(key, 1, "a", 0)}, none),
        ({"cursor": cursor_of(key, 1, "a", 10**6)}, none),
        ({"cursor": mine, "filter": "width:>=320"}, "cursor: it is of another search"),
        ({"cursor": mine, "offset": 1}, "cursor: give either a cursor or an offset"),
        ({"cursor": cursor_of(sorted_key, "x", "a", 1), "sort": "width"}, "of another order"),
    ):
        response = served.get("/v1/search", params={"q": QUERY, **params})
        assert (response.status_code, response.json()["field"]) == (422, "cursor"), params
        assert detail in response.json()["detail"]


def test_with_as_many_fields_as_there_can_be_filters_are_quick(tmp_path: Path) -> None:
    images, index = random_postings(TOKENIZER, 500), tmp_path / "index"
    write_postings(index, [images], TOKENIZER)
    names = [f"f{number}" for number in range(9_900)]
    own = [dict.fromkeys(names[first : first + 100], "x") for first in range(0, 9_900, 100)]
    chosen, times = settings(index=index), []
    write(index, *map(MetadataChange, images.ids, own, own))
    for merged in (False, True):
        if merged:
            with open_writer(index) as writer:
                writer.merge()
        with client_of(create_app(open_backends(chosen), chosen)) as client:
            begin = time.monotonic()
            fields = client.get("/v1/fields").json()["fields"]
            found = client.post("/v1/images/count", json={"filter": "f9899:x"}).json()
            times.append(time.monotonic() - begin)
        assert (len(fields) >= 9_900, fields["f9899"], found["count"]) == (True, "keyword", 1)
    assert max(times) < 3, times  # seconds; 0.3 of two cores
