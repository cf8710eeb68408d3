"""Dense backends of an index that is written to, against vectors by image id."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexer.columns.live import state as tiers

from indexer.care.copies import copy_index
from indexer.dense.added import AddedRows
from indexer.dense.manifest import dense_folder
from indexer.postings import ImagePostings, Postings
from indexer.search.api import NoVectorError, SearchResult
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_backend, open_dense_lazily, open_index
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.update import writer as writer_module
from indexer.verify import verify_index
from tests.indexer.dense_parts import (
    LETTERS,
    LetterEncoder,
    Vectors,
    count_letters,
    random_vectors,
    write_part,
)
from tests.indexer.live_index import Opened, commit_and_wait
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import TOKENIZER

if TYPE_CHECKING:
    from indexer.search.open import LazyDense

IMAGES = 12
VIEWS = {"one": 1, "three": 3}
QUERIES = ("dad", "fed ace", "h")


def built_vectors() -> list[Vectors]:
    """Of the images that the index was built with, by part."""
    return [random_vectors(IMAGES, views, seed=views) for views in VIEWS.values()]


@pytest.fixture(scope="module")
def pool() -> list[ImagePostings]:
    """Images to add, of which half have the ids of the index's."""
    return list(random_postings(TOKENIZER, 2 * IMAGES, seed=1))


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory,
    small: Postings,
    make_index: MakeIndex,
) -> Path:
    folder = make_index(tmp_path_factory.mktemp("template") / "index", small)
    one, three = built_vectors()
    write_part(folder, "one", one, "hnsw")
    write_part(folder, "three", three)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _letters() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        count_letters(patch)
        yield


class Reference:
    """What each image was made from, and the vectors that each part has of that."""

    def __init__(self, ids: list[str]) -> None:
        self.origins = {image_id: f"={image_id}" for image_id in ids}
        self.vectors = {
            name: dict(zip(self.origins.values(), rows, strict=True))
            for name, rows in zip(VIEWS, built_vectors(), strict=True)
        }

    def answer(self, name: str, query: str, allowed: set[str]) -> list[tuple[str, float]]:
        asked = LetterEncoder().encode(query)
        scores = {}
        for image_id in self.origins.keys() & allowed:
            if (views := self.vectors[name].get(self.origins[image_id])) is not None:
                scores[image_id] = float(np.max(views @ asked))
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


@pytest.mark.parametrize("engine", ["columns", "lucene"])
@settings(max_examples=12)
@given(steps=STEPS, compact_at=st.sampled_from([1, 3, 4096]), seed=st.integers(0, 2**32))
def test_answers_are_exact_over_the_images_with_vectors(
    template: Path,
    pool: list[ImagePostings],
    small: Postings,
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    steps: list[tuple[str, list[int]]],
    compact_at: int,
    seed: int,
) -> None:
    folder = shutil.copytree(template, tmp_path_factory.mktemp("live") / "index")
    run = Run(folder, pool, Reference(small.ids), np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer_module, "COMPACT_AT", compact_at)
        patched.setattr(tiers, "FAN", 2)
        run(steps, engine)
    assert verify_index(folder) == []


class Run:
    """Writes to an index and to the reference."""

    def __init__(
        self,
        folder: Path,
        pool: list[ImagePostings],
        right: Reference,
        random: np.random.Generator,
    ) -> None:
        self.folder, self.pool, self.right, self.random = folder, pool, right, random

    def __call__(self, steps: list[tuple[str, list[int]]], engine: str) -> None:
        opened = Opened(self.folder)
        searcher = open_index(self.folder, engine)
        dense = open_dense_lazily(self.folder, searcher)
        for kind, chosen in [*steps, ("commit", [])]:
            if kind in ("kill", "reopen"):
                opened.kill() if kind == "kill" else opened.close()
                opened = Opened(self.folder)
            elif kind in ("commit", "wait"):
                opened.writer.commit() if kind == "commit" else commit_and_wait(opened.writer)
                if newer := searcher.refreshed():
                    searcher.close()
                    dense = {name: one.following(newer) for name, one in dense.items()}
                    searcher = newer
                self.compare(searcher, dense)
            else:
                opened.writer.write(self.changes(kind, [self.pool[place] for place in chosen]))
        searcher.close()
        opened.close()
        with closing(open_index(self.folder, engine)) as searcher:
            self.compare(searcher, open_dense_lazily(self.folder, searcher))
        copy = self.folder.with_name("copy")
        copy_index(self.folder, copy)
        self.append("one", uuid4().hex, 1)  # which is none of the copy's
        assert verify_index(copy) == []
        for name in VIEWS:
            with closing(open_backend(copy, name)) as alone:
                assert scored(alone.search("dad", 99)) == self.right.answer(
                    name, "dad", set(self.right.origins)
                )

    def changes(self, kind: str, images: list[ImagePostings]) -> list[Change]:
        origins, changes = self.right.origins, list[Change]()
        for image in images:
            image_id = image.image_id
            if kind == "add":
                origins[image_id] = uuid4().hex
                for name, views in VIEWS.items():
                    if self.random.random() < 0.6:
                        self.append(name, origins[image_id], views)
                # Who does not name what an image was made from has none of its vectors.
                nameless = self.random.random() < 0.2
                changes.append(Add(replace(image, origin="" if nameless else origins[image_id])))
                if nameless:
                    origins[image_id] = "nothing"
            elif kind == "delete":
                origins.pop(image_id, None)
                changes.append(Delete(image_id))
            elif image_id in origins and kind == "describe":
                changes.append(MetadataChange(image_id, {"described": image_id}))
            elif image_id in origins:
                moved = replace(image, image_id=f"{image_id}!", origin=origins.pop(image_id))
                origins[moved.image_id] = moved.origin
                changes += [Delete(image_id), Add(moved)]
        return changes

    def append(self, name: str, origin: str, views: int) -> None:
        [row] = vectors = random_vectors(1, views, seed=int(self.random.integers(2**32)))
        AddedRows(dense_folder(self.folder, name), views, len(LETTERS)).append([origin], vectors)
        self.right.vectors[name][origin] = row

    def compare(self, searcher: LuceneSearcher, dense: Mapping[str, LazyDense]) -> None:
        everything = set(self.right.origins)
        some = {one for one in sorted(everything) if self.random.random() < 0.4}
        documents = range(len(searcher.field_index().live()))
        mask = np.array([searcher.images.stored(one).image_id in some for one in documents])
        for name, backend in dense.items():
            for query in QUERIES:
                for k in (1, 4, 99):
                    right = self.right.answer(name, query, everything)
                    assert scored(backend.search(query, k)) == right[:k]
                    allowed = self.right.answer(name, query, some)
                    assert scored(backend.search(query, k, allowed=mask)) == allowed[:k]
            assert len(backend) == len(right) == len(backend.opened())
            assert backend.missing == len(everything) - len(right)
            for image_id in sorted(everything - {one for one, _ in right}):
                with pytest.raises(NoVectorError, match=re.escape(repr(image_id))):
                    backend.similar(image_id)
            for image_id, _ in right[:2]:
                alike = [hit.image_id for hit in backend.similar(image_id, 99).hits]
                assert sorted([*alike, image_id]) == sorted(one for one, _ in right)


def scored(result: SearchResult) -> list[tuple[str, float]]:
    """Ids and scores of the hits, without a view where there is only one."""
    return [(hit.image_id, hit.score) for hit in result.hits]
