from collections.abc import Sequence

import pytest
import torch

from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.training.corpus import Corpus
from training.inputs import split_photos
from training.module import ProcessPart
from training.visualsparta import prepare
from training.visualsparta.config import VisualSpartaDataConfig, VisualSpartaModelConfig


@pytest.fixture(scope="module")
def store(corpus: Corpus) -> FeatureStore:
    return FeatureStore.open(corpus.features)


def texts_of(photos: Sequence[CaptionedPhoto]) -> list[str]:
    return [text for photo in photos for text in photo.captions]


@pytest.mark.parametrize(("size", "world"), [(91, 1), (30, 4)])
def test_a_batch_that_does_not_fit_is_refused(
    corpus: Corpus, store: FeatureStore, size: int, world: int
) -> None:
    config = corpus.config(batch_size=size)
    photos, _ = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, texts_of(photos))
    with pytest.raises(InputError, match=f"batch_size: {size} must be a multiple of {world}"):
        prepare.training_loader(config, [store], photos, model, ProcessPart(0, world, 0))


def test_misspelt_model_settings_are_refused(corpus: Corpus, store: FeatureStore) -> None:
    photos, _ = split_photos(VisualSpartaDataConfig(captions=corpus.captions), [store], 0)
    for settings, message in (
        ({"encoder": {"hidden_sise": 32}}, r"BertConfig has no fields \['hidden_sise'\]"),
        ({"options": {"use_label": False}}, r"unknown model options \['use_label'\]"),
    ):
        with pytest.raises(InputError, match=message):
            prepare.build_model(
                VisualSpartaModelConfig.model_validate(settings), store.source, texts_of(photos)
            )


def test_validation_queries_know_their_photo(corpus: Corpus, store: FeatureStore) -> None:
    config = corpus.config()
    photos, held_out = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, texts_of(photos))
    queries, targets = prepare.validation_queries(model, held_out)
    assert targets.tolist() == [i for i in range(30) for _ in range(2)]
    expected = model.encode_queries([text for photo in held_out for text in photo.captions])
    assert torch.equal(queries.terms, expected.terms)
    assert torch.equal(queries.counts, expected.counts)
    loader = prepare.validation_loader(config, store, held_out, model)
    shown = torch.cat([batch.regions for batch in loader])
    for row, photo in zip(shown, held_out, strict=True):
        own = torch.from_numpy(store[store.index(photo.image_id)].features.copy())
        assert torch.equal(row, own)


def test_an_epoch_of_pairs_has_every_caption_once(corpus: Corpus, store: FeatureStore) -> None:
    config = corpus.config(data={"epoch": "pairs"})
    photos, _ = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, texts_of(photos))
    loader = prepare.training_loader(config, [store], photos, model, ProcessPart(0, 1, 0))
    batches = list(loader)
    assert len(batches) == len(photos) * 2 / 30
    found = []
    for batch in batches:
        assert len(batch.photos) == len(batch.query_ids) == 30
        assert torch.equal(batch.photos, batch.query_photos)
        for photo, ids, mask in zip(
            batch.query_photos.tolist(), batch.query_ids, batch.query_mask, strict=True
        ):
            found.append((photo, ids[mask].tolist()))
    expected = prepare.caption_ids(model, photos)
    assert sorted(found) == sorted((i, ids) for i, own in enumerate(expected) for ids in own)


def test_a_batch_of_more_than_all_pairs_is_refused(corpus: Corpus, store: FeatureStore) -> None:
    config = corpus.config(data={"epoch": "pairs"}, batch_size=200)
    photos, _ = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, texts_of(photos))
    with pytest.raises(InputError, match="at most the 180 training pairs"):
        prepare.training_loader(config, [store], photos, model, ProcessPart(0, 1, 0))
