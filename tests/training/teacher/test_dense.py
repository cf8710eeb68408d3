from pathlib import Path

import numpy as np
import pytest
import torch

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_regions
from tests.sparta.vse import models
from tests.training.teacher.inputs import TEXTS
from training.teacher import teachers as dense
from training.teacher.teachers import DenseTeacher


def test_vectors_are_averaged_over_stores(
    stores: list[FeatureStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "TEXTS", 2)
    model = models.bigru(views=2)
    model.save_pretrained(tmp_path)
    teacher = DenseTeacher(str(tmp_path), stores, torch.device("cpu"))
    assert teacher.shape == (2, 8)
    found = np.concatenate(list(teacher.photos(stores[0].ids, 1)))
    with torch.inference_mode():
        each = [model.encode_images(collate_regions(list(store)[1:])) for store in stores[:2]]
    assert np.allclose(found, (each[0] + each[1]) / 2, atol=1e-3)
    read = np.concatenate(list(teacher.sentences(TEXTS)))
    assert np.allclose(read, model.embed_texts(TEXTS), atol=1e-3)


def test_a_model_that_does_not_read_features_is_refused(
    stores: list[FeatureStore], tmp_path: Path
) -> None:
    model = models.bigru()
    model.tokenizer = None
    model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has a vision network inside or no tokenizer"):
        DenseTeacher(str(tmp_path), stores, torch.device("cpu"))
