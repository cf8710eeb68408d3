"""The `convert` command."""

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
    from transformers.utils import logging

    from sparta.console import Console

    logging.disable_progress_bar()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty: use another --out, or delete it")
    from sparta.vse.convert import convert_checkpoint

    converted = convert_checkpoint(checkpoint, vocabulary=vocabulary, text=text, name=name)
    converted.model.save_pretrained(out)
    config = converted.model.config
    reads = f"{len(converted.model.get_input_embeddings().weight):,}"
    reads += " word pieces by a BERT" if config.text == "bert" else f" words by a {config.text}"
    console = Console()
    console.print(
        f"{out}: {config.name}, {config.visual} features of {config.feature_dim} numbers, {reads}, "
        f"{config.views} x {config.dimension}",
        soft_wrap=True,
        highlight=False,
    )
    if (padded := config.text_pooling_options.get("padded_to")) is not None:
        console.print(
            f"Captions count as padded to {padded} tokens, as in the published evaluation: the "
            "published pooling depends on it",
            soft_wrap=True,
            highlight=False,
        )
    if converted.unused:
        left = ", ".join(converted.unused)
        console.print(f"Unused weights, left out: {left}", soft_wrap=True, highlight=False)
    console.print(
        f"Next: sparta eval model {out} --features FEATURES --captions CAPTIONS", soft_wrap=True
    )
