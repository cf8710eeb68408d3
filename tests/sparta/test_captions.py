"""Captions in the files of each format, damaged ones in one table."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.captions.read import CaptionedPhoto, read_captions, read_table
from sparta.errors import InputError
from sparta.readers.registry import import_features, open_reader

GOOD = {"image": "beach/a.jpg", "split": "train", "captions": ["A dog.", "Sea and sky."]}


def image(name: str, split: str, captions: int = 5, **more: Any) -> dict[str, Any]:
    sentences = [
        {"raw": f"{name} {number}", "tokens": [name, str(number)], "imgid": 0, "sentid": number}
        for number in range(captions)
    ]
    return {"filename": name, "imgid": 0, "split": split, "sentences": sentences} | more


def write_karpathy(folder: Path, *images: Any, name: str = "dataset_coco.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"images": images, "dataset": "coco"}))
    return path


def of_karpathy(image_id: str, split: str, name: str, captions: int = 5) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, split, tuple(f"{name} {number}" for number in range(captions)))


def test_karpathys_splits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_karpathy(
        tmp_path,
        image("a.jpg", "train", 7, filepath="train2014", cocoid=9),
        image("b.jpg", "restval", filepath="val2014", cocoid=8),
        image("c.jpg", "val", filepath="val2014", cocoid=7),
        image("d.jpg", "test", 1, filepath="val2014", cocoid=6),
    )
    train = [
        of_karpathy("train2014/a.jpg", "train", "a.jpg", 7),
        of_karpathy("val2014/b.jpg", "train", "b.jpg"),
    ]
    assert read_captions(path, "train") == train
    assert read_captions(path, "val") == [of_karpathy("val2014/c.jpg", "val", "c.jpg")]
    assert [photo.split for photo in read_captions(path)] == ["train", "train", "val", "test"]
    apart = read_captions(path, ["train", "restval"])
    assert [photo.split for photo in apart] == ["train", "restval"]
    assert read_captions(path, "restval") == apart[1:]
    assert caplog.messages == []


A = image("a.jpg", "train")


def test_other_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match=r"x\.json: cannot be read: No such file"):
        read_captions(path)
    for text in ("[]", '{"annotation": []}', '"images"'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"x\.json: expected images with sentences"):
            read_captions(path)
    path.write_text('{"images": [],\n}')
    with pytest.raises(InputError, match=r"x\.json: not JSON, or cut: .* line 2"):
        read_captions(path)
    path.write_text('{"images": []}')
    with pytest.raises(InputError, match=r"x\.json: images: List should have at least 1 item"):
        read_captions(path)
    with pytest.raises(InputError, match=r"no photo has split 'dev'; the file has \['train'\]"):
        read_captions(write_karpathy(tmp_path, A), "dev")


def test_photos_without_captions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blank = {**image("b.jpg", "train"), "sentences": [{"raw": " \n"}, {"raw": "\u200b"}]}
    path = write_karpathy(
        tmp_path, image("a.jpg", "train", captions=0) | {"filename": "0.jpg"}, blank, A
    )
    assert read_captions(path) == [of_karpathy("a.jpg", "train", "a.jpg")]
    assert caplog.messages == [f"{path}: 2 photos without captions and 2 blank captions left out"]


IMAGES = [
    {"id": 57870, "file_name": "COCO_57870.jpg", "height": 480, "width": 640},
    {"id": 9, "file_name": "COCO_9.jpg", "height": 480, "width": 640},
]
# The captions of the two take turns, and the first has one more.
ANNOTATIONS = [
    {"id": 100 + number, "image_id": (57870, 9)[number % 2], "caption": f"caption {number}"}
    for number in range(5)
]


def coco_content(
    images: list[Any] = IMAGES, annotations: list[Any] = ANNOTATIONS
) -> dict[str, Any]:
    return {"info": {}, "licenses": [], "images": images, "annotations": annotations}


def write_coco(folder: Path, name: str, **parts: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(coco_content(**parts)))
    return path


@pytest.mark.parametrize(
    ("name", "split"),
    [("captions_val2014.json", "val"), ("captions_train2017.json", "train"), ("x.json", "train")],
)
def test_the_name_of_the_file_tells_the_split(tmp_path: Path, name: str, split: str) -> None:
    path = write_coco(tmp_path, name)
    even, odd = ("caption 0", "caption 2", "caption 4"), ("caption 1", "caption 3")
    photos = [("COCO_57870.jpg", split, even), ("COCO_9.jpg", split, odd)]
    assert read_captions(path, split) == [CaptionedPhoto(*photo) for photo in photos]
    with pytest.raises(InputError, match=f"no photo has split 'test'; the file has .'{split}'"):
        read_captions(path, "test")


FIRST = ANNOTATIONS[0]
BLANK = {**FIRST, "id": 1, "caption": "\u2800 \u200b"}
STRANGE = {**FIRST, "image_id": 3}
COPY = {"id": 9, "file_name": "COCO_9.jpg"}


@pytest.mark.parametrize(
    ("parts", "found", "messages"),
    [
        ({"annotations": [FIRST]}, {"COCO_57870.jpg": 1}, ["1 photos without captions left out"]),
        (
            {"annotations": [*ANNOTATIONS, BLANK]},
            {"COCO_57870.jpg": 3, "COCO_9.jpg": 2},
            ["1 blank captions left out"],
        ),
        (
            {"annotations": [*ANNOTATIONS, STRANGE]},
            {"COCO_57870.jpg": 3, "COCO_9.jpg": 2},
            ["1 captions of images that it does not list left out"],
        ),
        (  # the same annotation and image again, and the same caption by somebody else
            {"annotations": [*ANNOTATIONS, FIRST, {**FIRST, "id": 7}], "images": [*IMAGES, COPY]},
            {"COCO_57870.jpg": 4, "COCO_9.jpg": 2},
            [],
        ),
        (  # annotations without numbers, images with names for them
            {
                "images": [{"id": "a", "file_name": "a.jpg"}],
                "annotations": [{"image_id": "a", "caption": "A dog"}] * 2,
            },
            {"a.jpg": 2},
            [],
        ),
    ],
    ids=["photo without", "blank", "unlisted image", "twice", "without numbers"],
)
def test_coco_files_as_people_have_them(
    tmp_path: Path,
    parts: dict[str, Any],
    found: dict[str, int],
    messages: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_coco(tmp_path, "captions_val2014.json", **parts)
    assert {p.image_id: len(p.captions) for p in read_captions(path)} == found
    assert caplog.messages == [f"{path}: {message}" for message in messages]


def write_lines(folder: Path, *lines: str, name: str = "captions.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_all_captions_of_a_photo_are_read(tmp_path: Path) -> None:
    lines = [f"{image}.jpg#{number}\tA dog # {number} ." for image in "ba" for number in range(6)]
    photos = [
        CaptionedPhoto(f"{image}.jpg", "train", tuple(f"A dog # {n} ." for n in range(6)))
        for image in "ba"
    ]
    assert read_captions(write_lines(tmp_path, *lines, name="results_20130124.token")) == photos


TABLE = {
    "1.jpg": ("Two dogs , one black .", 'A sign reads " Stop "', '"Stop" , it reads .'),
    "2.jpg": ("A café .", 'A " dog', "A dog"),
}
OF_TABLE = [CaptionedPhoto(image, "train", texts) for image, texts in TABLE.items()]


def rows() -> list[tuple[str, str, str]]:
    return [(image, str(n), text) for image, texts in TABLE.items() for n, text in enumerate(texts)]


def test_tables_that_a_program_for_csv_wrote(tmp_path: Path) -> None:
    for header in (["image", "caption"], ["image_name", "comment_number", "comment"]):
        path = tmp_path / "captions.txt"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(row if len(header) == 3 else row[::2] for row in rows())
        assert read_captions(path) == OF_TABLE


def test_tables_without_quotation(tmp_path: Path) -> None:
    """Commas after the last separator belong to the caption, and so do quotation marks."""
    lines = [f"{image}, {number}, {text}" for image, number, text in rows()]
    assert (
        read_captions(write_lines(tmp_path, "image_name, comment_number, comment", *lines))
        == OF_TABLE
    )
    lines = [f"{image},{text}" for image, _, text in rows()]
    assert read_captions(write_lines(tmp_path, "image,caption", *lines)) == OF_TABLE
    lines = [f"{image}| {number}| {text}" for image, number, text in rows()]
    path = write_lines(tmp_path, "image_name| comment_number| comment", *lines, name="results.csv")
    assert read_captions(path) == OF_TABLE


def test_the_published_line_without_its_second_pipe_is_read(tmp_path: Path) -> None:
    lines = ["2199200615.jpg| 3| A dog .", "2199200615.jpg| 4   A dog runs across the grass ."]
    path = write_lines(tmp_path, "image_name| comment_number| comment", *lines, name="results.csv")
    texts = ("A dog .", "A dog runs across the grass .")
    assert read_captions(path) == [CaptionedPhoto("2199200615.jpg", "train", texts)]


def test_a_table_has_names_of_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"captions\.txt, line 1: expected the names of columns"):
        read_table(write_lines(tmp_path, "photo;text", "1.jpg;A dog"))


HGR_CAPTIONS = {"v/1": ["a man sings", "someone sings"], "v2": ["a dog runs"], "v3": ["x"]}


def write_hgr(root: Path, captions: Any = HGR_CAPTIONS, **splits: list[str]) -> Path:
    (root / "public_split").mkdir(exist_ok=True, parents=True)
    (root / "annotation" / "RET").mkdir(exist_ok=True, parents=True)
    (root / "annotation" / "RET" / "ref_captions.json").write_text(json.dumps(captions))
    for split, names in splits.items():
        np.save(root / "public_split" / f"{split}_names.npy", np.array(names))
    return root


def test_videos_keep_all_their_captions(tmp_path: Path) -> None:
    root = write_hgr(tmp_path, trn=["v2", "v/1"], tst=["v3"])
    train = [
        CaptionedPhoto("v2", "trn", ("a dog runs",)),
        CaptionedPhoto("v/1", "trn", ("a man sings", "someone sings")),
    ]
    assert read_captions(root, "trn") == train
    assert read_captions(root) == [*train, CaptionedPhoto("v3", "tst", ("x",))]
    with pytest.raises(InputError, match=r"no split 'val'; public_split has names of .'trn'"):
        read_captions(root, "val")


@pytest.mark.parametrize(
    ("captions", "names", "message"),
    [
        ({"v2": [3]}, ["v2"], r"json: v2\.0: Input should be a valid string"),
        (HGR_CAPTIONS, ["v2", "v2"], r"trn_names\.npy, name 2: 'v2' was already name 1"),
        (HGR_CAPTIONS, ["v2", " "], r"trn_names\.npy, name 2: it is blank"),
        (HGR_CAPTIONS, [], r"trn_names\.npy: expected str with 1 axes, found float64 \[0\]"),
    ],
)
def test_hgr_odd_content(tmp_path: Path, captions: Any, names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_captions(write_hgr(tmp_path, captions, trn=names))


def test_names_as_python_objects_are_refused_with_the_cure(tmp_path: Path) -> None:
    root = write_hgr(tmp_path)
    path = root / "public_split" / "trn_names.npy"
    np.save(path, np.array(["v2", "v/1"], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"Python objects.*If you trust.*astype\('str'\)"):
        read_captions(root)
    np.save(path, np.load(path, allow_pickle=True).astype("str"))  # what the message says
    assert [video.image_id for video in read_captions(root)] == ["v2", "v/1"]


def write_precomp(folder: Path, split: str, captions: Sequence[str], ids: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in captions))
    (folder / f"{split}_ids.txt").write_text("".join(f"{line}\n" for line in ids))
    return folder


def lines(count: int) -> list[str]:
    return [f"caption {number}" for number in range(count)]


def of_precomp(image_id: str, split: str, start: int, count: int = 5) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, split, tuple(lines(start + count)[start:]))


def test_dev_may_be_cut_to_its_first_photos(tmp_path: Path) -> None:
    folder = write_precomp(tmp_path, "dev", lines(15), ["3", "2", "1"])
    assert read_captions(folder, "dev:2") == [of_precomp("3", "dev", 0), of_precomp("2", "dev", 5)]
    assert len(read_captions(folder, "dev:1000")) == 3
    for wrong in ("dev:", "dev:0", "dev:-1", "dev:all"):
        with pytest.raises(InputError, match=f"split '{wrong}': expected a number of images"):
            read_captions(folder, wrong)


def test_all_splits_are_read_where_none_is_named(tmp_path: Path) -> None:
    write_precomp(tmp_path, "train", lines(5), ["1"])
    folder = write_precomp(tmp_path, "dev", lines(5), ["2"])
    assert read_captions(folder) == [of_precomp("2", "dev", 0), of_precomp("1", "train", 0)]
    with pytest.raises(InputError, match=r"no split 'test'; the folder has \['dev', 'train'\]"):
        read_captions(folder, "test")


@pytest.mark.parametrize(
    ("ids", "counts"),
    [(["1", "2", "3", "4"], [1, 1, 1, 1]), (["1", "2"], [2, 2]), (["1"] * 3 + ["2"], [3, 1])],
)
def test_ids_divide_the_captions(tmp_path: Path, ids: list[str], counts: list[int]) -> None:
    folder = write_precomp(tmp_path, "train", lines(4), ids)
    found = read_captions(folder)
    assert [len(photo.captions) for photo in found] == counts
    assert [text for photo in found for text in photo.captions] == lines(4)


def test_other_line_ends_than_line_feeds_do_not_end_captions(tmp_path: Path) -> None:
    captions = ["a dog \u2028 at the sea", "café\x0bau lait", "x", "y", "z"]
    folder = write_precomp(tmp_path, "train", captions, ["1"])
    assert read_captions(folder)[0].captions == tuple(captions)


def test_odd_captions_are_named(tmp_path: Path) -> None:
    folder = write_precomp(tmp_path, "dev", lines(5), ["1"])
    (folder / "dev_caps.txt").write_bytes(b"a\n" * 5 + b"caf\xe9\n" * 5)
    with pytest.raises(InputError, match=r"dev_caps\.txt, line 6: not UTF-8"):
        read_captions(folder, "dev")
    (folder / "dev_caps.txt").write_bytes(b"")
    with pytest.raises(InputError, match=r"dev_caps\.txt: 0 rows for the 1 images"):
        read_captions(folder, "dev")
    (folder / "dev_ids.txt").unlink()
    with pytest.raises(InputError, match=r"dev_ids\.txt is missing: write the image ids, one a"):
        read_captions(folder, "dev")


def test_a_photo_in_two_splits_is_named_unless_one_is_asked_for(tmp_path: Path) -> None:
    write_precomp(tmp_path, "test", lines(5), ["1"])
    folder = write_precomp(tmp_path, "testall", lines(10), ["1", "2"])
    assert len(read_captions(folder, "testall")) == 2
    with pytest.raises(InputError, match=r"testall_caps\.txt, lines 1 to 5: image '1' appears"):
        read_captions(folder)


def test_captions_and_features_have_the_same_ids(tmp_path: Path) -> None:
    """Whichever convention the ids are in, every caption finds its own photo's features."""
    features = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    folder = write_precomp(tmp_path / "in", "dev", lines(15), ["10"] * 5 + ["9"] * 5 + ["8"] * 5)
    np.save(folder / "dev_ims.npy", features)
    store = import_features(open_reader("precomp", [folder], ["dev"]), tmp_path / "store")
    for found, wanted in zip(read_captions(folder, "dev"), features, strict=True):
        image = store[store.index(found.image_id)]
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))


