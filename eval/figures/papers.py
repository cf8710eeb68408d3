"""The papers' figures, drawn from trained models, runs or an index: `sparta eval figure NAME`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
import torch
import yaml
from matplotlib.figure import Figure
from numpy.typing import NDArray

from eval.figures.grounding import draw as draw_grounding
from eval.figures.grounding import explain, open_photo
from eval.plotting import legend, panels
from eval.recall.index import IndexIds
from eval.recall.model import DenseModel, Images, open_members, scores_of
from eval.recall.photos import Evaluation
from eval.recall.scores import dense_scores, mean_scores, measure_recall
from indexer.dense.text_encoder import load_dense_model
from indexer.encoding.features import check_features, check_stores
from indexer.engines.open import open_index
from indexer.manifest import Manifest
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import as_stored
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.json_values import Json
from sparta.progress import Progress
from sparta.vse.aggregators import GPO
from sparta.vse.batch import collate_regions
from sparta.vse.encoders import PhotoFolder, unit
from sparta.vse.init import from_bert
from sparta.vse.model import VseModel, sentence_vectors, view_scores

REGIONS, WORDS = 36, 12  # elements of drawn sets; a model with `max_regions` has its own number
WINDOW = 5  # logged steps that a drawn mean is taken over
LOGGED = {"negatives": "objective.kind=adopt", "val_recall": "held-out photos"}  # by which runs
TOP = 5  # results of an example
MARKS = {True: ("✓", "tab:green"), False: ("✗", "tab:red")}  # of right and wrong results
BINS = 60  # of cosines from -0.2 to 1
CELLS = 256  # of each side of a map of attention
WHOLE = 0.999  # share of the photo from which a box locates nothing

Drawn: TypeAlias = tuple[Figure, Json]  # a figure, and its numbers as JSON values


@dataclass(frozen=True)
class Inputs:
    """The command's arguments that figures are drawn from; each figure needs some of them."""

    sources: Sequence[str]
    features: Path | None
    captions: Path | None
    split: str
    photos: Path | None
    image: str | None
    texts: Sequence[str]
    count: int
    batch_size: int
    device: str
    progress: Progress

    def needed(self, option: str) -> Any:
        """The value of an option that the user must give."""
        if (value := getattr(self, option)) is None:
            raise InputError(f"this figure needs --{option}")
        return value


def draw_coefficients(given: Inputs) -> Drawn:
    """The pooling coefficients a GPO model has learned (GPO, figure 5); dashed, mean pooling."""
    model = load_dense_model(given.sources[0])
    several = len(model.visual_poolings) > 1
    size = model.config.max_regions or REGIONS
    poolings = [
        ("image", f"image, view {number}" if several else "image", pooling, size)
        for number, pooling in enumerate(model.visual_poolings, 1)
    ]
    poolings.append(("text", "text", model.text_pooling, WORDS))
    curves: list[Json] = [
        {"side": side, "name": name, "size": size, "weights": pooling.coefficients(size).tolist()}
        for side, name, pooling, size in poolings
        if isinstance(pooling, GPO)
    ]
    if not curves:
        pooled = f"{model.config.visual_pooling} and {model.config.text_pooling}"
        raise InputError(f"the model pools by {pooled}: only gpo learns coefficients")
    sides = list(dict.fromkeys(curve["side"] for curve in curves))
    figure, axes = panels(len(sides))
    for curve in curves:
        one, size = axes[sides.index(curve["side"])], curve["size"]
        ranks, label = range(1, size + 1), f"{curve['name']}, {size} elements"
        (line,) = one.plot(ranks, curve["weights"], marker=".", label=label)
        one.plot(ranks, [1 / size] * size, linestyle="--", linewidth=0.8, color=line.get_color())
    for one in axes:
        one.set(xlabel="rank of the value, 1 for the largest", ylabel="weight")
        one.locator_params(axis="x", integer=True)
        legend(one)
    return figure, {"curves": curves}


