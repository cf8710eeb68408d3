"""CxC: its files, what is right by them, and the four ways against loops over every pair."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eval.recall.cxc import (
    JudgedPair,
    Judgements,
    read_judgements,
    read_sentences,
    relevant_items,
    without_images,
)
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_regions
from sparta.vse.model import VseModel
from tests.eval.data import record, refused, save_dense, shown, store_of
from tests.indexer.tiny import SOURCE

IMAGES = {20: [1, 5], 7: [3, 2], 11: [9, 4]}
SITS = [
    "sentid:1,20,4.9,c2i_original",
    "sentid:5,20,2.0,c2i_original",
    "sentid:3,7,5.0,c2i_original",
    "sentid:2,7,4.0,c2i_original",
    "sentid:9,11,4.4,c2i_original",
    "sentid:4,11,5.0,c2i_original",
    "sentid:1,7,3.0,c2i_intrasim",
    "sentid:9,20,2.99,c2i_intrasim",
    "sentid:2,11,4.1,c2i_intrasim",
]
STS = [
    "sentid:1,sentid:5,0.5,c2c_cocaption",
    "sentid:1,sentid:3,3.0,c2c_isim",
    "sentid:4,sentid:3,2.99,c2c_isim",
    "sentid:2,sentid:9,5,c2c_isim",
]
SIS = ["20,7,2.5,i2i_csim", "7,20,1.0,i2i_csim", "11,20,2.49,i2i_csim"]


def write_judgements(folder: Path, split: str = "val") -> Path:
    folder.mkdir(exist_ok=True)
    files = {"sits": ("caption,image", SITS), "sts": ("caption1,caption2", STS)}
    files["sis"] = ("image1,image2", SIS)
    for name, (columns, lines) in files.items():
        text = "".join(f"{line}\n" for line in map(_published, lines))
        header = f"{columns},agg_score,sampling_method\n"
        (folder / f"{name}_{split}.csv").write_text(header + text)
    return folder


def _published(line: str) -> str:
    first, second, *rest = line.split(",")
    ids = [
        f"COCO_val2014:{name}" if "sentid" in name else f"COCO_val2014_{int(name):012}.jpg"
        for name in (first, second)
    ]
    return ",".join([*ids, *rest])


def write_sentences(path: Path, texts: dict[int, str]) -> Path:
    """Karpathy's JSON."""
    images = [
        {"sentences": [{"sentid": number, "raw": texts[number]} for number in numbers]}
        for numbers in IMAGES.values()
    ]
    path.write_text(json.dumps({"images": images}))
    return path


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("sits", "a,b,agg_score,sampling_method", "line 1: columns"),
        ("sits", "COCO_val2014:sentid:1,COCO_val2014_000000000020.jpg,4.9", "line 2: 3 columns"),
        ("sits", "sentid:1,COCO_val2014_000000000020.jpg,4.9,x", "line 2: caption: 'sentid:1'"),
        ("sts", "COCO_val2014:sentid:1,COCO_val2014:sentid:2,5.1,x", "line 2: agg_score: '5.1'"),
        ("sis", "COCO_val2014_7.jpg,COCO_val2014_8.jpg,,x", "line 2: agg_score: ''"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, line: str, message: str) -> None:
    folder = write_judgements(tmp_path / "cxc")
    path = folder / f"{file}_val.csv"
    header = path.read_text().splitlines()[0]
    path.write_text(f"{line}\n" if "line 1" in message else f"{header}\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_judgements(folder, "val")
    assert f"{path}, {message}" in str(caught.value)


def test_a_missing_file_and_byte_order_marks(tmp_path: Path) -> None:
    folder = write_judgements(tmp_path / "cxc")
    with pytest.raises(InputError, match=r"sits_test\.csv is missing"):
        read_judgements(folder, "test")
    judged = read_judgements(folder, "val")
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_judgements(folder, "val") == judged


def test_sentences_by_number(tmp_path: Path) -> None:
    texts = {number: f"caption {number}" for number in (1, 2, 3, 4, 5, 9)}
    assert read_sentences(write_sentences(tmp_path / "dataset_coco.json", texts)) == texts
    coco = {
        "images": [{"id": 20, "file_name": "a.jpg"}],
        "annotations": [{"id": 1, "image_id": 20, "caption": "caption 1"}],
    }
    (tmp_path / "captions_val2014.json").write_text(json.dumps(coco))
    assert read_sentences(tmp_path / "captions_val2014.json") == {1: "caption 1"}
    odd: list[Any] = [[], [{"id": 20}], [{"sentences": [{}]}]]
    for content in ({"images": images} for images in odd):
        (tmp_path / "odd.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"odd\.json"):
            read_sentences(tmp_path / "odd.json")


def test_a_tiny_split(tmp_path: Path) -> None:
    right = relevant_items(read_judgements(write_judgements(tmp_path / "cxc"), "val"))
    assert right.captions == [1, 5, 3, 2, 9, 4] and right.images == [20, 7, 11]
    assert right.ways == {
        # Caption 5 is COCO's own of image 20 in spite of its 2.0; 2.99 is not enough.
        "text → image": [[0, 1], [0], [1], [1, 2], [2], [2]],
        "image → text": [[0, 1], [0, 2, 3], [3, 4, 5]],
        # Co-captions in spite of 0.5; a judgement holds both ways.
        "text → text": [[1, 2], [0], [0, 3], [2, 4], [3, 5], [4]],
        # Judged twice: the higher score decides. Image 11 has nothing.
        "image → image": [[1], [0], []],
    }


def test_the_published_validation_split(shared: Path) -> None:
    judged = read_judgements(shared / "cxc", "val")
    assert judged.text_image[0] == JudgedPair(648388, 431431, 1.8, "c2i_intrasim")
    right = relevant_items(judged)
    assert len(right.captions) == 25_000 and len(right.images) == 5000
    rows = {
        name: list(csv.reader((shared / "cxc" / f"{name}_val.csv").open()))[1:]
        for name in ("sits", "sts", "sis")
    }
    for pairs, name in zip(judged, rows, strict=True):
        assert Counter(pair.method for pair in pairs) == Counter(row[3] for row in rows[name])
    own = {a: b for a, b, _, method in rows["sits"] if method == "c2i_original"}
    fits = {(a, b) for a, b, score, _ in rows["sits"] if float(score) >= 3} | set(own.items())
    for way in ("text → image", "image → text"):
        assert sum(map(len, right.ways[way])) == len(fits) == 25_000 + 12_292
        assert all(right.ways[way])
    alike = {frozenset((a, b)) for a, b, score, _ in rows["sts"] if float(score) >= 3}
    new = sum(own[min(pair)] != own[max(pair)] for pair in alike)
    assert new == 1092
    assert sum(map(len, right.ways["text → text"])) == 25_000 * 4 + 2 * new
    similar = {frozenset((a, b)) for a, b, score, _ in rows["sis"] if float(score) >= 2.5}
    assert sum(map(len, right.ways["image → image"])) == 2 * len(similar)
    assert sum(map(bool, right.ways["image → image"])) == len(set().union(*similar)) == 4927


def test_files_of_different_splits() -> None:
    original = JudgedPair(1, 20, 5.0, "c2i_original")
    with pytest.raises(InputError, match=r"the pair 1, 3 \(c2c_isim\) .* not of one split"):
        relevant_items(Judgements([original], [JudgedPair(1, 3, 0.0, "c2c_isim")], []))
    with pytest.raises(InputError, match="caption 1 is of two images, 20 for one"):
        relevant_items(Judgements([original, JudgedPair(1, 21, 5.0, "c2i_original")], [], []))


TEXTS = {
    1: "a brown dog",
    5: "the dog",
    3: "two cat",
    2: "red ball",
    9: "the beach",
    4: "a cat run",
}
ORDER = [1, 5, 3, 2, 9, 4]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the three images and one more, the judgements and the captions."""
    root = tmp_path_factory.mktemp("coco")
    random = np.random.default_rng(0)
    images = []
    for number in sorted([*IMAGES, 99]):
        features = random.standard_normal((4, SOURCE.dimension)).astype(np.float16)
        boxes = np.sort(random.random((4, 4)).astype(np.float32))
        name = f"val2014/COCO_val2014_{number:012}.jpg"
        images.append(ImageFeatures(name, features, boxes, ("",) * 4, ("",) * 4, 40, 30))
    store_of(root / "features", images)
    write_judgements(root / "cxc")
    write_sentences(root / "dataset_coco.json", TEXTS)
    return root


def command(
    files: Path, targets: list[Path], store: Path | None = None, captions: Path | None = None
) -> list[object]:
    texts = captions or files / "dataset_coco.json"
    data = ["--judgements", files / "cxc", "--captions", texts]
    options = ["--split", "val", "--device", "cpu", "--features", store or files / "features"]
    return ["eval", "model", *targets, "--protocol", "cxc", *data, *options]


def slow_scores(folder: Path, files: Path) -> dict[str, list[list[float]]]:
    """Every pair on its own; of two images the best pair of views."""
    model = VseModel.from_pretrained(folder)
    store = FeatureStore.open(files / "features")
    texts = [model.embed_texts([TEXTS[number]])[0] for number in ORDER]
    with torch.no_grad():
        images = [
            model.encode_images(
                collate_regions([store[store.index(f"val2014/COCO_val2014_{number:012}.jpg")]])
            )[0]
            for number in IMAGES
        ]

    def best(one: Any, other: Any) -> float:
        pairs = [(a * b).sum() for a in one.reshape(-1, 16) for b in other.reshape(-1, 16)]
        return float(max(pairs))

    sides = {"text": texts, "image": images}
    return {
        f"{a} → {b}": [[best(one, other) for other in sides[b]] for one in sides[a]]
        for a in sides
        for b in sides
    }


def slow_recall(scores: list[list[float]], right: list[list[int]], same: bool) -> list[float]:
    ranks = []
    for query, items in enumerate(right):
        if items:
            best = max(scores[query][item] for item in items)
            wrong = [i for i in range(len(scores[query])) if i not in items]
            ahead = [i for i in wrong if not (same and i == query) and scores[query][i] >= best]
            ranks.append(len(ahead) + 1)
    return [len(ranks), *(100 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10))]


@pytest.mark.parametrize("views", [[1], [3], [1, 3]], ids=["one view", "three views", "ensemble"])
def test_four_ways_against_loops(views: list[int], files: Path, tmp_path: Path) -> None:
    folders = [save_dense(tmp_path / str(count), count, views=count) for count in views]
    found = record(*command(files, folders))
    assert (found["images"], found["captions"], len(found["members"])) == (3, 6, len(views))
    right = relevant_items(read_judgements(files / "cxc", "val"))
    members = [slow_scores(folder, files) for folder in folders]
    for name, answers in right.ways.items():
        parts = [np.array(member[name]) for member in members]
        mean = (sum(parts[1:], parts[0]) / len(parts)).tolist()
        a, _, b = name.partition(" → ")
        way = found[f"{a}_to_{b}"]
        slow = slow_recall(mean, answers, same=a == b)
        assert [way["queries"], way["at_1"], way["at_5"], way["at_10"]] == pytest.approx(slow)
    assert found["image_to_image"]["queries"] == 2


def test_sparse_models_have_two_ways(files: Path, models: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    text = shown(*command(files, models[:1]), "--out", out)
    assert "text → image, 6 queries" in text and "image → text, 3 queries" in text
    assert "text → text" not in text
    written = json.loads(out.read_text())
    assert "image_to_image" not in written and written["text_to_image"]["queries"] == 6
    assert written["arguments"]["judgements"] == "cxc"
    mixed = record(*command(files, [models[0], save_dense(tmp_path / "dense")]))
    assert "text_to_text" not in mixed and len(mixed["members"]) == 2


def test_missing_images_are_left_out_and_counted(files: Path, tmp_path: Path) -> None:
    model, store = save_dense(tmp_path / "dense"), FeatureStore.open(files / "features")
    some = store_of(tmp_path / "some", (one for one in store if "020.jpg" not in one.image_id))
    asked = command(files, [model], some.folder)
    found = record(*asked, "--allow-missing")
    assert (found["images"], found["captions"], found["missing"]) == (2, 4, 1)
    whole = slow_scores(model, files)["text → image"]  # of 1, 5, 3, 2, 9, 4 and 20, 7, 11
    kept = [[row[column] for column in (1, 2)] for row in whole[2:]]
    right = relevant_items(without_images(read_judgements(files / "cxc", "val"), {20}))
    slow = slow_recall(kept, right.ways["text → image"], same=False)
    way = found["text_to_image"]
    assert [way["queries"], way["at_1"], way["at_5"], way["at_10"]] == pytest.approx(slow)
    assert "image_to_image" not in found  # no image has another
    text = shown(*asked, "--allow-missing")
    assert "Not comparable with figures of CxC: 1 of 3 images are missing" in text


def test_what_is_missing_is_named(files: Path, tmp_path: Path) -> None:
    model, store = save_dense(tmp_path / "dense"), FeatureStore.open(files / "features")
    short = tmp_path / "captions.json"
    short.write_text(json.dumps({"images": [{"sentences": [{"sentid": 1, "raw": "a dog"}]}]}))
    lacks = "--captions lacks 5 captions, number 5 for one"
    refused(lacks, *command(files, [model], captions=short))
    some = store_of(tmp_path / "some", [store[0]])
    lacks = "lacks 2 of the 3 judged images, by COCO's numbers: '20', '11'; it has "
    refused(lacks, *command(files, [model], some.folder))
