"""A model of term vectors from dual encoders, whose networks stay as they are."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sparta.adapt.fit import (
    Aims,
    Bags,
    Plan,
    Teachers,
    TermVectors,
    Texts,
    Views,
    optimise,
    term_sums,
)
from sparta.adapt.folder import Fitted
from sparta.adapt.sentences import Sentences, generated_sentences
from sparta.adapt.text_tower import TextTower
from sparta.adapt.towers import DualEncoder, TransformersEncoder, open_dual_encoder
from sparta.captions.read import read_captions
from sparta.captions.record import as_stored
from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.extract.photos import find_photos, list_photos
from sparta.features.record import JOINT, FeatureSource, ImageFeatures
from sparta.features.store import HEADER, FeatureStore
from sparta.files import find_work, make_work, remove_work, writing
from sparta.inference import cache_folder, computes_bfloat16, on_cpu
from sparta.model_id import PHOTOS, TOWER
from sparta.networks.backbone import pick_device
from sparta.networks.load import copy_tower
from sparta.progress import Progress, no_progress
from sparta.readers import embeddings
from sparta.readers.base import FeatureReader
from sparta.readers.registry import import_features, open_reader
from sparta.tokenizer import TermTokenizer, text_frequencies
from sparta.visualsparta.image_head import JointHead

STAGES = {
    "convert": ("Converting the image tower", "networks"),
    "sentences": ("Sentence vectors", "sentences"),
    "extract": ("Photos' vectors", "photos"),
    "import": ("Reading embeddings", "images"),
    "fit": ("Fitting term vectors", "steps"),
}
log = logging.getLogger(__name__)

FORMAT = 3  # of cached models; raised when the code that makes them changes
MOST_PHOTOS = 4096  # whose vectors guide the refinement
LEAST_PHOTOS = 64  # fewer tell too little; the vectors are those of the ridge regression
HELD_OUT = 1000  # sentences, or a twentieth, that are not fitted, to measure by
PROMPT, PROMPT_WEIGHT = "a photo of a {}", 0.05  # for every word of the vocabulary
SHORTEST_WORD = 3  # letters
STRENGTH = 0.5  # λ of the ridge regression
STEPS, BATCH, RATE = 600, 1024, 5e-3  # of the refinement: photos per step, learning rate
AIMS = Aims(sentences=1024, captions=0.5, flops=0.005, pairs=384)
POWER = 0.5  # of terms' frequencies among the sentences, where an index prunes
LINEAR = 3.0  # factor on the ridge regression's vectors, without a refinement
READ, BLOCK = 256, 4096  # photos and sentences at once
SPREAD = 2.0  # deviation of a sentence's similarities divided by the temperature, if it is unknown
SAME = 1e-3  # distance of photos' vectors from their mean that half precision has for equal ones
SUM_SPREAD = 1.55  # deviation of a sentence's sums over the photos at the start


Embed = Callable[[Sequence[str]], Tensor]  # texts to [n, d] float16 of length 1


@dataclass(frozen=True)
class Adapted:
    """A model, and what measures it: nothing of this was fitted but the photos' mean.

    It lies among what was computed on the way until `keep` puts it into its place, `out`.
    """

    folder: Path
    out: Path
    encoder: DualEncoder  # the first, whose image side the model has
    embed: Embed  # its text tower
    sentences: list[str]  # held out
    store: FeatureStore | None  # features of photos
    captions: dict[str, tuple[str, ...]]  # held out, of some of the photos

    def keep(self) -> None:
        """Put the model into its place, and remove the work; raises OSError."""
        self.folder.replace(self.out)
        remove_work(self.folder.parent)


def adapt(
    names: Sequence[str],
    out: Path,
    sentences: Sentences | None = None,
    photos: Path | None = None,
    captions: Path | None = None,
    *,
    patches: bool = False,
    device: str = "auto",
    seed: int = 0,
    progress: Progress = no_progress,
) -> Adapted:
    """Fit term vectors to dual encoders, and write a model folder that needs them no more.

    The work, with the model, lies beside `out`, from where a killed run continues, until the caller
    keeps it (`Adapted.keep`).

    Args:
        names: hub names or folders; the first one's image side becomes the model's, and the mean
            of all their similarities is what the refinement pursues.
        out: folder of the model.
        sentences: to fit on; None for `generated_sentences`.
        photos: folder of photos, or a feature store, which need no captions; None for none.
        captions: of some of the photos.
        patches: whether a term's score is its maximum over the whole photo and its patches in the
            joint space. The vectors are fitted to whole photos all the same.
        device: of the towers: "auto" takes a GPU if there is one.
        seed: of all random draws.
        progress: of `STAGES`.

    Raises:
        InputError: if a model is no dual encoder, an input cannot be used, or there is `out`.
    """
    if out.exists():
        raise InputError(f"{out} exists: name another folder with --out")
    with writing(out):
        work = next(iter(find_work(out)), None) or make_work(out)
        encoders = [open_dual_encoder(name, pick_device(device)) for name in names]
        tokenizer = TermTokenizer.from_folder(PHOTOS)
        store = _photos(encoders[0], photos, captions, work, device, progress) if photos else None
        if patches and store and store.source.unknown_encoder:
            raise InputError(f"--patches: {photos} holds embeddings of whole photos: give photos")
        encoders[0].head.patches = patches
        run = _Run(encoders, tokenizer, work, device, seed, progress)
        given = sentences or generated_sentences()
        own, held_captions = _captions(captions, store, seed)
        fitted, held = run.fit(given, store, own)
        folder = work / "model"
        _save(fitted, encoders[0], store, folder, progress)
    embed = _text_tower(encoders[0], device)
    return Adapted(folder, out, encoders[0], embed, held, store, held_captions)


def cached_model(name: str, photos: Path, device: str, progress: Progress) -> Path:
    """The model of a dual encoder and the package's own sentences.

    Made once for collections of about one size: what few photos guided is not for many.
    """
    encoder = open_dual_encoder(name, pick_device("cpu"))
    count = MOST_PHOTOS
    if photos.is_dir() and not (photos / HEADER).is_file() and not embeddings.fits(photos):
        count = min(len(find_photos(photos)), MOST_PHOTOS)
    key = f"{FORMAT} {encoder.key} {count.bit_length()} {count >= LEAST_PHOTOS}"
    folder = cache_folder() / "adapted" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        adapt([name], folder, photos=photos, device=device, progress=progress).keep()
    return folder


def _photos(
    encoder: DualEncoder,
    photos: Path,
    captions: Path | None,
    work: Path,
    device: str,
    progress: Progress,
) -> FeatureStore:
    """Features of photos, of at most `MOST_PHOTOS` or all that have captions.

    A store that has no more is taken as it is. Otherwise some are copied from it, imported from
    embeddings, or extracted.
    """
    imported = embeddings.fits(photos)
    if not imported and not (photos / HEADER).is_file():
        ids = find_photos(photos)
        chosen = [ids[row] for row in _chosen(ids, photos, captions)]
        return _extracted(encoder.source, photos, chosen, work / "features", device, progress)
    stored: FeatureReader | FeatureStore
    stored = open_reader("embeddings", [photos]) if imported else FeatureStore.open(photos)
    if differences := encoder.source.differences(stored.source):
        raise InputError(
            f"{photos} has other features than {encoder.name} reads (the model's against the "
            f"store's): {'; '.join(differences)}"
        )
    rows = _chosen(stored.ids, photos, captions)
    if isinstance(stored, FeatureStore) and len(rows) == len(stored):
        return stored
    return import_features(_Some(stored, rows), work / "features", progress)


def _chosen(ids: Sequence[str], photos: Path, captions: Path | None) -> list[int]:
    """Rows of photos in order, those with captions first of all."""
    listed = as_stored(read_captions(captions), set(ids), str(photos)) if captions else ()
    known = {one.image_id for one in listed}
    order = np.random.default_rng(0).permutation(len(ids)).tolist()
    order.sort(key=lambda row: ids[row] not in known)
    return sorted(order[: max(MOST_PHOTOS, len(known))], key=ids.__getitem__)


class _Some(FeatureReader):
    """Some images of others, by their rows in order of their ids."""

    def __init__(self, images: FeatureReader | FeatureStore, rows: Sequence[int]) -> None:
        self.source, self.files = images.source, ()
        self.ids = [images.ids[row] for row in rows]
        self._images, self._rows = images, rows

    def __getitem__(self, row: int) -> ImageFeatures:
        return self._images[self._rows[row]]


def _extracted(
    source: FeatureSource,
    photos: Path,
    chosen: Sequence[str],
    folder: Path,
    device: str,
    progress: Progress,
) -> FeatureStore:
    extract_photos(
        photos,
        folder,
        source.backbone or None,
        stamps=list_photos(photos, chosen),
        image_size=source.image_size or None,
        labels=source.label_count,
        grid=source.extra.get("grid"),
        joint=source.extra.get("space") == JOINT,
        device=device,
        bfloat16=True,
        progress=progress,
    )
    return FeatureStore.open(folder)


Captions = dict[str, tuple[str, ...]]  # of a photo by its id


def _captions(
    path: Path | None, store: FeatureStore | None, seed: int
) -> tuple[Captions, Captions]:
    """Those to fit on, and those of a tenth of the photos, at most 1,000, to measure by."""
    if path is None:
        return {}, {}
    if store is None:
        raise InputError("--captions are of photos: give their folder with --photos")
    listed = as_stored(read_captions(path), set(store.ids), str(store.folder))
    known = set(store.ids)
    found = {one.image_id: one.captions for one in listed if one.image_id in known}
    if not found:
        raise InputError(f"{path} has no caption of a photo in {store.folder}")
    ids = sorted(found)
    order = np.random.default_rng(seed).permutation(len(ids))
    held = {ids[place] for place in order[: min(len(ids) // 10, 1000)]}
    return (
        {one: found[one] for one in ids if one not in held},
        {one: found[one] for one in ids if one in held},
    )


@dataclass(frozen=True)
class _Run:
    """The steps of an adaptation."""

    encoders: Sequence[DualEncoder]
    tokenizer: TermTokenizer
    work: Path
    device: str
    seed: int
    progress: Progress

    def fit(
        self, given: Sentences, store: FeatureStore | None, captions: Captions
    ) -> tuple[Fitted, list[str]]:
        """Term vectors, and the sentences that were held out."""
        order = np.random.default_rng(self.seed).permutation(len(given.texts))
        count = min(HELD_OUT, max(1, len(order) // 20))
        held = [given.texts[place] for place in sorted(order[:count].tolist())]
        rows = sorted(order[count:].tolist())
        ids = sorted(store.ids) if store else []
        own = [captions.get(one, ()) for one in ids]
        prompts = [PROMPT.format(word) for word in self.tokenizer.vocabulary if _is_word(word)]
        typed = [caption for one in own for caption in one]
        texts = [*typed, *(given.texts[row] for row in rows), *prompts]
        weights = torch.cat(
            [
                torch.ones(len(typed)),
                torch.from_numpy(given.weights[rows]),
                torch.full((len(prompts),), PROMPT_WEIGHT),
            ]
        )
        bag = Texts.of(own, texts[len(typed) :], self.tokenizer, weights)
        terms, bags = self._terms(bag, texts, store, ids)
        typed = texts[: len(texts) - len(prompts)]
        ids_of = (
            row[row < len(self.tokenizer.vocabulary)].tolist() for row in bag.terms[: len(typed)]
        )
        counts = text_frequencies(ids_of, len(self.tokenizer.vocabulary))
        bags.frequencies = torch.from_numpy(counts)[bags.terms]
        return Fitted(terms, bags, self.tokenizer, bag, typed), held

    def _terms(
        self, bag: Texts, texts: Sequence[str], store: FeatureStore | None, ids: Sequence[str]
    ) -> tuple[TermVectors, Bags]:
        vectors = [
            _embedded(one, texts, self.work, self.device, self.progress) for one in self.encoders
        ]
        bags = Bags.of(bag, len(self.tokenizer.vocabulary), 1)
        first = bags.ridge(vectors[0], bag.weights, STRENGTH)
        if store is None or len(ids) < LEAST_PHOTOS:
            return _unguided(first), bags
        shown = [_shown(one, store, ids) for one in self.encoders]
        parts = list(zip(self.encoders, vectors, shown, strict=True))
        teachers = Teachers([(_scale(*part), part[1], part[2]) for part in parts])
        space = _Space(shown[0])
        if not space.size > SAME:
            raise InputError(f"{self.encoders[0].name} gives every photo the same vector")
        steep = SUM_SPREAD / _spread(bags, first, space(shown[0][:, None].float())[:, 0, :-1])
        taught = TermVectors(space, first, torch.zeros(first.shape[1]), steep)
        # All that decides the fit, so that other inputs do not continue it.
        inputs = [*ids, *texts, *(one.key for one in self.encoders), str((self.seed, AIMS, STEPS))]
        digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
        optimise(
            taught,
            taught.optimiser(RATE, 0.0, (0.9, 0.99)),
            partial(taught.loss, AIMS, Views(shown[0][None]), bag, bags, teachers),
            Plan(len(ids), min(BATCH, len(ids)), STEPS, self.seed),
            partial(self.progress, "fit"),
            self.work / f"fit-{digest}.pt",
        )
        space.unfold(taught)
        return taught, bags


class _Space(nn.Module):
    """Photos' vectors less their mean, scaled to the length 1 on average, with a 1 behind.

    Encoders differ in how near their photos are to each other; here they do not.
    """

    mean: Tensor
    size: Tensor

    def __init__(self, photos: Tensor) -> None:
        super().__init__()
        mean = photos.float().mean(dim=0)
        self.register_buffer("mean", mean)
        self.register_buffer("size", (photos.float() - mean).square().sum(dim=1).mean().sqrt())

    def forward(self, regions: Tensor) -> Tensor:
        """[B, n, d] to [B, n, d + 1]."""
        vectors = (regions.float() - self.mean) / self.size
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)

    @torch.no_grad()
    def unfold(self, taught: TermVectors) -> None:
        """Give term vectors the same scores for photos' vectors as they are."""
        vectors = taught.vectors[:, :-1] / self.size
        bias = taught.vectors[:, -1] - vectors @ self.mean
        taught.vectors.copy_(torch.cat([vectors, bias[:, None]], dim=1))
        taught.head = JointHead()


