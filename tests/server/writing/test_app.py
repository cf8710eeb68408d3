"""The writer's application: each request to change the index, and its answer."""

from __future__ import annotations

import base64
import errno
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_dense, open_index
from indexer.maintenance.copies import set_alias, take_snapshot
from indexer.postings import ImagePostings
from indexer.search.explanations import Explain
from indexer.state import index_version, newest_version, place_of
from indexer.store.changes import Add, Delete
from indexer.update.writer import IndexWriter, open_writer
from indexer.verify import verify_index
from server.requests import MANY
from server.writing.app import Writing, create_app
from server.writing.bodies import Image
from server.writing.forward import COMMIT, PLACE, Board
from server.writing.index import PhotoEncoder, WritableIndex
from sparta.errors import InputError
from tests.disk_errors import failing
from tests.indexer.tiny_dense import random_vectors, save_dense_model, write_part
from tests.needs import EVERY, crossed
from tests.server.drawings import index_photos
from tests.server.fake import DRAWINGS
from tests.server.test_photo_files import photo, sized

JSON = {"content-type": "application/json"}


@pytest.fixture
def index(drawings: Path, tmp_path: Path) -> Path:
    return shutil.copytree(drawings, tmp_path / "index")


@pytest.fixture
def board() -> Board:
    return Board(1)


@pytest.fixture
def client(index: Path, board: Board) -> Iterator[TestClient]:
    with TestClient(create_app(Writing(index, ["m"], board))) as client:
        yield client


def writer_of(index: Path, model: str = "m") -> TestClient:
    """The writer of an index, with a board of its own."""
    return TestClient(create_app(Writing(index, [model], Board(1))))


def found(index: Path, query: str) -> list[str]:
    with closing(open_index(index)) as searcher:
        return [hit.image_id for hit in searcher.search(query, 50).hits]


def problem(response: Any, status: int, kind: str) -> str:
    assert response.status_code == status, response.text
    answer = response.json()
    assert answer["type"] == f"urn:problem-type:visualsparta:{kind}"
    return str(answer["detail"])


def put(client: TestClient, image_id: str, **body: Any) -> Any:
    return client.put(f"/v1/images/{image_id}", json=body)


def test_an_answer_names_the_commit_in_which_searches_find_the_change(
    client: TestClient, index: Path, board: Board
) -> None:
    version, before = index_version(index), found(index, "red")
    nothing = client.post("/v1/images/delete", json=[])
    assert nothing.json()["index_version"] == version
    response = put(client, "a/b.jpg", terms={"red": 127}, metadata={"camera": "x"})
    assert response.json()["index_version"] == newest_version(index)
    assert response.headers[COMMIT] == "2" == str(board.commit)
    assert found(index, "red") == ["a/b.jpg", *before]
    assert put(client, "a/b.jpg", terms={"blue": 1}).json()["result"] == "replaced"
    assert found(index, "red") == before
    assert client.post("/v1/images/delete", json=[]).json()["index_version"] == newest_version(
        index
    )


