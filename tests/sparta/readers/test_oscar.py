"""Files of Oscar and VinVL: their TSVs, YAML files, predictions and `.pt` dictionaries."""

import json
import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparta.errors import InputError
from sparta.readers.base import FeatureReader, RegionLimit
from sparta.readers.registry import fitting, import_features, open_reader
from tests.sparta.readers.samples import (
    encode,
    objects,
    random_images,
    rows,
    same,
    write_captioning,
    write_cells,
    write_pt,
    write_scene_graph,
    write_sizes,
    write_vinvl,
)

IMAGES = random_images("abc")


def test_lines_in_half_and_single_precision_may_be_mixed(tmp_path: Path) -> None:
    folder = write_vinvl(tmp_path, IMAGES)
    lines = (folder / "features.tsv").read_text().splitlines(keepends=True)
    half = f"b\t{len(IMAGES[1].features)}\t{encode(rows(IMAGES[1]), '<f2')}\n"
    (folder / "features.tsv").write_text(lines[0] + half + lines[2])
    reader = open_reader("vinvl", [folder])
    for row, image in enumerate(IMAGES):
        same(reader[row], image)


def test_order_is_of_the_ids_not_of_the_keys(tmp_path: Path) -> None:
    # "a" < "a-b", but "a.jpg" > "a-b.jpg": a store is searched by id.
    images = [IMAGES[0], *random_images("b")]
    folder = write_vinvl(tmp_path / "in", images)
    for file in folder.glob("*.tsv"):
        file.write_text(file.read_text().replace("\nb\t", "\na-b\t"))
    store = import_features(open_reader("vinvl", [folder], image_suffix=".jpg"), tmp_path / "store")
    assert store.ids == ["a-b.jpg", "a.jpg"]
    assert store.index("a.jpg") == 1


def failures(reader: FeatureReader) -> dict[int, str]:
    """What each row that cannot be read raises."""
    found = {}
    for row in range(len(reader.ids)):
        try:
            reader[row]
        except InputError as error:
            found[row] = str(error)
    return found


@pytest.mark.parametrize(
    ("features", "labels", "row", "message"),
    [
        ("aba", "ab", 1, "features.tsv, line 3: image 'a' was already in IN/features.tsv, line 1"),
        ("ab", "aba", 1, "predictions.tsv, line 3: image 'a' was already in IN/predictions.tsv"),
        ("ab", "a", 1, "features.tsv, line 2: image 'b' is not in IN/predictions.tsv"),
        ("a", "ab", 1, "predictions.tsv, line 2: image 'b' is not in IN/features.tsv"),
        ("a b", "ab", 0, "features.tsv, line 2: image key: it is blank"),
    ],
)
def test_an_image_that_cannot_be_used_leaves_the_others(
    tmp_path: Path, features: str, labels: str, row: int, message: str
) -> None:
    folder = write_vinvl(tmp_path / "in", IMAGES[:2])
    for name, keys in (("features.tsv", features), ("predictions.tsv", labels)):
        good = dict(zip("ab", (folder / name).read_text().splitlines(), strict=True))
        (folder / name).write_text("".join(good.get(key, "") + "\n" for key in keys))
    reader = open_reader("vinvl", [folder])
    found = failures(reader)
    assert list(found) == [row]
    assert f"{folder}/{message}".replace("IN", str(folder)) in found[row]
    store = import_features(reader, tmp_path / "out", skip_bad=True)
    assert store.ids == [image_id for at, image_id in enumerate(reader.ids) if at != row]
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"image_id": reader.ids[row], "reason": found[row]}
    ]


def test_keys_that_are_not_text_are_named(tmp_path: Path) -> None:
    folder = write_vinvl(tmp_path, IMAGES[:2])
    path = folder / "features.tsv"
    path.write_bytes(path.read_bytes().replace(b"\nb\t", b"\n\xff\t", 1))
    reader = open_reader("vinvl", [folder])
    assert list(reader.ids) == ["\\xff", "a", "b"]
    assert failures(reader) == {
        0: f"{folder}/features.tsv, line 2: image key: not UTF-8",
        2: f"{folder}/predictions.tsv, line 2: image 'b' is not in {folder}/features.tsv",
    }


