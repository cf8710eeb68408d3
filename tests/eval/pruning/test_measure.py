"""The study of pruning: its figures against slow references, its files, its refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.pruning.index import PruningChoice, parse_choices
from eval.pruning.measure import measure_pruning
from eval.pruning.queries import short_queries
from eval.pruning.results import PruningStudy
from eval.recall.index import measure_index_recall
from eval.recall.scores import check_memory
from indexer.search.open import open_index
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.tokenizer import WordPieceTokenizer
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.model import VisualSparta
from tests.indexer.tiny import SOURCE, save_model, slow_frequencies, slow_impacts

CHOICES = [
    PruningChoice(None, "none", "all"),
    PruningChoice(None, "minimum", "all"),
    PruningChoice(5, "mean", "trained"),
    PruningChoice(5, "none", "all"),
]


def shares(scores: dict[str, dict[str, float]], captioned: list[CaptionedPhoto]) -> list[float]:
    """Recall at 1, 5 and 10 of caption → image → score; an image without a score is not found."""
    ranks = []
    for photo in captioned:
        for text in photo.captions:
            order = sorted(scores[text], key=lambda image: (-scores[text][image], image))
            place = order.index(photo.image_id) if photo.image_id in order else 99
            ranks.append(place + 1)
    return [100 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10)]


def summed(
    weights: dict[tuple[str, str], float],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
    images: Sequence[CaptionedPhoto] = (),
) -> list[float]:
    """Recall among images (those captioned) from (image, term) → weight, term by term."""
    scores: dict[str, dict[str, float]] = {}
    for text in {text for photo in captioned for text in photo.captions}:
        scores[text] = {}
        for term, count in tokenizer.encode_query(text).terms.items():
            for photo in images or captioned:
                if weight := weights.get((photo.image_id, term), 0):
                    own = scores[text]
                    own[photo.image_id] = own.get(photo.image_id, 0) + count * weight
    return shares(scores, captioned)


@pytest.fixture(scope="module")
def study(
    views: list[FeatureStore], models: list[Path], captioned: list[CaptionedPhoto]
) -> PruningStudy:
    shuffled = captioned[::-1]
    return measure_pruning(views, models, shuffled, CHOICES, [16], batch_size=4, device="cpu")


def test_rows_against_slow_impacts(
    study: PruningStudy,
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
) -> None:
    assert [row.choice for row in study.rows] == [None, *CHOICES]
    for row in study.rows[1:]:
        assert row.choice is not None
        settings: Any = SimpleNamespace(**vars(row.choice), bits=16)
        slow = slow_impacts(views, models, settings)
        weights = {key: float(impact) for key, (impact, *_) in slow.items()}
        assert list(row.recall[:3]) == pytest.approx(summed(weights, captioned, tokenizer))
        assert row.postings_per_image == pytest.approx(len(slow) / 21)
        assert row.size is not None and row.size.columns > 0 and 0 < row.size.lucene < 50_000


def test_float_row_against_the_model(
    study: PruningStudy,
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
) -> None:
    weights: dict[tuple[str, str], float] = {}
    for model in map(VisualSparta.from_pretrained, models):
        for view in views:
            for image in view:
                scores = model.term_scores(ImageCollator(tokenizer, 50, 70)([image])).scores[0]
                for term, score in zip(tokenizer.vocabulary, scores.tolist(), strict=True):
                    key = image.image_id, term
                    weights[key] = weights.get(key, 0.0) + score / 4
    row = study.rows[0]
    assert list(row.recall[:3]) == pytest.approx(summed(weights, captioned, tokenizer))
    assert row.postings_per_image == sum(weight > 0 for weight in weights.values()) / 21
    assert row.size is None
    assert row.overlap == row.overlap_same_top_n == 100
    # An index of everything ranks as the model does, and so does one above the minimum.
    assert study.rows[1].recall == study.rows[2].recall == row.recall
    assert study.rows[3].recall != row.recall


def test_only_the_captioned_photos_take_part(
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tmp_path: Path,
) -> None:
    some = captioned[3:17:2]
    writer = StoreWriter(tmp_path / "some", SOURCE)
    writer.write_shard([views[0][views[0].index(photo.image_id)] for photo in some])
    restricted = measure_pruning(views[:1], models[:1], some, CHOICES[2:], device="cpu")
    alone = measure_pruning([writer.finish()], models[:1], some, CHOICES[2:], device="cpu")
    assert [replace(row, size=None) for row in restricted.rows] == [
        replace(row, size=None) for row in alone.rows
    ]
    assert (restricted.images, restricted.queries) == (7, 14)


def run_command(features: list[str], models: list[Path], captions: Path, *more: str) -> Any:
    arguments = [
        "eval",
        "pruning",
        *features,
        "--captions",
        str(captions),
        "--device",
        "cpu",
        *more,
    ]
    for model in models:
        arguments += ["--model", str(model)]
    return CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})


def test_files(
    views: list[FeatureStore], models: list[Path], captions_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results.json"
    options = [
        "--top-n",
        "3,all",
        "--offset",
        "none,median",
        "--terms",
        "trained",
        "--bits",
        "10,float",
    ]
    folders = [str(view.folder) for view in views]
    run = run_command(folders, models, captions_file, *options, "--out", str(out))
    assert run.exit_code == 0, run.output
    found = json.loads(out.read_text())
    assert found["arguments"]["features"] == folders
    assert found["arguments"]["model"] == [str(model) for model in models]
    assert found["arguments"]["split"] == "val" and found["arguments"]["top_n"] == "3,all"
    assert found["features"] == [view.fingerprint for view in views]
    assert len(found["models"]) == 2 and len(set(found["models"])) == 2
    assert (found["images"], found["queries"]) == (21, 42)
    assert found["cores"] >= 1 and found["processor"] and found["package_version"]
    assert found["date"].startswith("20") and found["seconds"] > found["encode_seconds"] > 0
    names = [[row[name] for name in ("top_n", "offset", "bits")] for row in found["rows"]]
    assert names == [
        ["all", None, "float"],
        [3, "none", 10],
        [3, "none", "float"],
        ["all", "none", 10],
        ["all", "none", "float"],
        [3, "median", 10],
        [3, "median", "float"],
        ["all", "median", 10],
        ["all", "median", "float"],
    ]
    assert [row["terms"] for row in found["rows"]] == [None, *["trained"] * 8]
    assert [row["asked"] for row in found["rows"]] == [None, *["none"] * 8]
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert lines[0].startswith("21 images, 42 captions; 2 models, 2 feature stores; ")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:13]]
    assert table[0][:5] == ["top-n", "offset", "terms", "asked", "bits"] and len(table) == 2 + 9
    assert lines[13] == ""
    others = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[14:]]
    assert (
        others[0] == [*table[0][:5], f"short ({found['other_queries']['short']})"]
        and len(others) == 2 + 9
    )
    for row, cells in zip(found["rows"], others[2:], strict=True):
        assert cells[5] == " / ".join(f"{share:.1f}" for share in row["others"]["short"])
    for row, cells in zip(found["rows"], table[2:], strict=True):
        figures = [row[name] for name in ("r1", "r5", "r10")]
        overlaps = [row["overlap"], row["overlap_same_top_n"]]
        assert cells[5:8] == [f"{figure:.1f}" for figure in figures]
        assert cells[8] == f"{row['median_rank']:g}"
        assert cells[9:11] == [f"{figure:.1f}" for figure in overlaps]
        assert bool(cells[12]) == (row["lucene_bytes_per_image"] is not None) == (row["bits"] == 10)
    assert table[2][0] == "float model"
    assert table[5][:5] == ["all", "none", "trained", "none", "10"]
    assert "float model" in run.stdout


ASKED = [["dog on the beach", "red dog dog", "sky"], ["dog", "run, dogs", "é"]]


@pytest.fixture(scope="module")
def asked_models(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer
) -> list[Path]:
    """Models that record the term frequencies of captions."""
    root = tmp_path_factory.mktemp("asked")
    return [save_model(root / "0", tokenizer, 0, ["cat"], captions=ASKED[0])]


def test_asked_rows_against_slow_impacts(
    views: list[FeatureStore],
    asked_models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
) -> None:
    log = tmp_path / "queries.txt"
    log.write_text("\n".join(ASKED[1]))
    choices = parse_choices("3,all", "mean", "trained", f"none, model,{log}", "0.5,1")
    assert [(choice.asked, choice.asked_power) for choice in choices[::2]] == [
        ("none", 0.0),
        ("model", 0.5),
        ("model", 1.0),
        (str(log), 0.5),
        (str(log), 1.0),
    ]
    options: dict[str, Any] = {"batch_size": 4, "device": "cpu"}
    study = measure_pruning(views, asked_models, captioned, choices, [16], **options)
    exact = measure_pruning(views, asked_models, captioned, choices, [16], exact=True, **options)
    assert [replace(row, size=None) for row in study.rows] == exact.rows
    texts = {"none": [], "model": ASKED[0], str(log): ASKED[1]}
    for row in study.rows[1:]:
        assert row.choice is not None
        settings: Any = SimpleNamespace(**vars(row.choice), bits=16)
        slow = slow_impacts(views, asked_models, settings, texts[row.choice.asked])
        weights = {key: float(impact) for key, (impact, *_) in slow.items()}
        assert list(row.recall[:3]) == pytest.approx(summed(weights, captioned, tokenizer))
        assert row.postings_per_image == pytest.approx(len(slow) / 21)
    assert study.rows[1].recall != study.rows[5].recall  # none and model, power 1, three terms
    record, cells = study.rows[-1].record(), study.rows[-1].cells()
    assert (record["asked"], record["asked_power"], cells[3]) == (str(log), 1.0, "queries.txt 1")


def test_short_queries_and_rare_words_against_slow_impacts(
    views: list[FeatureStore],
    asked_models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
) -> None:
    [choice] = parse_choices("4", "mean", "trained", "model", "0.5")
    study = measure_pruning(views, asked_models, captioned, [choice], [16], exact=True)
    settings: Any = SimpleNamespace(**vars(choice), bits=16)
    slow = slow_impacts(views, asked_models, settings, ASKED[0])
    weights = {key: float(impact) for key, (impact, *_) in slow.items()}
    short = short_queries(captioned)
    frequent = dict(zip(tokenizer.vocabulary, slow_frequencies(tokenizer, ASKED[0]), strict=True))

    def rare(photos: list[CaptionedPhoto]) -> list[CaptionedPhoto]:
        chosen = [
            replace(photo, captions=tuple(filter(with_a_rare_word, photo.captions)))
            for photo in photos
        ]
        return [photo for photo in chosen if photo.captions]

    def with_a_rare_word(text: str) -> bool:
        return any(1 <= frequent[term] < 10 for term in tokenizer.encode_query(text).pieces)

    groups = {"short": short, "captions 1-9": rare(captioned), "short 1-9": rare(short)}
    assert study.other_queries == {
        name: sum(len(photo.captions) for photo in own) for name, own in groups.items()
    }
    assert study.other_queries["short 1-9"] < study.other_queries["short"] < study.queries == 42
    for name, own in groups.items():
        right = summed(weights, own, tokenizer, captioned)
        assert list(study.rows[1].others[name][:3]) == pytest.approx(right)


def test_indexes_are_kept_and_refused_where_one_is(
    views: list[FeatureStore],
    asked_models: list[Path],
    captioned: list[CaptionedPhoto],
    captions_file: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a" / "indexes"
    options = ["--top-n", "3", "--offset", "mean", "--terms", "trained", "--bits", "4,float"]
    options += ["--asked", "none,model", "--indexes", str(folder)]
    out = tmp_path / "results.json"
    stores = [str(view.folder) for view in views]
    run = run_command(stores, asked_models, captions_file, *options, "--exact", "--out", str(out))
    assert run.exit_code == 0, run.output
    names = ["mean-trained-model-0.3-3-4-bits", "mean-trained-none-3-4-bits"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (tmp_path / "results.png").stat().st_size > 10_000
    rows = [row for row in json.loads(out.read_text())["rows"] if row["bits"] == 4]
    for row, name in zip(rows, names[::-1], strict=True):
        searcher = open_index(folder / name, engine="columns")
        found = measure_index_recall(searcher, captioned).recall
        searcher.close()
        assert [row["r1"], row["r5"], row["r10"]] == list(found[:3])
        for part in ("lucene", "columns"):
            files = (folder / name / part).iterdir()
            size = sum(path.stat().st_size for path in files if path.name != "manifest.json")
            assert row[f"{part}_bytes_per_image"] == size / 21
    run = run_command(stores, asked_models, captions_file, *options, "--out", str(out))
    assert isinstance(run.exception, InputError)
    assert "none-3-4-bits exists: remove it or choose another folder" in str(run.exception)


def test_quantising_and_overlap_against_slow_impacts(
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
) -> None:
    choice = PruningChoice(4, "mean", "trained")
    study = measure_pruning(views, models, captioned, [choice], [2, None, 5], exact=True)
    assert [row.bits for row in study.rows] == [None, 2, None, 5]

    def first(choice: PruningChoice, bits: int) -> list[set[str]]:
        settings: Any = SimpleNamespace(**vars(choice), bits=bits)
        slow = slow_impacts(views, models, settings)
        return first_ten({key: impact for key, (impact, *_) in slow.items()}, captioned, tokenizer)

    # Impacts of 30 bits round nothing that matters among 21 images.
    whole, unrounded = first(PruningChoice(None, "none", "trained"), 30), first(choice, 30)
    for row, bits in zip(study.rows[1:], (2, 30, 5), strict=True):
        found = first(choice, bits)
        assert row.overlap == pytest.approx(shared(found, whole))
        assert row.overlap_same_top_n == pytest.approx(shared(found, unrounded))
        assert row.postings_per_image <= 4 and row.size is None
    assert study.rows[1].overlap_same_top_n < study.rows[3].overlap_same_top_n < 100
    assert study.rows[2].overlap < study.rows[2].overlap_same_top_n == 100


def first_ten(
    weights: dict[tuple[str, str], int],
    captioned: list[CaptionedPhoto],
    tokenizer: WordPieceTokenizer,
) -> list[set[str]]:
    """Each caption's ten best images by (image, term) → weight, of those that have a term."""
    found = []
    for text in (text for photo in captioned for text in photo.captions):
        terms = tokenizer.encode_query(text).terms
        scores = {
            photo.image_id: sum(n * weights.get((photo.image_id, t), 0) for t, n in terms.items())
            for photo in captioned
        }
        order = sorted(scores, key=lambda image: (-scores[image], image))
        found.append({image for image in order[:10] if scores[image]})
    return found


