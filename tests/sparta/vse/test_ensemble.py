import pytest
import torch
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.vse.batch import collate_regions
from sparta.vse.ensemble import Ensemble
from tests import tiny
from tests.sparta.vse.models import SENTENCES, bigru, regions


def test_score_is_the_mean_of_each_models_own() -> None:
    grid = FeatureSource("grid", "network", "abc", 3, 64)
    models = [bigru(views=2, visual_pooling="max"), bigru(grid, dimension=4)]
    features = [regions(), collate_regions([tiny.image(2, seed=i, dimension=3) for i in range(4)])]
    ensemble = Ensemble(models)
    texts = ensemble.embed_texts(SENTENCES)
    images = [part.detach() for part in ensemble.encode_images(features)]
    assert [part.shape for part in texts] == [(5, 8), (5, 4)]
    assert [part.shape for part in images] == [(4, 2, 8), (4, 1, 4)]
    found = ensemble.score(texts, images)
    assert found.shape == (5, 4)
    for q in range(5):
        for i in range(4):
            cosines = [
                max(float(text[q] @ view) for view in image[i])
                for text, image in zip(texts, images, strict=True)
            ]
            assert_close(found[q, i].item(), sum(cosines) / 2)


def test_one_model_is_an_ensemble_too() -> None:
    model = bigru()
    ensemble = Ensemble([model])
    texts, images = ensemble.embed_texts(SENTENCES), ensemble.encode_images([regions()])
    expected = model.embed_texts(SENTENCES) @ model.encode_images(regions())[:, 0].T
    assert_close(ensemble.score(texts, images), expected)


def test_every_model_needs_its_features() -> None:
    with pytest.raises(InputError, match="at least one model"):
        Ensemble([])
    ensemble = Ensemble([bigru(), bigru()])
    with pytest.raises(InputError, match="1 batches of features for an ensemble of 2"):
        ensemble.encode_images([regions()])
    fewer = collate_regions(tiny.images()[:3])
    with pytest.raises(InputError, match=r"different counts: \[4, 3\]"):
        ensemble.encode_images([regions(), fewer])
    texts = ensemble.embed_texts(SENTENCES)
    images = ensemble.encode_images([regions()] * 2)
    with pytest.raises(InputError, match="3 text embeddings for an ensemble of 2"):
        ensemble.score([*texts, texts[0]], images)
    with pytest.raises(InputError, match=r"image embeddings are of different counts: \[4, 2\]"):
        ensemble.score(texts, [images[0], images[1][:2]])
    assert torch.isfinite(ensemble.score(texts, images)).all()
