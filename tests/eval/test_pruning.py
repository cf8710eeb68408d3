"""The pruning study: figures against slow references, files, refusals, and its queries."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.pruning.index import PruningChoice, parse_choices
from eval.pruning.measure import PruningStudy, measure_pruning, short_queries
from eval.recall.scores import check_memory
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.model import VisualSparta
from tests.eval.data import Data, refused, shown
from tests.indexer.tiny import save_model, slow_frequencies, slow_impacts

Weights = dict[tuple[str, str], float]  # of (image, term)

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
    weights: Weights, data: Data, asked: Sequence[CaptionedPhoto] | None = None
) -> list[float]:
    """Recall of captions (all by default) among all images, term by term."""
    scores: dict[str, dict[str, float]] = {}
    asked = data.captioned if asked is None else asked
    for text in {text for photo in asked for text in photo.captions}:
        scores[text] = {}
        for term, count in data.tokenizer.encode_query(text).terms.items():
            for photo in data.captioned:
                if weight := weights.get((photo.image_id, term), 0):
                    own = scores[text]
                    own[photo.image_id] = own.get(photo.image_id, 0) + count * weight
    return shares(scores, list(asked))


def slow_weights(
    data: Data, models: list[Path], choice: PruningChoice, bits: int, asked: Sequence[str] = ()
) -> Weights:
    settings: Any = SimpleNamespace(**vars(choice), bits=bits)
    slow = slow_impacts(data.views, models, settings, list(asked))
    return {key: float(impact) for key, (impact, *_) in slow.items()}


def agree(study: PruningStudy, data: Data, models: list[Path], texts: dict[str, list[str]]) -> None:
    """Each row of 16 bits has the recall and the postings of slow impacts."""
    for row in study.rows[1:]:
        assert row.choice is not None
        weights = slow_weights(data, models, row.choice, 16, texts[row.choice.frequencies])
        assert list(row.recall[:3]) == pytest.approx(summed(weights, data))
        assert row.postings_per_image == pytest.approx(len(weights) / 21)


def test_rows_against_the_model_and_slow_impacts(data: Data) -> None:
    shuffled = data.captioned[::-1]
    options: dict[str, Any] = {"batch_size": 4, "device": "cpu"}
    study = measure_pruning(data.views, data.models, shuffled, CHOICES, [16], **options)
    assert [row.choice for row in study.rows] == [None, *CHOICES]
    agree(study, data, data.models, {"none": []})
    sizes = [row.size for row in study.rows[1:]]
    assert all(size and size.segments > 0 and 0 < size.lucene < 50_000 for size in sizes)
    weights: Weights = {}
    for model in map(VisualSparta.from_pretrained, data.models):
        for view in data.views:
            for image in view:
                scores = model.term_scores(ImagePadder(data.tokenizer, 50, 70)([image])).scores[0]
                for term, score in zip(data.tokenizer.vocabulary, scores.tolist(), strict=True):
                    key = image.image_id, term
                    weights[key] = weights.get(key, 0.0) + score / 4
    row = study.rows[0]
    assert list(row.recall[:3]) == pytest.approx(summed(weights, data))
    assert row.postings_per_image == sum(weight > 0 for weight in weights.values()) / 21
    assert row.size is None
    assert row.overlap == row.overlap_same_top_n == 100
    # An index of everything ranks as the model does, and so does one above the minimum.
    assert study.rows[1].recall == study.rows[2].recall == row.recall
    assert study.rows[3].recall != row.recall


def command(data: Data, models: list[Path], out: Path, *options: object) -> list[object]:
    chosen = [part for model in models for part in ("--model", model)]
    stores = [view.folder for view in data.views[: len(models)]]
    known = [*stores, *chosen, "--captions", data.captions_file, "--out", out, "--device", "cpu"]
    return ["eval", "pruning", *known, *options]


def test_files(data: Data, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    options = ["--top-n", "3,all", "--offset", "none,median", "--terms", "trained"]
    text = shown(*command(data, data.models, out, *options, "--bits", "10,float"))
    assert "float model" in text
    found = json.loads(out.read_text())
    assert found["arguments"]["features"] == [view.folder.name for view in data.views]
    assert found["arguments"]["split"] == "val" and found["arguments"]["top_n"] == "3,all"
    assert len(found["models"]) == 2 and len(set(found["models"])) == 2
    assert (found["images"], found["queries"]) == (21, 42)
    assert found["seconds"] > found["encode_seconds"] > 0
    names = [(row["offset"], row["top_n"], row["bits"]) for row in found["rows"]]
    chosen = product(("none", "median"), (3, "all"), (10, "float"))
    assert names == [(None, "all", "float"), *chosen]
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert lines[0].startswith("    sparta eval pruning") and " --top-n 3,all " in lines[0]
    assert lines[4].startswith("21 images, 42 captions; ")
    for row, line in zip(found["rows"], lines[9:18], strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        figures = [row[name] for name in ("r1", "r5", "r10")]
        assert cells[5:8] == [f"{figure:.1f}" for figure in figures]
        assert bool(cells[12]) == (row["lucene_bytes_per_image"] is not None) == (row["bits"] == 10)


ASKED = [["dog on the beach", "red dog dog", "sky"], ["dog", "run, dogs", "é"]]


@pytest.fixture(scope="module")
def asked_models(tmp_path_factory: pytest.TempPathFactory, tokenizer: TermTokenizer) -> list[Path]:
    """Models that record the term frequencies of captions."""
    root = tmp_path_factory.mktemp("asked")
    return [save_model(root / "0", tokenizer, 0, ["cat"], captions=ASKED[0])]


def test_asked_rows_against_loops(data: Data, asked_models: list[Path], tmp_path: Path) -> None:
    log = tmp_path / "queries.txt"
    log.write_text("\n".join(ASKED[1]))
    choices = parse_choices("3,all", "mean", "trained", f"none, model,{log}", "0.5,1")
    powers = [("none", 0.0), *product(("model", str(log)), (0.5, 1.0))]
    assert [(choice.frequencies, choice.frequency_power) for choice in choices[::2]] == powers
    given = (data.views, asked_models, data.captioned, choices, [16])
    study = measure_pruning(*given, batch_size=4, device="cpu")
    exact = measure_pruning(*given, exact=True, batch_size=4, device="cpu")
    assert [replace(row, size=None) for row in study.rows] == exact.rows
    agree(study, data, asked_models, {"none": [], "model": ASKED[0], str(log): ASKED[1]})
    assert study.rows[1].recall != study.rows[5].recall  # none and model, power 1, three terms
    record, cells = study.rows[-1].record(), study.rows[-1].cells()
    assert (record["frequencies"], record["frequency_power"], cells[3]) == (
        str(log),
        1.0,
        "queries.txt 1",
    )


def test_short_queries_and_rare_words(data: Data, asked_models: list[Path]) -> None:
    captioned, tokenizer = data.captioned, data.tokenizer
    [choice] = parse_choices("4", "mean", "trained", "model", "0.5")
    study = measure_pruning(data.views, asked_models, captioned, [choice], [16], exact=True)
    weights = slow_weights(data, asked_models, choice, 16, ASKED[0])
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
        right = summed(weights, data, own)
        assert list(study.rows[1].others[name][:3]) == pytest.approx(right)


def test_quantising_and_overlap_against_slow_impacts(data: Data) -> None:
    choice, given = PruningChoice(4, "mean", "trained"), (data.views, data.models, data.captioned)
    study = measure_pruning(*given, [choice], [2, None, 5], exact=True)
    assert [row.bits for row in study.rows] == [None, 2, None, 5]

    def first(choice: PruningChoice, bits: int) -> list[set[str]]:
        return first_ten(slow_weights(data, data.models, choice, bits), data)

    # Impacts of 30 bits round nothing that matters among 21 images.
    whole, unrounded = first(PruningChoice(None, "none", "trained"), 30), first(choice, 30)
    for row, bits in zip(study.rows[1:], (2, 30, 5), strict=True):
        found = first(choice, bits)
        assert row.overlap == pytest.approx(shared(found, whole))
        assert row.overlap_same_top_n == pytest.approx(shared(found, unrounded))
        assert row.postings_per_image <= 4 and row.size is None
    assert study.rows[1].overlap_same_top_n < study.rows[3].overlap_same_top_n < 100
    assert study.rows[2].overlap < study.rows[2].overlap_same_top_n == 100


def first_ten(weights: Weights, data: Data) -> list[set[str]]:
    """Each caption's ten best images by (image, term) → weight, of those that have a term."""
    found = []
    for text in (text for photo in data.captioned for text in photo.captions):
        terms = data.tokenizer.encode_query(text).terms
        scores = {
            photo.image_id: sum(n * weights.get((photo.image_id, t), 0) for t, n in terms.items())
            for photo in data.captioned
        }
        order = sorted(scores, key=lambda image: (-scores[image], image))
        found.append({image for image in order[:10] if scores[image]})
    return found


