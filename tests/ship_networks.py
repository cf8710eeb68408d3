"""Put the shipped models' networks into the package, converted for OpenVINO: run it after training.

    python -m tests.ship_networks

Their weights are in half precision, as in the model's own files, so that nothing is lost.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import sparta
from indexer.encoding import scorers
from sparta import inference
from sparta.json_values import Json, JsonMapping
from sparta.model_id import SAMPLE
from sparta.networks import load


def ship(key: JsonMapping, make: inference.Make) -> tuple[Path, Json]:
    """Convert a network as the cache would, into the package."""
    out = inference.SHIPPED / inference.digest_of(key)
    with TemporaryDirectory() as work:
        description = dict(make(Path(work)))
        ov = inference.openvino()
        network = ov.Core().read_model(Path(work) / load.NETWORK)
        out.mkdir(parents=True)
        ov.save_model(network, out / load.NETWORK, compress_to_fp16=True)
    (out / inference.DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
    inference.seal(out)
    return out, description


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
