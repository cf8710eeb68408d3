"""The `sparta eval` commands that measure models and indexes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eval.commands.options import (
    FEATURES,
    SPLIT,
    STAGES,
    AllowMissing,
    AsJson,
    BatchSize,
    Captions,
    Device,
    Features,
    IndexFolder,
    Models,
    OptionalCaptions,
    Out,
    Split,
    Transfer,
    check_out,
)
from indexer.commands.options import SubstituteOption
from sparta.errors import InputError

if TYPE_CHECKING:
    from eval.report import Measured
    from sparta.progress import Progress

# ---- index ---------------------------------------------------------------------------------------

RunFile = Annotated[
    Path | None, typer.Option(help="TREC run file to write: qid Q0 docid rank score tag.")
]
QrelsFile = Annotated[Path | None, typer.Option(help="TREC qrels file to write: qid 0 docid 1.")]
Depth = Annotated[int, typer.Option(min=1, help="Images per query in the TREC run.")]
Backend = Annotated[str | None, typer.Option(help="Dense backend of the index to search, by name.")]
OnlySplit = Annotated[
    bool, typer.Option("--only-split", help="Rank the split's photos among themselves.")
]


def index(
    context: typer.Context,
    index: IndexFolder,
    captions: Captions,
    split: Split = "val",
    backend: Backend = None,
    run: RunFile = None,
    qrels: QrelsFile = None,
    depth: Depth = 1000,
    substitute: SubstituteOption = True,
    only_split: OnlySplit = False,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure text → image recall of an index: each caption searches for its photo.

    The photos of the split are ranked among all images of the index, or among themselves with
    --only-split; substitutes replace the words that the index lacks. Images with equal scores are
    ordered by id, as in every search. The index lacks photos that could not be read:
    --allow-missing measures the others.

    TREC files

    --run and --qrels write what trec_eval, ir_measures and ranx read. A query id is the image id,
    # and the number of the caption; in image ids, spaces and other characters than letters, digits
    and _.-~/ are percent-encoded. Scores that are equal are lowered by the smallest step, so that a
    tool that sorts by score finds our order.

    For example:

    sparta eval index index/ --captions captions.jsonl

    sparta eval index index/ --captions captions.jsonl --only-split --allow-missing

    sparta eval index index/ --captions captions.jsonl --split test --run out.trec
    --qrels out.qrels --depth 100
    """
    from contextlib import closing

    from eval.recall.index import (
        Gallery,
        IndexIds,
        SearcherRecall,
        measure_index_recall,
        write_qrels,
        write_run,
    )
    from eval.recall.photos import missing_of
    from eval.report import index_models
    from indexer.dense.manifest import SPARSE
    from indexer.engines.open import open_backend
    from sparta.captions.read import read_captions
    from sparta.captions.record import as_stored

    _begin(out)
    check_out(run, "--run", "")
    check_out(qrels, "--qrels", "")
    photos, name = read_captions(captions, split), backend or SPARSE
    with closing(open_backend(index, name)) as searcher:
        own = IndexIds(searcher, index)
        photos = as_stored(photos, own, str(index))
        missing = missing_of([one.image_id for one in photos], own, own, index, allow_missing)
        kept = [photo for photo in photos if photo.image_id not in missing]
        gallery = Gallery(searcher, kept, substitute, only_split, len(missing))

        def measure(progress: Progress) -> SearcherRecall:
            found = measure_index_recall(gallery, progress)
            if run is not None:
                write_run(gallery, run, depth, name, progress)
            if qrels is not None:
                write_qrels(gallery, qrels)
            return found

        _report(measure, context, out, as_json, index_models(index, name))


# ---- queries -------------------------------------------------------------------------------------

Queries = Annotated[
    Path, typer.Option(help="JSON lines with query, images (all that answer it), optional kind.")
]