def shared(found: list[set[str]], reference: list[set[str]]) -> float:
    """How much of the reference, in percent, on average, is in what was found."""
    shares = [len(a & b) / len(b) for a, b in zip(found, reference, strict=True) if b]
    return 100 * sum(shares) / len(shares)


def test_only_captioned_images_are_searched(data: Data) -> None:
    given, some = (data.views, data.models), data.captioned[3:17:2]
    study = measure_pruning(*given, some, CHOICES[2:], exact=True, device="cpu")
    assert (study.images, study.queries) == (7, 14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-n", "10,many"], "--top-n: 'many' is not a number"),
        (["--bits", "8,17"], "--bits must be from 1 to 16, got 17"),
        (
            ["--frequencies", "none,model"],
            "--frequencies model: the models record no term frequencies",
        ),
        (
            ["--frequencies", "model", "--frequency-power", "0.3,x"],
            "--frequency-power: 'x' is not a number",
        ),
        (["--split", "other"], "lacks 1 of the 1 captioned photos: 'elsewhere.jpg'"),
    ],
)
def test_refusals(data: Data, tmp_path: Path, options: list[str], message: str) -> None:
    refused(message, *command(data, data.models[:1], tmp_path / "results.json", *options))
    assert not list(tmp_path.iterdir())


