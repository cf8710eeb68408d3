"""The study of exclusion on an index whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eval.exclusion.measure import Presences, mean_f1, read_presences
from eval.exclusion.study import measure_exclusion
from eval.exclusion.truth import BANDS, band_of, pairs_of, photos_by_word
from indexer.grounding import Inputs
from indexer.postings import ImagePostings, Postings
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from tests.indexer.command_line import sparta
from tests.indexer.random_postings import write_postings
from tests.indexer.vocabulary import small_tokenizer

# 60 photos: all on a beach, every second with dogs. The index takes photo 1 for one with a dog, and
# photo 0 for one without; photo 3 has a small impact.
NO_INPUTS = Inputs(np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, np.int16))


def captioned() -> list[CaptionedPhoto]:
    return [
        CaptionedPhoto(f"{i:02d}.jpg", "val", ("The beach !" if i % 2 else "A dog on the beach",))
        for i in range(60)
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = small_tokenizer()
    dog, beach = map(tokenizer.vocabulary.index, ("dog", "beach"))
    images = []
    for i in range(61):  # the last one has no caption
        impacts = {beach: 20, dog: 10 if i % 2 == 0 else 0}
        impacts[dog] = {0: 0, 1: 12, 3: 1}.get(i, impacts[dog])
        held = {term: impact for term, impact in sorted(impacts.items()) if impact}
        terms = np.array(list(held), np.int32)
        positions = np.full(len(held), -1, np.int16)
        impact = np.array(list(held.values()), np.int32)
        images.append(ImagePostings(f"{i:02d}.jpg", {}, terms, impact, positions, NO_INPUTS))
    folder = tmp_path_factory.mktemp("exclusion") / "index"
    write_postings(folder, [Postings.of(images)], tokenizer)
    return folder


def test_truth_is_in_the_captions() -> None:
    truth = photos_by_word(captioned())
    assert list(truth) == ["beach", "dog"]
    assert truth["beach"].all() and truth["dog"].tolist() == [True, False] * 30
    assert band_of(truth["dog"]) is BANDS[0]
    flags = np.zeros(1000, np.bool_)
    for count, band in ((9, BANDS[2]), (10, BANDS[1]), (49, BANDS[1]), (50, BANDS[0])):
        flags[:count] = True
        assert band_of(flags) is band
    assert photos_by_word(captioned()[:4]).keys() == {"beach"}


def test_pairs_leave_and_remove_something() -> None:
    assert pairs_of(photos_by_word(captioned())) == [("beach", "dog")]
    assert pairs_of(photos_by_word(captioned()[:18])) == []


def test_photos_that_go_are_counted(index: Path) -> None:
    searcher = LuceneSearcher(index)
    found = read_presences(searcher, captioned())
    row, *empty = found.rows(0.5)
    assert (row.words, row.photos, row.should_go) == (2, 120, 90)
    assert (row.go_rightly, row.go_wrongly) == (60 + 29, 1)
    assert row.f1 == pytest.approx((1 + 2 * 29 / (30 + 30)) / 2)
    assert mean_f1([row, *empty]) == row.f1
    assert row.rightly == pytest.approx(100 * 89 / 90)
    assert row.wrong == pytest.approx(100 / 90)
    assert row.lost == pytest.approx(100 / 30)
    assert all((one.words, one.f1, one.rightly, one.wrong) == (0, 0, 0, 0) for one in empty)
    assert found.rows(0.05)[0].go_wrongly == 2
    searcher.close()


def test_a_word_without_pieces_excludes_nothing() -> None:
    truth = {"qqq": np.array([True, False])}
    found = Presences(truth, {"qqq": np.zeros((0, 2), np.int64)}, {"qqq": []})
    assert found.rows(0.1)[0].go_rightly == 0


def test_a_photo_that_the_index_lacks_is_named(index: Path) -> None:
    searcher = LuceneSearcher(index)
    with pytest.raises(InputError, match=r"the index has no image 'x\.jpg'"):
        measure_exclusion(searcher, [*captioned(), CaptionedPhoto("x.jpg", "val", ("a dog",))])
    searcher.close()


def test_the_command(index: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    lines = (
        {"image": photo.image_id, "split": "val", "captions": list(photo.captions)}
        for photo in captioned()
    )
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "out.json"
    run = sparta("eval", "exclusion", str(index), "--captions", str(captions), "--out", str(out))
    assert run.returncode == 0, run.stderr
    assert "The first ten hits, means over 1 pairs of words" in run.stdout
    found = json.loads(out.read_text())
    assert (found["photos"], found["pairs"]) == (60, 1)
    plain, sentence, excluded = found["searches"]
    assert [plain["query"], excluded["query"]] == ["word", "word -other"]
    assert (plain["with_other"], plain["hits"]) == (50, 10)
    assert (sentence["with_other"], sentence["right"]) == (90, 10)
    assert (excluded["with_other"], excluded["right"]) == (10, 90)
