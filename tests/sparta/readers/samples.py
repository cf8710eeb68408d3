"""Small files of every format, and what must come of reading them when their bytes have changed."""

import base64
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.readers.base import FeatureReader
from sparta.readers.registry import Format
from tests.needs import package

# Vocabularies of classes as published: no line feed at the end.
VOCABULARY = {
    "objects_vocab.txt": "yolk\ntraffic light,stop light\ndog",
    "attributes_vocab.txt": "gray,grey\nbrown\nwet brown",
}


def encode(values: Any, dtype: str = "<f4") -> str:
    """Base64 of the bytes."""
    return base64.b64encode(np.asarray(values, dtype).tobytes()).decode()


def write_vocabulary(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in VOCABULARY.items():
        (folder / name).write_text(text)
    return folder


# ---- lines and files of single formats ----------------------------------------------------------


def bottom_up_line(image: ImageFeatures, **changed: Any) -> str:
    cells = {"id": image.image_id, "w": image.width, "h": image.height, "n": len(image.features)}
    cells |= {"boxes": encode(in_pixels(image)), "features": encode(image.features)}
    return "\t".join(map(str, (cells | changed).values())) + "\n"


def write_npz(folder: Path, image: ImageFeatures, **more: Any) -> Path:
    """A folder with one more file in it, as bottom-up-attention.pytorch writes them."""
    folder.mkdir(exist_ok=True)
    features = np.asfortranarray(image.features, np.float32)
    arrays: dict[str, Any] = {"x": features, "bbox": in_pixels(image)}
    arrays |= {"num_bbox": len(features), "image_h": image.height, "image_w": image.width, **more}
    np.savez_compressed(folder / f"{image.image_id}.npz", **arrays)
    return folder


def seen(image: ImageFeatures) -> dict[str, Any]:
    """Classes and confidences of an image's regions, by the names they have in such a file."""
    names = ("objects_id", "objects_conf", "attrs_id", "attrs_conf")
    return {name: np.array(found) for name, found in zip(names, numbered(image), strict=True)}


def write_precomp(folder: Path, split: str, features: NDArray[Any], ids: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    np.save(folder / f"{split}_ims.npy", features)
    (folder / f"{split}_ids.txt").write_text("\n".join(ids) + "\n")
    return folder


def write_names(root: Path, **splits: Sequence[str]) -> None:
    (root / "public_split").mkdir()
    for split, names in splits.items():
        np.save(root / "public_split" / f"{split}_names.npy", np.array(names))


def frames_folder(root: Path, **splits: dict[str, Any]) -> Path:
    """HGR's features as a matrix per video: split → name → [frames, d]."""
    h5py = package("h5py", "video")
    folder = root / "ordered_feature" / "SA" / "resnet152.pth"
    folder.mkdir(parents=True)
    for split, videos in splits.items():
        with h5py.File(folder / f"{split}_ft.hdf5", "w") as file:
            for name, frames in videos.items():
                file[name] = frames
    return folder


def means_folder(root: Path, **splits: NDArray[Any]) -> Path:
    folder = root / "ordered_feature" / "MP" / "i3d"
    folder.mkdir(parents=True)
    for split, features in splits.items():
        np.save(folder / f"{split}_ft.npy", features)
    return folder


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


# ---- images in the layouts of Oscar and VinVL ---------------------------------------------------


def random_images(keys: Iterable[str], regions: int | None = None) -> list[ImageFeatures]:
    """Images of 1 to 4 regions of 5 numbers that float16 holds, the last the whole photo."""
    rng = np.random.default_rng(0)
    return [_random_image(key, rng, regions or int(rng.integers(1, 5))) for key in keys]


def _random_image(key: str, rng: np.random.Generator, n: int) -> ImageFeatures:
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


def in_pixels(image: ImageFeatures) -> NDArray[Any]:
    """Boxes [n, 4]."""
    return image.boxes * np.array([image.width, image.height] * 2)


def confidences(image: ImageFeatures) -> list[float]:
    """Of the regions; the last is the highest."""
    return [0.1 * row for row in range(1, len(image.features) + 1)]


def objects(image: ImageFeatures) -> list[dict[str, Any]]:
    """What was seen."""
    parts = image.labels, image.attributes, confidences(image), in_pixels(image).tolist()
    return [
        {"class": label, "attributes": words.split(), "conf": sure, "rect": rect}
        for label, words, sure, rect in zip(*parts, strict=True)
    ]


def write_cells(path: Path, cells: Sequence[tuple[str, Any]]) -> Path:
    """A TSV of keys and JSON."""
    path.write_text("".join(f"{key}\t{json.dumps(value)}\n" for key, value in cells))
    return path


def write_vinvl(folder: Path, images: Sequence[ImageFeatures], sizes: bool = True) -> Path:
    """`features.tsv` and `predictions.tsv`, where bare lists of objects tell no sizes."""
    folder.mkdir(exist_ok=True)
    lines = [
        f"{image.image_id}\t{len(image.features)}\t{encode(rows(image))}\n" for image in images
    ]
    (folder / "features.tsv").write_text("".join(lines))
    size = {"image_h": images[0].height, "image_w": images[0].width}
    found = [(image.image_id, objects(image)) for image in images]
    cells = [(key, size | {"objects": own}) for key, own in found]
    write_cells(folder / "predictions.tsv", cells if sizes else found)
    return folder


def write_captioning(folder: Path, images: Sequence[ImageFeatures], dtype: str = "<f4") -> Path:
    """`train.yaml` and the TSVs it names."""
    folder.mkdir(exist_ok=True)
    regions = {
        image.image_id: {"num_boxes": len(image.features), "features": encode(rows(image), dtype)}
        for image in images
    }
    write_cells(folder / "train.feature.tsv", list(regions.items()))
    write_cells(folder / "train.label.tsv", [(image.image_id, objects(image)) for image in images])
    write_sizes(folder / "train.hw.tsv", images)
    names = {part: f"train.{part}.tsv" for part in ("feature", "label", "hw")}
    lines = [f"{part}: {name}\n" for part, name in names.items()]
    (folder / "train.yaml").write_text("".join(lines) + "caption: train_caption.json\n")
    return folder


def write_sizes(path: Path, images: Sequence[ImageFeatures]) -> Path:
    """A `.hw.tsv`."""
    sizes = [[{"width": image.width, "height": image.height}] for image in images]
    return write_cells(
        path, [(image.image_id, size) for image, size in zip(images, sizes, strict=True)]
    )


def write_scene_graph(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    """`predictions.tsv` with features in it, and sizes beside it."""
    folder.mkdir(exist_ok=True)
    lines = []
    for image in images:
        found = objects(image)
        for entry, vector in zip(found, image.features, strict=True):
            entry |= {"bbox_id": 0, "feature": encode(vector)}
        lines.append((image.image_id, {"objects": found, "relations": None}))
    write_cells(folder / "predictions.tsv", lines)
    write_sizes(folder / "test.hw.tsv", images)
    return folder


def write_pt(
    folder: Path, images: Sequence[ImageFeatures], zipped: bool = True, as_json: bool = False
) -> Path:
    """Dictionaries of features and labels, as PyTorch writes them or did before 1.6."""
    folder.mkdir(exist_ok=True)
    keys = [int(image.image_id) if image.image_id.isdigit() else image.image_id for image in images]
    parts: dict[str, list[Any]] = {
        "test_img_frcnn_feats.pt": [torch.from_numpy(rows(image)) for image in images],
        "test_vg_labels.pt": [json.dumps(o) if as_json else o for o in map(objects, images)],
    }
    for name, values in parts.items():
        torch.save(
            dict(zip(keys, values, strict=True)),
            folder / name,
            _use_new_zipfile_serialization=zipped,
        )
    return folder


# ---- the same images in every format ------------------------------------------------------------


def numbered(image: ImageFeatures) -> tuple[list[int], list[float], list[int], list[float]]:
    """Classes, attributes and confidences; a region without attributes is not sure of its own."""
    words = [text.split("\n") for text in VOCABULARY.values()]
    labels = ["traffic light,stop light" if label[:1] == "t" else label for label in image.labels]
    classes = [words[0].index(label) if label else 0 for label in labels]
    known = [words[1].index(word) if word else 0 for word in image.attributes]
    return classes, confidences(image), known, [0.5 if word else 0.05 for word in image.attributes]


def _bottom_up(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    (folder / "a.tsv").write_text("".join(map(bottom_up_line, images)))
    return folder / "a.tsv"


def _lxmert(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    lines = []
    for image in images:
        found = zip(numbered(image), ("<i8", "<f4", "<i8", "<f4"), strict=True)
        cells = [image.image_id, image.height, image.width, *(encode(*pair) for pair in found)]
        cells += [len(image.features), encode(in_pixels(image)), encode(image.features)]
        lines.append("\t".join(map(str, cells)) + "\n")
    (folder / "a.tsv").write_text("".join(lines))
    return folder / "a.tsv"


def _npz(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    for image in images:
        write_npz(folder, image, **seen(image))
    return folder


def _precomp(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    features = np.stack([image.features[:1].astype(np.float32) for image in images])
    return write_precomp(folder, "dev", features, [image.image_id for image in images])


def _means(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    write_names(folder, trn=[image.image_id for image in images])
    return means_folder(folder, trn=np.stack([image.features[0] for image in images]))


def _frames(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    write_names(folder, trn=[image.image_id for image in images])
    videos = {image.image_id: image.features.astype(np.float32) for image in images}
    return frames_folder(folder, trn=videos)


def write_embeddings(folder: Path, images: Sequence[ImageFeatures]) -> Path:
    """One vector an image, of any length."""
    np.save(folder / "a.npy", np.stack([image.features[0] for image in images]))
    (folder / "a.txt").write_text("".join(f"{image.image_id}\n" for image in images))
    return folder / "a.npy"


class Sample(NamedTuple):
    """How some images are written in a format: what is named to its reader is returned."""

    format: Format
    write: Callable[[Path, Sequence[ImageFeatures]], Path]
    splits: tuple[str, ...] = ()


SAMPLES: dict[str, Sample] = {
    "vinvl": Sample("vinvl", write_vinvl),
    "oscar-pt": Sample("oscar-pt", write_pt),
    "oscar-pt of old": Sample("oscar-pt", lambda folder, images: write_pt(folder, images, False)),
    "oscar-pt with JSON": Sample(
        "oscar-pt", lambda folder, images: write_pt(folder, images, as_json=True)
    ),
    "vinvl without sizes": Sample(
        "vinvl", lambda folder, images: write_vinvl(folder, images, sizes=False)
    ),
    "oscar-captioning": Sample("oscar-captioning", write_captioning),
    "oscar-captioning in half precision": Sample(
        "oscar-captioning", lambda folder, images: write_captioning(folder, images, "<f2")
    ),
    "scene-graph": Sample("scene-graph", write_scene_graph),
    "bottom-up": Sample("bottom-up", _bottom_up),
    "lxmert": Sample("lxmert", _lxmert),
    "bottom-up-npz": Sample("bottom-up-npz", _npz),
    "precomp": Sample("precomp", _precomp, ("dev",)),
    "hgr of means": Sample("hgr", _means, ("trn",)),
    "hgr of frames": Sample("hgr", _frames, ("trn",)),
    "embeddings": Sample("embeddings", write_embeddings),
}


def same_features(found: ImageFeatures, wanted: ImageFeatures) -> None:
    """Fails unless the first regions of two images have the same vectors."""
    n = len(found.features)
    np.testing.assert_array_equal(found.features, wanted.features[:n])


def same(found: ImageFeatures, wanted: ImageFeatures) -> None:
    """Fails unless two images are equal in all but size."""
    assert found.image_id == wanted.image_id
    np.testing.assert_array_equal(found.features, wanted.features)
    np.testing.assert_allclose(found.boxes, wanted.boxes, atol=1e-3)
    assert (found.labels, found.attributes) == (wanted.labels, wanted.attributes)


# ---- changed bytes ------------------------------------------------------------------------------

PIECES = st.binary(max_size=6) | st.sampled_from(
    [b"\t", b"\n", b"\0", b"0", b"-1", b"9" * 5000, b"nan", b"b'", b"=", b"\xff", b"AADAfw=="]
)


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """A file cut, or with up to three pieces of it taken out, replaced or put in."""
    if draw(st.integers(0, 4)) == 0:
        return content[: draw(st.integers(0, len(content)))]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 8) | st.integers(0, len(content))))
        content = content[:start] + draw(PIECES) + content[end:]
    return content


@st.composite
def mutated_cells(draw: st.DrawFn, content: bytes) -> bytes:
    """A TSV with one of its cells replaced, by a piece or by another of its cells."""
    lines = [line.split(b"\t") for line in content.splitlines()]
    cells = draw(st.sampled_from(lines))
    others = st.sampled_from([cell for line in lines for cell in line])
    cells[draw(st.integers(0, len(cells) - 1))] = draw(PIECES | others)
    return b"".join(b"\t".join(cells) + b"\n" for cells in lines)


@st.composite
def mutated_member(draw: st.DrawFn, archive: bytes) -> bytes:
    """A ZIP archive one of whose members has changed."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = draw(st.sampled_from(sorted(members)))
    members[name] = draw(mutated(members[name]))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


def changes(path: Path) -> st.SearchStrategy[bytes]:
    """What may become of a file's content."""
    content = path.read_bytes()
    further = {".tsv": mutated_cells, ".npz": mutated_member}.get(path.suffix)
    return mutated(content) | further(content) if further else mutated(content)


def read_all(open_reader: Callable[[], FeatureReader]) -> list[ImageFeatures]:
    """The images that can be read; each must be valid, and nothing but InputError be raised."""
    try:
        reader = open_reader()
    except InputError:
        return []
    images = []
    for row, image_id in enumerate(reader.ids):
        try:
            image = reader[row]
        except InputError:
            continue
        assert image.image_id == image_id
        assert image_id.encode()  # a store holds UTF-8
        "".join([*image.labels, *image.attributes]).encode()
        assert image.features.dtype == np.float16
        assert image.features.shape[1] == reader.source.dimension
        assert len(image.features)
        assert np.isfinite(image.features).all()
        assert image.features.any(axis=1).all()
        assert (image.boxes[:, :2] <= image.boxes[:, 2:]).all()
        assert 0 <= image.width < 2**31
        assert 0 <= image.height < 2**31
        images.append(image)
    assert reader.ids == sorted(reader.ids)
    assert len({image.image_id for image in images}) == len(images)
    return images
