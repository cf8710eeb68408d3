"""Captions in the files of each format, damaged ones in one table, and their photos' ids."""

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import as_stored, stored_ids
from sparta.errors import InputError
from sparta.readers.registry import import_features, open_reader

GOOD = {"image": "beach/a.jpg", "split": "train", "captions": ["A dog.", "Sea and sky."]}


# Around a caption, and in place of one: blanks, also those that no keyboard has, and what shows
# nothing.
AROUND = ["", "\r", " ", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u00ad", "\u200e"]
NOTHING = ["", " ", "\u00a0\u200b", "\u2800", "\u3164", "\ufeff\u200d", "\ufe0f", "\u0085"]


def in_every_format(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Files, name → content, of a photo with these captions, by format."""
    line = json.dumps({"image": "a.jpg", "captions": texts})
    karpathy = {"filename": "a.jpg", "split": "train", "sentences": [{"raw": t} for t in texts]}
    annotations = [{"image_id": 1, "caption": text} for text in texts]
    coco = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": annotations}
    numbered = [*enumerate(texts)]
    rows = {
        "tokens": [f"a.jpg#{n}\t{text}" for n, text in numbered],
        "table": ["image,caption", *(f"a.jpg,{text}" for text in texts)],
        "quoted table": ["image_name,comment_number,comment"]
        + ['a.jpg,{},"{}"'.format(n, text.replace('"', '""')) for n, text in numbered],
        "results": ["image_name| comment_number| comment"]
        + [f"a.jpg| {n}| {text}" for n, text in numbered],
    }
    return {
        "objects": {"captions.jsonl": line},
        "objects named as text": {"captions.txt": line},
        "Karpathy": {"dataset.json": json.dumps({"images": [karpathy]})},
        "COCO": {"captions_train2014.json": json.dumps(coco)},
        **{name: {"captions.txt": "\r\n".join(lines)} for name, lines in rows.items()},
        "precomp": {"train_caps.txt": "\r\n".join(texts), "train_ids.txt": "a.jpg"},
    }


@pytest.mark.parametrize("around", AROUND)
def test_blanks_and_byte_order_marks_are_left_out(tmp_path: Path, around: str) -> None:
    """Other ends of lines than line feeds, commas and quotation marks are part of a caption."""
    texts: tuple[str, ...] = (
        "A dog # 2 \u2028 at the sea , one .",
        "Café\x0bau lait",
        'A sign reads " Stop "',
    )
    texts += ('"Stop" , it reads .',)
    for name, files in in_every_format([f"{around}{text}{around}" for text in texts]).items():
        (tmp_path / name).mkdir()
        for file, content in files.items():
            marked = b"\xef\xbb\xbf" + content.encode() + b"\r\n\r\n\n"
            (tmp_path / name / file).write_bytes(marked)
        path = tmp_path / name if len(files) > 1 else tmp_path / name / file
        assert read_captions(path) == [CaptionedPhoto("a.jpg", "train", texts)], name


def write_objects(folder: Path, *lines: Any) -> Path:
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_photos_of_a_split_are_in_order_of_the_file(tmp_path: Path) -> None:
    val = {"image": "ü.jpg", "split": "val", "captions": ["Ein Hund am Meer"], "more": 1}
    path = write_objects(tmp_path, GOOD, val, {"image": "0.jpg", "captions": ["x"]})
    first = CaptionedPhoto("beach/a.jpg", "train", ("A dog.", "Sea and sky."))
    second = CaptionedPhoto("ü.jpg", "val", ("Ein Hund am Meer",))
    third = CaptionedPhoto("0.jpg", "train", ("x",))  # "train" when nothing is said
    assert read_captions(path) == [first, second, third]
    assert read_captions(path, "train") == [first, third]
    assert read_captions(str(path), "val") == [second]
    with pytest.raises(InputError, match=r"no photo has split 'dev'; the file has \['train', 'val"):
        read_captions(path, "dev")


@pytest.mark.parametrize("nothing", NOTHING)
def test_blank_captions(tmp_path: Path, nothing: str, caplog: pytest.LogCaptureFixture) -> None:
    other = {"image": "b.jpg", "captions": [nothing]}
    path = write_objects(tmp_path, {**GOOD, "captions": ["❤\ufe0f", nothing, "犬"]}, other)
    assert read_captions(path) == [CaptionedPhoto("beach/a.jpg", "train", ("❤\ufe0f", "犬"))]
    assert caplog.messages == [f"{path}: 1 photos without captions and 2 blank captions left out"]
    with pytest.raises(InputError, match=re.escape(f"{path} has no captions")):
        read_captions(write_objects(tmp_path, other))


@pytest.mark.parametrize("field", ["image", "split", "captions"])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, field: str) -> None:
    line = GOOD | {field: ["A \ud83d dog."] if field == "captions" else "a \ud83d"}
    with pytest.raises(InputError, match=r"line 1: (half of a surrogate pair|image: .* unicode)"):
        read_captions(write_objects(tmp_path, line))


def test_other_formats_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    path, other = tmp_path / "captions.tsv", tmp_path / "a.json"
    path.write_text("title\tfilepath\nA dog\ta.jpg\n")
    other.write_text("{}")
    named = r"known are captions\.jsonl .*COCO.*Karpathy.*Flickr30k.*Kaggle.*_caps\.txt.*HGR"
    for wrong, said in ((path, "'title.*filepath' is of no known format"), (tmp_path, ""),
                        (other, r"a\.json: expected images with sentences")):  # fmt: skip
        with pytest.raises(InputError, match=said + ".*" + named):
            read_captions(wrong)
    with pytest.raises(FileNotFoundError):
        read_captions(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match=r"absent\.json: cannot be read: No such file"):
        read_captions(tmp_path / "absent.json")


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
STRANGE = {**FIRST, "image_id": 3}
COPY = {"id": 9, "file_name": "COCO_9.jpg"}


@pytest.mark.parametrize(
    ("parts", "found", "messages"),
    [
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
    ids=["unlisted image", "twice", "without numbers"],
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


def test_the_published_line_without_its_second_pipe_is_read(tmp_path: Path) -> None:
    lines = ["2199200615.jpg| 3| A dog .", "2199200615.jpg| 4   A dog runs across the grass ."]
    path = write_lines(tmp_path, "image_name| comment_number| comment", *lines, name="results.csv")
    texts = ("A dog .", "A dog runs across the grass .")
    assert read_captions(path) == [CaptionedPhoto("2199200615.jpg", "train", texts)]


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


@pytest.mark.parametrize(
    ("ids", "counts"),
    [(["1", "2", "3", "4"], [1, 1, 1, 1]), (["1", "2"], [2, 2]), (["1"] * 3 + ["2"], [3, 1])],
)
def test_ids_divide_the_captions(tmp_path: Path, ids: list[str], counts: list[int]) -> None:
    folder = write_precomp(tmp_path, "train", lines(4), ids)
    found = read_captions(folder)
    assert [len(photo.captions) for photo in found] == counts
    assert [text for photo in found for text in photo.captions] == lines(4)


def test_a_photo_in_two_splits_is_named_unless_one_is_asked_for(tmp_path: Path) -> None:
    write_precomp(tmp_path, "test", lines(5), ["1"])
    folder = write_precomp(tmp_path, "testall", lines(10), ["1", "2"])
    assert len(read_captions(folder, "testall")) == 2
    with pytest.raises(InputError, match=r"no split 'val'; the folder has \['test', 'testall'\]"):
        read_captions(folder, "val")
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
    ("a.jsonl", ["[" * 100_000], ", line 1: not a JSON object: maximum recursion"),
    ("a.json", "[" * 100_000, ": not JSON, or cut: maximum recursion depth"),
    ("a.json", '{"images": [],\n}', ": not JSON, or cut: "),
    ("a.json", "[]", ": expected images with sentences"),
    ("a.json", '{"annotation": []}', ": expected images with sentences"),
    ("a.json", {"images": []}, ": images: List should have at least 1 item"),
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
    ("dev_caps.txt", "1\n2\n3", ": 10 rows for the 3 images of dev_ids.txt, which has 3 lines"),
    ("dev_caps.txt", "", ": 10 rows for the 0 images of dev_ids.txt"),
    ("dev_ids.txt", "1\n2\n" * 5, ", line 3: image '1' was already in line 1"),
    ("dev_ids.txt", "caf\xe9\n", ", line 1: not UTF-8"),
    ("dev_ids.txt", None, " is missing: write the image ids, one a"),
    ("dev_ids.txt", "1\n \n2", ", line 2: the id is blank"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED)
def test_damage_is_named_with_its_place(
    tmp_path: Path, name: str, content: Any, message: str
) -> None:
    path = tmp_path / name
    if name.startswith("dev"):
        (tmp_path / "dev_caps.txt").write_text(TEN)
        if content is not None:
            (tmp_path / "dev_ids.txt").write_text(content, "latin-1")
    elif name.endswith(".jsonl"):
        texts = [one if isinstance(one, str) else json.dumps(one) for one in content]
        path.write_text("\n".join(texts), encoding="latin-1")
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match="^" + re.escape(f"{path}{message}")) as error:
        read_captions(tmp_path if name.startswith("dev") else path)
    assert "\n" not in str(error.value)


# ---- stored under other ids ----------------------------------------------------------------------

COCO = ["{number}", "{number}.jpg", "{number:012}", "{number:012}.jpg", "{number:012}.png"]
COCO += ["val2017/{number:012}.jpg", "COCO_val2014_{number:012}", "COCO_val2014_{number:012}.jpg"]
COCO += ["val2014/COCO_val2014_{number:012}.jpg", "images\\{number:012}.JPG"]
NUMBERS = (391895, 42, 581929)


@pytest.mark.parametrize(("captions", "store"), [*product(COCO, COCO)])
def test_every_form_of_cocos_ids_is_found_in_every_other(
    captions: str, store: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    wanted = [captions.format(number=number) for number in NUMBERS]
    stored = [store.format(number=number) for number in reversed((7, *NUMBERS))]
    found = stored_ids([*wanted, captions.format(number=1)], stored, request.node.name)
    assert found == dict(zip(wanted, stored[::-1][1:], strict=True))
    told = [f"{request.node.name}: captions and images are matched by "] * (captions != store)
    assert [message[: len(told[0])] for message in caplog.messages] == told


@pytest.mark.parametrize(
    ("captions", "stored", "form"),
    [
        ("beach/a.jpg", "beach/a.png", "path without suffix"),
        ("./beach/a.jpg", "beach/a.jpg", "path without suffix"),
        ("beach/a.jpg", "a.jpg", "file name"),
        ("1000268201_693b08cb0e", "flickr8k/1000268201_693b08cb0e.jpg", "file name without suffix"),
        ("COCO_test2015_000000000001.jpg", "1", "number"),
    ],
)
def test_the_surest_form_that_finds_a_photo_is_told_once(
    captions: str, stored: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    photo = CaptionedPhoto(captions, "train", ("a dog",))
    where = f"store of {captions} and {stored}"
    for _ in range(2):
        (found,) = as_stored([photo], {stored}, where)
        assert (found.image_id, found.captions) == (stored, ("a dog",))
    assert caplog.messages == [f"{where}: captions and images are matched by {form}"]


def test_ids_as_they_are_come_first(caplog: pytest.LogCaptureFixture) -> None:
    """A photo that is not stored is not taken for another one of the same file name."""
    stored = ["391895.jpg", "000000391895.jpg", "party/1.jpg"]
    assert stored_ids(["391895.jpg", "beach/1.jpg"], stored, "x") == {"391895.jpg": "391895.jpg"}
    assert caplog.messages == []
    assert stored_ids([], stored, "x") == {}


@pytest.mark.parametrize(
    ("captions", "stored"),
    [
        (["COCO_val2014_000000391895.jpg"], ["391895.jpg", "000000391895.jpg"]),
        (["a"], ["a.jpg", "a.png"]),
        (["beach/1.jpg", "party/1.jpg"], ["1.jpg"]),
    ],
)
def test_an_ambiguous_form_is_refused(captions: list[str], stored: list[str]) -> None:
    with pytest.raises(InputError, match="store: it is unclear which photo is which: by ") as error:
        stored_ids(captions, stored, "store")
    assert all(repr(image_id) in str(error.value) for image_id in [*captions, *stored])


def test_other_photos_are_not_taken_for_one_another() -> None:
    """Digits at the end of a name are no number of COCO's."""
    assert stored_ids(["beach1.jpg", "a"], ["party1.jpg", "ab"], "store") == {}
    assert stored_ids(["a"], [], "store") == {}