def test_labels_that_are_in_both_folders_hide_no_features(tmp_path: Path) -> None:
    one, other = write_vinvl(tmp_path / "b", IMAGES[1:2]), write_vinvl(tmp_path / "a", IMAGES[:1])
    for folder in (one, other):
        write_cells(folder / "predictions.tsv", [(key, []) for key in "ab"])
    reader = open_reader("vinvl", [one, other])
    assert list(reader.ids) == ["a", "a", "b", "b"]
    assert set(failures(reader)) == {1, 3}


def test_labels_of_another_detector_are_told_by_their_boxes(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    image = max(IMAGES, key=lambda image: len(image.features))
    whole = {"class": "street", "rect": [0, 0, image.width, image.height]}
    write_cells(folder / "train.label.tsv", [(each.image_id, [whole]) for each in IMAGES])
    reader = open_reader("oscar-captioning", [folder])
    found = reader[reader.ids.index(image.image_id)]
    assert len(found.labels) > 1
    assert found.labels[-1] == "street"  # the last region is the whole photo
    assert not any(found.labels[:-1])
    surest = open_reader("oscar-captioning", [folder], limit=RegionLimit(1, "confident"))
    with pytest.raises(InputError, match=r"line \d: confidence: "):
        surest[reader.ids.index(image.image_id)]


def test_labels_and_sizes_may_be_absent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.yaml").write_text("feature: train.feature.tsv\nhw: null\n")
    with caplog.at_level(logging.WARNING):
        reader = open_reader("oscar-captioning", [folder])
    assert "train.yaml names no labels" in caplog.text
    assert not any(reader[0].labels)
    assert (reader[0].width, reader[0].height) == (0, 0)
    with pytest.raises(InputError, match=r"feature\.tsv, line 1: confidence: missing"):
        open_reader("oscar-captioning", [folder], limit=RegionLimit(1, "confident"))[0]


@pytest.mark.parametrize("line", ['b\t{"width": 640, "height": 448}\n', "b\t448 640\n"])
def test_sizes_are_written_in_several_ways(tmp_path: Path, line: str) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.hw.tsv").write_text(line)
    reader = open_reader("oscar-captioning", [folder])
    assert (reader[1].width, reader[1].height) == (640, 448)
    with pytest.raises(InputError, match=r"train\.hw\.tsv: size: missing for image 'a'"):
        reader[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label: train.label.tsv\n", "feature: it is missing"),
        ("feature: [", "not YAML"),
        ("feature: absent.tsv\n", "absent.tsv: cannot be read: No such file"),
    ],
)
def test_a_malformed_yaml_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        open_reader("oscar-captioning", [path])


def test_files_of_a_layout_are_known_by_themselves(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path / "captioning", IMAGES)
    (folder / "other.yaml").write_text("{")
    assert fitting([folder / "train.yaml"]) == ["oscar-captioning"]
    for name in ("other.yaml", "train.feature.tsv", "absent.yaml"):
        assert fitting([folder / name]) == []
    folder = write_scene_graph(tmp_path / "predictions", IMAGES)
    for name in ("predictions.tsv", "test.hw.tsv"):
        assert fitting([folder / name]) == ["scene-graph"]
    write_cells(folder / "predictions.tsv", [("a", {"image_h": 1, "image_w": 1, "objects": []})])
    assert fitting([folder]) == []  # VinVL's


