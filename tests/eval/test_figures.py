"""The papers' figures and explanations: what each measures, read, and drawn by the command."""

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from transformers import AutoModel, AutoTokenizer

from eval.figures.papers import heat_map, look, read_logs
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.vse.batch import RegionBatch, collate_regions
from sparta.vse.model import VseModel, score
from tests import tiny
from tests.eval.data import record, refused, save_dense, shown, write_captions
from tests.indexer.labelled import labelled_index
from tests.indexer.random_postings import change_manifest
from tests.sparta.vse.models import bigru, save_bert
from tests.stores import write_store
from tests.training.corpus import Corpus, dense_config, write_corpus
from tests.training.test_fit import metrics
from training.fit import train


def drawn(*arguments: object) -> Any:
    """What the file beside the picture says; the last argument is the picture."""
    shown("eval", "figure", *arguments)
    out = Path(str(arguments[-1]))
    assert out.read_bytes().startswith(b"\x89PNG")
    return json.loads(out.with_suffix(".json").read_text())


def refuse(message: str, *arguments: object) -> None:
    refused(message, "eval", "figure", *arguments)


# ---- coefficients (GPO 5) -----------------------------------------------------------------------


def slow_coefficients(pooling: torch.nn.Module, size: int) -> list[float]:
    """Column j of the set has j ones and then zeros: its pooled value is θ_1 + … + θ_j."""
    steps = torch.triu(torch.ones(size, size + 1), diagonal=1)
    pooled = pooling(steps[None], torch.tensor([size]))[0].tolist()
    return [after - before for before, after in pairwise(pooled)]


def test_every_pooling_of_a_model(tmp_path: Path) -> None:
    model = bigru(visual_pooling="gpo", text_pooling="gpo", views=2)
    model.save_pretrained(tmp_path / "model")
    curves = drawn("coefficients", tmp_path / "model", "--out", tmp_path / "a.png")["curves"]
    expected = [
        ("image", "image, view 1", 36, model.visual_poolings[0]),
        ("image", "image, view 2", 36, model.visual_poolings[1]),
        ("text", "text", 12, model.text_pooling),
    ]
    for curve, (side, name, size, pooling) in zip(curves, expected, strict=True):
        weights = curve.pop("weights")
        assert weights == pytest.approx(slow_coefficients(pooling, size), abs=1e-5)
        assert sum(weights) == pytest.approx(1)
        assert curve == {"side": side, "name": name, "size": size}


def test_as_many_cells_as_a_model_takes(tmp_path: Path) -> None:
    """GPO's figure 5, right: the 256 cells of a model of grids."""
    model = bigru(visual_pooling="gpo", text_pooling="gpo", max_regions=256)
    model.save_pretrained(tmp_path / "model")
    curves = drawn("coefficients", tmp_path / "model", "--out", tmp_path / "a.png")["curves"]
    assert [len(curve["weights"]) for curve in curves] == [256, 12]


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    mean = save_dense(tmp_path / "mean")
    for out, message in (
        ("a.png", "pools by mean and mean: only gpo"),
        ("a.jpg", "must be a .png file"),
        ("no/a.png", "in a folder that exists"),
    ):
        refuse(message, "coefficients", mean, "--out", tmp_path / out)


# ---- k-max (GPO 6) ------------------------------------------------------------------------------


def write_grid(folder: Path, rsums: dict[tuple[str, str], float]) -> list[str]:
    """A run for each pair of Ks, "all" for mean pooling."""
    pooled: dict[tuple[str, str], dict[str, Any]] = {}
    for side in ("visual", "text"):
        for k in {pair[side == "text"] for pair in rsums}:
            options = {} if k == "all" else {f"{side}_pooling_options": {"k": int(k)}}
            pooled[side, k] = {f"{side}_pooling": "mean" if k == "all" else "k-max"} | options
    for (visual, text), rsum in rsums.items():
        found = folder / f"{visual}-{text}"
        bigru(**pooled["visual", visual], **pooled["text", text]).save_pretrained(found / "model")
        (found / "recall.json").write_text(json.dumps({"rsum": rsum}))
    return [str(path) for path in sorted(folder.iterdir(), reverse=True)]


def test_rsum_of_every_pair(tmp_path: Path) -> None:
    pairs = [(v, t) for v in ("2", "10", "all") for t in ("1", "all")]
    rsums = {pair: 400.0 + place for place, pair in enumerate(pairs)}
    runs, out = write_grid(tmp_path / "runs", rsums), tmp_path / "k.png"
    found = drawn("k-max", *runs, "--out", out)
    assert (found["visual"], found["text"]) == (["2", "10", "all"], ["1", "all"])
    assert found["rsum"] == [[400, 401], [402, 403], [404, 405]]
    refuse("no run with K all of regions and all", "k-max", *runs[1:], "--out", out)
    refuse("is no run of k-max or mean poolings", "k-max", *runs, tmp_path, "--out", out)


