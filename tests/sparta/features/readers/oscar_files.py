"""Files in the layouts of Oscar and VinVL, written from images."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sparta.features.record import ImageFeatures


def random_images(keys: str, seed: int = 0) -> list[ImageFeatures]:
    """Images of 1 to 4 regions of 5 numbers that float16 holds, the last the whole photo."""
    rng = np.random.default_rng(seed)
    return [_random_image(key, rng) for key in keys]


def _random_image(key: str, rng: np.random.Generator) -> ImageFeatures:
    n = int(rng.integers(1, 5))
    corners = np.sort(rng.integers(0, 65, (n, 2, 2)) / 64, axis=1)
    corners[-1] = [[0, 0], [1, 1]]
    return ImageFeatures(
        key,
        rng.normal(size=(n, 5)).astype(np.float16),
        corners.reshape(n, 4).astype(np.float32),
        tuple(rng.choice(["dog", "traffic light", ""], n).tolist()),
        tuple(rng.choice(["brown", "wet brown", ""], n).tolist()),
        width=640,
        height=448,
    )


def rows(image: ImageFeatures, dtype: str = "<f4") -> NDArray[Any]:
    """[n, d + 6] features and locations."""
    return np.concatenate([image.features, image.locations], axis=1).astype(dtype)


def encoded(values: NDArray[Any]) -> str:
    """Base64 of the bytes."""
    return base64.b64encode(values.tobytes()).decode()


def objects(image: ImageFeatures) -> list[dict[str, Any]]:
    """What was seen, the highest confidence last."""
    size = np.array([image.width, image.height] * 2)
    return [
        {"class": label, "attributes": words.split(), "conf": 0.1 * row, "rect": rect}
        for row, (label, words, rect) in enumerate(
            zip(image.labels, image.attributes, (image.boxes * size).tolist(), strict=True), 1
        )
    ]


def write_tsv(path: Path, cells: Sequence[tuple[str, Any]]) -> Path:
    """A TSV of keys and JSON."""
    path.write_text("".join(f"{key}\t{json.dumps(value)}\n" for key, value in cells))
    return path


def write_captioning(folder: Path, images: Sequence[ImageFeatures], dtype: str = "<f4") -> Path:
    """`train.yaml` and the TSVs it names."""
    folder.mkdir(exist_ok=True)
    regions = {
        image.image_id: {
            "num_boxes": len(image.features),
            "features": encoded(rows(image, dtype)),
        }
        for image in images
    }
    write_tsv(folder / "train.feature.tsv", list(regions.items()))
    write_tsv(folder / "train.label.tsv", [(image.image_id, objects(image)) for image in images])
    write_sizes(folder / "train.hw.tsv", images)
    names = {part: f"train.{part}.tsv" for part in ("feature", "label", "hw")}
    lines = [f"{part}: {name}\n" for part, name in names.items()]
    (folder / "train.yaml").write_text("".join(lines) + "caption: train_caption.json\n")
    return folder


def write_sizes(path: Path, images: Sequence[ImageFeatures]) -> Path:
    """A `.hw.tsv`."""
    sizes = [[{"width": image.width, "height": image.height}] for image in images]
    return write_tsv(
        path, [(image.image_id, size) for image, size in zip(images, sizes, strict=True)]
    )


def write_scene_graph(folder: Path, images: Sequence[ImageFeatures], dtype: str = "<f4") -> Path:
    """`predictions.tsv` with features in it, and sizes beside it."""
    folder.mkdir(exist_ok=True)
    lines = []
    for image in images:
        found = objects(image)
        for entry, vector in zip(found, image.features.astype(dtype), strict=True):
            entry |= {"bbox_id": 0, "feature": encoded(vector)}
        lines.append((image.image_id, {"objects": found, "relations": None}))
    write_tsv(folder / "predictions.tsv", lines)
    write_sizes(folder / "test.hw.tsv", images)
    return folder


def write_pt(folder: Path, images: Sequence[ImageFeatures], zipped: bool = True) -> Path:
    """Dictionaries of features and labels, as PyTorch writes them or did before 1.6."""
    folder.mkdir(exist_ok=True)
    keys = [int(image.image_id) if image.image_id.isdigit() else image.image_id for image in images]
    parts: dict[str, list[Any]] = {
        "test_img_frcnn_feats.pt": [torch.from_numpy(rows(image)) for image in images],
        "test_vg_labels.pt": [objects(image) for image in images],
    }
    for name, values in parts.items():
        torch.save(
            dict(zip(keys, values, strict=True)),
            folder / name,
            _use_new_zipfile_serialization=zipped,
        )
    return folder


def same(found: ImageFeatures, wanted: ImageFeatures) -> None:
    """Fails unless two images are equal in all but size."""
    assert found.image_id == wanted.image_id
    np.testing.assert_array_equal(found.features, wanted.features)
    np.testing.assert_allclose(found.boxes, wanted.boxes, atol=1e-3)
    assert (found.labels, found.attributes) == (wanted.labels, wanted.attributes)
