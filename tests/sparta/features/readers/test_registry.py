from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from sparta.commands.import_features import import_
from sparta.errors import InputError
from sparta.features.readers.registry import FORMATS, Format, detect, fitting
from tests.sparta.features.readers.oscar_files import (
    random_images,
    write_captioning,
    write_pt,
    write_scene_graph,
)

IMAGES = random_images("12")


def vinvl(folder: Path) -> Path:
    (folder / "features.tsv").write_text("a\t1\tAAAA\n")
    (folder / "predictions.tsv").write_text('a\t{"image_h": 4, "image_w": 4, "objects": []}\n')
    return folder


def bottom_up(folder: Path) -> Path:
    (folder / "a.tsv").write_text("a\t4\t4\t1\tAAAA\tAAAA\n")
    return folder / "a.tsv"


def lxmert(folder: Path) -> Path:
    (folder / "a.tsv").write_text("a\t4\t4\tAA\tAA\tAA\tAA\t1\tAAAA\tAAAA\n")
    return folder / "a.tsv"


def npz(folder: Path) -> Path:
    arrays = dict.fromkeys(("x", "bbox", "num_bbox", "image_w", "image_h"), np.ones(1))
    np.savez(folder / "a.npz", allow_pickle=False, **arrays)
    return folder


def precomp(folder: Path) -> Path:
    np.save(folder / "dev_ims.npy", np.ones((1, 2, 3), np.float32))
    (folder / "dev_ids.txt").write_text("1\n")
    return folder


def hgr(folder: Path) -> Path:
    np.save(folder / "trn_ft.npy", np.ones((1, 3), np.float32))
    return folder


SAMPLES: dict[Format, Callable[[Path], Path]] = {
    "vinvl": vinvl,
    "oscar-pt": lambda folder: write_pt(folder, IMAGES),
    "oscar-captioning": lambda folder: write_captioning(folder, IMAGES),
    "scene-graph": lambda folder: write_scene_graph(folder, IMAGES),
    "bottom-up": bottom_up,
    "lxmert": lxmert,
    "bottom-up-npz": npz,
    "precomp": precomp,
    "hgr": hgr,
}


def test_every_format_has_a_sample_and_an_example() -> None:
    assert set(FORMATS) == set(SAMPLES) == set(get_args(Format))
    for name in FORMATS:
        assert f"sparta import {name} " in (import_.__doc__ or "")


@pytest.mark.parametrize("name", SAMPLES)
def test_files_look_like_their_own_format_alone(tmp_path: Path, name: Format) -> None:
    path = SAMPLES[name](tmp_path)
    assert fitting([path]) == [name]
    assert detect([path]) == name
    assert detect([path, path]) == name


def test_files_of_no_format_or_of_several_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent does not exist"):
        detect([tmp_path / "absent"])
    with pytest.raises(InputError, match=r"no format fits; name one instead of auto: vinvl \(f"):
        detect([tmp_path])
    precomp(tmp_path)
    hgr(tmp_path)
    with pytest.raises(InputError, match="could be precomp or hgr; name one instead of auto"):
        detect([tmp_path])
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="no format fits"):
        detect([tmp_path, vinvl(tmp_path / "other")])


def test_a_folder_that_may_not_be_read_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, *_: object, **__: object) -> bool:
        raise PermissionError

    for question in ("exists", "is_file", "is_dir", "glob", "open"):
        monkeypatch.setattr(Path, question, refuse)
    assert fitting([Path("secret")]) == []