def test_an_image_that_must_be_new_replaces_none(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_new() -> Any:
        headers = {"If-None-Match": "*"}
        return client.put("/v1/images/a", json={"terms": {"red": 9}}, headers=headers)

    assert put_new().json()["result"] == "created"
    assert "'a' is in the index: choose another id" in problem(put_new(), 412, "image-exists")
    client.delete("/v1/images/a")
    encode = WritableIndex.encode

    def encode_late(index: WritableIndex, image_id: str, body: Image) -> Add:
        """Another request adds the image meanwhile."""
        image = encode(index, image_id, body)
        index.write([image])
        return image

    monkeypatch.setattr(WritableIndex, "encode", encode_late)
    problem(put_new(), 412, "image-exists")


def test_without_waiting_a_change_is_found_soon(client: TestClient, board: Board) -> None:
    response = client.put("/v1/images/a?refresh=none", json={"terms": {"red": 9}})
    assert response.json()["index_version"] is None
    assert COMMIT not in response.headers
    client.put("/v1/images/b", json={"terms": {"red": 9}})
    counts = board.counts
    assert counts.commits in (1, 2)
    assert counts.commit_seconds > 0
    assert (counts.images_written, counts.images_deleted) == (2, 0)


def test_metadata_changes_field_by_field(client: TestClient, index: Path) -> None:
    image_id = min(DRAWINGS)
    path = f"/v1/images/{image_id}"
    client.patch(path, json={"rating": 5, "tags": ["a"]})
    answer = client.patch(path, json={"rating": None, "camera": "y"}).json()
    width, height = DRAWINGS[image_id].size
    right = {"width": width, "height": height, "tags": ["a"], "camera": "y"}
    assert (answer["result"], answer["metadata"]) == ("updated", right)
    with closing(open_index(index)) as searcher:
        assert searcher.metadata(image_id) == right
    problem(client.patch("/v1/images/no", json={"a": 1}), 404, "unknown-image")
    for name in ("width", "upload"):
        detail = problem(client.patch(path, json={name: 1}), 422, "invalid-parameter")
        assert detail == f"{name} is the photo's; rename the field"


def test_a_batch_of_too_many_lines_is_not_begun(client: TestClient, index: Path) -> None:
    line = json.dumps({"image_id": "a", "terms": {"red": 126}}).encode()
    answer = client.post("/v1/images/batch", content=line + b"\n" * (MANY + 1))
    assert "more than 100,000 lines" in problem(answer, 413, "body-too-large")
    assert "a" not in found(index, "red")
    line = b'{"image_id": "b", "features": {"features": [[' + b'"a",' * 400_000 + b"1]]}}"
    answer = client.post("/v1/images/batch", content=line).json()
    assert "more than 300,000 elements" in answer["errors"][0]["detail"]
    answer = client.put("/v1/images/b", content=line, headers=JSON)
    assert "more than 300,000 elements" in problem(answer, 413, "body-too-large")


def test_a_batch_is_written_as_far_as_it_can_be(client: TestClient, index: Path) -> None:
    known = min(DRAWINGS)
    lines: list[Any] = [
        {"image_id": "a", "terms": {"red": 126}},
        {"image_id": "b", "terms": {"red": 125}, "metadata": {"n": 1}},
        "no JSON",
        {"image_id": "b", "metadata": {"n": 2}},
        {"image_id": "c", "terms": {"qqq": 1}},
        {"image_id": "x" * 40_000, "terms": {"red": 1}},
        {"image_id": known, "terms": {"red": 124}},
        {"image_id": "a", "delete": True},
        {"image_id": "no", "delete": True},
        {"image_id": "no", "metadata": {}},
        {"image_id": "d"},
        {"image_id": "d", "delete": True, "terms": {"red": 1}},
        {"image_id": "d", "terms": {"red": 1}, "photo": "aaaa"},
        {"terms": {"red": 1}},
    ]
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    answer = client.post("/v1/images/batch", content=f"{body}\n\n").json()
    counts = {name: answer[name] for name in ("created", "replaced", "updated", "deleted")}
    assert counts == {"created": 2, "replaced": 1, "updated": 1, "deleted": 1}
    errors = {error["line"]: (error["image_id"], error["detail"]) for error in answer["errors"]}
    assert list(errors) == [3, 5, 6, 9, 10, 11, 12, 13, 14]
    assert errors[5] == ("c", "term 'qqq' is not in the vocabulary of the index")
    assert "40000 bytes, not 1 to" in errors[6][1]
    assert errors[9] == ("no", "the index has no such image") == errors[10]
    assert errors[11][1] == "give one of photo, features, terms, metadata and delete"
    assert errors[14] == (None, "image_id: Field required")
    assert found(index, "red")[:2] == ["b", known]
    with closing(open_index(index)) as searcher:
        assert searcher.metadata("b") == {"n": 2, "upload": ""}


def test_bodies_that_cannot_be_read(client: TestClient) -> None:
    def refused(kind: str, status: int = 422, **options: Any) -> str:
        return problem(client.put("/v1/images/a", **options), status, kind)

    assert "give one of photo, features and terms" in refused("invalid-parameter", json={})
    assert "terms: " in refused("invalid-parameter", json={"terms": 3})
    detail = refused("invalid-parameter", json={"terms": {"red": 1}, "metadata": {"width": 3}})
    assert detail == "metadata: width is the photo's; rename the field"
    assert "Invalid JSON" in refused("invalid-parameter", content="{", headers=JSON)
    html = {"content-type": "text/html"}
    assert "send a photo as image/jpeg" in refused(
        "unsupported-media", 415, content="a", headers=html
    )
    jpeg = {"content-type": "image/jpeg"}
    assert "not an image" in refused("invalid-image", content="a", headers=jpeg)
    regions = {"features": [[1.0]], "boxes": [[0, 0, 2, 1]], "width": 8, "height": 8}
    assert "between 0 and 1" in refused("invalid-image", json={"features": regions})
    # The model that the index names is not there.
    assert "--model m" in refused("invalid-image", content=photo("PNG"), headers=jpeg)


def test_another_writer_is_named(client: TestClient, index: Path) -> None:
    with open_writer(index):
        answer = put(client, "a", terms={"red": 1})
    detail = problem(answer, 503, "index-busy")
    assert int(answer.headers["Retry-After"]) > 0
    assert "is being written by process" in detail
    assert put(client, "a", terms={"red": 1}).status_code == 200


def test_after_a_failure_of_the_disk_the_index_is_opened_again(
    client: TestClient, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, "a", terms={"red": 126})

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write", "sync", "commit"):
        with monkeypatch.context() as patch:
            patch.setattr(IndexWriter, name, fail)
            detail = problem(put(client, "b", terms={"red": 125}), 503, "writing-failed")
            assert "the disk is full" in detail
        with monkeypatch.context() as patch:
            patch.setattr("server.writing.app.WritableIndex", fail)  # as when no lock can be made
            detail = problem(put(client, "b", terms={"red": 125}), 409, "not-writable")
            assert "the disk is full" in detail
        assert put(client, "c", terms={"red": 124}).status_code == 200
    with monkeypatch.context() as patch:  # a defect of ours, in the thread that commits
        patch.setattr(IndexWriter, "commit", lambda _: 1 / 0)
        problem(put(client, "b", terms={"red": 125}), 503, "writing-failed")
    assert put(client, "d", terms={"red": 123}).status_code == 200
    # What was answered with a failure does not come later.
    assert found(index, "red")[:3] == ["a", "c", "d"] and "b" not in found(index, "red")


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "put": ("PUT", "/v1/images/b", {"terms": {"red": 125}}),
    "patch": ("PATCH", "/v1/images/a", {"metadata": {"camera": "b"}}),
    "delete": ("DELETE", "/v1/images/a", None),
    "batch": ("POST", "/v1/images/delete", ["a", "c"]),
}


