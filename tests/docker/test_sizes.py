"""The sizes of an image, read from an OCI layout."""

import io
import json
import tarfile
from pathlib import Path

from tests.docker.sizes import group, read_layers, table

SITE = "opt/sparta/lib/python3.11/site-packages"


def add_layer(layout: Path, name: str, files: dict[str, int]) -> dict[str, object]:
    blob = layout / "blobs" / "sha256" / name
    blob.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(blob, "w:gz") as archive:
        for path, size in files.items():
            member = tarfile.TarInfo(path)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return {"digest": f"sha256:{name}", "size": blob.stat().st_size}


def test_sizes_of_layers_and_packages(tmp_path: Path) -> None:
    base = add_layer(tmp_path, "base", {"usr/bin/python3": 5_000_000})
    packages = {f"{SITE}/numpy/core.so": 6_000_000, f"{SITE}/numpy.libs/blas.so": 2_000_000}
    top = add_layer(tmp_path, "top", {**packages, f"{SITE}/idna/core.py": 1_000})
    (tmp_path / "blobs/sha256/manifest").write_text(json.dumps({"layers": [base, top]}))
    index = {"manifests": [{"digest": "sha256:manifest"}]}
    (tmp_path / "index.json").write_text(json.dumps(index))

    layers = read_layers(tmp_path)
    assert [layer.files.total() for layer in layers] == [5_000_000, 8_001_000]
    assert [layer.compressed for layer in layers] == [base["size"], top["size"]]
    lines = table(layers).splitlines()
    assert "| all | 13.0 | 0.0 | |" in lines
    assert lines[-3:] == ["| numpy | 8.0 |", "| base image | 5.0 |", "| 1 smaller packages | 0.0 |"]


def test_files_belong_to_packages() -> None:
    assert group(f"{SITE}/numpy-2.4.6.dist-info/METADATA") == "numpy"
    assert group(f"{SITE}/PIL/Image.py") == group(f"{SITE}/pillow.libs/a.so") == "pillow"
    assert group(f"{SITE}/pyserini/resources/jars/a.jar") == "Lucene"
    assert group(f"{SITE}/server/app.py") == "VisualSparta"
    assert group("opt/java/lib/modules") == "Java"
    assert group("opt/networks/networks/a/network.bin") == "converted networks"
    assert group("opt/sparta/bin/sparta") == "environment"
    assert group("usr/local/bin/python3.11") == "base image"