NUMBERED = "image_name|comment_number|comment\n2.jpg| 0| A dog\n"
TEN = "".join(f"caption {number}\n" for number in range(10))
# Name and content of a file, or of a precomp folder's ids; what the message has behind its path.
DAMAGED: list[tuple[str, Any, str]] = [
    ("a.jsonl", [GOOD, "{not json"], ", line 2: not a JSON object"),
    ("a.jsonl", [GOOD, '\n{"image": "b.jpg", "captions": ["x"]}'], ", line 2: not a JSON object"),
    ("a.jsonl", [GOOD, [1, 2]], ", line 2: the line: "),
    ("a.jsonl", [GOOD | {"image": ""}], ", line 1: image: String should have at least 1 charact"),
    ("a.jsonl", [GOOD | {"captions": "A"}], ", line 1: captions: Input should be a valid list"),
    ("a.jsonl", [GOOD, GOOD], ", line 2: image 'beach/a.jpg' appears twice"),
    ("a.jsonl", [GOOD, "\xff"], ", line 2: not UTF-8"),
    ("a.json", {"images": [A, A]}, ": images.1 (a.jpg): image 'a.jpg' appears twice"),
    ("a.json", {"images": [{**A, "filename": ""}]}, ": images.0.filename: String should have at l"),
    ("a.json", {"images": [{"filename": "b", "split": "val"}]}, ": images.0.sentences: Field req"),
    ("a.json", {"images": ["b.jpg"]}, ": images.0: Input should be a valid dictionary"),
    ("c.json", coco_content(annotations=[{"id": 1}]), ": annotations.0.image_id: Field required"),
    ("c.json", coco_content([*IMAGES, {"id": 9, "file_name": "x"}]), ": images.2: id: 9 is also C"),
    ("c.json", coco_content([COPY, COPY | {"id": 3}]), ": COCO_9.jpg: image 'COCO_9.jpg' appears"),
    ("f.token.txt", "b.jpg#0\tA dog .\na.jpg\tA", ", line 2: expected image#number, a tab and a c"),
    ("f.token.txt", "b.jpg#0\tA dog .\n #0\tA", ", line 2: image: it is blank"),
    ("f.token.txt", "b.jpg#0\tA dog .\nb.jpg#0\tA", ", line 2: caption 0 of b.jpg appears twice"),
    ("k.txt", "image,caption\n1.jpg", ", line 2: expected image,caption, found '1.jpg'"),
    ("k.txt", 'image,caption\n1.jpg,"A dog', ", line 2: caption: its quotation mark is not closed"),
    ("k.txt", "image,caption\n,A dog", ", line 2: image: it is blank"),
    ("k.txt", NUMBERED + "1.jpg| x| A dog", ", line 3: expected image_name|comment_number|comment"),
    ("k.txt", NUMBERED + "2.jpg| 0| A", ", line 3: caption 0 of 2.jpg appears twice"),
    (
        "dev_caps.txt",
        "1\n2\n3",
        ": 10 rows for the 3 images of dev_ids.txt, which has 3 lines",
    ),
    ("dev_caps.txt", "", ": 10 rows for the 0 images of dev_ids.txt"),
    ("dev_ids.txt", "1\n2\n" * 5, ", line 3: image '1' was already in line 1"),
    ("dev_ids.txt", "1\n \n2", ", line 2: the id is blank"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED)
def test_damage_is_named_with_its_place(
    tmp_path: Path, name: str, content: Any, message: str
) -> None:
    path = tmp_path / name
    if name.startswith("dev"):
        (tmp_path / "dev_caps.txt").write_text(TEN)
        (tmp_path / "dev_ids.txt").write_text(content)
    elif name.endswith(".jsonl"):
        texts = [one if isinstance(one, str) else json.dumps(one) for one in content]
        path.write_text("\n".join(texts), encoding="latin-1")
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match="^" + re.escape(f"{path}{message}")):
        read_captions(tmp_path if name.startswith("dev") else path)