def test_a_width_is_what_most_lines_have(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    narrow = {"num_boxes": 1, "features": encode(np.ones((1, 8), "<f4"))}
    cells = [("0", narrow)]
    for image in IMAGES:
        found = {"num_boxes": len(image.features), "features": encode(rows(image))}
        cells.append((image.image_id, found))
    write_cells(folder / "train.feature.tsv", cells)
    labels = [(image.image_id, objects(image)) for image in IMAGES]
    write_cells(folder / "train.label.tsv", [("0", []), *labels])
    reader = open_reader("oscar-captioning", [folder])
    with pytest.raises(InputError, match=r"line 1: features: expected 1 rows of 11 numbers"):
        reader[0]
    same(reader[1], IMAGES[0])


def test_half_precision_is_told_by_the_published_width(tmp_path: Path) -> None:
    vector = np.linspace(-1, 1, 2048).astype("<f2")
    found = {"class": "dog", "conf": 1.0, "rect": [0, 0, 64, 64]}
    for dtype in ("<f2", "<f4"):
        cell = {"objects": [found | {"feature": encode(vector, dtype)}]}
        write_cells(tmp_path / "predictions.tsv", [("a", cell)])
        write_sizes(tmp_path / "hw.tsv", IMAGES)
        np.testing.assert_array_equal(open_reader("scene-graph", [tmp_path])[0].features[0], vector)


def test_sizes_are_found_or_named(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path / "in", IMAGES)
    (folder / "test.hw.tsv").unlink()
    with pytest.raises(InputError, match=r"expected one \.hw\.tsv .* there is none; name it with"):
        open_reader("scene-graph", [folder])
    one = write_sizes(tmp_path / "one.hw.tsv", IMAGES[:1])
    two = write_sizes(tmp_path / "two.hw.tsv", IMAGES[1:])
    reader = open_reader("scene-graph", [folder, one, two])
    for row, image in enumerate(IMAGES):
        same(reader[row], image)
    with pytest.raises(InputError, match=r"one\.hw\.tsv: size: missing for image 'b'"):
        open_reader("scene-graph", [folder, one])[1]
    with pytest.raises(InputError, match="holds sizes only"):
        open_reader("scene-graph", [one])
    write_sizes(folder / "a.hw.tsv", IMAGES)
    write_sizes(folder / "b.hw.tsv", IMAGES)
    with pytest.raises(InputError, match=r"there are a\.hw\.tsv, b\.hw\.tsv"):
        open_reader("scene-graph", [folder])


@pytest.mark.parametrize(
    ("scores", "limit", "words"),
    [
        # The predictor takes 16 attributes after it has set those below its threshold to 0.
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(), "a1 a0"),
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(attributes=0.1), "a1"),
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(attributes=0), "a1 a0 a2"),
        (None, RegionLimit(attributes=0.5), " ".join(f"a{n}" for n in range(16))),
    ],
)
def test_attributes_that_the_detector_zeroed_are_left_out(
    tmp_path: Path, scores: list[float] | None, limit: RegionLimit, words: str
) -> None:
    folder = write_scene_graph(tmp_path, IMAGES)
    cell = json.loads((folder / "predictions.tsv").read_text().splitlines()[0].split("\t")[1])
    cell["objects"][0] |= {"attributes": [f"a{n}" for n in range(16)], "attr_scores": scores}
    write_cells(folder / "predictions.tsv", [("a", cell)])
    reader = open_reader("scene-graph", [folder], limit=limit)
    assert reader[0].attributes[0] == words
    assert reader.source.extra == limit.extra


# ---- dictionaries that PyTorch wrote -------------------------------------------------------------

NUMBERED = random_images("123")
FEATURES, LABELS = "test_img_frcnn_feats.pt", "test_vg_labels.pt"
GOOD = {int(image.image_id): torch.from_numpy(rows(image)) for image in NUMBERED}


