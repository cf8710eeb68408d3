"""The `sparta eval` commands that measure models and indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from eval.commands.options import (
    CAPTIONS,
    FEATURES,
    SPLIT,
    AllowMissing,
    Captions,
    OptionalCaptions,
    OptionalQueries,
    Out,
    Split,
    Transfer,
    begin,
    check_out,
)
from sparta.commands.options import (
    AsJson,
    Backend,
    BatchSize,
    Device,
    IndexFolder,
    Rerank,
    Substitute,
    advanced,
)
from sparta.errors import InputError
from sparta.extras import check_installed

if TYPE_CHECKING:
    from eval.recall.cxc import CxcRecall
    from eval.recall.model import ModelRecall, TransferRecall
    from eval.recall.pointing import Pointing
    from eval.report import Measured
    from sparta.progress import Progress

# ---- index ---------------------------------------------------------------------------------------

RunFile = Annotated[Path | None, advanced(help="TREC run to write; its qrels go to FILE.qrels.")]
Depth = Annotated[int, advanced("-k", min=1, help="Images per query in the TREC run.")]
OnlySplit = Annotated[
    bool, typer.Option("--only-split", help="Rank the split's photos among themselves.")
]


def index(
    context: typer.Context,
    index: IndexFolder,
    captions: OptionalCaptions = None,
    queries: OptionalQueries = None,
    split: Split = "val",
    only_split: OnlySplit = False,
    backend: Backend = "sparta",
    substitute: Substitute = True,
    rerank: Rerank = 0,
    run: RunFile = None,
    depth: Depth = 1000,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure text → image recall of an index: each caption searches for its photo.

    Ranks the split's photos among all images of the index. With --queries instead of captions it
    measures how often the first hit is right. Images with equal scores are ordered by id.

    The TREC files are for trec_eval, ir_measures and ranx. A query id is the image id, # and the
    caption's number, percent-encoded. Scores that do not fall, of equal or re-ranked hits, are
    lowered by the smallest step, so that tools which sort by score keep our order.

    For example:

    sparta eval index index/ --captions captions.jsonl

    sparta eval index index/ --queries scenes/queries.jsonl

    sparta eval index index/ --captions captions.jsonl --split test --run out.trec
    """
    if backend != "sparta":
        check_installed("dense", "faiss", "torch")
    check_out(run, "--run", "")
    from contextlib import closing

    from eval.recall import index as measure
    from eval.report import head_of, index_models, report
    from indexer.engines.open import open_backend
    from sparta.captions.read import read_captions

    if (captions is None) == (queries is None):
        raise InputError("give --captions, or --queries, and not both")
    if rerank and (queries is not None or only_split):
        raise InputError("--rerank needs --captions, and no --only-split")
    found: Measured
    with begin(out) as progress, closing(open_backend(index, backend)) as searcher:
        images = measure.IndexIds(searcher, index)
        if queries is not None:
            judged = measure.read_judged_queries(queries)
            found = measure.measure_first_hits(images, judged, allow_missing, progress)
        elif captions is not None:
            photos = read_captions(captions, split)
            options = allow_missing, substitute, only_split, rerank
            gallery = measure.gallery_of(images, photos, *options)
            found = measure.measure_index_recall(gallery, progress)
            if run is not None:
                measure.write_run(gallery, run, depth, backend, progress)
                measure.write_qrels(gallery, run.with_suffix(".qrels"))
    report(found, head_of(context, index_models(index, backend)), out, as_json)


# ---- model ---------------------------------------------------------------------------------------

ModelsOrRuns = Annotated[
    list[str], typer.Argument(help="Model folders, hub names, or folders of runs.")
]
SeveralCaptions = Annotated[list[Path] | None, CAPTIONS]
SeveralFeatures = Annotated[list[Path] | None, FEATURES]
OptionalSplit = Annotated[str | None, SPLIT]
Protocol = Annotated[
    str, typer.Option(help="all, coco-1k, coco-5k, oscar-1k, flickr30k-1k or cxc.")
]
ImageList = Annotated[
    Path | None, advanced(help="oscar-1k: file of image ids or COCO numbers, one a line.")
]
Judgements = Annotated[
    Path | None, advanced(help="cxc: folder of sits_SPLIT.csv, sts_SPLIT.csv and sis_SPLIT.csv.")
]
Reference = Annotated[
    str | None, advanced(help="Split of other photos: compare captions by probability.")
]
Temperature = Annotated[float, advanced(help="With --reference: that of the model's training.")]
Objects = Annotated[
    Path | None,
    advanced(
        help="VinVL's predictions.tsv: measure how often explanations of names point at them."
    ),
]


