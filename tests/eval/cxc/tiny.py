"""Judgements of three images with two captions each, in the published files' shape."""

from __future__ import annotations

import json
from pathlib import Path

IMAGES = {20: [1, 5], 7: [3, 2], 11: [9, 4]}
SITS = [
    "sentid:1,20,4.9,c2i_original",
    "sentid:5,20,2.0,c2i_original",
    "sentid:3,7,5.0,c2i_original",
    "sentid:2,7,4.0,c2i_original",
    "sentid:9,11,4.4,c2i_original",
    "sentid:4,11,5.0,c2i_original",
    "sentid:1,7,3.0,c2i_intrasim",
    "sentid:9,20,2.99,c2i_intrasim",
    "sentid:2,11,4.1,c2i_intrasim",
]
STS = [
    "sentid:1,sentid:5,0.5,c2c_cocaption",
    "sentid:1,sentid:3,3.0,c2c_isim",
    "sentid:4,sentid:3,2.99,c2c_isim",
    "sentid:2,sentid:9,5,c2c_isim",
]
SIS = ["20,7,2.5,i2i_csim", "7,20,1.0,i2i_csim", "11,20,2.49,i2i_csim"]


def write_judgements(folder: Path, split: str = "val") -> Path:
    folder.mkdir(exist_ok=True)
    files = {"sits": ("caption,image", SITS), "sts": ("caption1,caption2", STS)}
    files["sis"] = ("image1,image2", SIS)
    for name, (columns, lines) in files.items():
        text = "".join(f"{line}\n" for line in map(_published, lines))
        header = f"{columns},agg_score,sampling_method\n"
        (folder / f"{name}_{split}.csv").write_text(header + text)
    return folder


def _published(line: str) -> str:
    first, second, *rest = line.split(",")
    ids = [
        f"COCO_val2014:{name}" if "sentid" in name else f"COCO_val2014_{int(name):012}.jpg"
        for name in (first, second)
    ]
    return ",".join([*ids, *rest])


def write_sentences(path: Path, texts: dict[int, str]) -> Path:
    """Karpathy's JSON."""
    images = [
        {"sentences": [{"sentid": number, "raw": texts[number]} for number in numbers]}
        for numbers in IMAGES.values()
    ]
    path.write_text(json.dumps({"images": images}))
    return path
