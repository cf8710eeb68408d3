"""What holds for every format of other software, and for importing it."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.record import ImageFeatures, read_skipped
from sparta.features.writer import SHARD_SIZE
from sparta.readers.base import FeatureReader, ImportOptions, RegionLimit, without_boxes
from sparta.readers.registry import (
    FORMATS,
    Format,
    detect,
    fitting,
    import_features,
    open_reader,
)
from tests.documents import ROOT
from tests.sparta.readers.samples import (
    SAMPLES,
    changes,
    random_images,
    read_all,
    same,
    write_vocabulary,
)

IMAGES = random_images("bca")
every_sample = pytest.mark.parametrize("name", SAMPLES)
CONFIDENT = ["vinvl", "oscar-pt", "oscar-captioning", "scene-graph", "lxmert", "bottom-up-npz"]
TEXTS = ["vinvl", "oscar-captioning", "scene-graph", "bottom-up", "lxmert", "precomp"]
SEVERAL = [*CONFIDENT, "bottom-up"]


def opened(name: str, *paths: Path, **options: Any) -> FeatureReader:
    """The reader of a sample, which names what made the features."""
    return open_reader(SAMPLES[name].format, paths, SAMPLES[name].splits, made_by="x152", **options)


def written(name: str, folder: Path, images: list[ImageFeatures] = IMAGES) -> Path:
    folder.mkdir(exist_ok=True)
    return SAMPLES[name].write(folder, images)


def expected(name: str, image: ImageFeatures) -> ImageFeatures:
    """An image as the format can tell it: with no labels, or a single region, the whole photo."""
    if name == "precomp" or name.startswith("hgr"):
        n = len(image.features) if "frames" in name else 1
        whole = np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1))
        return ImageFeatures(image.image_id, image.features[:n], whole, ("",) * n, ("",) * n, 0, 0)
    if name in ("bottom-up", "lxmert", "bottom-up-npz"):
        none = ("",) * len(image.labels)
        return replace(image, labels=none, attributes=none)
    return image


def test_every_format_has_a_sample_and_an_example() -> None:
    assert set(FORMATS) == {sample.format for sample in SAMPLES.values()} == set(get_args(Format))
    for name in FORMATS:
        assert f"sparta import {name} " in (ROOT / "docs/features.md").read_text()


@every_sample
def test_what_was_written_is_read_in_order_of_the_ids(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    reader = opened(name, path)
    assert reader.ids == ["a", "b", "c"]
    assert (reader.source.kind, reader.source.dimension) == ("region", 5)
    assert (reader.source.weights, reader.source.extra) == ("x152", {})
    for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
        same(reader[row], expected(name, image))
        sized = name in (*SEVERAL, "oscar-captioning in half precision") and name != "oscar-pt"
        assert (reader[row].width, reader[row].height) == ((640, 448) if sized else (0, 0))


@every_sample
def test_files_look_like_their_own_format_alone(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    assert fitting([path]) == [SAMPLES[name].format]
    assert detect([path, path]) == SAMPLES[name].format


def test_files_of_no_format_or_of_several_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent does not exist"):
        detect([tmp_path / "absent"])
    with pytest.raises(InputError, match=r"no format fits; name one instead of auto: vinvl \(f"):
        detect([tmp_path])
    written("precomp", tmp_path)
    np.save(tmp_path / "trn_ft.npy", np.ones((1, 3), np.float32))
    with pytest.raises(InputError, match="could be precomp or hgr; name one instead of auto"):
        detect([tmp_path])
    with pytest.raises(InputError, match="no format fits"):
        detect([tmp_path, written("vinvl", tmp_path / "other")])


def test_a_folder_that_may_not_be_read_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, *_: object, **__: object) -> bool:
        raise PermissionError

    for question in ("exists", "is_file", "is_dir", "glob", "open"):
        monkeypatch.setattr(Path, question, refuse)
    assert fitting([Path("secret")]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_byte_order_marks_and_empty_last_lines(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    for file in tmp_path.iterdir():
        if file.suffix != ".npy":
            end = b"\r\n\n" if file.suffix in (".tsv", ".txt") else b""
            file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes() + end)
    assert fitting([path]) == [name]
    images = read_all(lambda: opened(name, path))
    for found, image in zip(images, sorted(IMAGES, key=lambda image: image.image_id), strict=True):
        same(found, expected(name, image))


@every_sample
@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_a_missing_or_empty_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = written(name, tmp_path / "in", IMAGES[:1])
    for file in [one for one in (tmp_path / "in").rglob("*") if one.is_file()]:
        content = file.read_bytes()
        file.unlink()
        if damage == "empty":
            file.touch()
        if damage == "empty" or file.name != "test_vg_labels.pt":
            with pytest.raises(InputError) as error:
                reader = opened(name, path)
                for row in range(len(reader.ids)):
                    reader[row]
            assert str(tmp_path / "in") in str(error.value)
        file.write_bytes(content)


@every_sample
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_files_that_change_while_they_are_read_are_named(
    tmp_path: Path, name: str, damage: str
) -> None:
    """Reading a mapped file behind its end would end the process."""
    reader = opened(name, written(name, tmp_path, random_images("bca", regions=3)))
    for file in [one for one in tmp_path.rglob("*") if one.is_file()]:
        if damage == "cut":
            os.truncate(file, file.stat().st_size // 2)
        else:
            file.unlink()
    reason = "cut short|damaged|'c' is missing" if damage == "cut" else "cannot be read: No such"
    with pytest.raises(InputError, match=rf"{tmp_path}/.*({reason})"):
        reader[2]


@pytest.mark.parametrize("name", ["lxmert", "bottom-up-npz"])
def test_numbers_of_classes_become_words(tmp_path: Path, name: str) -> None:
    vocabulary = write_vocabulary(tmp_path / "genome")
    reader = opened(name, written(name, tmp_path / "in"), vocabulary=vocabulary)
    for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
        assert reader[row].labels == tuple(label or "yolk" for label in image.labels)
        assert reader[row].attributes == image.attributes
    assert set(reader.files) > {vocabulary / "objects_vocab.txt"}


@pytest.mark.parametrize("name", SEVERAL)
def test_an_image_of_two_files_is_taken_from_the_first(tmp_path: Path, name: str) -> None:
    one, other = written(name, tmp_path / "a"), written(name, tmp_path / "b", random_images("da"))
    reader = opened(name, one, other, image_suffix=".jpg")
    assert reader.ids == ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    message = rf"{tmp_path}/b\b.*image 'a.* was already in .*{tmp_path}/a\b"
    with pytest.raises(InputError, match=message):
        reader[1]
    store = import_features(reader, tmp_path / "store", skip_bad=True)
    assert store.ids == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert store[0].features.tolist() == IMAGES[2].features.tolist()


@pytest.mark.parametrize("name", CONFIDENT)
def test_regions_are_chosen_with_all_that_belongs_to_them(tmp_path: Path, name: str) -> None:
    """The last region of each image is the surest."""
    path = written(name, tmp_path)
    for limit, kept in (
        (RegionLimit(1, "confident"), [-1]),
        (RegionLimit(1), [0]),
        (RegionLimit(2), [0, 1]),
    ):
        reader = opened(name, path, limit=limit)
        assert reader.source.extra == {"regions": limit.limit, "keep": limit.by}
        for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
            rows = np.array(kept)[: len(image.features)]
            same(reader[row], expected(name, image).take(rows))


def test_bottom_up_has_no_confidences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="TSVs of bottom-up attention hold no confidences"):
        opened("bottom-up", written("bottom-up", tmp_path), limit=RegionLimit(2, "confident"))


@every_sample
@settings(max_examples=100)
@given(data=st.data())
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:Detected pickle protocol")
def test_changed_files(tmp_path: Path, name: str, data: st.DataObject) -> None:
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    path = written(name, tmp_path)
    file = data.draw(st.sampled_from(sorted(one for one in tmp_path.rglob("*") if one.is_file())))
    content = data.draw(changes(file))
    file.unlink()  # what was mapped stays as it was
    file.write_bytes(content)
    fitting([path])
    numbered = FORMATS[SAMPLES[name].format].numbered and data.draw(st.booleans())
    options: dict[str, Any] = {"vocabulary": write_vocabulary(tmp_path / "g")} if numbered else {}
    if name in CONFIDENT:
        limits = [RegionLimit(), RegionLimit(2, "confident")]
        options["limit"] = data.draw(st.sampled_from(limits))
    for image in read_all(lambda: opened(name, path, **options)):
        assert not numbered or set(image.labels) <= {"yolk", "traffic light", "dog"}


class Reader(FeatureReader):
    """Images some of which are malformed; one more may bring the process down."""

    def __init__(self, path: Path, ids: Sequence[str], bad: set[int]) -> None:
        super().__init__(ImportOptions("x"), 2, ids, [path])
        self.bad = bad
        self.deadly = -1
        path.touch()

    def __getitem__(self, row: int) -> ImageFeatures:
        if row == self.deadly:
            raise KeyboardInterrupt
        if row in self.bad:
            raise InputError(f"file, line {row + 1}: field: it is bad")
        return without_boxes(self.ids[row], np.full((1, 2), row + 1, np.float16))


def skipped(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "skipped.jsonl").read_text().splitlines()]


def test_bad_images_are_listed_whenever_a_run_breaks(tmp_path: Path) -> None:
    images = 2 * SHARD_SIZE + 10
    bad = {0, 1, SHARD_SIZE, 2 * SHARD_SIZE + 3}
    reader = Reader(tmp_path / "in", [f"{row:05}" for row in range(images)], bad)
    whole = import_features(reader, tmp_path / "whole", skip_bad=True)
    assert len(whole) == images - len(bad)
    for deadly in (5, SHARD_SIZE + 5, 2 * SHARD_SIZE + 5):
        reader.deadly = deadly
        with pytest.raises(KeyboardInterrupt):
            import_features(reader, tmp_path / "broken", skip_bad=True)
    reader.deadly = -1
    again = import_features(reader, tmp_path / "broken", skip_bad=True)
    assert again.fingerprint == whole.fingerprint
    assert again.ids == whole.ids
    assert skipped(tmp_path / "broken") == skipped(tmp_path / "whole")
    assert [line["reason"] for line in skipped(tmp_path / "whole")] == [
        f"file, line {row + 1}: field: it is bad" for row in sorted(bad)
    ]


def test_a_run_that_ended_at_a_bad_image_may_go_on_without_it(tmp_path: Path) -> None:
    ids = [f"{row:05}" for row in range(SHARD_SIZE + 2)]
    reader = Reader(tmp_path / "in", ids, {SHARD_SIZE})
    with pytest.raises(InputError, match=r"line 513: field: it is bad\. Images .* --skip-bad"):
        import_features(reader, tmp_path / "out")
    shown: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        shown.append((stage, done, total))

    store = import_features(reader, tmp_path / "out", progress, skip_bad=True)
    assert shown == [("import", SHARD_SIZE + 2, SHARD_SIZE + 2)]  # the first shard was there
    assert len(store) == SHARD_SIZE + 1
    assert skipped(tmp_path / "out") == [
        {"image_id": ids[SHARD_SIZE], "reason": "file, line 513: field: it is bad"}
    ]


def test_only_bad_images_make_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no image could be used; .*skipped\.jsonl says why"):
        import_features(Reader(tmp_path / "in", ["a"], {0}), tmp_path / "out", skip_bad=True)


def test_an_image_whose_id_would_reach_another_one_is_malformed(tmp_path: Path) -> None:
    ids = ["/abs.jpg", "a.jpg", "b/../a.jpg"]
    with pytest.raises(InputError, match=r"an empty part between slashes.*--skip-bad"):
        import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out")
    store = import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out", skip_bad=True)
    assert store.ids == ["a.jpg"]
    assert [one.image_id for one in read_skipped(store.folder)] == ["/abs.jpg", "b/../a.jpg"]