def draw_k_max(given: Inputs) -> Drawn:
    """RSUM of k-max pooling for every pair of Ks, all for mean pooling (GPO, figure 6)."""
    found: dict[tuple[str, str], float] = {}
    for run in map(Path, given.sources):
        try:
            config = json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))
            recall = json.loads((run / "recall.json").read_text(encoding="utf-8"))
            found[_k(config, "visual"), _k(config, "text")] = float(recall["rsum"])
        except (OSError, ValueError, KeyError) as error:
            problem = f"{run} is no run of k-max or mean poolings that sparta eval model measured"
            raise InputError(f"{problem}: {error}") from error
    visual, text = (
        sorted(set(ks), key=lambda k: (k == "all", len(k), k)) for ks in zip(*found, strict=True)
    )
    for v, t in product(visual, text):
        if (v, t) not in found:
            raise InputError(f"there is no run with K {v} of regions and {t} of words")
    rsums = np.array([[found[v, t] for t in text] for v in visual])
    side = 1.5 + 0.6 * max(rsums.shape)
    figure, (axes,) = panels(1, width=side + 0.7, height=side)
    figure.colorbar(axes.imshow(rsums, cmap="viridis", origin="lower"), ax=axes, shrink=0.8)
    axes.set_xticks(range(len(text)), text)
    axes.set_yticks(range(len(visual)), visual)
    axes.set(xlabel="K of the text pooling", ylabel="K of the visual pooling")
    middle = (rsums.min() + rsums.max()) / 2
    for (row, column), value in np.ndenumerate(rsums):
        colour = "white" if value < middle else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
    return figure, {"visual": visual, "text": text, "rsum": rsums.tolist()}


def _k(config: Json, side: str) -> str:
    """K of one side's pooling, "all" for mean pooling."""
    if (pooling := config[f"{side}_pooling"]) not in ("k-max", "mean"):
        raise ValueError(f"its {side} pooling is {pooling}")
    return "all" if pooling == "mean" else str(config[f"{side}_pooling_options"]["k"])


def draw_logs(given: Inputs, x: str, column: str, label: str) -> Drawn:
    """Figures of runs by "step" or "epoch": of steps a moving mean, and faint as logged.

    VSE+2AD, figures C-2 (negatives under ADOPT) and A.2-1 (recall of held-out photos).
    """
    runs = [read_logs(*named(source), x, column) for source in given.sources]
    figure, (axes,) = panels(1, width=6)
    for run in runs:
        places, values, name = run[f"{x}s"], run[column], Path(run["name"]).name
        means, marker = (moving_mean(values), "") if x == "step" else (values, ".")
        (mean,) = axes.plot(places, means, marker=marker, label=name)
        axes.plot(places, values, color=mean.get_color(), alpha=0.25, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel=x, ylabel=label)
    legend(axes)
    return figure, {"runs": runs}


def named(source: str) -> tuple[str, str]:
    """The parts of [NAME=]PATH; the path, which may contain a =, names itself without one."""
    name, _, path = source.partition("=")
    return (source, source) if not path or "/" in name else (name, path)


def read_logs(name: str, folder: str, x: str, column: str) -> Json:
    """Read a run's logs; where a resumed run repeated steps, its own values. Epochs begin at 1."""
    run = Path(folder)
    settings = run / "config.yaml"
    if not settings.is_file():
        raise InputError(f"{run} is no run of sparta train: it has no {settings.name}")
    config = yaml.safe_load(settings.read_text(encoding="utf-8"))
    found: dict[int, float] = {}
    logs = run.glob("logs/version_*/metrics.csv")
    for path in sorted(logs, key=lambda path: int(path.parent.name.rpartition("_")[2])):
        rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        found |= {int(row[x]): float(row[column]) for row in rows if row.get(column)}
    if not found:
        raise InputError(f"{run}: its logs have no {column}; runs with {LOGGED[column]} do")
    return {
        "name": name,
        "run": folder,
        "variant": config.get("objective", {}).get("variant"),
        "batch_size": config["batch_size"],
        f"{x}s": [place + (x == "epoch") for place in sorted(found)],
        column: [found[place] for place in sorted(found)],
    }


