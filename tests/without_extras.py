"""Every command without the extras: what it does, or the extra that it names.

As a program it runs the commands in the present folder, with the extras' libraries hidden.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from sparta.extras import EXTRAS, how_to_install

# Run one after another in a folder that `prepare` made.
WORK = [
    "index photos --out index",
    "index pixels --model sample --out other",
    "search index elephant",
    "search index elephant --explain",
    "explain index 000030.jpg elephant",
    "similar index 000030.jpg",
    "serve index --check",
    "publish other --out site --size 64",
    "add index more",
    "update index captions.jsonl",
    "delete index 000001.jpg --yes",
    "sync index photos --yes",
    "info index",
    "verify index",
    "snapshot index snapshot",
    "restore snapshot restored",
    "merge index",
    "export anserini index anserini",
    "export opensearch index opensearch",
    "export npz index npz",
    "extract photos --backbone pixels --out patches",
    "captions captions.jsonl --out written.jsonl",
    "keys create mine --keys keys.json",
    "keys list --keys keys.json",
    "import precomp . --split dev --out imported",
    # Searched and written to as far as it goes.
    "search full elephant",
    "add full more --model sample",
    "merge full",
]

# `full` is an index with a Lucene index and a dense part.
LACK = {
    "train": [
        "index photos --device cuda --out absent",
        "extract photos --backbone efficientnet-lite2 --out absent",
        "extract photos --detector hustvl/yolos-tiny --out absent",
        "import oscar-pt test_img_frcnn_feats.pt --out absent",
        "convert model_best.pth --out absent",
        "convert sample --out absent --substitutes bert",
        "train sample --out absent",
        "adapt clip --out absent",
        "eval index index --captions captions.jsonl",
        "eval index index --queries queries.txt",
        "eval model sample --captions captions.jsonl --features pixels",
        "eval table 2ad-3 --features region=pixels --captions captions.jsonl --out absent",
    ],
    "plots,train": [
        "eval pruning pixels --model sample --captions captions.jsonl --out absent.json",
        "eval figure grounding index --captions captions.jsonl --out absent.png",
    ],
    "plots": ["explain index 000030.jpg elephant --figure absent.png"],
    "bench": ["bench speed index"],
    "dense": [
        "add full --dense dense --features pixels",
        "search full elephant --backend tiny",
        "similar full 000030.jpg --backend tiny",
        "eval index full --captions captions.jsonl --backend tiny",
    ],
    "timm": ["extract photos --backbone timm --out absent"],
    "backbones": ["extract photos --backbone efficientnet-lite0 --out absent"],
    "lucene": [
        "search index elephant --engine lucene",
        "search full elephant --engine lucene",
        "similar full 000030.jpg --engine lucene",
        "serve full --engine lucene",
        "export lucene index absent",
    ],
    "milvus": [
        "serve index --milvus milvus://127.0.0.1:1",
        "export milvus index milvus://127.0.0.1:1",
    ],
    "ray": [
        "index photos --ray local --out absent",
        "index s3://bucket/photos --out absent",
        "extract photos --backbone pixels --ray local --out absent",
        "serve index --ray local",
    ],
    "mcp": ["mcp index"],
    "tracing": ["serve index --set tracing=true --port 0"],
    "video": ["import hgr ordered_feature/SA/resnet152.pth --split trn --out absent"],
}
# Command → None, or the extras that it names.
OUTCOMES = dict.fromkeys(WORK) | {one: name for name in LACK for one in LACK[name]}


def prepare(folder: Path) -> None:
    """Make what the commands read; this takes all extras."""
    import numpy as np

    from indexer.build import build_index
    from indexer.dense.build import add_dense
    from sparta.extract.job import extract_photos
    from sparta.features.store import FeatureStore
    from sparta.model_id import SAMPLE
    from tests.indexer.tiny_dense import save_dense_model
    from tests.sparta.readers.samples import frames_folder, write_names, write_precomp

    shutil.copytree(SAMPLE / "photos", folder / "photos")
    (folder / "more").mkdir()
    shutil.copy(SAMPLE / "photos" / "000000.jpg", folder / "more" / "another.jpg")
    extract_photos(folder / "photos", folder / "pixels", "pixels", workers=0)
    store = FeatureStore.open(folder / "pixels")
    save_dense_model(folder / "dense", source=store.source)
    build_index([store], ["sample"], folder / "full", device="cpu")
    add_dense(folder / "full", store, "tiny", folder / "dense", device="cpu")
    lines = [{"image": f"{n:06}.jpg", "captions": ["a tent"], "split": "val"} for n in range(2, 9)]
    (folder / "timm").mkdir()
    (folder / "timm" / "config.json").write_text('{"pretrained_cfg": {}}')
    (folder / "timm" / "model.safetensors").touch()
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "queries.txt").write_text("a tent\nan elephant\n")
    (folder / "test_img_frcnn_feats.pt").touch()
    (folder / "model_best.pth").touch()
    write_precomp(folder, "dev", np.ones((2, 3, 4), np.float32), ["a", "b"])
    write_names(folder, trn=["video"])
    frames_folder(folder, trn={"video": np.ones((2, 3), np.float32)})


def check(command: str, advice: str | None, status: int, errors: str) -> None:
    """Check what a command ended with: well, or with the line that says how to get its extras."""
    if advice is None:
        assert status == 0, f"{command}: {errors}"
        return
    assert status == 1 and errors.count("\n") == 1, f"{command}: {errors}"
    assert errors.startswith("error: "), f"{command}: {errors}"
    assert errors.endswith(f" is not installed; run: {advice}\n"), f"{command}: {errors}"


def _here(command: str) -> tuple[int, str]:
    from sparta.__main__ import main

    sys.argv = ["sparta", *command.split()]
    errors = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors):
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), errors.getvalue()
    return 0, errors.getvalue()


if __name__ == "__main__":
    hidden = {*EXTRAS, "numba", "opentelemetry.sdk", "opentelemetry.exporter"} - {"opentelemetry"}
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    os.environ["VISUALSPARTA_CACHE"] = "cache"  # which is empty
    for one, lacking in OUTCOMES.items():
        check(one, lacking and how_to_install(lacking), *_here(one))
