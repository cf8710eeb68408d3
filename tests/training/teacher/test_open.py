from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests import tiny
from tests.sparta.vse import models
from tests.training.teacher.encoders import clip
from tests.training.teacher.inputs import teacher_inputs
from training.teacher.open import find_nearest, open_teacher, teacher_key


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    tiny.model().save_pretrained(tmp_path / "sparse")
    models.bigru().save_pretrained(tmp_path / "dense")
    return [str(tmp_path / "sparse"), str(tmp_path / "dense")]


def test_kinds_are_averaged(stores: list[FeatureStore], names: list[str], tmp_path: Path) -> None:
    inputs = teacher_inputs(stores[0], tmp_path / "cache")
    every = np.arange(5), np.arange(4)
    alone = [open_teacher([name], inputs) for name in names]
    assert (alone[0].terms is not None, alone[1].terms is not None) == (True, False)
    both = open_teacher(names, inputs)
    mean = (alone[0].between(*every) + alone[1].between(*every)) / 2
    assert np.allclose(both.between(*every), mean, atol=1e-5)
    similar = both.between(*every).T
    nearest = find_nearest(both, teacher_key(names, inputs), 2, inputs)
    assert [set(row) for row in nearest] == [set(np.argsort(-row)[:2]) for row in similar]
    assert find_nearest(both, "all", 99, inputs).shape == (4, 5)


def test_a_key_changes_with_models_photos_and_sentences(
    stores: list[FeatureStore], names: list[str], tmp_path: Path
) -> None:
    (tmp_path / "1-3.jpg").write_bytes(b"1")
    keys = [
        teacher_key(of, teacher_inputs(stores[0], tmp_path, **changes))
        for of, changes in (
            (names, {}),
            (names[:1], {}),
            (names, {"stores": stores[1:2]}),
            (names, {"sentences": ["a"]}),
            (names, {"image_ids": stores[0].ids[:2]}),
            (names, {"photos": tmp_path}),
        )
    ]
    (tmp_path / "1-3.jpg").write_bytes(b"22")
    keys.append(teacher_key(names, teacher_inputs(stores[0], tmp_path, photos=tmp_path)))
    assert len(set(keys)) == len(keys)
    assert keys[0] == teacher_key(names, teacher_inputs(stores[0], tmp_path))


def test_wrong_teachers_are_named(stores: list[FeatureStore], tmp_path: Path) -> None:
    inputs = teacher_inputs(stores[0], tmp_path / "cache")
    with pytest.raises(InputError, match="--teacher nowhere does not exist: give the folder"):
        open_teacher(["nowhere"], inputs)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"its config\.json cannot be read"):
        open_teacher([str(tmp_path)], inputs)
    encoder = str(clip(tmp_path / "clip"))
    with pytest.raises(InputError, match=r"clip looks at photos.*nowhere\): give teacher\.photos"):
        open_teacher([encoder], inputs)
    gone = teacher_inputs(stores[0], tmp_path, photos=tmp_path / "gone")
    with pytest.raises(InputError, match=r"gone\): give teacher\.photos"):
        open_teacher([encoder], gone)
