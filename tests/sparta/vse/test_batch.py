import numpy as np
import pytest
import torch

from sparta.vse.batch import (
    PixelBatch,
    RegionBatch,
    TextBatch,
    collate_images,
    collate_pixels,
    collate_regions,
    collate_texts,
    real_rows,
)
from tests import tiny


def test_regions_are_padded_behind_with_zeros() -> None:
    images = tiny.images()
    batch = collate_regions(images)
    assert (batch.regions.shape, batch.regions.dtype) == ((4, 5, 5), torch.float16)
    assert (batch.lengths.tolist(), batch.lengths.dtype) == ([3, 1, 5, 4], torch.int64)
    for row, length, image in zip(*batch, images, strict=True):
        np.testing.assert_array_equal(row[:length], image.features)
        assert not row[length:].any()


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_the_first_regions_are_kept(limit: int) -> None:
    batch = collate_regions(tiny.images(), limit)
    assert batch.lengths.tolist() == [min(limit, n) for n in (3, 1, 5, 4)]
    kept = int(batch.lengths.max())
    assert torch.equal(batch.regions, collate_regions(tiny.images()).regions[:, :kept])


def test_photos_are_stacked_with_their_colours_first() -> None:
    photos = list(np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3), np.uint8))
    pixels = collate_pixels(photos).pixels
    assert (pixels.shape, pixels.dtype) == ((3, 3, 4, 4), torch.uint8)
    for row, photo in zip(pixels, photos, strict=True):
        np.testing.assert_array_equal(row[2], photo[:, :, 2])


def test_images_are_collated_as_what_they_are() -> None:
    photos = list(np.zeros((2, 4, 4, 3), np.uint8))
    assert isinstance(collate_images(photos, 3), PixelBatch)
    regions = collate_images(tiny.images(), 3)
    assert isinstance(regions, RegionBatch)
    assert torch.equal(regions.regions, collate_regions(tiny.images(), 3).regions)


def test_an_image_without_regions_is_one_zero_vector() -> None:
    batch = collate_regions([tiny.image(0), tiny.image(2)])
    assert batch.lengths.tolist() == [1, 2]
    assert not batch.regions[0].any()
    assert collate_regions([tiny.image(0)]).regions.shape == (1, 1, 5)


def test_texts_are_padded_behind_with_the_pad_id() -> None:
    batch = collate_texts([[5, 6], [7], [8, 9, 10]], pad_id=4)
    assert batch.ids.tolist() == [[5, 6, 4], [7, 4, 4], [8, 9, 10]]
    assert (batch.lengths.tolist(), batch.ids.dtype) == ([2, 1, 3], torch.int64)


def test_real_rows_come_first() -> None:
    assert real_rows(torch.tensor([2, 0, 3]), 3).int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    "batch",
    [
        RegionBatch(torch.zeros(2, 3, 4), torch.ones(2)),
        TextBatch(torch.zeros(2, 3), torch.ones(2)),
        PixelBatch(torch.zeros(2, 3, 4, 4)),
    ],
)
def test_batches_move_as_a_whole(batch: RegionBatch | TextBatch | PixelBatch) -> None:
    moved = batch.to("meta")
    assert type(moved) is type(batch)
    assert {part.device.type for part in moved} == {"meta"}
