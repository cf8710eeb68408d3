"""Every call of the golden answers into the product; no other module here imports it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import numpy as np
import tokenizers
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter, read_filter
from indexer.index_writer import write_index
from indexer.maintenance.combine import merge_segments, split_index
from indexer.manifest import LUCENE, index_folders
from indexer.postings import Postings, PostingShard
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.settings import IndexSettings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import read_commit
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from server.app import create_app
from server.backends import open_backends
from server.settings import ServerSettings
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import Substitute, WordTables
from tests.golden.drawn import SPECIAL, Collection
from tests.indexer.lucene.written import read_lucene
from tests.scenes.corpus import write_scenes

Question = Mapping[str, Any]
Answer = dict[str, Any]
Ask = Callable[[Question], Answer]
ENGINES = ("columns", "lucene")
FEW = 50  # images that are added last, and stay in memory

# ---- build ----


def draw_features(folder: Path, count: int) -> tuple[list[str], str]:
    """Ids and the hash of the features in a folder, which are made of drawn scenes if missing."""
    scenes, features = folder / "scenes", folder / "features"
    if not (features / "store.json").is_file():
        write_scenes(scenes, count, seed=7, split="demo", workers=os.cpu_count() or 1)
        _run("extract", scenes / "images", "--backbone", "pixels", "--out", features)
    found, store = sha256(), FeatureStore.open(features)
    for image in store:
        found.update(f"{image.image_id} {image.width} {image.height}".encode())
        found.update(image.features.tobytes() + image.boxes.tobytes())
    return store.ids, found.hexdigest()


def build_from_features(inputs: Path, out: Path, metadata: Mapping[str, Answer]) -> None:
    """An index of features by the model `sample`."""
    lines = (json.dumps({"image": image_id, **own}) for image_id, own in metadata.items())
    out.with_suffix(".jsonl").write_text("\n".join(lines), encoding="utf-8")
    about = ["--metadata", str(out.with_suffix(".jsonl")), "--field", "rating=number"]
    options = ["--model", "sample", "--no-photo-metadata", *about]
    _run("index", inputs / "features", "--out", out, *options)


def build_from_postings(out: Path, drawn: Collection) -> None:
    """An index of drawn images."""
    terms = {term: number for number, term in enumerate(drawn.vocabulary)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(terms, unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.BertNormalizer(strip_accents=False)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(list(SPECIAL))
    table = {word: (Substitute(term, 0.5),) for word, term in drawn.substitutes.items()}
    write_index(
        out,
        (PostingShard(Postings(**images)) for images in drawn.blocks()),
        TermTokenizer(inner),
        IndexSettings(models=["m"], features=["f"], photos=None, offset_images=0),
        np.zeros(len(terms), np.float32),
        0.5,
        images=len(drawn.ids),
        tables=WordTables.of(table),
        kinds={"rating": "number"},
    )


def divide(whole: Path, out: Path, shards: int) -> None:
    """Divide an index into shards."""
    split_index(whole, out, shards)


def change(
    folder: Path, added: Answer, described: Mapping[str, Answer], deleted: Sequence[str]
) -> None:
    """Add, describe and delete images; columns are compacted as far as is due after each commit."""
    adds: list[Change] = [Add(image) for image in Postings(**added)]
    descriptions: list[Change] = [MetadataChange(*pair) for pair in described.items()]
    with open_writer(folder) as writer:
        for changes in (adds[FEW:], descriptions, [*map(Delete, deleted)], adds[:FEW]):
            writer.write(changes)
            writer.commit()
            writer.settle()


@contextmanager
def brought_up_to_date(folder: Path, engine: str) -> Iterator[Path]:
    """The index for an engine: for Lucene a copy of one that was written to, which is merged."""
    folders = index_folders(folder)
    if engine != "lucene" or not any(read_commit(one).version for one in folders):
        yield folder
        return
    with TemporaryDirectory(dir=folder.parent) as work:
        copy = Path(work) / folder.name
        shutil.copytree(folder, copy)
        for one in index_folders(copy):
            merge_segments(one)
        yield copy


def _run(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "sparta", *map(str, arguments)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


# ---- read ----


def vocabulary(folder: Path) -> list[str]:
    """The terms in id order."""
    return TermTokenizer.from_folder(index_folders(folder)[0]).vocabulary


def postings(folder: Path, engine: str) -> Iterator[tuple[list[str], Iterator[NDArray[Any]]]]:
    """Of each part of an index its image ids, and the impacts of all of them term by term."""
    terms = vocabulary(folder)
    for part in index_folders(folder):
        if engine == "lucene":
            documents = read_lucene(part / LUCENE).documents
            ids = [image_id for image_id, *_ in documents]
            yield ids, (np.array([own.get(term, 0) for *_, own in documents]) for term in terms)
            continue
        found = Snapshot.open(part)
        there = found.live_documents()
        ids = [found.stored(one).image_id for one in there.tolist()]
        yield ids, (found.term_impacts(term)[there] for term in range(len(terms)))


# ---- ask in Python ----


@contextmanager
def asked_in_python(folder: Path, engine: str) -> Iterator[Ask]:
    """Asks a searcher of an index."""
    with closing(open_index(folder, engine)) as searcher:
        yield partial(_ask, searcher)


def _ask(searcher: Searcher, asked: Question) -> Answer:
    calls = {"fields": _fields, "suggest": _suggestions, "explain": _explanation}
    try:
        return calls.get(asked["call"], _found)(searcher, asked)
    except (InputError, KeyError, ValueError):
        return {"refused": True}


def _fields(searcher: Searcher, asked: Question) -> Answer:
    return {"fields": dict(searcher.kinds()), "images": len(searcher)}


def _suggestions(searcher: Searcher, asked: Question) -> Answer:
    query, k = asked["query"], asked["k"]
    corrections = [one.word for one in searcher.correct(query)]
    return {"suggestions": [*map(list, searcher.complete(query, k))], "corrections": corrections}


def _explanation(searcher: Searcher, asked: Question) -> Answer:
    found = asdict(searcher.explain(asked["query"], asked["image"]))
    del found["metadata"]
    return found


def _found(searcher: Searcher, asked: Question) -> Answer:
    query, k, whole = asked["query"], asked["k"], None
    if (text := asked.get("filter")) is not None:
        whole = parse_filter(text) if isinstance(text, str) else read_filter(text)
    if asked["call"] == "similar":
        found = searcher.similar(asked["images"], k, words=query, filter=whole)
        return _plain(found.as_json(), similar=True)
    options = {
        name: asked[name] for name in ("substitute", "min_coverage", "sort") if name in asked
    }
    options |= {"filter": whole, "facets": asked.get("facets", ())}
    explain = Explain() if asked.get("explain") else None
    offset, after = asked.get("offset", 0), None
    pages: list[Answer] = []
    while len(pages) < asked.get("pages", 1):
        if pages and after is None:  # the page before was empty
            pages.append({"hits": []})
            continue
        answer = searcher.search(query, k, offset=offset, after=after, explain=explain, **options)
        offset, after = 0, answer.last
        pages.append(_plain(answer.as_json()))
    return pages[0] if len(pages) == 1 else {"pages": [one["hits"] for one in pages]}


def _plain(answer: Answer, similar: bool = False) -> Answer:
    """What answers of Python and REST have in common."""
    hits = answer["hits"]
    names = ("unknown", "substitutions", "conditions", "total", "facets")
    plain = {name: answer[name] for name in names if answer.get(name) is not None}
    if "total" in plain:
        plain.setdefault("facets", {})
    for name, buckets in plain.get("facets", {}).items():
        plain["facets"][name] = [[one["value"], one["count"]] for one in buckets]
    plain["hits"] = [[hit["image_id"], hit["score"]] for hit in hits]
    plain["coverage"] = [hit["coverage"] for hit in hits]
    plain["metadata"] = [hit["metadata"] for hit in hits[:10]]
    explained = [hit["explanation"] for hit in hits]
    if any(explained):
        plain["explained"] = explained
    if similar:
        plain["terms"] = {one["term"]: one["count"] for one in answer["terms"]}
    return plain


# ---- ask by REST ----


@contextmanager
def asked_by_rest(folder: Path) -> Iterator[Ask]:
    """Asks a server of an index in this process."""
    settings = ServerSettings(index=folder, rate=0)
    app = create_app(open_backends(settings), settings)
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50_000)) as client:
        yield partial(_ask_rest, client)


def _ask_rest(client: TestClient, asked: Question) -> Answer:
    call = asked["call"]
    if call == "search":
        return _search_rest(client, asked)
    image, *also = asked.get("images", [asked.get("image", "")])
    path = f"/v1/{call}" if call in ("fields", "suggest") else f"/v1/images/{quote(image)}/{call}"
    values = {"q": asked.get("query"), "also": also, "filter": asked.get("filter")}
    values |= {"k": asked.get("k")} if call != "explain" else {}
    answer = client.get(path, params={name: value for name, value in values.items() if value})
    if answer.is_error:
        return {"refused": True}
    found: Answer = answer.json()
    if call == "suggest":
        return {"suggestions": [[*one.values()] for one in found["suggestions"]]}
    names = {"fields": ("fields",), "explain": ("score", "terms", "coverage", "against")}
    if call in names:
        return {name: found[name] for name in names[call]}
    return _plain(found, similar=True)


def _search_rest(client: TestClient, asked: Question) -> Answer:
    names = ["k", "filter", "min_coverage", "substitute", "sort", "facets", "offset", "explain"]
    sent = {"q": asked["query"]} | {name: asked[name] for name in names if name in asked}
    pages: list[Answer] = []
    while len(pages) < asked.get("pages", 1):
        if pages and sent["cursor"] is None:
            pages.append({"hits": []})
            continue
        if isinstance(sent.get("filter"), dict) or asked["k"] == 100:
            answer = client.post("/v1/search", json=sent)
        else:
            listed = {"facets": ",".join(sent["facets"])} if "facets" in sent else {}
            answer = client.get("/v1/search", params=sent | listed)
        if answer.is_error:
            return {"refused": True}
        found = answer.json()
        pages.append(_plain(found))
        sent["cursor"] = found["cursor"]
    return pages[0] if len(pages) == 1 else {"pages": [one["hits"] for one in pages]}
