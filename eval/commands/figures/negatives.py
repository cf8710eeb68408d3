"""`sparta figure negatives`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import Picture


def negatives(
    context: typer.Context,
    run: Annotated[list[Path], typer.Argument(help="Folders of runs of sparta train.")],
    out: Picture,
) -> None:
    """Draw how many negatives ADOPT took at each step (VSE+2AD, appendix C).

    [bold]Example[/bold]

    sparta figure negatives runs/as-printed runs/as-coded --out negatives.png
    """
    from eval.figures.negatives import draw, read_negatives
    from eval.plotting import check_picture, save

    check_picture(out)
    found = [read_negatives(folder) for folder in run]
    save(draw(found), {"runs": [vars(one) for one in found]}, out, context.params)
