"""Score matrices, captions by probability, protocols, and recall, against slow references."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchmetrics.retrieval import RetrievalHitRate

from eval.recall import scores as module
from eval.recall.photos import choose
from eval.recall.scores import (
    Scores,
    caption_posterior,
    dense_scores,
    mean_scores,
    measure_recall,
    sparse_scores,
)
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.metrics import LARGEST_BLOCK

TEXTS, IMAGES, VIEWS, DIMENSION, TERMS = 7, 12, 3, 4, 6
WORDS = [[0, 3], [5, 5, 1], [], [2], [4, 0, 1, 1, 1], [], []]
ALL = slice(None)


def dense(seed: int = 0) -> tuple[Scores, Tensor]:
    """Scores, and each number of them by its own loop."""
    random = torch.Generator().manual_seed(seed)
    texts = torch.randn(TEXTS, 1, DIMENSION, generator=random)
    images = torch.randn(IMAGES, VIEWS, DIMENSION, generator=random)
    slow = [[max(float(text[0] @ view) for view in own) for own in images] for text in texts]
    return dense_scores(texts, images), torch.tensor(slow)


def sparse() -> tuple[Scores, Tensor]:
    weights = torch.rand(TERMS, IMAGES, generator=torch.Generator().manual_seed(1)) + 0.5
    slow = [[sum(float(weights[t, j]) for t in text) for j in range(IMAGES)] for text in WORDS]
    return sparse_scores(WORDS, weights), torch.tensor(slow)


def ensemble() -> tuple[Scores, Tensor]:
    members = dense(), sparse(), dense(2)
    slow = torch.stack([slow for _, slow in members])
    return mean_scores([scores for scores, _ in members]), slow.mean(dim=0)


CASES = pytest.mark.parametrize(
    ("scores", "matrix"), [dense(), sparse(), ensemble()], ids=["dense", "sparse", "mean"]
)


def agree(scores: Scores, matrix: Tensor) -> None:
    assert scores.shape == matrix.shape
    for part in (slice(0, 2), slice(2, 3), slice(3, None), ALL):
        torch.testing.assert_close(scores.rows(part), matrix[part], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scores.columns(part), matrix[:, part].T, atol=1e-5, rtol=1e-5)


@CASES
def test_parts_of_the_matrix(scores: Scores, matrix: Tensor) -> None:
    agree(scores, matrix)
    for texts, images in ((slice(1, 6), slice(2, 12)), (slice(0, 5), slice(0, 6))):
        some = scores.select(texts, images)
        agree(some, matrix[texts, images])
        agree(some.select(slice(1, 5), ALL), matrix[texts, images][1:5])


@CASES
@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("block", [LARGEST_BLOCK, 16])
def test_parts_of_the_posterior(
    scores: Scores, matrix: Tensor, temperature: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_BLOCK", block)
    shown, others = scores.select(ALL, slice(4)), scores.select(ALL, slice(4, None))
    found = caption_posterior(shown, others, temperature)
    expected = torch.empty(TEXTS, 4)
    for q, row in enumerate(matrix.tolist()):
        mean = sum(math.exp(one / temperature) for one in row[4:]) / len(row[4:])
        for v in range(4):
            expected[q, v] = temperature * math.log(math.exp(row[v] / temperature) / mean)
    agree(found, expected)
    agree(found.select(slice(1, 6), ALL), expected[1:6])


def test_large_scores_do_not_overflow() -> None:
    scores = sparse_scores([[0, 0]], torch.full((1, 3), 900.0))
    found = caption_posterior(scores, scores, 0.5)
    torch.testing.assert_close(found.rows(ALL), torch.zeros(1, 3))


# ---- protocols, and recall in both directions ----------------------------------------------------


def photos(captions: list[int]) -> list[CaptionedPhoto]:
    """Photos of descending ids, so that their order is not that of the ids."""
    return [
        CaptionedPhoto(f"{9_000_000 - i}.jpg", "test", tuple(f"{i} {k}" for k in range(count)))
        for i, count in enumerate(captions)
    ]


def matrix_of(scores: Tensor) -> Scores:
    """Scores that are exactly a given matrix [T, N]."""
    return dense_scores(scores[:, None], torch.eye(scores.shape[1])[:, None])


def hit_rate(scores: Tensor, captions: list[int], k: int, by_image: bool) -> float:
    """By torchmetrics, in percent."""
    owners = torch.arange(len(captions)).repeat_interleave(torch.tensor(captions))
    target = owners[:, None] == torch.arange(len(captions))
    if by_image:
        scores, target = scores.T, target.T
    queries = torch.arange(len(scores))[:, None].expand_as(scores)
    metric = RetrievalHitRate(top_k=k)
    return 100 * float(metric(scores.flatten(), target.flatten(), queries.flatten()))


@pytest.mark.parametrize("captions", [[5] * 30, [1, 20, 3, 2] * 8, [10] * 12])
def test_both_ways_are_the_hit_rates_of_torchmetrics(captions: list[int]) -> None:
    scores = torch.rand(sum(captions), len(captions), generator=torch.Generator().manual_seed(0))
    found = measure_recall("all", choose("all", photos(captions)), matrix_of(scores))
    for k, place in ((1, 0), (5, 1), (10, 2)):
        expected = hit_rate(scores, captions, k, by_image=False)
        assert found.text_to_image[place] == pytest.approx(expected)
        expected = hit_rate(scores, captions, k, by_image=True)
        assert found.image_to_text[place] == pytest.approx(expected)
    assert (found.folds, found.images, found.captions) == (1, len(captions), sum(captions))
    assert found.rsum == pytest.approx(sum(found.text_to_image[:3]) + sum(found.image_to_text[:3]))


def test_median_ranks() -> None:
    """Three photos with one caption each; ranks by hand."""
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.7, 0.6, 0.8], [0.3, 0.2, 0.1]])
    found = measure_recall("all", choose("all", photos([1, 1, 1])), matrix_of(scores))
    assert found.text_to_image.median_rank == 3  # 1, 3, 3
    assert found.image_to_text.median_rank == 2  # 1, 2, 3: ties count against the model
    assert found.text_to_image.at_5 == 100 and found.image_to_text.at_1 == pytest.approx(100 / 3)


def test_five_folds_in_the_order_of_the_file() -> None:
    given = photos([5, 6, 7, 5] * 1250)
    folds = choose("coco-1k", given)
    assert [len(fold) for fold in folds] == [1000] * 5
    assert [photo.image_id for fold in folds for photo in fold] == [p.image_id for p in given]
    assert folds[3][2].captions == given[3002].captions[:5]
    (whole,) = choose("coco-5k", given)
    assert whole == [photo for fold in folds for photo in fold]


def test_each_fold_is_measured_alone() -> None:
    folds = [photos([5] * 40) for _ in range(3)]
    random = torch.Generator().manual_seed(1)
    images = torch.randn(120, 1, 6, generator=random)
    texts = images[:, 0].repeat_interleave(5, 0) + torch.randn(600, 6, generator=random)
    found = measure_recall("coco-1k", folds, dense_scores(texts[:, None], images))
    apart = []
    for start in (0, 40, 80):
        own = dense_scores(texts[5 * start : 5 * start + 200, None], images[start : start + 40])
        apart.append(measure_recall("all", [photos([5] * 40)], own))
    for way in ("text_to_image", "image_to_text"):
        for name in ("at_1", "at_5", "at_10", "median_rank"):
            mean = sum(getattr(getattr(one, way), name) for one in apart) / 3
            assert getattr(getattr(found, way), name) == pytest.approx(mean)
    assert found.rsum == pytest.approx(sum(one.rsum for one in apart) / 3)
    assert (found.folds, found.images, found.captions) == (3, 120, 600)
    whole = measure_recall("coco-5k", [photos([5] * 120)], dense_scores(texts[:, None], images))
    assert whole.folds == 1 and whole.rsum < found.rsum


def test_oscars_list(tmp_path: Path) -> None:
    given = photos([5] * 1010)
    given[3] = CaptionedPhoto("val2014/COCO_val2014_000000391895.jpg", "test", ("a",) * 6)
    listed = [given[3], *given[10:1009]]
    file = tmp_path / "test_img_keys_1k.tsv"
    lines = ["391895", *(photo.image_id for photo in given[10:1009])]
    file.write_text("\n".join(lines) + "\n")
    (fold,) = choose("oscar-1k", given, file)
    assert [photo.image_id for photo in fold] == [photo.image_id for photo in listed]
    assert fold[0].captions == ("a",) * 5
    file.write_text("\n".join(lines) + "\n\n", encoding="utf-8-sig")  # with a byte order mark
    assert choose("oscar-1k", given, file) == [fold]
    file.write_text("391895\n77\n")
    with pytest.raises(InputError, match=r"1k\.tsv, line 2: '77' is no image of the split"):
        choose("oscar-1k", given, file)
    file.write_text("391895\n")
    with pytest.raises(InputError, match=r"defined on 1,000 photos, here are 1\b"):
        choose("oscar-1k", given, file)
    for protocol, images in (("oscar-1k", None), ("all", file)):
        with pytest.raises(InputError, match="--image-list FILE goes with --protocol oscar-1k"):
            choose(protocol, given, images)


def test_protocols_refuse_other_data() -> None:
    with pytest.raises(InputError, match=r"'coco' is not one of: all, coco-5k"):
        choose("coco", photos([5]))
    for protocol in ("coco-1k", "coco-5k"):
        with pytest.raises(InputError, match=r"defined on 5,000 photos, here are 4,999"):
            choose(protocol, photos([5] * 4999))
    with pytest.raises(InputError, match=r"takes 5 captions .* '8999001\.jpg' has 4"):
        choose("flickr30k-1k", photos([*[5] * 999, 4]))
    assert len(choose("flickr30k-1k", photos([5] * 1000))) == 1