def _spread(bags: Bags, vectors: Tensor, photos: Tensor) -> float:
    """Deviation of a sentence's sums over photos [N, d], from term vectors [T, d]."""
    rows = _sample(len(bags.columns))
    sums = term_sums(photos[_sample(len(photos))] @ vectors.T, bags.columns[rows])
    return float((sums - sums.mean(dim=1, keepdim=True)).square().mean().sqrt())


def _scale(encoder: DualEncoder, texts: Tensor, photos: Tensor) -> float:
    """What an encoder's similarities are multiplied by, if need be so that they differ enough."""
    if encoder.scale is not None:
        return encoder.scale
    some = photos[_sample(len(photos))].float()
    found = texts[_sample(len(texts))].float() @ some.T
    return SPREAD / float((found - found.mean(dim=1, keepdim=True)).square().mean().sqrt())


def _sample(count: int) -> Tensor:
    """At most 1,000 numbers below `count`, evenly spread."""
    return torch.linspace(0, count - 1, min(count, 1000)).long()


def _unguided(vectors: Tensor) -> TermVectors:
    """Of ridge regression alone; nearly linear scores, whose mean an index subtracts."""
    taught = TermVectors(JointHead(), vectors, torch.zeros(vectors.shape[1]), LINEAR)
    with torch.no_grad():
        taught.vectors[:, -1] = 1.0
    return taught