def content_of(index: Path) -> dict[str, Any]:
    """The images that a fresh process finds, with their metadata."""
    with closing(open_index(index)) as searcher:
        return {one: searcher.metadata(one) for one in searcher.ids()}


@pytest.mark.parametrize(("name", "refresh"), crossed(REQUESTS, ["wait", "none"]))
def test_what_an_answer_says_of_a_failing_disk_is_so(
    name: str, refresh: str, index: Path, tmp_path: Path
) -> None:
    method, path, body = REQUESTS[name]
    with writer_of(index) as client:
        put(client, "a", terms={"red": 126})
        put(client, "c", terms={"red": 124})

    def run(number: int, fail_at: int, stays: bool) -> tuple[Any, list[dict[str, Any]], int]:
        """The answer, what is found after it and later, and how many calls were made."""
        one = Path(shutil.copytree(index, tmp_path / f"{number}-{fail_at}"))
        with writer_of(one) as client:
            assert client.get("/v1/images").status_code  # the writer is there
            with failing(one, fail_at, errno.EIO, stays) as disk:
                answer = client.request(method, f"{path}?refresh={refresh}", json=body)
                at_once = content_of(one)
            after = content_of(one)
        with writer_of(one) as client:
            put(client, "z", terms={"red": 1})
        later = content_of(one)
        assert later.pop("z") is not None and verify_index(one) == []
        shutil.rmtree(one)
        return answer, [at_once, after, later], len(disk.calls)

    before = content_of(index)
    answer, found, calls = run(0, -1, False)
    assert answer.status_code == 200 and calls > 2
    made = found[-1]
    assert made != before
    step = 1 if EVERY else max(1, calls // 3)
    for fail_at in range(0, calls, step):
        for stays in (False, True):
            answer, found, _ = run(1 + stays, fail_at, stays)
            if answer.status_code == 200:
                assert found[-1] == made
                assert refresh == "none" or found == [made] * 3
                continue
            kind = answer.json()["type"].rpartition(":")[2]
            assert kind in ("writing-failed", "writing-unsure", "not-writable")
            if kind == "writing-unsure":
                assert found[-1] in (before, made)
            else:
                assert found == [before] * 3, (fail_at, stays, answer.text)


def test_requests_at_once_are_each_told_what_a_failing_disk_did_to_theirs(index: Path) -> None:
    """What is acknowledged is there; of what was answered with a failure nothing comes later."""
    with writer_of(index) as client, ThreadPoolExecutor(8) as threads:
        put(client, "a", terms={"red": 126})
        for fail_at in range(0, 24, 3):
            with failing(index, fail_at, errno.EIO):
                names = [f"{fail_at}-{number}" for number in range(8)]
                send = partial(put, client, terms={"red": 1})
                answers = list(threads.map(send, names))
            there = content_of(index)
            for one, answer in zip(names, answers, strict=True):
                if answer.status_code == 200:
                    assert one in there
                elif "writing-unsure" not in answer.text:
                    assert one not in there, answer.text
            assert put(client, "a", terms={"red": 126}).status_code == 200
            assert set(there) - set(names) == set(content_of(index)) - set(names)


def test_photos(photos: Path, tmp_path: Path) -> None:
    """As their files, and in JSON; with what their files say and where they are kept."""
    index, model, _ = index_photos(photos, tmp_path)
    content = photo("PNG")
    with writer_of(index, str(model)) as client:
        one = client.put("/v1/images/one", content=content, headers={"content-type": "image/png"})
        assert one.json()["result"] == "created", one.text
        encoded = base64.b64encode(content).decode()
        assert put(client, "two", photo=encoded, metadata={"iso": 1}).status_code == 200
        impacts = client.post("/v1/images/similar", content=content).json()
        refused = client.post("/v1/images/similar", content=b"a")
    assert "not an image" in problem(refused, 422, "invalid-image")
    with closing(open_index(index)) as searcher:
        one_, two = searcher.metadata("one"), searcher.metadata("two")
        [first] = searcher.similar("one", 1).hits
        nearest = searcher.similar_to(impacts, 2, explain=Explain()).hits
        stored = nearest[0].explanation or []
    assert first.image_id == "two"
    assert [hit.image_id for hit in nearest] == ["one", "two"]
    assert {term.term: term.impact for term in stored} == impacts
    assert one_["bytes"] == len(content)
    assert (one_["width"], one_["height"], two["iso"]) == (9, 9, 1)
    assert one_["upload"] == two["upload"]
    assert (index / "uploads" / one_["upload"]).read_bytes() == content


def test_photos_that_are_too_large_are_refused_by_their_headers(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(encoder: PhotoEncoder, image_id: str, path: Path) -> ImagePostings:
        raise InputError("it was decoded")

    monkeypatch.setattr(PhotoEncoder, "photo", encode)
    large, png = sized("PNG", 16000, 11060), {"content-type": "image/png"}
    limit = "the photo has 177.0 megapixels; 64 are allowed"
    encoded = base64.b64encode(large).decode()
    for answer in (
        client.post("/v1/images/similar", content=large, headers=png),
        client.put("/v1/images/a", content=large, headers=png),
        put(client, "a", photo=encoded),
    ):
        assert limit in problem(answer, 422, "invalid-image")
    # Each photo of a batch, and all of them together.
    small = base64.b64encode(sized("JPEG", 20000, 12000)).decode()
    lines = [{"image_id": "a", "photo": one} for one in (encoded, *[small] * 5)]
    answer = client.post("/v1/images/batch", content="\n".join(map(json.dumps, lines)))
    details = [error["detail"] for error in answer.json()["errors"]]
    assert limit in details[0] and details[1:5] == ["it was decoded"] * 4
    assert "photos of a batch have 1,000 megapixels at most" in details[5]


def test_dense_models_follow_photos_and_not_term_weights(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index, model, stores = index_photos(photos, tmp_path)
    dense = save_dense_model(tmp_path / "vse", source=stores[0].source)
    add_dense(index, stores[0], "vse++", dense, device="cpu")
    narrow = replace(stores[0].source, image_size=8)
    write_part(index, "letters", random_vectors(len(stores[0]), 1))
    save_dense_model(index / "dense/letters/model", source=narrow)
    with writer_of(index, str(model)) as client:
        content = photo("PNG")
        for image_id in ("one", stores[0].ids[0]):
            headers = {"content-type": "image/png"}
            client.put(f"/v1/images/{image_id}", content=content, headers=headers)
        image = stores[0][1]
        features = {"width": image.width, "height": image.height, "boxes": image.boxes.tolist()}
        features["features"] = image.features.tolist()
        assert put(client, "features", features=features).json()["result"] == "created"
        assert put(client, "terms", terms={"red": 1}).json()["result"] == "created"
    warned = [record.message for record in caplog.records if "no vectors of" in record.message]
    assert len(warned) == 1 and "letters holds model" in warned[0].replace("/model", "")
    with closing(open_backend(index, "vse++")) as searcher:
        scores = {hit.image_id: hit.score for hit in searcher.search("dog", 99).hits}
        alike = searcher.similar("features", 1).hits[0]
    assert scores.keys() == {*stores[0].ids, "one", "features"}
    assert scores["one"] == scores[stores[0].ids[0]]
    assert (alike.image_id, alike.score) == (stores[0].ids[1], pytest.approx(1, abs=1e-5))
    with closing(open_index(index)) as sparse:
        missing = {n: one.missing_images for n, one in open_dense(index, sparse).items()}
    # Of the letters, all that were written are missing: its model cannot be used.
    assert missing == {"vse++": 1, "letters": 4}


def copies(drawings: Path, folder: Path) -> tuple[Path, Path, Path]:
    """An index that was written to, a snapshot of it, and a name for the first."""
    first = shutil.copytree(drawings, folder / "7")
    with open_writer(first) as writer:
        writer.write([Delete(min(DRAWINGS))])
    take_snapshot(first, folder / "8")
    set_alias(folder / "prod", first)
    return first, folder / "8", folder / "prod"


@pytest.mark.parametrize("how", ["alias", "moved", "emptied"])
@pytest.mark.parametrize("when", ["before it is written", "before it is found"])
def test_a_write_while_the_index_is_replaced_is_in_the_new_one(
    drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, when: str
) -> None:
    first, second, name = copies(drawings, tmp_path)
    before = {path: path.read_bytes() for path in second.rglob("*") if path.is_file()}

    def replace_index() -> None:
        assert {path: path.read_bytes() for path in before} == before
        if how == "alias":
            set_alias(name, second)
        elif how == "moved":
            first.rename(tmp_path / "moved")
            shutil.copytree(second, first)
        else:
            shutil.rmtree(first)
            shutil.copytree(second, first)

    method = "write" if when == "before it is written" else "wait"
    original = getattr(WritableIndex, method)

    def late(index: WritableIndex, *arguments: Any) -> Any:
        monkeypatch.setattr(WritableIndex, method, original)
        replace_index()
        return original(index, *arguments)

    with writer_of(name) as client:
        put(client, "a", terms={"red": 126})
        monkeypatch.setattr(WritableIndex, method, late)
        response = put(client, "b", terms={"red": 127})
        assert response.status_code == 200
        assert response.headers[PLACE] == str(place_of(name))
        assert found(name, "red")[0] == "b"
        assert "a" not in found(name, "red")
        assert put(client, "c", terms={"red": 125}).status_code == 200
        assert found(name, "red")[:2] == ["b", "c"]
    assert verify_index(name) == []
    if how == "moved":
        assert found(tmp_path / "moved", "red")[0] == "a"


def test_requests_that_run_end_before_their_index_is_closed(
    drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, name = copies(drawings, tmp_path)
    encode, running, switched = WritableIndex.encode, Event(), Event()

    def slow(index: WritableIndex, image_id: str, body: Image) -> Add:
        if image_id == "slow" and not running.is_set():
            running.set()
            assert switched.wait(60)
        return encode(index, image_id, body)

    monkeypatch.setattr(WritableIndex, "encode", slow)
    with writer_of(name) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(put, client, "slow", terms={"red": 127})
        assert running.wait(60)
        set_alias(name, second)
        later = pool.submit(put, client, "later", terms={"red": 126})
        with pytest.raises(TimeoutError):
            later.result(0.2)
        switched.set()
        assert first.result(60).status_code == later.result(60).status_code == 200
    assert found(second, "red")[:2] == ["slow", "later"]


@pytest.mark.parametrize("way", ["trash/%2e%2e", "%2e", "trash%2F..%2F.", "/", "..%2Fimages"])
def test_an_id_with_dots_reaches_no_other_image(client: TestClient, index: Path, way: str) -> None:
    assert put(client, "a.jpg", terms={"red": 127}).status_code == 200
    url = f"/v1/images/{way}/a.jpg"
    detail = problem(client.put(url, json={"terms": {"red": 1}}), 422, "invalid-image")
    assert "between slashes: give a path without these" in detail
    problem(client.patch(url, json={"x": 1}), 404, "unknown-image")
    problem(client.delete(url), 404, "unknown-image")
    lines = [{"image_id": "t/../a.jpg", **one} for one in ({"delete": True}, {"terms": {"red": 1}})]
    batch = client.post("/v1/images/batch", content="\n".join(map(json.dumps, lines)))
    assert [one["line"] for one in batch.json()["errors"]] == [1, 2]
    with closing(open_index(index)) as searcher:
        assert searcher.metadata("a.jpg") == {"upload": ""}
    assert "a.jpg" in found(index, "red")


def test_a_change_of_another_image_than_expected_is_refused(client: TestClient) -> None:
    """RFC 9110, 13.1.1: the method is not performed."""
    made = put(client, "a", terms={"red": 9}, metadata={"rating": 1})
    old = {"If-Match": made.headers["etag"]}
    changed = client.patch("/v1/images/a", json={"rating": 2}, headers=old)
    assert changed.status_code == 200 and changed.headers["etag"] != old["If-Match"]
    for send in (
        lambda: client.patch("/v1/images/a", json={"rating": 3}, headers=old),
        lambda: client.put("/v1/images/a", json={"terms": {"blue": 9}}, headers=old),
        lambda: client.delete("/v1/images/a", headers=old),
        lambda: client.delete("/v1/images/absent", headers={"If-Match": "*"}),
    ):
        assert "get it again" in problem(send(), 412, "image-changed")
    new = {"If-Match": f'"other", {changed.headers["etag"]}'}
    assert client.delete("/v1/images/a", headers=new).json()["result"] == "deleted"


@pytest.mark.parametrize("view", ["file", "thumbnail", "similar", "explain"])
def test_an_id_that_could_not_be_read_is_refused(client: TestClient, view: str) -> None:
    refused = client.put(f"/v1/images/a%2F{view}", json={"terms": {"red": 9}})
    assert f"ends in /{view}" in problem(refused, 422, "invalid-image")
    assert put(client, view, terms={"red": 9}).status_code == 200


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e6", "70000"])
def test_features_are_finite(client: TestClient, value: str) -> None:
    about = '"boxes": [[0, 0, 1, 1]], "width": 9, "height": 9'
    body = f'{{"features": {{"features": [[{value}, 0.5]], {about}}}}}'
    refused = client.put("/v1/images/a", content=body, headers=JSON)
    assert "finite numbers" in problem(refused, 422, "invalid-image")


@pytest.mark.parametrize("field", ["path", "folder", "width", "bytes", "upload"])
def test_fields_of_the_photo_are_not_changed(client: TestClient, field: str) -> None:
    put(client, "a", terms={"red": 9})
    refused = client.patch("/v1/images/a", json={field: "x"})
    assert f"{field} is the photo's" in problem(refused, 422, "invalid-parameter")


def test_an_image_has_so_many_fields(client: TestClient) -> None:
    fields = {f"field{number}": 1 for number in range(1001)}
    refused = put(client, "a", terms={"red": 9}, metadata=fields)
    assert "fields, 1,000 are allowed" in problem(refused, 422, "invalid-image")
    fields = dict(list(fields.items())[:998])  # and what else an image has
    assert put(client, "a", terms={"red": 9}, metadata=fields).status_code == 200
    assert client.patch("/v1/images/a", json={"b": 1, "c": 2, "d": 3}).status_code == 422
    wide = [{f"{line}-{number}": 1 for number in range(990)} for line in range(10)]
    lines = [{"image_id": "b", "terms": {"red": 9}, "metadata": one} for one in wide]
    answer = client.post("/v1/images/batch", content="\n".join(map(json.dumps, lines))).json()
    [error] = answer["errors"]
    assert error["line"] == 10 and "an index has at most 10,000" in error["detail"]
    refused = put(client, "c", terms={"red": 9}, metadata=wide[-1])
    assert "field '9-0' is one too many" in problem(refused, 422, "invalid-image")
    assert client.patch("/v1/images/b", json=wide[-1]).status_code == 422


def test_a_byte_order_mark_is_read(client: TestClient) -> None:
    line = '\ufeff{"image_id": "a", "terms": {"red": 9}}\r\n'.encode()
    assert client.post("/v1/images/batch", content=line).json()["created"] == 1
    body = '\ufeff{"terms": {"red": 9}}'.encode()
    assert client.put("/v1/images/a", content=body, headers=JSON).status_code == 200


def test_answers_say_not_where_the_index_is(client: TestClient, index: Path) -> None:
    """Of the model `m`, which is not there, and of an index that another process writes."""
    content: Any = {"content": photo("PNG"), "headers": {"content-type": "image/png"}}
    line = {"image_id": "a", "photo": base64.b64encode(photo("PNG")).decode()}
    with open_writer(index):
        busy = client.put("/v1/images/a", json={"terms": {"red": 9}})
    assert "index" in problem(busy, 503, "index-busy")
    asked = client.put("/v1/images/a", **content), client.post("/v1/images/batch", json=line)
    for answer in (busy, *asked):
        assert str(index.parent) not in answer.text, answer.text


def test_a_photo_that_was_sent_and_is_damaged_is_noticed(photos: Path, tmp_path: Path) -> None:
    index, model, _ = index_photos(photos, tmp_path)
    content: Any = {"content": photo("PNG"), "headers": {"content-type": "image/png"}}
    with writer_of(index, str(model)) as client:
        assert client.put("/v1/images/one", **content).status_code == 200
    assert verify_index(index) == []
    [file] = (index / "uploads").rglob("*.png")
    for damage in (file.read_bytes()[:20], file.read_bytes()[:-1] + b"x", None):
        file.unlink() if damage is None else file.write_bytes(damage)
        assert [file.name in line for line in verify_index(index)] == [True]