def shared(found: list[set[str]], reference: list[set[str]]) -> float:
    """How much of the reference, in percent, on average, is in what was found."""
    shares = [len(a & b) / len(b) for a, b in zip(found, reference, strict=True) if b]
    return 100 * sum(shares) / len(shares)


def test_all_images_are_searched(
    views: list[FeatureStore], models: list[Path], captioned: list[CaptionedPhoto]
) -> None:
    some = captioned[3:17:2]
    whole = [measure_pruning(views, models, captioned, CHOICES[2:], device="cpu")]
    options: dict[str, Any] = {"all_images": True, "device": "cpu"}
    for exact in (False, True):
        study = measure_pruning(views, models, some, CHOICES[2:], exact=exact, **options)
        assert (study.images, study.queries) == (21, 14)
        sizes = [(row.postings_per_image, None if exact else row.size) for row in study.rows]
        assert sizes == [
            (row.postings_per_image, None if exact else row.size) for row in whole[0].rows
        ]
        whole.append(study)
    assert [row.recall for row in whole[1].rows] == [row.recall for row in whole[2].rows]
    alone = measure_pruning(views, models, some, CHOICES[2:], exact=True, device="cpu")
    assert alone.rows[0].recall.at_1 > whole[1].rows[0].recall.at_1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-n", "10,many"], "--top-n: 'many' is not one of: numbers from 1, all"),
        (["--top-n", "0"], "--top-n: '0'"),
        (["--top-n", ""], "--top-n: ''"),
        (["--bits", "8,some"], "--bits: 'some' is not one of: numbers from 1, float"),
        (["--bits", "8,17"], "--bits must be from 1 to 16, got 17"),
        (["--offset", "mean,low"], "--offset: 'low'"),
        (["--terms", "some"], "--terms: 'some' is not one of: trained, all"),
        (["--asked", "none,model"], "--asked model: the models record no term frequencies"),
        (["--asked", "queries.txt"], "--asked queries.txt cannot be read"),
        (["--asked", "model", "--asked-power", "0.3,x"], "--asked-power: 'x' is not a number"),
        (["--asked-power", "1.5"], "--asked-power must be from 0 to 1, got 1.5"),
        (["--asked-power", "nan"], "--asked-power must be from 0 to 1, got nan"),
        (["--out", "results.md"], "must be a .json file"),
        (["--out", "nowhere/results.json"], "in a folder that exists"),
        (["--split", "other"], "lacks 1 of the 1 captioned photos, 'elsewhere.jpg'"),
    ],
)
def test_refusals(
    views: list[FeatureStore],
    models: list[Path],
    captions_file: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
) -> None:
    options = ["--out", str(tmp_path / "results.json"), *options]
    run = run_command([str(views[0].folder)], models[:1], captions_file, *options)
    assert isinstance(run.exception, InputError)
    assert message in str(run.exception)
    assert not list(tmp_path.iterdir())


def test_too_many_images_are_refused() -> None:
    check_memory(43_000, 30_522)
    with pytest.raises(InputError, match=r"9\.2 GB, over 8 GB: .* at most 43,684 images"):
        check_memory(50_000, 30_522)


def test_captions_of_unknown_words_find_nothing(
    views: list[FeatureStore], models: list[Path], captioned: list[CaptionedPhoto]
) -> None:
    photos = [replace(photo, captions=("qqq", *photo.captions)) for photo in captioned]
    study, known = (
        measure_pruning(views[:1], models[:1], some, CHOICES[:1], device="cpu")
        for some in (photos, captioned)
    )
    for row, expected in zip(study.rows, known.rows, strict=True):
        found = [2 / 3 * share for share in expected.recall[:3]]
        assert list(row.recall[:3]) == pytest.approx(found)
        assert row.overlap == expected.overlap
