"""Dense backends of a server that is written to show each commit in every worker."""

from __future__ import annotations

from pathlib import Path

import httpx

from indexer.dense.build import add_dense
from tests.indexer.tiny_dense import save_dense_model
from tests.server.drawings import index_drawings, store_drawings
from tests.server.fake import DRAWINGS
from tests.server.served import written

BACKENDS = ("one", "views")
TRIES = 6  # connections of their own, so that both workers answer


def test_every_worker_shows_what_was_waited_for(tmp_path: Path, photos: Path) -> None:
    store = store_drawings(tmp_path / "store")
    index = index_drawings(tmp_path / "index", photos, store.fingerprint)
    for name, views in (("one", 1), ("views", 3)):
        model = save_dense_model(tmp_path / name, name, views, seed=views)
        add_dense(index, store, name, model, device="cpu")
    gone, replaced, *rest = sorted(DRAWINGS)
    with written(index, "--workers", "2") as (client, _):
        for _ in range(TRIES):
            assert found(client) == [set(DRAWINGS)] * 2
        assert client.delete(f"/v1/images/{gone}").json()["result"] == "deleted"
        for _ in range(TRIES):
            assert found(client) == [{replaced, *rest}] * 2
        body = {"terms": {"red": 9}}
        assert client.put(f"/v1/images/{replaced}", json=body).json()["result"] == "replaced"
        assert client.put("/v1/images/new.jpg", json=body).json()["result"] == "created"
        for _ in range(TRIES):
            assert found(client) == [set(rest)] * 2
            answer = client.get("/v1/search", params={"q": "dog", "backend": "views"}).json()
            assert answer["missing_images"] == 2
            listed = client.get("/v1/backends").json()["backends"]
            assert {(one["images"], one["missing_images"]) for one in listed[1:]} == {
                (len(rest), 2)
            }
        problem = client.get("/v1/images/new.jpg/similar", params={"backend": "one"}).json()
        assert "'new.jpg' has no vector of this model" in problem["detail"]
        described = client.patch(f"/v1/images/{rest[0]}", json={"rating": 5})
        assert described.status_code == 200
        for _ in range(TRIES):
            params = {"q": "dog", "backend": "views", "filter": "rating:5"}
            [hit] = client.get("/v1/search", params=params).json()["hits"]
            assert (hit["image_id"], hit["metadata"]["rating"]) == (rest[0], 5)


def found(client: httpx.Client) -> list[set[str]]:
    """Ids of all images that each dense backend finds."""
    answers = []
    for name in BACKENDS:
        response = client.get("/v1/search", params={"q": "dog", "k": 50, "backend": name})
        assert response.status_code == 200, response.text
        answers.append({hit["image_id"] for hit in response.json()["hits"]})
    return answers