def model(
    context: typer.Context,
    model: ModelsOrRuns,
    captions: SeveralCaptions = None,
    features: SeveralFeatures = None,
    split: OptionalSplit = None,
    protocol: Protocol = "all",
    image_list: ImageList = None,
    judgements: Judgements = None,
    reference: Reference = None,
    temperature: Temperature = 1.0,
    objects: Objects = None,
    transfer: Transfer = False,
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure recall of models in both directions, in floating point; several are averaged.

    coco-5k and flickr30k-1k: COCO's 5,000 and Flickr30k's 1,000 photos with five captions each.
    coco-1k: the mean over five folds of coco-5k. cxc: Crisscrossed Captions of COCO, four
    directions by human judgements. Wrong items with an equal score rank ahead.

    Several --captions are several data sets, each with its --features: every model is measured on
    every data set. A run of sparta train is measured on the photos it held out.

    image → text of VisualSparta favours long captions, which sum more terms. With --reference
    captions are compared by P(image | caption), the softmax of the training.

    For example:

    sparta eval model runs/mine

    sparta eval model model/ --features features/ --captions captions.jsonl --protocol coco-1k

    sparta eval model coco-model/ flickr-model/ --features coco/ --captions coco.jsonl
    --features flickr/ --captions flickr.jsonl --split test

    sparta eval model model/ --protocol cxc --features coco/ --judgements cxc/
    --captions dataset_coco.json
    """
    from eval.report import head_of, report

    captions, features = captions or [], features or []
    options = _Options(transfer, allow_missing, batch_size, device, reference, temperature)
    found: ModelRecall | TransferRecall | CxcRecall | Pointing
    with begin(out) as progress:
        if objects is not None:
            from eval.recall.model import open_members
            from eval.recall.pointing import measure_pointing

            [member] = open_members(model[:1], features, transfer, device)
            found = measure_pointing(member, objects, progress)
        elif protocol == "cxc":
            found = _cxc(model, captions, features, split or "test", judgements, options, progress)
        else:
            sets = captions, features, split, protocol
            found = _recall(context, model, sets, image_list, options, progress)
    head = head_of(context, [one.fingerprint for one in found.members], found.seed)
    report(found, head, out, as_json)


class _Options(NamedTuple):
    """What the command's options of these names say."""

    transfer: bool
    allow_missing: bool
    batch_size: int
    device: str
    reference: str | None
    temperature: float


def _recall(
    context: typer.Context,
    model: list[str],
    sets: tuple[list[Path], list[Path], str | None, str],
    image_list: Path | None,
    options: _Options,
    progress: Progress,
) -> ModelRecall | TransferRecall:
    """Each model on several data sets, or all models together on one."""
    from eval.recall.model import data_sets, measure_model_recall, measure_transfer, open_members
    from eval.recall.photos import Evaluation, choose, missing_in
    from eval.recall.scores import ReferenceImages

    captions, features, split, protocol = sets
    transfer, allowed, batch_size, device, reference, temperature = options
    if len(captions) > 1:
        several = data_sets(features, captions, split or "test", protocol)
        return measure_transfer(several, model, device, allowed, batch_size, progress)
    asked = Evaluation.of(model, features, captions[0] if captions else None, split)
    # What is measured, for the record.
    context.params |= {"captions": asked.captions, "split": asked.split, "features": asked.features}
    if reference is not None and reference == asked.split:
        raise InputError(
            f"--reference {reference} is the measured split: name a split of other photos"
        )
    if not temperature > 0:
        raise InputError(f"--temperature {temperature:g}: expected a number above 0")
    if temperature != 1 and reference is None:
        raise InputError("--temperature goes with --reference")
    folds = choose(protocol, asked.photos(), image_list)
    members = open_members(asked.models, asked.features, transfer, device)
    stores, ids = [one.store for one in members], [one.image_id for fold in folds for one in fold]
    missing, others = missing_in(stores, ids, allowed), None
    if reference is not None:
        others = ReferenceImages.sample(asked.others(reference, stores[0]), temperature)
        others = others.without(missing_in(stores, others.image_ids, allowed))
    return measure_model_recall(members, protocol, folds, batch_size, others, progress, missing)


def _cxc(
    model: list[str],
    captions: list[Path],
    features: list[Path],
    split: str,
    judgements: Path | None,
    options: _Options,
    progress: Progress,
) -> CxcRecall:
    """Crisscrossed Captions: COCO's pairs, and those that people rated 3 of 5 or higher."""
    from eval.recall.cxc import measure_cxc, read_judgements, read_sentences, relevant_items
    from eval.recall.model import open_members
    from eval.recall.photos import missing_in

    if judgements is None or len(captions) != 1 or not features:
        raise InputError("cxc: give --judgements, --captions and --features")
    judged, sentences = read_judgements(judgements, split), read_sentences(captions[0])
    ids, what = [*map(str, relevant_items(judged).images)], "judged images, by COCO's numbers"
    members = open_members(model, features, options.transfer, options.device)
    stores = [one.store for one in members]
    missing = {*map(int, missing_in(stores, ids, options.allow_missing, what))}
    return measure_cxc(members, judged, sentences, options.batch_size, progress, missing)


# ---- pruning -------------------------------------------------------------------------------------

Stores = Annotated[
    list[Path], typer.Argument(help="Feature stores: the plain photos first, then augmentations.")
]
SparseModels = Annotated[
    list[str],
    typer.Option("--model", help="VisualSparta model. Repeat it to average models."),
]
OutTables = Annotated[
    Path, typer.Option(help="JSON file; the tables go beside it as .md, a plot as .png.")
]
TopN = Annotated[str, typer.Option(help="Terms an image keeps: numbers and all.")]
Offsets = Annotated[
    str, typer.Option("--offset", help="Per-term offsets: mean, median, minimum, none.")
]
TermSets = Annotated[str, typer.Option("--terms", help="Terms of the index: trained, all.")]
Frequencies = Annotated[
    str, typer.Option(help="Term frequencies: none, model (training captions), files of queries.")
]
FrequencyPowers = Annotated[
    str, typer.Option("--frequency-power", help="Powers of the frequencies, from 0 to 1.")
]
Bits = Annotated[str, typer.Option(help="Bits of an impact, 1 to 16, and float (not quantised).")]
Exact = Annotated[
    bool, advanced("--exact", help="Build no indexes: the same ranking without their size.")
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
    frequencies: Frequencies = "none",
    frequency_power: FrequencyPowers = "0.3",
    bits: Bits = "8,float",
    exact: Exact = False,
    allow_missing: AllowMissing = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Measure recall against size, for every combination of the lists given.

    Shows recall, and the overlap of the first ten images with the float model and with the same
    terms not quantised; a second table shows short queries and rare words. Scores take 6 bytes for
    each image and term, at most 8 GB. Each quantised choice is built as an index for its size.

    For example:

    sparta eval pruning plain/ flip/ --model seed0/ --model seed1/ --captions captions.jsonl
    --out results.json --top-n 100,1000 --offset mean,none --terms trained --exact
    """
    check_installed("plots,train", "matplotlib", "torch")
    from eval.pruning.index import parse_bits, parse_choices
    from eval.pruning.measure import measure_pruning, save_frontier
    from eval.report import head_of, report
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore

    choices = parse_choices(top_n, offset, terms, frequencies, frequency_power)
    widths = parse_bits(bits)
    with begin(out) as progress:
        study = measure_pruning(
            [FeatureStore.open(folder) for folder in features],
            model,
            read_captions(captions, split),
            choices,
            widths,
            exact=exact,
            allow_missing=allow_missing,
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    save_frontier(study.rows, out.with_suffix(".png"))
    report(study, head_of(context, study.models), out, as_json=False, markdown=True)


# ---- tables --------------------------------------------------------------------------------------

TableName = Annotated[
    str,
    typer.Argument(
        help="gpo-1, gpo-4-visual, gpo-4-text, 2ad-3, 2ad-4, 2ad-c2, mv-vse-3 or visualsparta-4."
    ),
]
ColumnFeatures = Annotated[
    list[str],
    typer.Option(
        "--features",
        metavar="COLUMN=FOLDER",
        help="Feature store, or photos that the models read, of a column of the table; repeatable.",
    ),
]
Runs = Annotated[
    Path, typer.Option(help="Folder for the runs; the table goes to OUT/NAME.json and .md.")
]
Presets = Annotated[
    list[str],
    typer.Option(
        "--preset", help="Preset that adapts the paper's settings to the data; repeatable."
    ),
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting of all runs; repeatable."),
]
Rows = Annotated[list[str], typer.Option("--row", help="Name of a row; repeatable (default: all).")]
Seeds = Annotated[int, typer.Option(min=1, help="Runs of each row.")]


def table(
    context: typer.Context,
    name: TableName,
    features: ColumnFeatures,
    captions: Captions,
    out: Runs,
    split: Split = "test",
    protocol: Protocol = "all",
    preset: Presets = [],  # noqa: B006  # typer copies it
    set_: Sets = [],  # noqa: B006
    row: Rows = [],  # noqa: B006
    seeds: Seeds = 3,
    as_json: AsJson = False,
) -> None:
    """Train and measure a table of a paper: each row with several seeds, and the paper's claims.

    A claim is that one row ranks above another. It holds if 95 % of the differences of photos and
    seeds drawn with replacement are above 0. Finished runs are used again, an interrupted one goes
    on.

    For example:

    sparta eval table gpo-1 --features region=data/coco/regions --features grid=data/coco/photos
    --captions data/coco/captions.jsonl --split testall --protocol coco-1k --out runs/gpo-1
    """
    check_installed("train", "lightning", "torch", "transformers")
    from eval.report import head_of, report
    from eval.tables import Data, measure_table

    folders = dict(one.partition("=")[::2] for one in features)
    if not all(Path(folder).is_dir() and folder for folder in folders.values()):
        raise InputError(
            f"--features {features[0]}: expected COLUMN=FOLDER, such as region=features"
        )
    data = Data({key: Path(one) for key, one in folders.items()}, captions, split, protocol)
    stages = {"train": ("Training and measuring", "runs")}
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}.json"
    with begin(file, stages=stages) as progress:
        found = measure_table(name, data, out, preset, set_, seeds, row, progress)
    head = head_of(context, found.models, found.seed)
    report(found, head, file, as_json, markdown=True)