def queries(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure how often the first hit is right, for queries with known answers.

    The index must have all images that the queries name. --allow-missing leaves out the others, and
    queries without another right image.

    For example:

    sparta eval queries index/ --queries scenes/queries.jsonl
    """
    from eval.recall.index import IndexIds, measure_first_hits, read_judged_queries
    from eval.report import index_models
    from indexer.engines.open import open_index

    _begin(out)
    judged, images = read_judged_queries(queries), IndexIds(open_index(index), index)
    measure = partial(measure_first_hits, images, judged, allow_missing)
    _report(measure, context, out, as_json, index_models(index))


# ---- model ---------------------------------------------------------------------------------------

Protocol = Annotated[str, typer.Option(help="all, coco-1k, coco-5k, oscar-1k or flickr30k-1k.")]
ImageList = Annotated[
    Path | None, typer.Option(help="oscar-1k's list: image ids or COCO numbers, one a line.")
]
Reference = Annotated[
    str | None, typer.Option(help="Split of other photos: compare captions by probability.")
]
Temperature = Annotated[
    float, typer.Option(help="With --reference: the temperature the model was trained with.")
]


ModelsOrRuns = Annotated[
    list[str], typer.Argument(help="Model folders, hub names, or folders of runs.")
]
OptionalFeatures = Annotated[list[Path] | None, FEATURES]
OptionalSplit = Annotated[str | None, SPLIT]


def model(
    context: typer.Context,
    model: ModelsOrRuns,
    captions: OptionalCaptions = None,
    features: OptionalFeatures = None,
    split: OptionalSplit = None,
    protocol: Protocol = "all",
    images: ImageList = None,
    transfer: Transfer = False,
    reference: Reference = None,
    temperature: Temperature = 1.0,
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure recall of models in both directions, in floating point; several are averaged.

    text → image: each caption searches for its photo. image → text: each photo searches for any of
    its captions. Wrong items with an equal score rank ahead.

    Protocols: all is the whole split; coco-5k COCO's 5,000 photos with five captions
    each; coco-1k the mean over its five folds of 1,000 consecutive photos; oscar-1k the photos
    listed in --images; flickr30k-1k 1,000 photos with five captions each. With --allow-missing the
    result says how many of them it lacks.

    image → text of VisualSparta favours long captions, whose scores sum more terms.
    --reference names a split of other photos, and captions are compared by P(image | caption), the
    softmax that training used.

    A run of sparta train is measured on the photos it held out, with its own features, where
    --captions, --split and --features do not name others.

    For example:

    sparta eval model runs/mine

    sparta eval model model/ --features features/ --captions captions.jsonl

    sparta eval model model/ --features features/ --captions captions.jsonl --allow-missing

    sparta eval model region/ grid/ --features regions/ --features grids/
    --captions captions.jsonl --split test --protocol coco-1k --json
    """
    from dataclasses import replace

    from eval.recall.model import measure_model_recall, open_members
    from eval.recall.photos import Evaluation, choose, missing_in
    from eval.recall.scores import ReferenceImages

    _begin(out)
    asked = Evaluation.of(model, features or [], captions, split)
    # What is measured, for the record.
    context.params |= {"captions": asked.captions, "split": asked.split, "features": asked.features}
    _check_reference(reference, temperature, asked.split)
    folds = choose(protocol, asked.photos(), images)
    members = open_members(asked.models, asked.features, transfer, device)
    stores, ids = [one.store for one in members], [one.image_id for fold in folds for one in fold]
    missing, others = missing_in(stores, ids, allow_missing), None
    if reference is not None:
        others = ReferenceImages.sample(asked.others(reference, stores[0]), temperature)
        lost = missing_in(stores, others.image_ids, allow_missing)
        kept = [one for one in others.image_ids if one not in lost]
        others = replace(others, image_ids=kept, missing=len(lost))
    measure = partial(
        measure_model_recall, members, protocol, folds, batch_size, others, missing=missing
    )
    models = [member.fingerprint for member in members]
    _report(measure, context, out, as_json, models, others.seed if others else None)


def _check_reference(reference: str | None, temperature: float, split: str) -> None:
    if reference is not None and reference == split:
        raise InputError(
            f"--reference {reference} is the measured split: name a split of other photos"
        )
    if not temperature > 0:
        raise InputError(f"--temperature {temperature:g}: expected a number above 0")
    if temperature != 1 and reference is None:
        raise InputError("--temperature goes with --reference")


# ---- transfer ------------------------------------------------------------------------------------


def transfer(
    context: typer.Context,
    model: Models,
    features: Annotated[
        list[Path],
        typer.Option(help="Each data set's feature store, or its photos; in the same order."),
    ],
    captions: Annotated[list[Path], typer.Option(help="Each data set's captions, of any format.")],
    split: Annotated[
        str, typer.Option(help="Split to measure; one for all data sets, or a,b.")
    ] = "test",
    protocol: Annotated[
        str, typer.Option(help="all, coco-1k, coco-5k or flickr30k-1k; one for all, or a,b.")
    ] = "all",
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure models on data sets they were not trained on, beside their own.

    Every model is measured on every data set as `sparta eval model` does. Galleries of different
    sizes are not equally hard: compare models on one data set, not data sets with each other.

    The features of all data sets must be of the same kind; others are refused.

    For example:

    sparta eval transfer coco-model/ flickr-model/ --features coco/ --captions coco.jsonl
    --features flickr/ --captions flickr.jsonl --split test --out transfer.json
    """
    from eval.recall.transfer import data_sets, measure_transfer, open_set

    _begin(out)
    sets = data_sets(features, captions, split, protocol)
    opened = [open_set(one, model, device, allow_missing) for one in sets]
    models = [member.fingerprint for member in opened[0].members]
    _report(partial(measure_transfer, opened, batch_size), context, out, as_json, models)


# ---- cxc -----------------------------------------------------------------------------------------


def cxc(
    context: typer.Context,
    model: Models,
    judgements: Annotated[
        Path, typer.Option(help="Folder of sits_SPLIT.csv, sts_SPLIT.csv and sis_SPLIT.csv.")
    ],
    captions: Annotated[
        Path, typer.Option(help="COCO's captions: dataset_coco.json or captions_val2014.json.")
    ],
    features: Features,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    transfer: Transfer = False,
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure recall by human judgements: Crisscrossed Captions (CxC) of COCO, four directions.

    Captions and images search for captions and for images, among the 5,000 images of a split and
    five captions of each. Right are COCO's own pairs, and pairs that people rated 3 of 5 or higher
    (2.5 between two images); images without such another image are not queries. A sparse model has
    no vectors to compare two captions or two images, and is measured between captions and images
    only. Wrong items with an equal score rank ahead.

    --allow-missing leaves out images that the features lack, with their captions.

    For example:

    sparta eval cxc model/ --features coco/ --judgements cxc/ --captions dataset_coco.json
    """
    from eval.recall.cxc import measure_cxc, read_judgements, read_sentences, relevant_items
    from eval.recall.model import open_members
    from eval.recall.photos import missing_in

    _begin(out)
    judged, sentences = read_judgements(judgements, split), read_sentences(captions)
    ids, what = [*map(str, relevant_items(judged).images)], "judged images, by COCO's numbers"
    members = open_members(model, features, transfer, device)
    missing = {*map(int, missing_in([one.store for one in members], ids, allow_missing, what))}
    measure = partial(measure_cxc, members, judged, sentences, batch_size, missing=missing)
    _report(measure, context, out, as_json, [member.fingerprint for member in members])


# ---- pruning -------------------------------------------------------------------------------------

Stores = Annotated[
    list[Path], typer.Argument(help="Feature stores: the plain photos first, then augmentations.")
]
SparseModels = Annotated[
    list[str],
    typer.Option(help="VisualSparta model: folder or hub name. Repeat it to average models."),
]
OutTables = Annotated[
    Path,
    typer.Option(
        help="JSON file; beside it go the tables, as .md, and recall against bytes, as .png."
    ),
]
TopN = Annotated[str, typer.Option(help="Terms an image keeps: numbers and all.")]
Offsets = Annotated[
    str, typer.Option("--offset", help="Per-term offsets: mean, median, minimum, none.")
]
TermSets = Annotated[str, typer.Option("--terms", help="Terms allowed: trained, all.")]
Asked = Annotated[
    str,
    typer.Option(
        help="Sources of term frequencies: none, model (training captions), files of queries."
    ),
]
AskedPower = Annotated[str, typer.Option(help="Powers of the frequencies, from 0 to 1.")]
Bits = Annotated[str, typer.Option(help="Bits of an impact, 1 to 16, and float (not quantised).")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Build no indexes: the same ranking without their size.")
]
IndexesFolder = Annotated[
    Path | None,
    typer.Option(help="Folder to keep the indexes in; they are then built with --exact too."),
]
AllImages = Annotated[
    bool, typer.Option("--all-images", help="Search all photos of the store, not only the split's.")
]


def pruning(
    context: typer.Context,
    features: Stores,
    model: SparseModels,
    captions: Captions,
    out: OutTables,
    split: Split = "val",
    top_n: TopN = "50,100,200,500,1000,2000,all",
    offset: Offsets = "mean,median,minimum,none",
    terms: TermSets = "trained,all",
    asked: Asked = "none",
    asked_power: AskedPower = "0.3",
    bits: Bits = "8,float",
    exact: Exact = False,
    indexes: IndexesFolder = None,
    all_images: AllImages = False,
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Measure what pruning and quantisation cost, for every combination of the lists given.

    Recall, and the overlap in percent of the first ten images with those of the float model, where
    nothing is pruned or quantised (the first row), and with those of the same terms not quantised.
    Offsets are estimated over the photos searched.

    The scores take 6 bytes for each image and term, at most 8 GB (43,000 images at 30,522 terms).
    Impacts are summed in memory, as an index sums them. Each quantised choice is built as an index
    for its size; --exact builds none.

    A second table has the recall of short queries, made of the captions: one to three words that
    another caption of the photo contains too, those in the fewest photos' captions; and of captions
    and short queries with a word that 1 to 9, 10 to 99 or 100 to 999 training captions contain.

    For example:

    sparta eval pruning plain/ flip/ --model seed0/ --model seed1/ --captions captions.jsonl
    --out results.json --top-n 100,1000 --offset mean,none --terms trained --exact
    """
    from eval.pruning.index import parse_bits, parse_choices
    from eval.pruning.measure import measure_pruning, save_frontier
    from eval.report import head_of, report
    from sparta.captions.read import read_captions
    from sparta.console import Console
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    choices, widths = parse_choices(top_n, offset, terms, asked, asked_power), parse_bits(bits)
    _begin(out)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        study = measure_pruning(
            [FeatureStore.open(folder) for folder in features],
            model,
            read_captions(captions, split),
            choices,
            widths,
            exact=exact,
            indexes=indexes,
            all_images=all_images,
            allow_missing=allow_missing,
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    save_frontier(study.rows, out.with_suffix(".png"))
    report(study, head_of(context, study.models), out, as_json=False, markdown=True)


# ---- what they share -----------------------------------------------------------------------------


def _begin(out: Path | None) -> None:
    """Check the file to write, and keep transformers from warnings and bars of its own."""
    from transformers.utils import logging

    check_out(out)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _report(
    measure: Callable[..., Measured],
    context: typer.Context,
    out: Path | None,
    as_json: bool,
    models: Sequence[str],
    seed: int | None = None,
) -> None:
    """Measure with bars of the progress, then print the figures and write them."""
    from eval.report import head_of, report
    from sparta.console import Console
    from sparta.progress import progress_bars

    head = head_of(context, models, seed)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure(progress=progress)
    report(found, head, out, as_json)
