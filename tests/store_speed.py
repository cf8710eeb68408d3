"""How fast an index is built, opened and written to, on drawn images, without a model.

    python -m tests.store_speed --images 1000000 --terms 1000 --out eval/results/store-million.json

Six blocks of 4,096 drawn images with independent terms of 9,000 words (seed 0 to 5) are repeated
under other ids. The build is timed without Lucene, with it, and Lucene alone on the same postings;
then opening, queries of words drawn evenly from the vocabulary (the median of the quickest of five
rounds), batches of 512 new images, and single images until a search finds them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eval.report import circumstances
from indexer.engines.open import open_index
from indexer.index_writer import write_index
from indexer.lucene.writer import LuceneWriter
from indexer.postings import Postings, PostingShard
from indexer.settings import IndexSettings
from indexer.store.changes import Add
from indexer.update.writer import open_writer
from sparta.tokenizer import TermTokenizer
from tests.golden.drawn import BLOCK, SPECIAL, draw_images

WORDS, SEEDS, BATCH = 9_000, 6, 512
TIMES = 7  # openings, and images until they are found
BATCHES = 20
QUERIES, ROUNDS = 1_000, 5


def drawn(terms: int) -> tuple[list[str], list[Postings]]:
    """A vocabulary, and blocks of images with that many terms on average (fewer above 300)."""
    syllables = [a + b for a in "bdfghklmnprstvz" for b in "aeiou"]
    triples = [a + b + c for a in syllables for b in syllables for c in syllables[:3]]
    vocabulary = [*SPECIAL, *random.Random(1).sample(triples, WORDS)]
    weights = 1 / np.arange(20, 20 + WORDS) ** 0.8
    found = np.minimum(45_000, 65_536 * terms / weights.sum() * weights).astype(np.int64)
    shares = np.zeros(len(vocabulary), np.int64)
    shares[len(SPECIAL) :] = np.random.default_rng(2).permutation(found)
    ids, sizes = [str(i) for i in range(BLOCK)], [{"width": 500, "height": 375}] * BLOCK
    blocks = [Postings(**draw_images(ids, shares, seed)) for seed in range(SEEDS)]
    return vocabulary, [replace(block, metadata=sizes) for block in blocks]


def repeated(blocks: list[Postings], count: int) -> Iterator[PostingShard]:
    """So many images, under rising ids."""
    for number, first in enumerate(range(0, count, BLOCK)):
        block, size = blocks[number % len(blocks)], min(BLOCK, count - first)
        ids = [f"{first + i:08d}.jpg" for i in range(size)]
        yield PostingShard(replace(block.part(slice(0, size)), ids=ids))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def latencies(index: Path, vocabulary: list[str]) -> dict[str, float]:
    """Microseconds of a search for ten images, by the number of words."""
    searcher, rng, found = open_index(index), random.Random(3), {}
    for words in (1, 3, 9, 20):
        texts = [" ".join(rng.choices(vocabulary[len(SPECIAL) :], k=words)) for _ in range(QUERIES)]
        rounds = []
        for _ in range(1 + ROUNDS):
            rounds.append(median(seconds(partial(searcher.search, text)) for text in texts))
        found[f"{words} words"] = 1e6 * min(rounds[1:])
    return found


def measure(count: int, terms: int, folder: Path) -> dict[str, Any]:
    """The figures; seconds, and images a second."""
    vocabulary, blocks = drawn(terms)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = TermTokenizer.from_vocabulary(folder / "vocab.txt")
    settings = IndexSettings(models=["m"], features=["f"], photos=None, offset_images=0)

    def build(name: str, lucene: bool) -> None:
        images, offset = repeated(blocks, count), np.zeros(len(vocabulary), np.float32)
        write_index(
            folder / name, images, tokenizer, settings, offset, 0.5, images=count, lucene=lucene
        )

    def lucene_alone() -> None:
        with LuceneWriter(folder / "alone", vocabulary, count) as writer:
            for shard in repeated(blocks, count):
                writer.add(shard.postings)

    found: dict[str, Any] = {"images": count, "terms": terms}
    found["terms_an_image"] = sum(len(one.terms) for one in blocks) / SEEDS / BLOCK
    found["with_lucene_s"] = seconds(lambda: build("both", True))
    found["lucene_alone_s"] = seconds(lucene_alone)
    found["built_s"] = seconds(lambda: build("index", False))
    found["times_lucene_alone"] = found["with_lucene_s"] / found["lucene_alone_s"]
    index = folder / "index"
    found["opened_s"] = median(seconds(lambda: open_index(index).close()) for _ in range(TIMES))
    found["query_us"] = latencies(index, vocabulary)
    new = [replace(image, image_id=f"new/{image.image_id}") for image in blocks[0]]
    with open_writer(index) as writer:
        start, written = time.perf_counter(), 0
        for number in range(BATCHES):
            batch = [replace(one, image_id=f"{number}/{one.image_id}") for one in new[:BATCH]]
            writer.write([Add(one) for one in batch])
            writer.commit()
            written += len(batch)
        found["batches_images_per_second"] = written / (time.perf_counter() - start)
        searcher, times = open_index(index), []
        word = vocabulary[int(new[0].terms[0])]
        for number in range(TIMES):
            start = time.perf_counter()
            writer.write([Add(replace(new[0], image_id=f"one/{number}"))])
            writer.commit()
            searcher = searcher.refreshed() or searcher
            assert searcher.search(word, 1).hits and searcher.metadata(f"one/{number}")
            times.append(time.perf_counter() - start)
        found["image_found_s"] = median(times)
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=113_287)
    parser.add_argument("--terms", type=int, default=300)
    parser.add_argument("--work", type=Path, help="Folder on the disk that is measured.")
    parser.add_argument("--out", type=Path, help="JSON file.")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.work) as folder:
        figures = circumstances() | measure(options.images, options.terms, Path(folder))
    text = json.dumps(figures, indent=2)
    sys.stdout.write(text + "\n")
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