def moving_mean(values: Sequence[float]) -> list[float]:
    """Mean of each value and those before it, `WINDOW` in all where there are so many."""
    return [fmean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def draw_views(given: Inputs) -> Drawn:
    """Similarity of models' views, RSUM, and how often each view wins (MV-VSE, figure 4 b to d)."""
    photos = read_captions(given.needed("captions"), given.split)
    studies = [_study_views(source, given, photos) for source in given.sources]
    figure, (left, *rest) = panels(1 + len(studies), width=3.2, height=3.2)
    names = [study["name"] for study in studies]
    left.bar(names, [study["similarity"] for study in studies], width=0.5, color="tab:blue")
    left.set_xlim(-0.6, len(studies) - 0.4)
    left.set_ylabel("cosine of two views", color="tab:blue")
    right = left.twinx()
    right.spines[["top"]].set_visible(False)
    right.plot(names, [study["rsum"] for study in studies], color="tab:orange", marker="o")
    right.set_ylabel("RSUM", color="tab:orange")
    for axes, study in zip(rest, studies, strict=True):
        views = [str(number) for number in range(1, len(study["selected"]) + 1)]
        axes.bar(views, [100 * share for share in study["selected"]], width=0.6, color="tab:green")
        axes.set(ylim=(0, 100), title=study["name"], xlabel="view", ylabel="% of captions")
    return figure, {"models": studies}


def _study_views(source: str, given: Inputs, photos: list[CaptionedPhoto]) -> Json:
    """Statistics of the views of one [NAME=]MODEL."""
    name, folder = named(source)
    (member,) = open_members([folder], [given.needed("features")], False, given.device)
    model = member.model
    if not isinstance(model, DenseModel) or model.model.config.views < 2:
        raise InputError(f"{folder} is no dense model with several views of an image")
    own = Images.of(member.store, [photo.image_id for photo in photos])
    texts = model.embed_texts([text for one in photos for text in one.captions], given.progress)
    images = model.embed_images(own, given.batch_size, given.progress)
    rows = [row for row, photo in enumerate(photos) for _ in photo.captions]
    first, second = torch.triu_indices(images.shape[1], images.shape[1], offset=1)
    cosines = (images @ images.transpose(1, 2))[:, first, second]
    found = measure_recall("all", [photos], dense_scores(texts[:, None], images), given.progress)
    nearest = (images[rows] @ texts[:, :, None]).argmax(dim=1)  # the first of equally near views
    wins = torch.bincount(nearest.flatten(), minlength=images.shape[1])
    return {
        "name": name,
        "similarity": float(cosines.mean()),
        "selected": (wins / len(texts)).tolist(),
        "rsum": found.rsum,
    }


def draw_attention(given: Inputs) -> Drawn:
    """The regions of a photo that each view attends to (MV-VSE, section 4.4 and figure 5)."""
    name, image_id = given.needed("features"), given.needed("image")
    store = FeatureStore.open(name)
    check_stores([store])
    if image_id not in store.ids:
        raise InputError(f"--image {image_id!r} is not in {name}; {store.ids[0]!r} is")
    photo = open_photo(given.photos or store.photos, image_id)
    model = load_dense_model(given.sources[0])
    check_features(given.sources[0], model.config, store.source, store.folder)
    found = look(model, store[store.index(image_id)], given.texts)
    width, height = photo.size
    figure, (first, *rest) = panels(1 + len(found["similarity"]), height=4.2)
    first.imshow(photo)
    first.set_title(image_id, fontsize=9)
    boxes = np.array(found["boxes"], np.float32)
    for view, (axes, values) in enumerate(zip(rest, found["similarity"], strict=True)):
        shown = heat_map(boxes, np.array(values, np.float32), (CELLS, CELLS))
        axes.imshow(photo.convert("L"), cmap="gray")
        drawn = axes.imshow(shown, cmap="inferno", alpha=0.6, extent=(0, width, height, 0))
        figure.colorbar(drawn, ax=axes, shrink=0.7)
        axes.set_title(f"view {view + 1}", fontsize=9)
        nearest = [text for text, scores in found["captions"].items() if np.argmax(scores) == view]
        captions = "\n".join(fill(f"“{text}”", 40) for text in nearest)
        axes.text(0.5, -0.03, captions, transform=axes.transAxes, ha="center", va="top", fontsize=8)
    for axes in (first, *rest):
        axes.set_axis_off()
    return figure, found


@torch.no_grad()
def look(model: VseModel, image: ImageFeatures, captions: Sequence[str]) -> Json:
    """Cosines [K][n] of an image's views and regions in the joint space, [K] of each caption."""
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
    similarity = [(one @ view).tolist() for one, view in zip(projected, views[0], strict=True)]
    scores = view_scores(model.embed_texts(captions), views)[:, 0].tolist()
    return {
        "image_id": image.image_id,
        "boxes": boxes.tolist(),
        "similarity": similarity,
        "captions": dict(zip(captions, scores, strict=True)),
    }


def _placed(boxes: NDArray[np.float32]) -> NDArray[np.bool_]:
    """[n], False for boxes that are the whole photo."""
    found: NDArray[np.bool_] = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) < WHOLE
    return found


def heat_map(
    boxes: NDArray[np.float32], values: NDArray[np.float32], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """[rows, columns] mean of the values of the boxes over each cell's centre; NaN if none is."""
    rows, columns = ((np.arange(size) + 0.5) / size for size in shape)
    placed = _placed(boxes)
    left, top, right, bottom = boxes[placed].T[:, :, None]
    across = ((columns >= left) & (columns < right)).astype(np.float32)  # [boxes, columns]
    down = ((rows >= top) & (rows < bottom)).T.astype(np.float32)  # [rows, boxes]
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float32] = (down * values[placed]) @ across / (down @ across)
    return found


def draw_won(given: Inputs) -> Drawn:
    """What in photos won each term of their first captions (VisualSparta, figure 3)."""
    index = Path(given.sources[0])
    searcher, manifest = open_index(index), Manifest.of(index)
    ids = IndexIds(searcher, index)
    photos = as_stored(read_captions(given.needed("captions"), given.split), ids, str(ids.folder))
    pairs = every_nth(photos, given.count)
    found = [explain(searcher, *pair) for pair in pairs]
    figure = draw_grounding(found, given.photos or manifest.photos)
    return figure, {"examples": [one.record() for one in found]}


