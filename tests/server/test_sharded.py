"""A server of a divided index answers as one of the whole index."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from indexer.maintenance.combine import split_index
from indexer.manifest import index_folders, owner
from indexer.store.changes import Delete, MetadataChange
from indexer.update.writer import open_writer
from server.app import create_app
from server.backends import open_backends
from server.writing.app import Writing
from server.writing.app import create_app as writing_app
from server.writing.forward import Board
from server.writing.index import PhotoEncoder
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.server.apps import client_of, settings

CHANGING = ("timings", "index_version", "cursor")


def folders(folder: Path, images: int) -> tuple[Path, Path]:
    """A whole index and the same in three shards."""
    tokenizer = small_tokenizer()
    postings = random_postings(tokenizer, images, seed=2)
    stars: list[dict[str, Any]] = [{"stars": number % 4} for number in range(images)]
    write_postings(folder / "whole", [replace(postings, metadata=stars)], tokenizer)
    split_index(folder / "whole", folder / "divided", 3)
    return folder / "whole", folder / "divided"


def client(index: Path) -> TestClient:
    chosen = settings(index=index)
    opened = partial(open_backends, chosen)
    return client_of(create_app(opened(), chosen, reopen=opened))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TestClient]]:
    indexes = folders(tmp_path_factory.mktemp("sharded"), 50)
    with client(indexes[0]) as whole, client(indexes[1]) as divided:
        yield [whole, divided]


IMAGE = "/v1/images/a/00003%20%C3%A9.jpg"


PATHS = [
    "/v1/search?q=dogs%20qqq&k=7&explain=true",
    "/v1/search?q=dogs%20-cat&k=100&filter=stars:>1&min_coverage=0.3",
    "/v1/search?q=dog&facets=stars,path&sort=-stars&k=9&offset=3",
    "/v1/search?q=&sort=stars&k=5",
    "/v1/search?q=dog&filter=moons:1",
    "/v1/search?q=dog&sort=moons",
    "/v1/search?q=dog&filter=stars:prefix*",
    "/v1/search?q=-dog",
    "/v1/suggest?q=do",
    "/v1/fields",
    "/v1/backends",
    IMAGE,
    IMAGE + "x",
    IMAGE + "/explain?q=dogs%20-the",
    IMAGE + "/similar?k=3&q=red&explain=true&filter=stars:0",
    "/v1/images/nothing/similar",
    "/v1/images/nothing/explain?q=dog",
]


@pytest.mark.parametrize("path", PATHS)
def test_answers(both: list[TestClient], path: str) -> None:
    right, found = (one.get(path) for one in both)
    assert found.status_code == right.status_code
    assert without_times(found.json()) == without_times(right.json())


def test_cursors(both: list[TestClient]) -> None:
    asked: list[dict[str, Any]] = [{"q": "dog cat", "k": 6}, {"q": "dog", "k": 6, "sort": "-stars"}]
    for body in asked:
        for _ in range(4):
            right, found = (
                one.post("/v1/search", json=body | cursor).json()
                for one, cursor in zip(both, body.pop("cursors", [{}, {}]), strict=True)
            )
            assert without_times(found) == without_times(right)
            body["cursors"] = [{"cursor": one["cursor"]} for one in (right, found)]


def without_times(answer: Any) -> Any:
    return {name: value for name, value in answer.items() if name not in CHANGING}


def test_what_is_written_to_a_shard_is_found(tmp_path: Path) -> None:
    _, divided = folders(tmp_path, 20)
    shards = index_folders(divided)
    with client(divided) as found:
        before = found.get("/v1/search?q=the&k=30").json()
        gone = before["hits"][0]["image_id"]
        with open_writer(shards[owner(gone, 3)], shard=True) as writer:
            writer.write([Delete(gone)])
        while len((now := found.get("/v1/search?q=the&k=30").json())["hits"]) == 20:
            time.sleep(0.05)
        ids = [hit["image_id"] for hit in before["hits"]]
        assert [hit["image_id"] for hit in now["hits"]] == ids[1:]
        assert now["index_version"] != before["index_version"]
        assert now["index_version"].partition(".")[0] == before["index_version"]


def test_writes_are_those_to_the_whole_index(tmp_path: Path) -> None:
    draw, indexes = random.Random(5), folders(tmp_path, 20)
    with ExitStack() as opened:
        writers = [
            opened.enter_context(TestClient(writing_app(Writing(index, ["photos"], Board(1)))))
            for index in indexes
        ]
        for method, path, asked in random_writes(draw):
            right, divided = (one.request(method, path, **asked) for one in writers)
            assert divided.status_code == right.status_code, right.text
            assert without_times(divided.json()) == without_times(right.json())
    with client(indexes[0]) as whole, client(indexes[1]) as shards:
        for path in [*PATHS, "/v1/search?q=zebra&facets=stars&sort=-stars&k=50"]:
            assert without_times(shards.get(path).json()) == without_times(whole.get(path).json())


def random_writes(draw: random.Random) -> Iterator[tuple[str, str, dict[str, Any]]]:
    ids = [f"a/{number:05} é.jpg" for number in range(9)] + [f"new/{number}" for number in range(6)]
    for _ in range(40):
        path, how = f"/v1/images/{quote(draw.choice(ids), safe='')}", draw.random()
        terms = {word: draw.randint(1, 9) for word in draw.sample(["dog", "cat", "zebra"], 2)}
        fields = {"stars": draw.randint(0, 9)}
        if how < 0.4:
            yield "PUT", path, {"json": {"terms": terms, "metadata": fields}}
        elif how < 0.6:
            yield "PATCH", path, {"json": fields}
        elif how < 0.8:
            yield "DELETE", path, {}
        elif how < 0.9:
            yield "POST", "/v1/images/delete", {"json": draw.sample(ids, 3)}
        else:
            lines: list[dict[str, Any]] = [{"terms": terms}]
            lines += [{"image_id": one, "terms": terms} for one in draw.sample(ids, 5)]
            lines += [{"image_id": one, "delete": True} for one in draw.sample(ids, 4)]
            lines += [{"image_id": one, "metadata": fields} for one in draw.sample(ids, 4)]
            yield "POST", "/v1/images/batch", {"content": "\n".join(map(json.dumps, lines))}


def test_a_field_has_the_kind_that_fits_the_values_of_all_shards(tmp_path: Path) -> None:
    _, divided = folders(tmp_path, 20)
    values = [5, "five", 7]
    with open_writer(divided) as writer:
        owners = {owner(f"a/{number:05} é.jpg", 3): f"a/{number:05} é.jpg" for number in range(20)}
        for number, image_id in owners.items():
            writer.write([MetadataChange(image_id, {"stars": 1, "moons": values[number]})])
    with client(divided) as found:
        for asked in ("filter=moons:5", "filter=moons:five", "facets=moons", "sort=moons"):
            assert found.get(f"/v1/search?q=the&{asked}").status_code == 200, asked
        assert found.get("/v1/fields").json()["fields"]["moons"] == "keyword"
        answer = found.get("/v1/search?filter=moons:*&facets=moons").json()
        assert [one["value"] for one in answer["facets"]["moons"]] == ["5", "7", "five"]


def test_photos_are_encoded_as_those_of_the_first_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, divided = folders(tmp_path, 20)
    asked: list[Path] = []

    def impacts(encoder: PhotoEncoder, photo: bytes) -> dict[str, int]:
        asked.append(encoder._folder)
        return {"dog": len(photo)}

    monkeypatch.setattr(PhotoEncoder, "impacts", impacts)
    with TestClient(writing_app(Writing(divided, ["photos"], Board(1)))) as writer:
        assert writer.post("/v1/images/similar", content=b"abc").json() == {"dog": 3}
    assert asked == [divided / "shard-000"]


def test_a_server_of_a_shard_alone_reads_and_does_not_write(tmp_path: Path) -> None:
    """But on a cluster, where requests are divided before."""
    _, divided = folders(tmp_path, 50)
    shard = index_folders(divided)[0]
    with client(shard) as reading:
        assert reading.get("/v1/search?q=dog").status_code == 200
    writing = Writing(shard, ["photos"], Board(1))
    with TestClient(writing_app(writing)) as writer:
        refused = writer.put("/v1/images/x.jpg", json={"terms": {"dog": 1.0}})
        assert refused.status_code == 409
        assert "is a shard, and takes no writes alone" in refused.json()["detail"]
        assert not (shard / "uploads").exists()
        writing.shard = True
        assert writer.put("/v1/images/x.jpg", json={"terms": {"dog": 1.0}}).status_code == 200
    writing.close()
