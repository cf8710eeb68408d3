"""`sparta convert`: a model folder from a published checkpoint, or from a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Source = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT|MODEL",
        help="model_best.pth, checkpoint.pth or model_best.pth.tar of VSE∞, VSE+2AD or MV-VSE; or "
        "a VisualSparta model.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]
Vocabulary = Annotated[
    Path | None, typer.Option(help="Checkpoints with a GRU: JSON file with word2idx.")
]
Text = Annotated[
    str | None,
    typer.Option(help="Checkpoints with a BERT: its hub name or folder, for the tokenizer."),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the model (default: vse-inf, vse-2ad or mv-vse)."),
]
Substitutes = Annotated[
    str | None,
    typer.Option(
        metavar="ENCODER",
        help="VisualSparta: add the nearest trained terms of each untrained word, by a text "
        "encoder: hub name or folder.",
    ),
]


def convert(
    source: Source,
    out: Out,
    vocabulary: Vocabulary = None,
    text: Text = None,
    name: Name = None,
    substitutes: Substitutes = None,
) -> None:
    """Turn a published checkpoint into a model folder, or make a VisualSparta model small.

    A checkpoint's weights determine the configuration; a missing, unused or differently shaped
    weight is an error. Its features must be those the model was trained on: 36 bottom-up regions
    for the published ones.

    A VisualSparta model becomes a tenth of its size, in half precision, with the embeddings of
    trained terms only. Recall does not change measurably.

    For example:

    sparta convert model_best.pth --out vse-inf/ --text bert-base-uncased

    sparta convert model_best.pth --out vse-inf/ --vocabulary vocab/coco_precomp_vocab.json

    sparta convert runs/mine/model --out mine/ --substitutes sentence-transformers/all-MiniLM-L6-v2
    """
    _begin(out)
    if not Path(source).is_file():
        if vocabulary or text or name:
            raise InputError(f"--vocabulary, --text and --name are of checkpoints, not of {source}")
        _make_compact(source, out, substitutes)
    elif substitutes:
        raise InputError(f"--substitutes is for VisualSparta models, not for {source}")
    else:
        _convert_checkpoint(Path(source), out, vocabulary, text, name)


def _convert_checkpoint(
    checkpoint: Path, out: Path, vocabulary: Path | None, text: str | None, name: str | None
) -> None:
    from sparta.vse.convert import convert_checkpoint

    model, unused = convert_checkpoint(checkpoint, vocabulary=vocabulary, text=text, name=name)
    model.save_pretrained(out)
    config = model.config
    reads = f"{len(model.get_input_embeddings().weight):,}"
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
    if unused:
        _print(f"Unused weights, left out: {', '.join(unused)}")
    _print(f"Next: sparta eval model {out} --features FEATURES --captions CAPTIONS")


def _make_compact(model: str, out: Path, encoder: str | None) -> None:
    from sparta.console import Console
    from sparta.model_id import model_folder
    from sparta.progress import progress_bars
    from sparta.visualsparta.model import load_visualsparta
    from sparta.visualsparta.nearest_terms import WordEncoder, make_substitutes
    from sparta.visualsparta.offsets import OFFSETS, TermOffsets
    from sparta.word_tables import WordTables

    loaded = load_visualsparta(model)
    tables = WordTables.reading(Path(model)) if Path(model).is_dir() else WordTables()
    if encoder is not None:
        with progress_bars({"embed": ("Embedding words", "words")}, Console()) as progress:
            made = WordTables.of(make_substitutes(loaded, WordEncoder(encoder), progress))
        tables = WordTables({**tables.files, **made.files})
    loaded.make_compact()
    loaded.save_pretrained(out)
    tables.save(out)
    if (offsets := TermOffsets.load(model_folder(model) / OFFSETS)) is not None:
        offsets.save(out / OFFSETS)
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    terms = int(loaded.trained_terms.sum())
    words = f", substitutes of {len(tables.substitutes):,} words" if tables.substitutes else ""
    _print(f"{out}: {size:.1f} MB, {terms:,} trained terms, half precision{words}")


def _begin(out: Path) -> None:
    """Silence transformers; refuse a folder that holds something."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty: use another --out, or delete it")


def _print(line: str) -> None:
    from sparta.console import Console

    Console().print(line, soft_wrap=True, highlight=False)