def draw_captions(given: Inputs) -> Drawn:
    """How near the captions of one photo are, by a sentence encoder (MV-VSE, figure 2)."""
    photos = read_captions(given.needed("captions"), given.split)
    texts = [text for photo in photos for text in photo.captions]
    source = FeatureSource("grid", "", "", dimension=1, image_size=0)  # no photo is encoded
    encoder = from_bert(given.sources[0], source, sentence=True)
    vectors = unit(sentence_vectors(encoder, texts, lambda _, *of: given.progress("texts", *of)))
    own = vectors.split([len(photo.captions) for photo in photos])
    cosines = torch.cat([(part @ part.T)[torch.ones(2 * [len(part)]).triu(1) > 0] for part in own])
    if not len(cosines):
        raise InputError(f"{given.captions}: no photo of split {given.split!r} has two captions")
    figure, (axes,) = panels(1)
    density, edges = np.histogram(cosines.numpy(), BINS, (-0.2, 1), density=True)
    axes.stairs(density, edges, fill=True)
    axes.set(xlabel="cosine of two captions of a photo", ylabel="density")
    numbers = {"edges": edges.tolist(), "density": density.tolist()}
    return figure, {"pairs": len(cosines), "mean": float(cosines.mean()), **numbers}


def draw_cases(given: Inputs) -> Drawn:
    """The best captions of photos and photos of captions, right or wrong (VSE+2AD, figure 4)."""
    features = [given.features] if given.features else []
    split = given.split if given.captions else None  # a run has held out photos
    asked = Evaluation.of(given.sources, features, given.captions, split)
    members = open_members(asked.models, asked.features, False, given.device)
    store = members[0].store
    photos = as_stored(asked.photos(), {*store.ids}, str(store.folder))
    ids = [photo.image_id for photo in photos]
    texts = [(text, photo.image_id) for photo in photos for text in photo.captions]
    parts = scores_of(members, [text for text, _ in texts], [ids], given.batch_size, given.progress)
    scores, examples = mean_scores(parts), list[Json]()
    folder = given.photos or (store.folder if isinstance(store, PhotoFolder) else store.photos)
    figure, axes = panels(3 + TOP, 2, 2, rows=given.count)
    for one in axes:
        one.set_axis_off()
    rows = zip(*[iter(axes)] * (3 + TOP), strict=True)
    for (image_id, caption), own in zip(every_nth(photos, given.count), rows, strict=True):
        row, column = texts.index((caption, image_id)), ids.index(image_id)
        found = scores.rows(slice(row, row + 1))[0], scores.columns(slice(column, column + 1))[0]
        images, captions = (one.topk(min(TOP, len(one))).indices.tolist() for one in found)
        photo, answers, asks, *hits = own
        photo.imshow(open_photo(folder, image_id))
        for line, (text, owner) in enumerate(texts[one] for one in captions):
            mark, colour = MARKS[owner == image_id]
            text = f"{mark} {fill(text, 40)}"
            answers.text(0, 1 - line / TOP, text, va="top", color=colour, fontsize=6.5)
        asks.text(1, 0.5, fill(f"“{caption}”", 26), ha="right", va="center", fontsize=8)
        for shown, hit in zip(hits, (ids[one] for one in images), strict=False):
            mark, colour = MARKS[hit == image_id]
            shown.imshow(open_photo(folder, hit))
            shown.set_title(mark, color=colour)
        about = {"image_id": image_id, "captions": [texts[one] for one in captions]}
        examples.append(about | {"caption": caption, "images": [ids[one] for one in images]})
    return figure, {"examples": examples}


def every_nth(photos: Sequence[CaptionedPhoto], count: int) -> list[tuple[str, str]]:
    """Ids and first captions at even distances by id."""
    if count > len(photos):
        raise InputError(f"--images {count}: the split has {len(photos)} photos")
    ordered = sorted(photos, key=lambda photo: photo.image_id)
    return [(one.image_id, one.captions[0]) for one in ordered[:: len(ordered) // count][:count]]


FIGURES: dict[str, Callable[[Inputs], Drawn]] = {
    "coefficients": draw_coefficients,
    "k-max": draw_k_max,
    "negatives": partial(draw_logs, x="step", column="negatives", label="negatives K"),
    "convergence": partial(draw_logs, x="epoch", column="val_recall", label="validation recall, %"),
    "cases": draw_cases,
    "captions": draw_captions,
    "views": draw_views,
    "attention": draw_attention,
    "grounding": draw_won,
}
