import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.scene_graph import SceneGraphReader, fits
from tests.sparta.features.readers.samples import (
    encode,
    objects,
    random_images,
    same,
    write_cells,
    write_scene_graph,
    write_sizes,
)

IMAGES = random_images("abc")


def test_half_precision_is_told_by_the_published_width(tmp_path: Path) -> None:
    vector = np.linspace(-1, 1, 2048).astype("<f2")
    found = {"class": "dog", "conf": 1.0, "rect": [0, 0, 64, 64]}
    for dtype in ("<f2", "<f4"):
        cell = {"objects": [found | {"feature": encode(vector, dtype)}]}
        write_cells(tmp_path / "predictions.tsv", [("a", cell)])
        write_sizes(tmp_path / "hw.tsv", IMAGES)
        np.testing.assert_array_equal(SceneGraphReader([tmp_path])[0].features[0], vector)


def test_sizes_are_found_or_named(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path / "in", IMAGES)
    (folder / "test.hw.tsv").unlink()
    with pytest.raises(InputError, match=r"expected one \.hw\.tsv .* there is none; name it with"):
        SceneGraphReader([folder])
    one = write_sizes(tmp_path / "one.hw.tsv", IMAGES[:1])
    two = write_sizes(tmp_path / "two.hw.tsv", IMAGES[1:])
    reader = SceneGraphReader([folder, one, two])
    for row, image in enumerate(IMAGES):
        same(reader[row], image)
    with pytest.raises(InputError, match=r"one\.hw\.tsv: size: missing for image 'b'"):
        SceneGraphReader([folder, one])[1]
    with pytest.raises(InputError, match="holds sizes only"):
        SceneGraphReader([one])
    write_sizes(folder / "a.hw.tsv", IMAGES)
    write_sizes(folder / "b.hw.tsv", IMAGES)
    with pytest.raises(InputError, match=r"there are a\.hw\.tsv, b\.hw\.tsv"):
        SceneGraphReader([folder])


def changed(**fields: Any) -> dict[str, Any]:
    """A good line, with fields of its first object changed or, where None, taken away."""
    image = next(image for image in IMAGES if len(image.features) > 1)
    found = objects(image)
    for entry, vector in zip(found, image.features.astype("<f4"), strict=True):
        entry["feature"] = encode(vector)
    first = {name: value for name, value in (found[0] | fields).items() if value is not None}
    return {"objects": [first, *found[1:]]}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"objects": []}, "objects: empty"),
        ({"relations": []}, "objects: Field required"),
        (changed(feature=None), "objects.0.feature: Field required"),
        (changed(rect=None), "objects.0.rect: Field required"),
        (changed(rect=[0, 0, 1]), "objects.0.rect: List should have at least 4 items"),
        (changed(rect=[0, 0, 700, 448]), "objects.rect, row 1: expected x1, y1, x2, y2 in pixels"),
        (changed(feature="AA"), "objects.0.feature: not base64"),
        (changed(feature="AAA="), "objects.0.feature: 2 bytes are not floats"),
        (changed(feature="AAAAAA=="), "objects.0.feature: expected 5 numbers, found 1"),
        (
            changed(
                feature=encode(
                    np.zeros(
                        5,
                    )
                )
            ),
            "features, row 1: all its numbers are 0",
        ),
        (
            changed(
                feature=encode(
                    np.full(
                        5,
                        np.nan,
                    )
                )
            ),
            "features, row 1: expected finite",
        ),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, cell: Any, message: str) -> None:
    path = write_scene_graph(tmp_path, IMAGES) / "predictions.tsv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(f"{lines[0]}b\t{json.dumps(cell)}\n{lines[2]}")
    reader = SceneGraphReader([tmp_path])
    with pytest.raises(InputError) as raised:
        reader[1]
    assert str(raised.value).startswith(f"{path}, line 2: ")
    assert message in str(raised.value)
    same(reader[2], IMAGES[2])


def test_knows_its_files(tmp_path: Path) -> None:
    assert not fits(tmp_path)
    assert not fits(tmp_path / "absent.hw.tsv")
    folder = write_scene_graph(tmp_path, IMAGES)
    assert fits(folder)
    assert fits(folder / "predictions.tsv")
    assert fits(folder / "test.hw.tsv")
    write_cells(folder / "predictions.tsv", [("a", {"image_h": 1, "image_w": 1, "objects": []})])
    assert not fits(folder)  # VinVL's


def scored(attributes: list[str], scores: list[float] | None) -> dict[str, Any]:
    return changed(attributes=attributes, attr_scores=scores)


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
    write_cells(folder / "predictions.tsv", [("a", scored([f"a{n}" for n in range(16)], scores))])
    reader = SceneGraphReader([folder], limit=limit)
    assert reader[0].attributes[0] == words
    assert reader.source.extra == limit.extra


def test_each_attribute_has_a_score(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path, IMAGES)
    write_cells(folder / "predictions.tsv", [("a", scored(["red"], [0.5, 0.4]))])
    with pytest.raises(InputError, match=r"objects.0: .*attr_scores: expected 1, one for each"):
        SceneGraphReader([folder])