def test_too_many_images_are_refused() -> None:
    check_memory(43_000, 30_522)
    with pytest.raises(InputError, match=r"9\.2 GB, over 8 GB: .* at most 43,684 images"):
        check_memory(50_000, 30_522)


# ---- queries, their groups, and rankings ---------------------------------------------------------


def made_of(*captions: tuple[str, ...]) -> list[tuple[str, ...]]:
    photos = [CaptionedPhoto(f"{i}.jpg", "val", own) for i, own in enumerate(captions)]
    return [photo.captions for photo in short_queries(photos)]


def test_one_to_three_words_that_captions_share_the_rarest_first() -> None:
    captions = (
        "A brown dog runs on the beach.",
        "The dog runs along a sunny beach with its ball!",
        "Brown dog, ball; beach: dog runs",
        "beach dog",
        "two 2 animals by the sea",
    )
    others = ("a dog", "one dog"), ("dog on a beach", "a beach dog"), ("it runs", "he runs")
    assert made_of(captions, *others) == [
        # Brown and ball are in this photo alone, dog in three and beach in two.
        ("brown", "runs ball", "brown ball beach", "beach", "two animals"),
        ("dog",),
        ("beach", "beach dog"),
        ("runs",),
    ]


def test_captions_without_words_give_no_query() -> None:
    assert made_of(("It is on the 3 .", "a"), ("A sofa",)) == [("sofa",)]
