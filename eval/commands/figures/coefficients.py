"""`sparta figure coefficients`."""

from typing import Annotated

import typer

from eval.commands.figures.options import DenseModelName, Picture
from eval.commands.options import parse_numbers


def coefficients(
    context: typer.Context,
    model: DenseModelName,
    out: Picture,
    regions: Annotated[str, typer.Option(help="Sizes of images' sets: numbers.")] = "36",
    words: Annotated[
        str, typer.Option(help="Sizes of texts, start and end included: numbers.")
    ] = "12",
) -> None:
    """Draw the pooling coefficients a GPO model has learned (GPO, figure 5).

    [bold]Example[/bold]

    sparta figure coefficients model/ --regions 18,36 --out coefficients.png
    """
    from eval.figures.coefficients import draw, pooling_curves
    from eval.plotting import check_picture, save
    from indexer.dense.text_encoder import load_dense_model

    check_picture(out)
    sizes = parse_numbers(regions, "--regions"), parse_numbers(words, "--words")
    curves = pooling_curves(load_dense_model(model), *sizes)
    data = {"curves": [vars(curve) for curve in curves]}
    save(draw(curves), data, out, context.params)
