"""Dense models against vectors by image id: built, and over whatever is written to the index."""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.answer import Answer, RefusedError
from indexer.dense.manifest import dense_folder
from indexer.dense.text_encoder import ModelText
from indexer.dense.vectors import AddedRows
from indexer.engines.open import beside, open_backend, open_dense, open_index, together
from indexer.fields.kinds import PATH
from indexer.filters.expression import Match
from indexer.maintenance.copies import copy_index
from indexer.postings import ImagePostings, Postings
from indexer.query import QueryError
from indexer.search.engine import Capability
from indexer.search.searcher import Searcher
from indexer.store import compaction
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.images import UnknownImageError
from indexer.update import writer as writer_module
from indexer.verify import verify_index
from tests.indexer.live_index import Opened, commit_and_wait
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.tiny_dense import (
    LETTERS,
    LetterEncoder,
    Vectors,
    random_vectors,
    write_part,
)
from tests.indexer.vocabulary import TOKENIZER

IMAGES = 12
VIEWS = {"one": 1, "three": 3}
TOGETHER = "one+three"
QUERIES = ("dad", "fed ace", "h")


@pytest.fixture(autouse=True, scope="module")
def letters() -> Iterator[LetterEncoder]:
    encoder = LetterEncoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelText, "open", lambda *_: encoder)
        yield encoder


def test_a_graph_has_all_images_and_is_exact_within_a_filter(
    copy: Path, postings: Postings
) -> None:
    ids, vectors = postings.ids, random_vectors(300, 3)
    write_part(copy, "letters", vectors, "hnsw")
    found, some = open_backend(copy, "letters"), Match(field=PATH, values=tuple(ids[1::3]))
    for query in ("abc", "hhh e", "dad fed a bag", "zzz"):
        scores = (vectors @ LetterEncoder().encode(query)).max(axis=1)
        order = sorted(range(300), key=lambda image: (-scores[image], ids[image]))
        right = [(ids[image], float(scores[image])) for image in order]
        assert scored(found.search(query, 1000)) == right
        few = set(scored(found.search(query, 30)))
        assert len(few) == 30 and few <= set(right)
        within = [pair for pair in right if pair[0] in ids[1::3]]
        assert scored(found.search(query, 30, filter=some)) == within[:30]


def test_times_words_and_what_a_dense_model_cannot(
    copy: Path, letters: LetterEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part(copy, "letters", random_vectors(300, 1))
    found = open_backend(copy, "letters")
    found.search("abc")
    monkeypatch.setattr(letters, "seconds", 0.05)
    timings = found.search("abc").timings
    assert timings.encode_ms >= 50 > timings.search_ms > 0
    parts = timings.tokenise_ms + timings.encode_ms + timings.search_ms
    assert timings.total_ms == pytest.approx(parts, abs=0.01)
    assert found.search("abc stu 111").unknown == ["stu", "111"]
    assert (len(found), found.missing_images) == (300, 0)
    assert found.metadata("a/00007 é.jpg") == {"width": 7}
    assert found.can.isdisjoint({Capability.EXPLAIN, Capability.BROWSE, Capability.SUGGEST})
    for asked in ({"sort": "width"}, {"facets": ["width"]}, {"min_coverage": 0.5}):
        with pytest.raises(RefusedError) as caught:
            found.search("abc", **asked)
        assert caught.value.field == next(iter(asked))
    with pytest.raises(QueryError, match="a dense model has no signs and weights"):
        found.search("dad -fed")
    for ask in (found.similar, found.metadata):
        with pytest.raises(UnknownImageError):
            ask("a/7.jpg")
    for call in (lambda: found.search("abc", 0), lambda: found.similar("a/00007 é.jpg", 0)):
        with pytest.raises(ValueError, match="k must be at least 1"):
            call()


# ---- written to ----------------------------------------------------------------------------------


def built_vectors() -> list[Vectors]:
    """Of the images that the index was built with, by part."""
    return [random_vectors(IMAGES, views, seed=views) for views in VIEWS.values()]


@pytest.fixture(scope="module")
def pool() -> list[ImagePostings]:
    """Images to add, of which half have the ids of the index's."""
    return list(random_postings(TOKENIZER, 2 * IMAGES, seed=1))


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory, small: Postings, make_index: MakeIndex
) -> Path:
    folder = make_index(tmp_path_factory.mktemp("template") / "index", small)
    one, three = built_vectors()
    write_part(folder, "one", one)
    write_part(folder, "three", three)
    return folder


