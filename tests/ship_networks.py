"""Put the shipped models' networks into the package, converted for OpenVINO: run it after training.

    python -m tests.ship_networks

Constants that half precision holds exactly are written in it, as most weights are in the models'
own files; the others stay as they are. So the networks compute what the cached ones do. A constant
that is in the model's file is left there: the package has no weight twice.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np

import sparta
from indexer.encoding import scorers
from sparta import inference
from sparta.files import sha256
from sparta.json_values import Json, JsonMapping
from sparta.model_id import SAMPLE
from sparta.networks import load

ALIGNMENT = 64  # bytes


def ship(key: JsonMapping, make: inference.Make) -> tuple[Path, Json]:
    """Convert a network as the cache would, into the package."""
    out = inference.SHIPPED / inference.digest_of(key)
    with TemporaryDirectory() as work:
        description = dict(make(Path(work)))
        ov = inference.openvino()
        network = ov.Core().read_model(Path(work) / inference.NETWORK)
        halve(ov, network)
        out.mkdir(parents=True)
        ov.save_model(network, out / inference.NETWORK, compress_to_fp16=False)
    digest = (key.get("network") or key["model"])[-1]
    models = inference.SHIPPED.parent.rglob("*.safetensors")
    weights = next(path for path in models if sha256(path).startswith(digest))
    description["weights"] = weights.relative_to(inference.SHIPPED.parent).as_posix()
    share(out / inference.NETWORK, weights.read_bytes())
    (out / inference.DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
    inference.seal(out)
    return out, description


def halve(ov: Any, network: Any) -> None:
    """Put constants in half precision where it holds them exactly, and convert them back."""
    for constant in [one for one in network.get_ops() if one.get_type_name() == "Constant"]:
        if constant.get_element_type() != ov.Type.f32:
            continue
        values = constant.data
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if np.array_equal(half.astype(np.float32), values):
            made = ov.opset13.convert(ov.opset13.constant(half), "f32")
            readers = list(constant.output(0).get_target_inputs())
            for reader in readers:
                reader.replace_source_output(made.output(0))


def share(path: Path, weights: bytes) -> None:
    """Leave constants to the file of the weights: the `.bin` keeps the others, as if behind it."""
    tree, constants = ElementTree.parse(path), path.with_suffix(".bin").read_bytes()
    kept = bytes(-len(weights) % ALIGNMENT)
    for data in tree.iter("data"):
        if "offset" not in data.attrib:
            continue
        start = int(data.attrib["offset"])
        constant = constants[start : start + int(data.attrib["size"])]
        found = weights.find(constant) if data.attrib["element_type"] == "f16" else -1
        if found < 0 or found % 2:
            found = len(weights) + len(kept)
            kept += constant + bytes(-len(constant) % ALIGNMENT)
        data.attrib["offset"] = str(found)
    tree.write(path)
    path.with_suffix(".bin").write_bytes(kept)


def main() -> None:
    """Convert what indexing photos with the shipped models needs."""
    shutil.rmtree(inference.SHIPPED, ignore_errors=True)
    with TemporaryDirectory() as work:
        os.environ[inference.FOLDER_VARIABLE] = work
        for module in (load, scorers):
            module.add_entry = ship  # type: ignore[attr-defined]
        for model in ("photos", "sample"):
            sparta.build(SAMPLE / "photos", Path(work) / model, model=model).close()


if __name__ == "__main__":
    main()