def _shown(encoder: DualEncoder, store: FeatureStore, ids: Sequence[str]) -> Tensor:
    """[N, d] float16 of photos."""
    parts = [
        encoder.photo_vectors([store[store.index(one)] for one in ids[start : start + READ]])
        for start in range(0, len(ids), READ)
    ]
    return torch.cat(parts).half()


def _text_tower(encoder: DualEncoder, device: str) -> Embed:
    """A text tower on a device, on a CPU in OpenVINO, which is six times as fast as torch."""
    if not on_cpu(device):
        return encoder.embed
    try:
        tower = TextTower.open(encoder.name, computes_bfloat16(device))
    except InputError as error:
        log.warning("%s; it runs in torch, which is slower", error)
        return encoder.embed
    return lambda texts: torch.from_numpy(tower.encode(texts)).half()


def _embedded(
    encoder: DualEncoder, texts: Sequence[str], work: Path, device: str, progress: Progress
) -> Tensor:
    """[S, d] float16 of sentences, kept in a file of the folder that a killed run continues."""
    digest = hashlib.sha256("\n".join([encoder.key, *texts]).encode()).hexdigest()[:16]
    embed = _text_tower(encoder, device)
    size = len(embed(["a"])[0])
    path = work / f"sentences-{digest}.f16"
    with path.open("ab") as file:
        done = file.tell() // (2 * size)
        file.truncate(done * 2 * size)
        for start in range(done, len(texts), BLOCK):
            found = embed(texts[start : start + BLOCK])
            file.write(found.cpu().numpy().tobytes())
            progress("sentences", start + len(found), len(texts))
    return torch.from_numpy(np.fromfile(path, np.float16).reshape(len(texts), size))


def _save(
    fitted: Fitted,
    encoder: DualEncoder,
    store: FeatureStore | None,
    folder: Path,
    progress: Progress,
) -> None:
    """Write the model's folder, its image tower included."""
    shutil.rmtree(folder, ignore_errors=True)  # of a killed run
    guided = store is not None and len(store) >= LEAST_PHOTOS and not encoder.head.patches
    size = fitted.terms.vectors.shape[1] - 1
    shown = _shown(encoder, store, sorted(store.ids)) if store else torch.eye(size)
    fitted.save(
        folder,
        encoder.head,
        encoder.source,
        Views(shown[None]),
        encoder.image_head(),
        dual_encoder=encoder.name,
        text_key=encoder.key,
        offset="none" if guided else "mean",
        frequency_power=POWER,
    )
    if isinstance(encoder, TransformersEncoder):
        try:
            copy_tower(encoder.name, folder / TOWER, progress)
        except InputError as error:
            log.warning("%s: photos need %s itself, in torch", error, encoder.name)


def _is_word(term: str) -> bool:
    return term.isalpha() and len(term) >= SHORTEST_WORD