# ---- negatives (VSE+2AD C-2) ---------------------------------------------------------------------


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def write_run(folder: Path, logs: dict[int, str], variant: str = "paper") -> Path:
    settings = {"objective": {"variant": variant}, "batch_size": 32}
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    for version, text in logs.items():
        path = folder / "logs" / f"version_{version}" / "metrics.csv"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder


def test_a_resumed_run_counts_where_it_repeated_steps(tmp_path: Path) -> None:
    first = "epoch,loss,step,negatives\n0,,9,31.0\n0,,19,30.0\n0,5.5,19,\n1,,29,7.0\n"
    second = "epoch,step,negatives\n1,29,20.0\n1,39,12.5\n"
    third = "epoch,step,negatives\n2,49,3.0\n"
    found = read_logs(
        "a", str(write_run(tmp_path / "run", {0: first, 2: second, 10: third})), "step", "negatives"
    )
    assert found["steps"] == [9, 19, 29, 39, 49]
    assert found["negatives"] == [31.0, 30.0, 20.0, 12.5, 3.0]
    assert (found["variant"], found["batch_size"]) == ("paper", 32)


def test_real_runs_of_both_formulas(corpus: Corpus, tmp_path: Path) -> None:
    for variant in ("paper", "code"):
        objective = {"kind": "adopt", "variant": variant}
        train(dense_config(corpus, "vse-2ad", objective=objective, epochs=4), tmp_path / variant)
    runs = [tmp_path / variant for variant in ("paper", "code")]
    printed, coded = drawn("negatives", *runs, "--out", tmp_path / "negatives.png")["runs"]
    assert (printed["variant"], coded["variant"]) == ("paper", "code")
    assert printed["steps"] == coded["steps"] and len(printed["steps"]) >= 2
    assert all(1 <= k <= 29 for k in (*printed["negatives"], *coded["negatives"]))
    # A trained model: as printed most pairs stay negatives, as coded few do.
    assert printed["negatives"][-1] > 20 > coded["negatives"][-1]
    out = tmp_path / "convergence.png"
    first, second = drawn("convergence", f"printed={runs[0]}", runs[1], "--out", out)["runs"]
    assert (first["name"], second["name"]) == ("printed", str(runs[1]))
    assert first["epochs"] == second["epochs"] == [1, 2, 3, 4]
    for run, found in zip(runs, (first, second), strict=True):
        assert found["val_recall"] == metrics(run, "val_recall")


# ---- captions (MV-VSE 2), cases (VSE+2AD 4) ------------------------------------------------------


def test_how_near_captions_of_a_photo_are(tmp_path: Path) -> None:
    encoder = save_bert(tmp_path / "bert")
    texts = [("a dog", "the red ball", "a dog"), ("a man",), ("a man", "a man")]
    photos = [CaptionedPhoto(f"{row}.jpg", "val", own) for row, own in enumerate(texts)]
    captions = write_captions(tmp_path / "captions.jsonl", photos)
    asked = ["captions", encoder, "--captions", captions, "--out", tmp_path / "a.png"]
    found = drawn(*asked)
    tokenizer, network = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder)
    with torch.no_grad():
        dog, ball = (
            network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0)
            for text in ("a dog", "the red ball")
        )
    cosine = float(torch.cosine_similarity(dog, ball, dim=0))
    assert found["pairs"] == 4
    assert found["mean"] == pytest.approx((2 * cosine + 1 + 1) / 4, abs=1e-3)
    widths = np.diff(found["edges"])
    assert widths @ found["density"] == pytest.approx(1)
    write_captions(captions, photos[1:2])
    refuse("no photo of split 'val' has two captions", *asked)


