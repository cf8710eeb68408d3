"""Random impacts over the small vocabulary, written as an index folder."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from indexer.fields.kinds import Kind
from indexer.index_writer import write_index
from indexer.manifest import Manifest
from indexer.postings import ImagePostings, Inputs, Postings, PostingShard
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import RARE_TERMS, SPELLING, Substitute, WordTables
from tests.indexer.vocabulary import COMMON, RARE

MakeIndex = Callable[[Path, Postings], Path]
SETTINGS = IndexSettings(
    models=["m"],
    features=["f"],
    photos=None,
    top_n=None,
    bits=8,
    offset="none",
    offset_images=0,
    terms="all",
)


def random_postings(tokenizer: TermTokenizer, images: int, seed: int = 0) -> Postings:
    """Few levels, so that many images tie."""
    rng = np.random.default_rng(seed)
    terms = np.flatnonzero(tokenizer.indexable)
    common = tokenizer.vocabulary.index(COMMON)
    choice = [t for t in terms if tokenizer.vocabulary[t] not in (COMMON, RARE)]
    rows = []
    for i in range(images):
        own = rng.choice(choice, size=rng.integers(0, len(choice)), replace=False)
        own = np.sort(np.append(own, common)).astype(np.int32)
        impacts = rng.integers(1, 5, len(own)).astype(np.int32)
        impacts[rng.random(len(own)) < 0.05] = 255
        labels = np.sort(rng.integers(0, 4, i % 6)).astype(np.int16)
        positions = rng.integers(-1, 4 + len(labels), len(own)).astype(np.int16)
        inputs = Inputs(
            rng.random((4, 4)).astype(np.float32),
            rng.choice(terms, len(labels)).astype(np.int32),
            labels,
        )
        rows.append(
            ImagePostings(f"a/{i:05d} é.jpg", {"width": i}, own, impacts, positions, inputs)
        )
    return Postings.of(rows)


def shards_of(postings: Postings, size: int) -> list[Postings]:
    """The postings in shards of so many images."""
    rows = list(postings)
    return [Postings.of(rows[start : start + size]) for start in range(0, len(rows), size)]


def word_tables(
    substitutes: Mapping[str, tuple[Substitute, ...]],
    rare: Iterable[str] = (),
    frequent: Iterable[str] = (),
    correct: Iterable[str] = (),
) -> WordTables:
    """Tables of words as a model has them; without words of several pieces no table of spelling."""
    made = WordTables.of(substitutes)
    text = json.dumps({"photos": 10, "terms": [*rare]})
    files = {**made.files, RARE_TERMS: text.encode()}
    spelling = {"frequent": [*frequent], "other": [*correct]}
    if any(spelling.values()):
        files[SPELLING] = json.dumps(spelling).encode()
    return WordTables(files)


def write_postings(
    folder: Path,
    shards: Iterable[Postings],
    tokenizer: TermTokenizer,
    settings: IndexSettings = SETTINGS,
    images: int = 0,
    tables: WordTables | None = None,
    kinds: Mapping[str, Kind] | None = None,
    progress: Progress = no_progress,
    lucene: bool = True,
) -> Manifest:
    """Write an index folder with offsets of 0 and a scale of 0.5."""
    return write_index(
        folder,
        (PostingShard(postings) for postings in shards),
        tokenizer,
        settings,
        np.zeros(len(tokenizer.vocabulary), np.float32),
        0.5,
        images=images,
        tables=tables,
        kinds=kinds,
        progress=progress,
        lucene=lucene,
    )


def change_manifest(folder: Path, **values: object) -> None:
    """Change fields of `folder/manifest.json` as another program would, with the right hash."""
    path = folder / "manifest.json"
    changed = json.loads(path.read_text()) | values
    changed.pop("sha256")
    text = json.dumps(changed, sort_keys=True)
    changed["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(changed))
