import logging

import numpy as np
import pytest
import torch

from sparta.visualsparta.collate import ImageCollator
from tests import tiny

IDS = {term: i for i, term in enumerate(tiny.VOCABULARY)}


def test_images_are_padded_with_zeros() -> None:
    images = tiny.images()
    batch = tiny.batch(images)
    assert len(batch) == 4
    assert (batch.regions.shape, batch.regions.dtype) == ((4, 5, 5), torch.float16)
    assert (batch.locations.shape, batch.locations.dtype) == ((4, 5, 6), torch.float32)
    assert batch.label_ids.dtype == batch.label_regions.dtype == torch.int64
    assert batch.region_mask.sum(dim=1).tolist() == [3, 1, 5, 4]
    assert batch.label_mask.sum(dim=1).tolist() == [4, 0, 6, 1]
    for i, image in enumerate(images):
        n = len(image.features)
        np.testing.assert_array_equal(batch.regions[i, :n], image.features)
        np.testing.assert_array_equal(batch.locations[i, :n], image.locations)
        assert batch.region_mask[i].tolist() == [True] * n + [False] * (5 - n)
        assert not batch.regions[i, n:].any()
        assert not batch.locations[i, n:].any()
    assert not batch.label_ids[~batch.label_mask].any()
    assert not batch.label_regions[~batch.label_mask].any()


def test_labels_are_attribute_then_label_in_word_pieces_with_their_region() -> None:
    batch = tiny.batch([tiny.image(5, ("", "runs", "sea", "zebra man"))])
    words = ["brown", "run", "##s", "sea", "brown", "man"]
    assert batch.label_ids.tolist() == [[IDS[word] for word in words]]
    assert batch.label_regions.tolist() == [[1, 1, 1, 2, 3, 3]]


@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_further_regions_and_their_labels_are_cut(
    limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    collate = ImageCollator(tiny.tokenizer(), limit, 35)
    image = tiny.image(4, ("dog", "cat", "man", "tree"))
    with caplog.at_level(logging.WARNING):
        batch = collate([image])
        collate([image])
    kept = min(limit, 4)
    assert batch.regions.shape[1] == kept
    assert batch.label_regions.max() == kept - 1
    assert len(caplog.records) == (limit < 4)  # said once, not for every image
    assert all("0-4.jpg has 4 regions" in r.message for r in caplog.records)


def test_labels_may_go_without_attributes() -> None:
    image = tiny.image(5, ("", "runs", "sea", "zebra man"))
    batch = ImageCollator(tiny.tokenizer(), 50, 35, attributes=False)([image])
    assert batch.label_ids.tolist() == [[IDS[word] for word in ["run", "##s", "sea", "man"]]]
    assert batch.label_regions.tolist() == [[1, 1, 2, 3]]


def test_the_collator_of_a_configuration() -> None:
    config = tiny.model(max_regions=2, max_label_tokens=3, use_attributes=False).config
    batch = ImageCollator.of(tiny.tokenizer(), config)([tiny.image(4, ("dog", "red cat", "man"))])
    assert batch.regions.shape[1] == 2
    assert batch.label_ids.tolist() == [[IDS["dog"], IDS["red"], IDS["cat"]]]


def test_the_length_is_that_of_a_batch_of_one() -> None:
    collate = ImageCollator(tiny.tokenizer(), 4, 5)
    lengths = [collate.length(image) for image in tiny.images()]
    for image, length in zip(tiny.images(), lengths, strict=True):
        batch = collate([image])
        assert batch.region_mask.shape[1] + batch.label_mask.shape[1] == length
    assert lengths == [3 + 4, 1, 4 + 5, 4 + 1]