def test_the_best_of_both_directions(
    views: list[FeatureStore], captioned: list[CaptionedPhoto], captions_file: Path, tmp_path: Path
) -> None:
    model, photos = save_dense(tmp_path / "model"), tmp_path / "photos"
    for image_id in views[0].ids:
        (photos / image_id).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), "green").save(photos / image_id)
    asked = ["cases", model, "--features", views[0].folder, "--captions", captions_file]
    asked += ["--photos", photos, "--device", "cpu"]
    examples = drawn(*asked, "--images", "3", "--out", tmp_path / "a.png")["examples"]
    assert [one["image_id"] for one in examples] == [views[0].ids[row] for row in (0, 7, 14)]
    texts = [(text, photo.image_id) for photo in captioned for text in photo.captions]
    loaded = VseModel.from_pretrained(model)
    with torch.no_grad():
        images = loaded.encode_images(collate_regions([*views[0]]))
    scores = score(loaded.embed_texts([text for text, _ in texts]), images)
    for one in examples:
        assert [one["caption"], one["image_id"]] == [*texts[2 * views[0].index(one["image_id"])]]
        row, column = texts.index((one["caption"], one["image_id"])), one["image_id"]
        best = [float(scores[row, views[0].index(image)]) for image in one["images"]]
        assert best == pytest.approx(scores[row].topk(5).values.tolist(), abs=1e-5)
        own = scores[:, views[0].index(column)]
        best = [float(own[texts.index((text, owner))]) for text, owner in one["captions"]]
        assert best == pytest.approx(own.topk(5).values.tolist(), abs=1e-5)
    refuse("give --photos", *asked[:-4], "--device", "cpu", "--out", tmp_path / "a.png")


def test_what_is_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no run of sparta train: it has no config\.yaml"):
        read_logs("a", str(tmp_path), "step", "negatives")
    silent = write_run(tmp_path / "run", {0: "epoch,loss,step\n0,1.0,9\n"})
    with pytest.raises(InputError, match=r"its logs have no negatives; runs with objective\.kind"):
        read_logs("a", str(silent), "step", "negatives")


# ---- views (MV-VSE 4) ----------------------------------------------------------------------------


def slow_study(
    folder: Path, store: FeatureStore, captioned: list[CaptionedPhoto]
) -> tuple[float, list[float]]:
    """Mean cosine of two views, and each view's share of captions, one image at a time."""
    model = VseModel.from_pretrained(folder)
    cosines: list[float] = []
    wins = [0] * model.config.views
    for photo in captioned:
        image = store[store.index(photo.image_id)]
        with torch.no_grad():
            views = model.encode_images(collate_regions([image]))[0]
        for first in range(len(views)):
            for second in range(first):
                cosines.append(float(views[first] @ views[second]))
        for text in model.embed_texts(list(photo.captions)):
            scores = [float(view @ text) for view in views]
            wins[scores.index(max(scores))] += 1
    return sum(cosines) / len(cosines), [count / sum(wins) for count in wins]


def test_two_models(
    views: list[FeatureStore], captioned: list[CaptionedPhoto], captions_file: Path, tmp_path: Path
) -> None:
    models = [save_dense(tmp_path / str(seed), seed, views=3) for seed in (0, 1)]
    data = ["--features", str(views[0].folder), "--captions", str(captions_file)]
    data += ["--device", "cpu"]
    out = ["--out", tmp_path / "views.png"]
    found = drawn("views", f"0.7={models[0]}", models[1], *data, *out)["models"]
    assert [study["name"] for study in found] == ["0.7", str(models[1])]
    for study, folder in zip(found, models, strict=True):
        similarity, selected = slow_study(folder, views[0], captioned)
        assert study["similarity"] == pytest.approx(similarity, abs=1e-5)
        assert study["selected"] == pytest.approx(selected)
        assert study["rsum"] == pytest.approx(record("eval", "model", folder, *data)["rsum"])
    assert found[0]["selected"] != found[1]["selected"]


# ---- attention (MV-VSE 5) ------------------------------------------------------------------------


IMAGE = tiny.image(4, seed=3)
CAPTIONS = ["a dog", "the red ball", "two men by the sea", "a man's hat"]


def slow_similarity(model: VseModel, image: ImageFeatures) -> list[list[float]]:
    """Each view against each region alone in the joint space, as mean pooling of one shows it."""
    features = torch.from_numpy(image.features.astype(np.float32))[None]
    lengths = torch.tensor([len(image.features)])
    with torch.no_grad():
        views = model.encode_images(RegionBatch(features, lengths))[0]
        rows = []
        for number, view in enumerate(views):
            shared = len(model.visual_projections) == 1
            project = model.visual_projections[0 if shared else number]
            visual = features.sqrt() if model.config.square_root else features
            row = []
            for region in range(len(image.features)):
                vector = project(visual[:, region : region + 1], torch.tensor([1]))[0, 0]
                norm = math.sqrt(sum(float(x) ** 2 for x in vector))
                row.append(sum(float(a * b) for a, b in zip(vector, view, strict=True)) / norm)
            rows.append(row)
    return rows


@pytest.mark.parametrize(
    "options",
    [
        {"views": 2, "visual_pooling": "gpo"},
        {"views": 3, "view_projections": "separate", "square_root": True},
        {"visual": "grid"},
    ],
)
def test_similarity_of_regions_and_views(options: dict[str, Any]) -> None:
    model = bigru(**options)
    found = look(model, IMAGE, CAPTIONS)
    expected = slow_similarity(model, IMAGE)
    for row, wanted in zip(found["similarity"], expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)
    assert found["boxes"] == IMAGE.boxes.tolist()
    assert list(found["captions"]) == CAPTIONS
    assert {len(scores) for scores in found["captions"].values()} == {len(expected)}


