"""`sparta.build`, `sparta.open` and what an `Index` does, against the reference searcher."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sparta
from indexer.maintenance.combine import split_index
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.tiny import draw
from tests.reference.searcher import ReferenceSearcher

QUERY = "two dogs on the beach"


@pytest.mark.parametrize("shards", [None, 3])
def test_an_index_answers_as_the_reference(
    index: Path, exact: ReferenceSearcher, shards: int | None, tmp_path: Path
) -> None:
    folder = index if shards is None else tmp_path / "divided"
    if shards is not None:
        split_index(index, folder, shards)
    with sparta.open(str(folder)) as opened:
        found, right = opened.search(QUERY, k=7), exact.search(QUERY, 7)
        assert [(hit.id, hit.score) for hit in found] == [
            (hit.image_id, hit.score) for hit in right.hits
        ]
        assert len(found) == 7 and found[0].rank == 1 and found[-1].rank == 7
        first = found[0].id
        why = opened.explain(first, QUERY)
        assert why.score == found[0].score == sum(term.score for term in why.terms)
        near = exact.similar([first], 5)
        assert [hit.id for hit in opened.similar(first, 5)] == [hit.image_id for hit in near.hits]
        width = found[0].metadata["width"]
        only = opened.search(filter=f"width:{width}")
        assert [hit.id for hit in only] == [first] and opened.count(f"width:{width}") == 1
        as_json = {"key": "width", "range": {"gte": width, "lte": width}}
        assert [hit.id for hit in opened.search(QUERY, filter=as_json)] == [first]
        assert opened.fields()["width"] == "number" and opened.metadata(first)["width"] == width
        assert len(opened) == len(exact) and [*opened] == exact.ids()
        assert opened.suggest("two do")[0].text.startswith("two do")
        with pytest.raises(KeyError):
            opened.explain("nothing.jpg", QUERY)
        none = opened.search("qqq")
        assert not none and repr(none) == none._repr_html_() == "no hits"
        assert "<figure" in found._repr_html_()  # without its photos


def test_writes_are_found_at_once_and_those_of_others_after_a_refresh(copy: Path) -> None:
    index, other = sparta.open(copy), sparta.open(copy)
    first, second = (hit.id for hit in index.search(QUERY, 2))
    before = len(index)
    assert index.delete(first) == before - 1 == len(index) and first not in index
    assert index.search(QUERY, 1)[0].id == second
    assert index.update({second: {"rating": 5}, "nothing": {}}).unknown == ["nothing"]
    assert index.search(filter="rating:5")[0].id == second
    with pytest.raises(InputError, match="has no image"):
        index.delete([second, first])
    assert second in index
    assert first in other
    with open_writer(copy) as writer:
        writer.write([Delete(second)])
        writer.commit()
    other.refresh()
    assert first not in other and second not in other and len(other) == before - 2
    for one in (index, other):
        one.close()


def test_threads_and_asyncio_share_an_index(copy: Path) -> None:
    index = sparta.open(copy)
    right = [hit.id for hit in index.search(QUERY, 20)][1:]
    gone = index.search(QUERY, 1)[0].id

    async def asked() -> list[list[str]]:
        found = await asyncio.gather(
            *(asyncio.to_thread(index.search, QUERY, 20) for _ in range(20))
        )
        return [[hit.id for hit in one] for one in found]

    with ThreadPoolExecutor(2) as pool:
        deleting = pool.submit(index.delete, gone)
        answers = asyncio.run(asked())
        deleting.result()
    for ids in answers:
        assert ids == [gone, *right] or ids[:19] == right
    assert [hit.id for hit in index.search(QUERY, 20)][:19] == right


def test_photos_become_an_index_that_grows(tmp_path: Path) -> None:
    photos, more = tmp_path / "photos", tmp_path / "more"
    for seed, name in enumerate(("a.png", "b.png", "<c>.png")):
        draw(photos / name, seed, 80, 60)
    draw(more / "d.png", 3, 80, 60)
    about = {"a.png": {"album": "sea"}}
    stages: list[str] = []
    with sparta.build(
        str(photos),
        str(tmp_path / "index"),
        model="sample",
        metadata=about,
        device="cpu",
        progress=lambda stage, done, total: stages.append(stage),
    ) as index:
        assert {"extract", "encode"} <= set(stages) and len(index) == 3
        assert [hit.id for hit in index.search(filter="album:sea")] == ["a.png"]
        assert index.add(more, metadata={"d.png": {"album": "hills"}}, device="cpu").added == 1
        assert [hit.id for hit in index.search(filter="album:hills")] == ["d.png"]
        found = index.search(filter="path:*")
        assert repr(found).count("\n") == 3 and "a.png" in repr(found)
        shown = found._repr_html_()
        assert shown.count("data:image/jpeg;base64,") == 3  # of the photos in the folder
        assert "&lt;c&gt;.png" in shown and "<c>" not in shown
        assert json.loads(json.dumps(found.as_json()))["hits"][0]["image_id"] == found[0].id
    assert repr(sparta.open(tmp_path / "index")).endswith("4 images>")