def test_files_are_mapped_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load: Callable[..., Any] = torch.load
    mapped: list[bool] = []

    def spy(path: Path, mmap: bool, **options: Any) -> Any:
        mapped.append(mmap)
        return load(path, mmap=mmap, **options)

    monkeypatch.setattr(torch, "load", spy)
    open_reader("oscar-pt", [write_pt(tmp_path, NUMBERED)])
    assert mapped == [True, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_float_type_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    values = {int(image.image_id): torch.from_numpy(rows(image)).to(dtype) for image in NUMBERED}
    torch.save(values, folder / FEATURES)
    reader = open_reader("oscar-pt", [folder])
    wanted = values[1][:, :5].to(torch.float16).numpy()
    np.testing.assert_array_equal(reader[0].features, wanted)


def test_one_string_of_labels_stands_with_the_largest_region(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    torch.save({int(image.image_id): "dog grass dog" for image in NUMBERED}, folder / LABELS)
    for row, image in enumerate(NUMBERED):
        found = open_reader("oscar-pt", [folder])[row]
        assert found.labels == ("",) * (len(image.labels) - 1) + ("dog grass dog",)
        assert found.attributes == ("",) * len(image.labels)


def test_labels_are_found_or_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    torch.save(dict.fromkeys((1, 2, 3), "oid"), folder / "test_oid_labels.pt")
    torch.save(dict.fromkeys((1, 2, 3), "no"), folder / "train_vg_labels.pt")
    with pytest.raises(InputError, match=r"several .*: test_oid_labels\.pt, test_vg_labels\.pt; n"):
        open_reader("oscar-pt", [folder])
    reader = open_reader("oscar-pt", [folder / FEATURES, folder / "test_oid_labels.pt"])
    assert reader[0].labels[-1] == "oid"
    with pytest.raises(InputError, match=r"train_vg_labels\.pt: there are no features of its spl"):
        open_reader("oscar-pt", [folder / FEATURES, folder / "train_vg_labels.pt"])
    for path in folder.glob("test*_labels.pt"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        reader = open_reader("oscar-pt", [folder])
    assert "no test_*_labels.pt is beside it" in caplog.text
    assert not any(reader[0].labels)
    with pytest.raises(InputError, match=r"image '1': confidence: missing"):
        open_reader("oscar-pt", [folder], limit=RegionLimit(1, "confident"))[0]


class Danger:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("run"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "expected a dictionary by image keys, found an empty one"),
        ([1], "expected a dictionary by image keys, found list"),
        ({1: Danger()}, "is damaged, or holds more than tensors, text and numbers"),
    ],
)
def test_a_file_of_something_else_is_named(
    tmp_path: Path, content: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_pt(tmp_path, NUMBERED)
    torch.save(content, folder / FEATURES)
    with pytest.raises(InputError, match=r"test_img_frcnn_feats\.pt.* " + message):
        open_reader("oscar-pt", [folder])
    assert not Path("run").exists()
    with pytest.raises(InputError, match=r"a\.pt: expected a name that ends with _feats\.pt"):
        open_reader("oscar-pt", [tmp_path / "a.pt"])


def test_a_tensor_of_more_numbers_than_its_file_is_refused(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    wide = torch.ones(1, 11).expand(10**5, 11)
    torch.save(GOOD | {2: wide, 3: torch.ones(1, 1).expand(10**9, 2054)}, folder / FEATURES)
    assert (folder / FEATURES).stat().st_size < 10**4
    reader = open_reader("oscar-pt", [folder])
    with pytest.raises(InputError, match=r"image '2': features: \[100000, 11\] of torch.float32 "):
        reader[1]
    with pytest.raises(InputError, match=r"image '3': features: it claims 8,216,000,000,000 byte"):
        reader[2]


def test_a_compressed_archive_is_not_unpacked(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    with zipfile.ZipFile(folder / FEATURES) as whole:
        content = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(folder / FEATURES, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, part in content.items():
            packed.writestr(name, part)
    with pytest.raises(InputError, match=r"_feats\.pt: it is compressed, which PyTorch's files"):
        open_reader("oscar-pt", [folder])
    with zipfile.ZipFile(folder / FEATURES, "w") as stored:
        for name, part in content.items():
            stored.writestr(name, part)
        stored.infolist()[0].file_size = 10**12
    with pytest.raises(InputError, match=r"_feats\.pt: it states more bytes than it has"):
        open_reader("oscar-pt", [folder])


def test_a_key_as_number_and_as_text_is_named(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, NUMBERED)
    torch.save(GOOD | {"2": GOOD[1]}, folder / FEATURES)
    message = "image '2': image key: it appears as number and as text"
    found = failures(open_reader("oscar-pt", [folder]))
    assert found[2] == f"{folder / FEATURES}, {message}"