class Reference:
    """What each image was made from, and the vectors that each part has of that."""

    def __init__(self, ids: list[str]) -> None:
        self.content_ids = {image_id: f"={image_id}" for image_id in ids}
        self.vectors = {
            name: dict(zip(self.content_ids.values(), rows, strict=True))
            for name, rows in zip(VIEWS, built_vectors(), strict=True)
        }

    def views(self, name: str) -> dict[str, Vectors]:
        """Vectors [K, 8] of the images that a part has vectors of."""
        vectors = self.vectors[name]
        return {one: vectors[of] for one, of in self.content_ids.items() if of in vectors}

    def images(self, name: str) -> set[str]:
        """Images that a backend, one part or several, has vectors of."""
        return set.intersection(*(set(self.views(part)) for part in name.split("+")))

    def answer(self, name: str, asked: str | Vectors, allowed: set[str]) -> list[tuple[str, float]]:
        """Images by the score of their view that is most like a text, or one of an image's views.

        Of several parts, by the mean.
        """
        parts = [self.views(part) for part in name.split("+")]
        wanted = [asked if isinstance(asked, np.ndarray) else own[asked] for own in parts]
        scores = {}
        for one in self.images(name) & allowed:
            pairs = zip(parts, wanted, strict=True)
            scores[one] = float(np.mean([np.max(own[one] @ like.T) for own, like in pairs]))
        return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


CHOICE = st.integers(0, 2 * IMAGES - 1)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "delete", "describe", "move"]),
        st.lists(CHOICE, max_size=4, unique=True),
    )
    | st.tuples(st.sampled_from(["commit", "wait", "reopen", "kill"]), st.just([])),
    max_size=12,
)


@settings(max_examples=12)
@given(steps=STEPS, compact_at=st.sampled_from([1, 3, 4096]), seed=st.integers(0, 2**32))
def test_answers_are_exact_over_the_images_with_vectors(
    template: Path,
    pool: list[ImagePostings],
    small: Postings,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[int]]],
    compact_at: int,
    seed: int,
) -> None:
    folder = shutil.copytree(template, tmp_path_factory.mktemp("live") / "index")
    run = Run(folder, pool, Reference(small.ids), np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer_module, "COMPACT_AT", compact_at)
        patched.setattr(compaction, "FAN", 2)
        run(steps)
    assert verify_index(folder) == []


