import json
import logging
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparta.errors import InputError
from sparta.readers.base import RegionLimit
from sparta.readers.registry import open_reader
from tests.sparta.readers.samples import objects, random_images, rows, same, write_pt

IMAGES = random_images("123")
FEATURES, LABELS = "test_img_frcnn_feats.pt", "test_vg_labels.pt"


def test_files_are_mapped_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    load: Callable[..., Any] = torch.load

    def spy(path: Path, **options: Any) -> Any:
        asked.append(options)
        return load(path, **options)

    monkeypatch.setattr(torch, "load", spy)
    open_reader("oscar-pt", [write_pt(tmp_path / "new", IMAGES)])
    assert [(kw["mmap"], kw["weights_only"]) for kw in asked] == [(True, True)] * 2
    asked.clear()
    open_reader("oscar-pt", [write_pt(tmp_path / "old", IMAGES, zipped=False)])
    assert [(kw["mmap"], kw["weights_only"]) for kw in asked] == [(False, True)] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_float_type_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = write_pt(tmp_path, IMAGES)
    values = {int(image.image_id): torch.from_numpy(rows(image)).to(dtype) for image in IMAGES}
    torch.save(values, folder / FEATURES)
    reader = open_reader("oscar-pt", [folder])
    wanted = values[1][:, :5].to(torch.float16).numpy()
    np.testing.assert_array_equal(reader[0].features, wanted)


def test_one_string_of_labels_stands_with_the_largest_region(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, IMAGES)
    torch.save({int(image.image_id): "dog grass dog" for image in IMAGES}, folder / LABELS)
    for row, image in enumerate(IMAGES):
        found = open_reader("oscar-pt", [folder])[row]
        assert found.labels == ("",) * (len(image.labels) - 1) + ("dog grass dog",)
        assert found.attributes == ("",) * len(image.labels)


def test_labels_are_found_or_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_pt(tmp_path, IMAGES)
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


GOOD = {int(image.image_id): torch.from_numpy(rows(image)) for image in IMAGES}
WORDS = {int(image.image_id): objects(image) for image in IMAGES}


@pytest.mark.parametrize(
    ("file", "values", "row", "message"),
    [
        (FEATURES, GOOD | {2: [1.0]}, 1, "image '2': features: expected a tensor, found list"),
        (FEATURES, GOOD | {2: torch.ones(11)}, 1, "features: expected [regions, numbers] of floa"),
        (FEATURES, GOOD | {2: torch.ones(1, 11).to_sparse()}, 1, "torch.sparse_coo"),
        (FEATURES, GOOD | {2: torch.ones(1, 6)}, 1, "expected rows of more than 6 numbers, foun"),
        (FEATURES, GOOD | {2: torch.ones(0, 11)}, 1, "features: no rows"),
        (FEATURES, GOOD | {2: torch.ones(1, 11)}, 1, "features: no row ends with the six numbers"),
        (FEATURES, GOOD | {"2": GOOD[1]}, 2, "image '2': image key: it appears as number and as"),
        (FEATURES, GOOD | {1.5: GOOD[1]}, 1, "image '1.5': image key: expected a number or text"),
        (FEATURES, GOOD | {4: GOOD[1]}, 3, "_feats.pt, image '4': image '4' is not in "),
        (LABELS, WORDS | {4: []}, 3, "_labels.pt, image '4': image '4' is not in "),
        (LABELS, WORDS | {2: [{"conf": 1}]}, 1, "_labels.pt, image '2': 0.class: Field required"),
        (LABELS, WORDS | {2: "\ud800"}, 1, "_labels.pt, image '2': labels: not text"),
    ],
)
def test_an_odd_entry_is_named(
    tmp_path: Path, file: str, values: dict[Any, Any], row: int, message: str
) -> None:
    folder = write_pt(tmp_path, IMAGES)
    torch.save(values, folder / file)
    reader = open_reader("oscar-pt", [folder])
    with pytest.raises(InputError) as raised:
        reader[row]
    assert message in str(raised.value)
    assert str(folder) in str(raised.value)
    good = [at for at in range(len(reader.ids)) if at != row]
    assert {reader[at].image_id for at in good} >= {"1", "3"}


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
    folder = write_pt(tmp_path, IMAGES)
    torch.save(content, folder / FEATURES)
    with pytest.raises(InputError, match=r"test_img_frcnn_feats\.pt.* " + message):
        open_reader("oscar-pt", [folder])
    assert not Path("run").exists()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.pt: expected a name that ends with _feats\.pt"):
        open_reader("oscar-pt", [tmp_path / "a.pt"])
    (tmp_path / "x_feats.pt").write_bytes(pickle.dumps({1: Path}, protocol=2))
    with pytest.raises(InputError, match=r"x_feats\.pt is damaged, or holds more than"):
        open_reader("oscar-pt", [tmp_path])


def test_labels_may_be_json(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, IMAGES)
    torch.save({key: json.dumps(found) for key, found in WORDS.items()}, folder / LABELS)
    for row, image in enumerate(IMAGES):
        same(open_reader("oscar-pt", [folder])[row], image)
    torch.save(dict.fromkeys(WORDS, '["dog", "grass"]'), folder / LABELS)
    with pytest.raises(InputError, match=r"image '1': labels: 0: Input should be"):
        open_reader("oscar-pt", [folder])[0]


def test_a_tensor_of_more_numbers_than_its_file_is_refused(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, IMAGES)
    wide = torch.ones(1, 11).expand(10**5, 11)
    torch.save(GOOD | {2: wide, 3: torch.ones(1, 1).expand(10**9, 2054)}, folder / FEATURES)
    assert (folder / FEATURES).stat().st_size < 10**4
    reader = open_reader("oscar-pt", [folder])
    with pytest.raises(InputError, match=r"image '2': features: \[100000, 11\] of torch.float32 "):
        reader[1]
    with pytest.raises(InputError, match=r"image '3': features: it claims 8,216,000,000,000 byte"):
        reader[2]


def test_a_compressed_archive_is_not_unpacked(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, IMAGES)
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


def test_a_file_cut_before_or_while_it_is_read_is_named(tmp_path: Path) -> None:
    folder = write_pt(tmp_path, IMAGES)
    reader = open_reader("oscar-pt", [folder])
    os.truncate(folder / FEATURES, 100)
    with pytest.raises(InputError, match=r"_feats\.pt: the file was cut short while it was read"):
        reader[0]
    with pytest.raises(InputError, match=r"_feats\.pt is cut short: the end of the archive is mis"):
        open_reader("oscar-pt", [folder])
    (folder / FEATURES).unlink()
    with pytest.raises(InputError, match=r"_feats\.pt: cannot be read: No such file"):
        reader[0]
