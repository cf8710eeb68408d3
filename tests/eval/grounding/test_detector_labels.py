"""Where terms point, counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.grounding.detector_labels import measure_label_agreement
from indexer.grounding import pack
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests import tiny
from tests.indexer.labelled import labelled_index

PHOTOS = [
    # Each won by a label's token, its own.
    CaptionedPhoto("a.png", "val", ("brown dog dog", "the cat by a tree")),
    # "ball" is won by region 0, while the detector calls region 1 a ball.
    CaptionedPhoto("b.png", "val", ("red ball", "beach")),
    CaptionedPhoto("c.png", "val", ("tree",)),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FeatureStore, Path]:
    return labelled_index(tmp_path_factory.mktemp("labelled"))


def test_shares_counted_by_hand(made: tuple[Path, FeatureStore, Path]) -> None:
    index, store, _ = made
    found = measure_label_agreement(LuceneSearcher(index), tiny.tokenizer(), store, PHOTOS)
    # brown, dog, cat, red: tokens; tree in a.png: the whole photo; ball, tree in c.png: boxes.
    assert (found.captions, found.terms) == (5, 7)
    assert found.won == pytest.approx({"whole photo": 1 / 7, "box": 2 / 7, "label token": 4 / 7})
    index_of_three = LuceneSearcher(index).index
    groundings = [index_of_three.grounding(document) for document in range(3)]
    postings = sum(len(grounding.terms) for grounding in groundings)
    packed = sum(len(pack(grounding)) for grounding in groundings)
    assert found.bytes_per_posting == pytest.approx(packed / postings)
    labels, attributes = found.named["label"], found.named["attribute"]
    assert (labels.terms, labels.by_region, labels.by_label) == (3, 0, pytest.approx(2 / 3))
    assert labels.chance == pytest.approx(1 / 3)
    assert (attributes.terms, attributes.by_region, attributes.by_label) == (2, 0, 1)


def test_a_region_that_wins_by_its_vector_is_right_where_it_is_called_so(
    made: tuple[Path, FeatureStore, Path],
) -> None:
    index, store, _ = made

    class Renamed:
        """The store, had the detector called region 0 of b.png a ball, too."""

        ids, folder = store.ids, store.folder

        def __getitem__(self, row: int) -> object:
            image = store[row]
            return replace(image, labels=("ball", "ball", "")) if row == 1 else image

    found = measure_label_agreement(LuceneSearcher(index), tiny.tokenizer(), Renamed(), PHOTOS[1:2])  # type: ignore[arg-type]
    assert found.named["label"].by_region == 1
    assert found.named["label"].chance == pytest.approx(2 / 3)


def test_command(made: tuple[Path, FeatureStore, Path], tmp_path: Path) -> None:
    index, store, _ = made
    captions, out = tmp_path / "captions.jsonl", tmp_path / "grounding.json"
    lines = [
        {"image": photo.image_id, "split": photo.split, "captions": photo.captions}
        for photo in [*PHOTOS, CaptionedPhoto("d.png", "gone", ("dog",))]
    ]
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    known = ["eval", "grounding", str(index), "--features", str(store.folder)]
    known += ["--captions", str(captions)]
    run = CliRunner().invoke(cli, [*known, "--out", str(out)], env={"COLUMNS": "120"})
    assert run.exit_code == 0, run.output
    assert "labels" in run.stdout and "57.1" in run.stdout
    record = json.loads(out.read_text())
    assert record["won"]["label token"] == pytest.approx(4 / 7)
    assert record["named"]["label"]["terms"] == 3
    run = CliRunner().invoke(cli, [*known, "--split", "gone"])
    assert isinstance(run.exception, InputError) and "d.png" in str(run.exception)