class Run:
    """Writes to an index and to the reference."""

    def __init__(
        self, folder: Path, pool: list[ImagePostings], right: Reference, random: np.random.Generator
    ) -> None:
        self.folder, self.pool, self.right, self.random = folder, pool, right, random

    def __call__(self, steps: list[tuple[str, list[int]]]) -> None:
        opened = Opened(self.folder)
        searcher = open_index(self.folder)
        dense = opened_dense(self.folder, searcher)
        for kind, chosen in [*steps, ("commit", [])]:
            if kind in ("kill", "reopen"):
                opened.kill() if kind == "kill" else opened.close()
                opened = Opened(self.folder)
            elif kind in ("commit", "wait"):
                opened.writer.commit() if kind == "commit" else commit_and_wait(opened.writer)
                if newer := searcher.refreshed():
                    searcher.close()
                    dense = {name: beside(one, newer) for name, one in dense.items()}
                    searcher = newer
                self.compare(searcher, dense)
            else:
                opened.writer.write(self.changes(kind, [self.pool[place] for place in chosen]))
        searcher.close()
        opened.close()
        with closing(open_index(self.folder)) as searcher:
            self.compare(searcher, opened_dense(self.folder, searcher))
        copy = self.folder.with_name("copy")
        copy_index(self.folder, copy)
        self.append("one", uuid4().hex, 1)  # which is none of the copy's
        assert verify_index(copy) == []
        for name in (*VIEWS, TOGETHER):
            with closing(open_backend(copy, name)) as alone:
                right = self.right.answer(name, encoded("dad"), set(self.right.content_ids))
                assert scored(alone.search("dad", 99)) == right

    def changes(self, kind: str, images: list[ImagePostings]) -> list[Change]:
        content_ids, changes = self.right.content_ids, list[Change]()
        for image in images:
            image_id = image.image_id
            if kind == "add":
                content_ids[image_id] = uuid4().hex
                for name, views in VIEWS.items():
                    if self.random.random() < 0.6:
                        self.append(name, content_ids[image_id], views)
                # Who does not name what an image was made from has none of its vectors.
                nameless = self.random.random() < 0.2
                changes.append(
                    Add(replace(image, content_id="" if nameless else content_ids[image_id]))
                )
                if nameless:
                    content_ids[image_id] = "nothing"
            elif kind == "delete":
                content_ids.pop(image_id, None)
                changes.append(Delete(image_id))
            elif image_id in content_ids and kind == "describe":
                changes.append(MetadataChange(image_id, {"described": image_id}))
            elif image_id in content_ids:
                moved = replace(
                    image, image_id=f"{image_id}!", content_id=content_ids.pop(image_id)
                )
                content_ids[moved.image_id] = moved.content_id
                changes += [Delete(image_id), Add(moved)]
        return changes

    def append(self, name: str, content_id: str, views: int) -> None:
        [row] = vectors = random_vectors(1, views, seed=int(self.random.integers(2**32)))
        AddedRows(dense_folder(self.folder, name), views, len(LETTERS)).append(
            [content_id], vectors
        )
        self.right.vectors[name][content_id] = row

    def compare(self, searcher: Searcher, dense: Mapping[str, Searcher]) -> None:
        everything = set(self.right.content_ids)
        some = {one for one in sorted(everything) if self.random.random() < 0.4}
        filter = Match(field=PATH, values=tuple(some))
        assert {*searcher.ids()} == everything
        assert [*dense] == [*VIEWS, TOGETHER]
        for name, backend in dense.items():
            embedded = self.right.images(name)
            for query in QUERIES:
                right = self.right.answer(name, encoded(query), everything)
                allowed = self.right.answer(name, encoded(query), some)
                for k in (1, 4, 99):
                    assert scored(backend.search(query, k)) == right[:k]
                    assert scored(backend.search(query, k, filter=filter)) == allowed[:k]
                for hit in backend.search(query, 99).hits:
                    if VIEWS.get(name, 1) > 1:
                        own = self.right.views(name)[hit.image_id]
                        assert hit.view == int(np.argmax(own @ encoded(query)))
                    else:
                        assert hit.view is None
                    assert hit.metadata == searcher.metadata(hit.image_id)
            assert len(backend) == len(embedded)
            assert backend.missing_images == len(everything) - len(embedded)
            for image_id in sorted(everything - embedded):
                with pytest.raises(RefusedError, match=re.escape(repr(image_id))):
                    backend.similar(image_id)
            for image_id in sorted(embedded)[:2]:
                alike = self.right.answer(name, image_id, everything - {image_id})
                assert scored(backend.similar(image_id, 99)) == alike


def opened_dense(folder: Path, sparse: Searcher) -> dict[str, Searcher]:
    """All dense models, and the mean of the two."""
    found = open_dense(folder, sparse)
    return {**found, TOGETHER: together([*found.values()])}


def encoded(query: str) -> Vectors:
    return LetterEncoder().encode(query)


def scored(result: Answer) -> list[tuple[str, float]]:
    """Ids and scores of the hits, without a view where there is only one."""
    return [(hit.image_id, hit.score) for hit in result.hits]
