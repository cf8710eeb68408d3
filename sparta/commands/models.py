"""The commands that make a model of another: `convert`, `shrink` and `substitutes`."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Checkpoint = Annotated[
    Path, typer.Argument(help="model_best.pth, checkpoint.pth or model_best.pth.tar.")
]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]
Vocabulary = Annotated[
    Path | None,
    typer.Option(help="JSON file with word2idx; for models whose text encoder is a GRU."),
]
Text = Annotated[
    str | None,
    typer.Option(
        help="Hub name or folder of the BERT that the text encoder was trained from, for its "
        "configuration and tokenizer."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="Name of the model, and of its backend in a server (default: vse-inf, vse-2ad or "
        "mv-vse)."
    ),
]
Model = Annotated[str, typer.Argument(help="VisualSparta model: folder or hub name.")]
CompactOut = Annotated[Path, typer.Option(help="Folder for the compact model.")]
ModelFolder = Annotated[Path, typer.Argument(help="Folder of a VisualSparta model.")]
Encoder = Annotated[
    str, typer.Option(help="Text encoder by which words are compared: hub name or folder.")
]


def convert(
    checkpoint: Checkpoint,
    out: Out,
    vocabulary: Vocabulary = None,
    text: Text = None,
    name: Name = None,
) -> None:
    """Turn a published checkpoint of VSE∞, VSE+2AD or MV-VSE into a model folder.

    For checkpoints over stored features, as the authors' training code saves them. The weights
    determine the configuration; a missing, unused or differently shaped weight is an error.
    VSE+2AD's published pooling depends on the padding of a batch; it is fixed to that of the
    published evaluation. Models of words need NLTK: pip install 'visualsparta[nltk]'.
    Features must be those the model was trained on: 36 bottom-up regions for the published ones.

    For example:

    sparta convert model_best.pth --out vse-inf/ --text bert-base-uncased

    sparta convert model_best.pth --out vse-inf/ --vocabulary vocab/coco_precomp_vocab.json
    """
    _begin(out)
    from sparta.vse.convert import convert_checkpoint

    converted = convert_checkpoint(checkpoint, vocabulary=vocabulary, text=text, name=name)
    converted.model.save_pretrained(out)
    config = converted.model.config
    reads = f"{len(converted.model.get_input_embeddings().weight):,}"
    reads += " word pieces by a BERT" if config.text == "bert" else f" words by a {config.text}"
    _print(
        f"{out}: {config.name}, {config.visual} features of {config.feature_dim} numbers, {reads}, "
        f"{config.views} x {config.dimension}"
    )
    if (padded := config.text_pooling_options.get("padded_to")) is not None:
        _print(
            f"Captions count as padded to {padded} tokens, as in the published evaluation: the "
            "published pooling depends on it"
        )
    if converted.unused:
        _print(f"Unused weights, left out: {', '.join(converted.unused)}")
    _print(f"Next: sparta eval model {out} --features FEATURES --captions CAPTIONS")


def shrink(model: Model, out: CompactOut) -> None:
    """Make a VisualSparta model small enough to hand on: a tenth of its size.

    Weights are stored in half precision, and the query embedding of trained terms only: terms in
    no training caption can no longer enter an index (--terms all). Recall does not change
    measurably.

    For example:

    sparta shrink runs/mine/model --out mine/
    """
    _begin(out)
    from sparta.visualsparta.model import load_visualsparta

    loaded = load_visualsparta(model)
    loaded.make_compact()
    loaded.save_pretrained(out)
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    terms = int(loaded.trained_terms.sum())
    _print(f"{out}: {size:.1f} MB, {terms:,} trained terms, half precision")


def substitutes(model: ModelFolder, encoder: Encoder) -> None:
    """Give a model a table of substitutes: for each untrained word, the nearest trained terms.

    The table is MODEL/substitutes.json; sparta shrink does not copy it. An index of the model gets
    a copy, and a search replaces words that the index lacks. No encoder runs then.

    For example:

    sparta substitutes runs/mine/model --encoder sentence-transformers/all-MiniLM-L6-v2
    """
    _begin()
    from sparta.console import Console
    from sparta.progress import progress_bars
    from sparta.visualsparta.model import load_visualsparta
    from sparta.visualsparta.nearest_terms import WordEncoder, make_substitutes
    from sparta.word_tables import SUBSTITUTES, WordTables

    if not model.is_dir():
        raise InputError(f"{model} is not the folder of a VisualSparta model")
    loaded = load_visualsparta(model)
    with progress_bars({"embed": ("Embedding words", "words")}, Console()) as progress:
        words = make_substitutes(loaded, WordEncoder(encoder), progress)
    WordTables.of(words).save(model)
    _print(f"{model / SUBSTITUTES}: substitutes for {len(words):,} words")


def _begin(out: Path | None = None) -> None:
    """Silence transformers; refuse a folder that holds something."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty: use another --out, or delete it")


def _print(line: str) -> None:
    from sparta.console import Console

    Console().print(line, soft_wrap=True, highlight=False)
