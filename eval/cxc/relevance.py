"""Relevant items by the judgements of Crisscrossed Captions (CxC, arXiv 2004.15020).

The gallery is every judged item of a split: COCO's 5,000 validation or test images, and five
captions of each. As in the paper, a pair is positive with a score of at least 3 between two
captions or a caption and an image, and of at least 2.5 between two images:

- text → image: the caption's image, and images judged to fit it with at least 3.
- image → text: the same pairs, reversed.
- text → text: the other captions of the same image, and captions judged with at least 3.
- image → image: images judged with at least 2.5. Images without any are no queries.

COCO's pairs are positive whatever their score (38 of 25,000 are below 3 in the validation split),
so that every caption and every image is a query between the modes; so are captions of the same
image, as in the code published with GPO. Judgements are symmetric; of a pair judged in both orders
the higher score counts. An item is not in its own gallery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval.cxc.files import ORIGINAL, JudgedPair, Judgements
from sparta.errors import InputError

TEXT_THRESHOLD = 3.0
IMAGE_THRESHOLD = 2.5
TEXT_TO_IMAGE, IMAGE_TO_TEXT = "text → image", "image → text"
TEXT_TO_TEXT, IMAGE_TO_IMAGE = "text → text", "image → image"


@dataclass(frozen=True)
class RelevantItems:
    """The gallery, and the relevant items of each query.

    Attributes:
        captions: COCO's numbers, in the order of the file.
        images: likewise.
        ways: direction → for each query the positions of its relevant items, rising.
    """

    captions: list[int]
    images: list[int]
    ways: dict[str, list[list[int]]]


def relevant_items(judged: Judgements) -> RelevantItems:
    """Turn judgements into relevant items.

    Raises:
        InputError: if a caption belongs to two images in COCO, or a pair has a caption or an
            image that is in no pair of COCO.
    """
    own: dict[int, int] = {}
    for pair in judged.text_image:
        if pair.method == ORIGINAL and own.setdefault(pair.first, pair.second) != pair.second:
            raise InputError(f"caption {pair.first} is of two images, {own[pair.first]} for one")
    captions, images = list(own), list(dict.fromkeys(own.values()))
    texts = {caption: place for place, caption in enumerate(captions)}
    photos = {image: place for place, image in enumerate(images)}
    originals = [(texts[caption], photos[image]) for caption, image in own.items()]
    of_image = _lists(((image, caption) for caption, image in originals), len(images))
    siblings = ((one, other) for same in of_image for one in same for other in same if one != other)
    fits = list(_positive(judged.text_image, texts, photos, TEXT_THRESHOLD))
    alike = list(_positive(judged.text_text, texts, texts, TEXT_THRESHOLD))
    similar = list(_positive(judged.image_image, photos, photos, IMAGE_THRESHOLD))
    between = [*originals, *fits]
    ways = {
        TEXT_TO_IMAGE: _lists(between, len(captions)),
        IMAGE_TO_TEXT: _lists(_turned(between), len(images)),
        TEXT_TO_TEXT: _lists([*siblings, *alike, *_turned(alike)], len(captions)),
        IMAGE_TO_IMAGE: _lists([*similar, *_turned(similar)], len(images)),
    }
    return RelevantItems(captions, images, ways)


def _positive(
    pairs: Sequence[JudgedPair], first: dict[int, int], second: dict[int, int], threshold: float
) -> Iterable[tuple[int, int]]:
    for pair in pairs:
        if pair.first not in first or pair.second not in second:
            raise InputError(
                f"the pair {pair.first}, {pair.second} ({pair.method}) is judged, but one of them "
                f"has no {ORIGINAL} pair: the files are not of one split"
            )
        if pair.score >= threshold:
            yield first[pair.first], second[pair.second]


def _turned(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(second, first) for first, second in pairs]


def _lists(pairs: Iterable[tuple[int, int]], queries: int) -> list[list[int]]:
    found: list[set[int]] = [set() for _ in range(queries)]
    for query, item in pairs:
        found[query].add(item)
    return [sorted(items) for items in found]
