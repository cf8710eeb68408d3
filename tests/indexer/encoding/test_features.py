"""Feature stores opened, or extracted from photos as the models need; others refused."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.build import build_index
from indexer.encoding.features import check_stores, choose_photos, open_images, opened_stores
from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.features.record import DetectorSettings, Skipped
from sparta.features.store import FeatureStore
from tests.indexer.tiny import SOURCE, same_but, save_model, write_store
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import TOKENIZER
from tests.sparta.extract.tiny_networks import picture, save_detector
from tests.stores import kept_stores

Breaker = Callable[[Path, FeatureStore], list[FeatureStore]]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda at, store: [], "no features"),
        (
            lambda at, store: [store, write_store(at, replace(SOURCE, image_size=64))],
            "has other features than .*: image_size: 32 against 64",
        ),
        (
            lambda at, store: [store, same_but(at, store, drop="0/3.jpg")],
            "has other images than .*: image 3 is 0/4.jpg instead of 0/3.jpg",
        ),
        (
            lambda at, store: [same_but(at, store, drop="2/5.jpg"), store],
            "has other images than .*: image 20 is 2/5.jpg instead of absent",
        ),
        (
            lambda at, store: [store, same_but(at, store, rename="z.jpg")],
            "image 20 is z.jpg instead of 2/5.jpg",
        ),
        (
            lambda at, store: [write_store(at, augmentation="flip"), store],
            "plain feature store first",
        ),
    ],
)
def test_stores_of_other_photos_or_features_are_refused(
    store: FeatureStore, tmp_path: Path, broken: Breaker, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        check_stores(broken(tmp_path / "other", store))


def test_augmentations_are_extracted_from_photos(
    photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    stages: list[tuple[str, int, int]] = []
    stores = kept_stores(
        photos,
        [model_dir],
        tmp_path / "index",
        augmentations=4,
        progress=lambda *stage: stages.append(stage),
    )
    names = ["plain", "flip", "crop:1", "crop:2"]
    assert [store.folder for store in stores] == [tmp_path / "index.features" / n for n in names]
    assert [store.augmentation for store in stores] == names
    assert stages[-1] == ("extract", 12, 12)
    plain, *others = (store[0].features for store in stores)
    assert all(np.abs(plain - other).max() > 0.1 for other in others)


def test_sources_that_are_neither_one_folder_of_photos_nor_stores_are_refused(
    photos: Path, store: FeatureStore, index: Path, model_dir: Path, tmp_path: Path
) -> None:
    other = save_model(tmp_path / "other", TOKENIZER, source=replace(SOURCE, image_size=64))
    for folders, models, count, said in [
        ([store.folder], [model_dir], 2, "--augmentations is for a folder of photos"),
        ([store.folder, photos], [model_dir], None, "photos is not a feature store"),
        ([photos, photos], [model_dir], None, "photos is not a feature store"),
        ([index], [model_dir], None, "is an index: give"),
        ([tmp_path / "absent"], [model_dir], None, "does not exist"),
        # Before any photo is read.
        ([photos], [model_dir, other], None, "takes other features than .*image_size: 32 against"),
    ]:
        with pytest.raises(InputError, match=said):
            open_images(folders, models, tmp_path / "index", augmentations=count)
    assert not (tmp_path / "index.features").exists()


def test_photos_are_extracted_as_the_dense_model_needs(
    photos: Path, index: Path, dense_model: Path, tmp_path: Path
) -> None:
    with opened_stores(index, [photos], [], [dense_model], kind="vse") as ([made], _):
        assert made.source == SOURCE and made.ids == ["0.png", "1.png", "2.png"]
    other = save_dense_model(tmp_path / "other", source=replace(SOURCE, image_size=64))
    with (
        pytest.raises(InputError, match=rf"--model {other} takes other features than --model"),
        opened_stores(index, [photos], [], [dense_model, other], kind="vse"),
    ):
        pass


SIZES = [(60, 45), (45, 60), (90, 30)]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for seed, size in enumerate(SIZES):
        picture(*size, seed).save(folder / f"{seed}.png")
    return folder


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    return save_detector(tmp_path / "detector", "yolos")


def extracted(
    pictures: Path, out: Path, detection: DetectorSettings, backbone: str | None
) -> FeatureStore:
    extract_photos(
        pictures,
        out,
        backbone,
        detection=detection,
        image_size=None if backbone is None else 32,
        device="cpu",
        workers=0,
    )
    return FeatureStore.open(out)


@pytest.mark.parametrize("backbone", [None, "pixels"])
def test_photos_are_extracted_as_for_training(
    pictures: Path, detector: Path, backbone: str | None, tmp_path: Path
) -> None:
    detection = DetectorSettings(str(detector), 3, 0.001, colours=True)
    trained_on = extracted(pictures, tmp_path / "store", detection, backbone)
    model = save_model(tmp_path / "model", TOKENIZER, source=trained_on.source)
    stores = kept_stores(pictures, [model], tmp_path / "index", augmentations=2)
    assert stores[0].source == trained_on.source
    assert stores[0].fingerprint == trained_on.fingerprint
    assert [store.augmentation for store in stores] == ["plain", "flip"]
    manifest = build_index(stores, [model], tmp_path / "index", device="cpu")
    assert manifest.images == len(SIZES)


def test_other_regions_another_detector_and_regions_of_others_are_refused(
    pictures: Path, detector: Path, tmp_path: Path
) -> None:
    detection = DetectorSettings(str(detector), 3, 0.001)
    source = extracted(pictures, tmp_path / "store", detection, None).source
    model = save_model(tmp_path / "model", TOKENIZER, source=source)
    other = extracted(pictures, tmp_path / "other", replace(detection, regions=4), None)
    said = f"'regions': 3.* against .*'regions': 4.* --detector {detector} --regions 3 --threshold"
    with pytest.raises(InputError, match=said):
        build_index([other], [model], tmp_path / "index", device="cpu")
    save_detector(detector, "yolos", seed=1)
    images = open_images([pictures], [model], tmp_path / "index", device="cpu")
    with pytest.raises(InputError, match="holds other features than"):
        build_index(images, [model], tmp_path / "index", device="cpu")
    source = replace(source, detector="", backbone="vinvl", weights="vinvl", extra={})
    model = save_model(tmp_path / "vinvl", TOKENIZER, source=source)
    with pytest.raises(InputError, match=r"regions of a detector that is not available \(vinvl\)"):
        open_images([pictures], [model], tmp_path / "vinvl-index")


# ---- photos to add to an index -------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with photos at several depths."""
    folder = tmp_path / "tree"
    for name in ("a.jpg", "2024/b.png", "2024/beach/c.JPG", "2024/notes.txt", "empty/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "link.jpg").symlink_to(folder / "2024" / "b.png")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("chosen", "recorded", "ids"),
    [
        (["2024"], ".", ["2024/b.png", "2024/beach/c.JPG"]),
        (["a.jpg", "2024/beach", "2024/beach/c.JPG"], ".", ["2024/beach/c.JPG", "a.jpg"]),
        (["link.jpg"], ".", ["link.jpg"]),
        # Photos beside the folder of the index have ids relative to their own.
        ([""], None, ["2024/b.png", "2024/beach/c.JPG", "a.jpg", "link.jpg"]),
        (["a.jpg"], "elsewhere", ["a.jpg"]),
    ],
)
def test_ids_are_relative_to_the_folder_of_the_index(
    tree: Path, chosen: list[str], recorded: str | None, ids: list[str]
) -> None:
    assert choose_photos([Path(one) for one in chosen], recorded) == (tree, ids)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (["2024", "2024/beach"], r"2024 and .*beach are not both in the folder that"),
        (["away.jpg"], "away.jpg does not exist"),
        (["empty"], "empty holds no photo"),
    ],
)
def test_what_cannot_be_added_is_named(chosen: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        choose_photos([Path(one) for one in chosen], "elsewhere")


def test_photos_are_extracted_as_those_of_the_index(
    photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    stores = kept_stores(photos, [model_dir], out, augmentations=2)
    build_index(stores, [model_dir], out, device="cpu")
    (photos / "more").mkdir()
    shutil.copy(photos / "0.png", photos / "more" / "new.png")
    (photos / "more" / "empty.jpg").touch()
    before, chosen = sorted(tmp_path.rglob("*")), [photos / "more", photos / "0.png"]
    with opened_stores(out, chosen, [], [model_dir], "cpu") as (added, skipped):
        assert [store.ids for store in added] == [["0.png", "more/new.png"]] * 2
        assert [store.augmentation for store in added] == ["plain", "flip"]
        assert skipped == [Skipped("more/empty.jpg", "the file is empty")]
        assert added[1][0].features.tobytes() == stores[1][0].features.tobytes()
    assert sorted(tmp_path.rglob("*")) == before
    shutil.copy(photos / "more" / "empty.jpg", photos / "b.jpg")
    empty = [photos / "b.jpg", photos / "more" / "empty.jpg"]
    problem = r"no photo could be used: .*/b\.jpg: the file is empty \(and 1 more\)"
    with pytest.raises(InputError, match=problem), opened_stores(out, empty, [], [model_dir]):
        pass
