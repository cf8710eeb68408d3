"""The regions of a photo that each view attends to (MV-VSE, section 4.4 and figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from eval.plotting import panels
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.vse.batch import collate_regions
from sparta.vse.encoders import unit
from sparta.vse.model import VseModel, view_scores

CELLS = 256  # of the drawn map's longer side
WHOLE = 0.999  # share of the photo from which a box locates nothing


@dataclass(frozen=True)
class Attention:
    """One image and its K views.

    Attributes:
        image_id: of the image.
        boxes: [n][4], x1, y1, x2, y2 relative to the photo.
        similarity: [K][n], cosine of each view's embedding with each region's vector in the joint
            space.
        captions: text → score of each view, [K].
    """

    image_id: str
    boxes: list[list[float]]
    similarity: list[list[float]]
    captions: dict[str, list[float]]

    def chosen(self, view: int) -> list[str]:
        """Captions to which a view, from 0, is the nearest."""
        return [text for text, scores in self.captions.items() if np.argmax(scores) == view]


@torch.no_grad()
def look(model: VseModel, image: ImageFeatures, captions: Sequence[str]) -> Attention:
    """Compare an image's regions with its views, and its views with captions.

    Args:
        model: in eval mode, on the CPU.
        image: features of the photo without augmentation.
        captions: may be none.

    Raises:
        InputError: if the image's regions have no boxes.
    """
    regions = collate_regions([image], model.config.max_regions)
    boxes = image.boxes[: regions.regions.shape[1]]
    if not _placed(boxes).any():
        raise InputError(f"{image.image_id}: its features have no boxes to draw")
    views = model.encode_images(regions)
    visual = regions.regions.float()
    visual = visual.sqrt() if model.config.square_root else visual
    projected = [unit(project(visual, regions.lengths)[0]) for project in model.visual_projections]
    if len(projected) == 1:
        projected *= len(views[0])
    similarity = [
        (features @ view).tolist() for features, view in zip(projected, views[0], strict=True)
    ]
    scores = view_scores(model.embed_texts(captions), views)[:, 0].tolist()
    by_caption = dict(zip(captions, scores, strict=True))
    return Attention(image.image_id, boxes.tolist(), similarity, by_caption)


def _placed(boxes: NDArray[np.float32]) -> NDArray[np.bool_]:
    """[n], False for boxes that are the whole photo."""
    found: NDArray[np.bool_] = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) < WHOLE
    return found


def heat_map(
    boxes: NDArray[np.float32], values: NDArray[np.float32], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Mean of the values of the boxes over each cell; NaN where there is none.

    Args:
        boxes: [n, 4] relative; one that is the whole photo is left out.
        values: [n].
        shape: rows and columns of the map.

    Returns:
        [rows, columns] float32; a box covers the cells whose centres lie in it.
    """
    rows, columns = ((np.arange(size) + 0.5) / size for size in shape)
    total, count = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    placed = _placed(boxes)
    for (left, top, right, bottom), value in zip(boxes[placed], values[placed], strict=True):
        inside = np.ix_((rows >= top) & (rows < bottom), (columns >= left) & (columns < right))
        total[inside] += value
        count[inside] += 1
    with np.errstate(invalid="ignore"):
        return total / count


def draw(attention: Attention, photo: Image.Image) -> Figure:
    """The photo, then a map for each view, in colours from its least to its largest value."""
    width, height = photo.size
    scale = CELLS / max(photo.size)
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    figure, (first, *rest) = panels(1 + len(attention.similarity), height=4.2)
    first.imshow(photo)
    first.set_title(attention.image_id, fontsize=9)
    boxes = np.array(attention.boxes, np.float32)
    for view, (axes, values) in enumerate(zip(rest, attention.similarity, strict=True)):
        shown = heat_map(boxes, np.array(values, np.float32), shape)
        axes.imshow(photo.convert("L"), cmap="gray")
        extent = (0, width, height, 0)
        drawn = axes.imshow(shown, cmap="inferno", alpha=0.6, extent=extent)
        figure.colorbar(drawn, ax=axes, shrink=0.7)
        axes.set_title(f"view {view + 1}", fontsize=9)
        captions = "\n".join(fill(f"“{text}”", 40) for text in attention.chosen(view))
        axes.text(0.5, -0.03, captions, transform=axes.transAxes, ha="center", va="top", fontsize=8)
    for axes in (first, *rest):
        axes.set_axis_off()
    return figure