def test_heat_map() -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.25, 0, 0.75, 0.5], [0, 0, 1, 1]], np.float32)
    values = np.array([2.0, 4.0, 100.0], np.float32)
    rows, columns = 6, 8
    found = heat_map(boxes, values, (rows, columns))
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) / columns, (row + 0.5) / rows
            over = [
                float(value)
                for (left, top, right, bottom), value in zip(boxes[:2], values, strict=False)
                if left <= x < right and top <= y < bottom
            ]
            if over:
                assert found[row, column] == pytest.approx(sum(over) / len(over))
            else:
                assert math.isnan(found[row, column])


def test_an_image_without_places_is_refused() -> None:
    whole = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
    image = ImageFeatures("a.jpg", IMAGE.features, whole, ("",) * 4, ("",) * 4, 0, 0)
    with pytest.raises(InputError, match=r"a\.jpg: its features have no boxes"):
        look(bigru(), image, [])


def test_attention(tmp_path: Path) -> None:
    write_store(tmp_path / "features", tiny.source(), [IMAGE])
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48), "green").save(tmp_path / "photos" / IMAGE.image_id)
    bigru(views=2, visual_pooling="gpo").save_pretrained(tmp_path / "model")
    out = ["--out", tmp_path / "attention.png"]
    known = ["attention", tmp_path / "model", "--features", tmp_path / "features"]
    own = ["--image", IMAGE.image_id]
    photos = ["--photos", str(tmp_path / "photos")]
    data = drawn(*known, *own, *photos, "--caption", "a dog", *out)
    assert len(data["similarity"]) == 2 and list(data["captions"]) == ["a dog"]
    for more, message in (
        (own, "no folder of photos is recorded: give --photos"),
        (["--image", "b.jpg", *photos], "--image 'b.jpg' is not in"),
    ):
        refuse(message, *known, *more, *out)


# ---- the commands that explain photos and draw the winning regions -------------------------------


QUERY = "the brown dog by a ball and a tree"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, _, _ = labelled_index(tmp_path_factory.mktemp("labelled"))
    return made


@pytest.fixture(scope="module")
def photos(index: Path) -> Path:
    return index.parent / "photos"


def test_explain_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "why.png"
    asked = ["explain", index, "a.png"]
    table = shown(*asked, QUERY, "cat")
    assert "label “dog” in “brown dog”, region 0" in table and "a.png: “cat”" in table
    [answer] = record(*asked, QUERY)
    assert answer["score"] == sum(term["score"] for term in answer["terms"])
    labels = {term["term"]: term["label"] for term in answer["terms"]}
    assert labels["dog"] == {"token": "dog", "words": "brown dog"} and labels["ball"] is None
    figure = ["--figure", out]
    shown(*asked, QUERY, *figure, "--photos", photos)
    assert Image.open(out).format == "PNG"
    assert json.loads(out.with_suffix(".json").read_text())["examples"] == [answer]
    known = shutil.copytree(index, tmp_path / "index")
    change_manifest(known, photos=str(photos))
    shown("explain", known, "a.png", QUERY, *figure)
    (tmp_path / "a.png").write_bytes(b"no photo")
    for arguments, message in (
        (["x.png", "dog"], "the index has no image 'x.png'"),
        (["a.png", " "], "the query is empty"),
        (["a.png", "dog", *figure], "no folder of photos is recorded: give --photos"),
        (["c.png", "dog", *figure, "--photos", tmp_path], "photo 'c.png' in "),
        (["a.png", "dog", *figure, "--photos", tmp_path], "photo 'a.png'"),
        (["a.png", "dog", "--figure", "why.jpg"], "--figure why.jpg must be a .png"),
    ):
        refused(message, "explain", index, *arguments)


def test_figure_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.png"
    written = [CaptionedPhoto(f"{name}.png", "val", ("a dog", "cat")) for name in "cab"]
    captions = write_captions(tmp_path / "captions.jsonl", written)
    known = ["eval", "figure", "grounding", index, "--photos", photos]
    known += ["--images", 2, "--out", out]
    shown(*known, "--captions", captions)
    examples = json.loads(out.with_suffix(".json").read_text())["examples"]
    found = [(one["image_id"], one["query"]) for one in examples]
    assert found == [("a.png", "a dog"), ("b.png", "a dog")]
    many = [*known, "--captions", captions, "--images", 4]
    refused("--images 4: the split has 3 photos", *many)
    refused("needs --captions", *known)
